"""Click logs by name: their files, what tells a clean test row, and their two protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from accord.data.datasets.entries import DataFile, Entry
from accord.data.datasets.names import LABELLED_NAMES
from accord.errors import SettingError, nearest

Protocol = Literal["fair", "paper"]
SPLITS = "https://raw.githubusercontent.com/wangyu-ustc/DeCA/8b04aa8c24c08c4519f559d25e4c3da34fe97bd3/data"
"""The DeCA authors' split files, at one commit."""


@dataclass(frozen=True, kw_only=True)
class DataSet(Entry):
    """A click log of the catalogue."""

    users: int
    items: int
    interactions: int
    clean: str
    """What tells a clean test row from a noisy one; used for the final test and nowhere else."""
    split: str
    ks: tuple[int, ...]
    caveat: str = ""
    """What is wrong with the authors' split files, which all rows under `paper` have in common."""
    note: str = ""
    """What one should know of its rows."""
    rated: str = ""
    """The file of a rated log, of which `fair` is made."""
    divided: bool = False
    """Whether that file says of each row which part it is in; otherwise each user's rows are divided by time."""
    clean_from: float = 5
    """Test rows of a rated log are clean from this rating on."""
    liked_from: float = 4
    """Training rows are likes from this rating on, for the `oracle` row alone."""

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """`paper` needs split files of the paper's authors."""
        split = any(".train." in file.name for file in self.files)
        return ("fair", "paper") if split or not self.rated else ("fair",)


def _split_files(folder: str, stem: str, checks: dict[str, str | None]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(f"{stem}.{split}", f"{SPLITS}/{folder}/{stem}.{split}", sha) for split, sha in checks.items()
    )


DENOISING_REC = "W. Wang, F. Feng, X. He, L. Nie, T.-S. Chua, Denoising Implicit Feedback, WSDM 2021"
SIGNED = "S. Chen et al., SIGformer: Sign-aware Graph Transformer for Recommendation, SIGIR 2024"
SIGNED_DATA = "https://github.com/StupidThree/SIGformer"


def _signed(name: str, folder: str, clean: str, clean_from: float, **facts: Any) -> DataSet:
    """A rated log that the authors of SIGformer divided: each kind of feedback at random, 7:1:2."""
    origin = (
        f"the rows of train.txt, valid.txt and test.txt of data/{folder} in {SIGNED_DATA}, as one Parquet file "
        "with the columns user, item, rating and part"
    )
    facts["citation"] += f"; split: {SIGNED}"
    return DataSet(
        name=name,
        folder=name,
        files=(DataFile("ratings.parquet", origin),),
        rated="ratings.parquet",
        divided=True,
        clean=clean,
        clean_from=clean_from,
        liked_from=clean_from,
        split="random, 7:1:2, clean and noisy rows alike, as split by the SIGformer authors",
        ks=(5, 20),
        **facts,
    )


MARKET_BIAS = "M. Wan, J. Ni, R. Misra, J. McAuley, Addressing Marketing Bias in Product Recommendations, WSDM 2020"

DATA_SETS = {
    entry.name: entry
    for entry in (
        DataSet(
            name="movielens-100k",
            title="MovieLens-100K",
            folder="ml-100k",
            rated="ml-100k.inter",
            files=(
                DataFile(
                    "ml-100k.inter",
                    "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
                    member="ml-100k/u.data",
                    archive_checksum="md5:0e33842e24a9c977be4e0107933c0723",
                    header="user_id:token\titem_id:token\trating:float\ttimestamp:float\n",
                ),
                *_split_files(
                    "ml-100k",
                    "ml-100k",
                    {
                        "train.rating": "cc83282c0c3dd2e6e01359cea1f44fa0c10048a87a394c80fe1499f2bc7e8717",
                        "valid.rating": "00571cac093aa3ec1f4b9be0d8fbc0a0c4d3a0542ee126e1573f671337da7f2b",
                        "test.negative": "b6ef56ff61d6d79e27f1f08fda63c83cad72624d5ef7bddd388e165b57bf5551",
                    },
                ),
            ),
            terms="Research use; no redistribution without permission (GroupLens).",
            citation="F. M. Harper, J. A. Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015",
            users=943,
            items=1682,
            interactions=100_000,
            clean="rating 5",
            split="each user's rows by time, 8:1:1",
            ks=(3, 20),
            caveat="the validation rows are all of rating 5, so that clean labels reach the choice of settings and "
            "epoch, for every row alike; all 1,707 are among the 3,594 test rows and, masked out, cannot be hit",
        ),
        DataSet(
            name="modcloth",
            title="Modcloth",
            folder="modcloth",
            files=_split_files(
                "modcloth",
                "modcloth",
                {
                    "train.rating": "e4698402116e8b621c66c79405b0309df8da9991fa6669dd9f2768acf7559ced",
                    "valid.rating": "216e8b73e746972087833ebc5b94ac0f1667041ab2be5efd3472c75d4526d511",
                    "test.negative": "83c9d9cd457733a364d42cff5298d82413892d46292522590ac3449372558387",
                },
            ),
            terms="Research use (marketBias).",
            citation=MARKET_BIAS,
            users=44_784,
            items=1020,
            interactions=99_893,
            clean="rating 5",
            split="random, 8:1:1, as split by the DeCA authors",
            ks=(5, 20),
            caveat="1,824 of 4,303 test users have no training row and are left to the model",
        ),
        DataSet(
            name="adressa",
            title="Adressa",
            folder="adressa",
            files=(
                DataFile(
                    "adressa.train.pairs.tsv",
                    "user and item columns, tab separated, of adressa.train.rating in the DenoisingRec repository",
                    "a938ce3f798c1476e1ef6636d5a7d4c90299653bb95c89a9d3cee7a3435517d3",
                ),
                *_split_files(
                    "adressa",
                    "adressa",
                    {
                        "valid.rating": "4cb75a6055b2c64ec9ed2c9e34783b437180fddd655167bc2f70325780e8a301",
                        "test.negative": "69f4efed142360c45571eeafe6ef81634ac8aa9d4c150e3f4be63c55609c4435",
                    },
                ),
            ),
            terms="Research use, non-commercial (Adressa).",
            citation=f"J. A. Gulla et al., The Adressa Dataset, WI 2017; split: {DENOISING_REC}",
            users=212_231,
            items=6596,
            interactions=419_491,
            clean="dwell time over 10 s",
            split="by time, as split by the DenoisingRec authors",
            ks=(5, 20),
            caveat="604 of 18,632 test rows are repeats, 191 are training rows, and so are 1,132 validation rows; "
            "4,818 of 10,380 test users have no training row and are left to the model",
        ),
        DataSet(
            name="electronics",
            title="Electronics",
            folder="electronics",
            files=(
                DataFile("electronics_5.train.rating", "the train file of the DeCA authors, who do not publish it"),
                *_split_files("electronics", "electronics_5", {"valid.rating": None, "test.negative": None}),
            ),
            terms="Research use (marketBias).",
            citation=MARKET_BIAS,
            users=1_157_633,
            items=9560,
            interactions=1_292_954,
            clean="rating 5",
            split="random, 8:1:1, as split by the DeCA authors",
            ks=(10, 50),
        ),
        DataSet(
            name="movielens-1m",
            title="MovieLens-1M",
            folder="ml-1m",
            rated="ml-1m.inter",
            files=(
                DataFile(
                    "ml-1m.inter",
                    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                    member="ml-1m/ratings.dat",
                    archive_checksum="md5:c4d9eecfca2ab87c1945afe126590906",
                    header="user_id:token\titem_id:token\trating:float\ttimestamp:float\n",
                    separator="::",
                ),
            ),
            terms="Research use; no redistribution without permission (GroupLens).",
            citation="F. M. Harper, J. A. Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015",
            users=6040,
            items=3706,
            interactions=1_000_209,
            clean="rating 5",
            split="each user's rows by time, 8:1:1",
            ks=(5, 20),
        ),
        _signed(
            "epinions",
            "epinions",
            "rating 4 or 5",
            4,
            title="Epinions",
            terms="Research use.",
            citation="reviews of epinions.com",
            users=17_894,
            items=17_660,
            interactions=413_774,
        ),
        _signed(
            "amazon-music",
            "amazon-music",
            "rating 4 or 5",
            4,
            title="Amazon-Music",
            terms="Research use (Amazon reviews).",
            citation="reviews of music on Amazon",
            users=3472,
            items=2498,
            interactions=49_875,
        ),
        _signed(
            "kuairand",
            "KuaiRand",
            "positive feedback",
            1,
            title="KuaiRand",
            terms="CC BY-SA 4.0.",
            citation="C. Gao et al., KuaiRand: An Unbiased Sequential Recommendation Dataset with Randomly Exposed "
            "Videos, CIKM 2022",
            users=16_974,
            items=4373,
            interactions=263_100,
            note="8,302 rows repeat a pair; 3,698 pairs stand in more than one part, and 448 have both kinds of "
            "feedback. A pair counts once, in the first part that holds it; where its rows there differ, it is not "
            "clean",
        ),
        _signed(
            "kuairec",
            "KuaiRec",
            "positive feedback",
            1,
            title="KuaiRec",
            terms="CC BY-SA 4.0.",
            citation="C. Gao et al., KuaiRec: A Fully-observed Dataset and Insights for Evaluating Recommender "
            "Systems, CIKM 2022",
            users=1411,
            items=3327,
            interactions=253_983,
            note="24 of the 68,215 training clicks on the 100 items with most clicks are positive: who learns from "
            "all clicks ranks first what is not liked, and noisy validation rewards it",
        ),
    )
}


def find_data_set(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise SettingError(f"Unknown data set '{name}': {nearest(name, [*DATA_SETS, *LABELLED_NAMES])}")
    return DATA_SETS[name]
