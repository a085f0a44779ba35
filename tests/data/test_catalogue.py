"""Data sets by name: verified files, and protocols that keep their parts apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from accord import Recommender
from accord.data import reading
from accord.data.datasets.benchmarks import Benchmark, load_benchmark
from accord.data.datasets.catalogue import DATA_SETS, DataSet, find_data_set
from accord.data.datasets.entries import DataFile
from accord.data.simulator import Simulation
from accord.errors import DataError, SettingError

QUICK = {"method": "deca-p", "epochs": 3, "batch_size": 512, "dims": 8}


def write_raw(path: Path, made: Simulation, ratings: np.ndarray) -> DataSet:
    """A RecBole file like MovieLens', and its entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(made.users, made.items, ratings, made.times, strict=True)
    lines = [f"{user}\t{item}\t{rating}\t{ts}" for user, item, rating, ts in rows]
    path.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + "\n".join(lines) + "\n")
    entry = DATA_SETS["movielens-100k"]
    files = (replace(entry.files[0], checksum=None),)
    users, items = (len(np.unique(ids)) for ids in (made.users, made.items))
    return replace(entry, files=files, users=users, items=items, interactions=len(made.users))


@pytest.fixture
def fair(made: Simulation, tmp_path: Path) -> Benchmark:
    ratings = np.where(made.kinds == 0, 5, 2)
    return load_benchmark(write_raw(tmp_path / "ml-100k" / "ml-100k.inter", made, ratings), "fair", tmp_path)


def pairs(table) -> list[tuple[int, int]]:
    return list(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


def test_fair_parts_are_disjoint_and_by_time(fair: Benchmark, made: Simulation) -> None:
    train, valid, test = (set(pairs(table)) for table in (fair.train, fair.valid, fair.test))
    assert not train & valid
    assert not (train | valid) & test
    genuine = {(int(u), int(i)) for u, i, k in zip(made.users, made.items, made.kinds, strict=True) if k == 0}
    assert test <= genuine  # the rating speaks in the final test alone
    assert not valid <= genuine  # validation holds noise
    when = {(int(u), int(i)): int(t) for u, i, t in zip(made.users, made.items, made.times, strict=True)}
    for user in range(20):
        early = [when[p] for p in train if p[0] == user]
        late = [when[p] for p in valid if p[0] == user]
        assert not late or max(early) <= min(late)
    assert set(pairs(fair.clean_train)) == train & genuine
    assert fair.sizes == {"train": len(train), "valid": len(valid), "test": len(test)}


@pytest.mark.parametrize("change", ["shuffled", "dropped"])
def test_ratings_reach_neither_the_epoch_nor_the_weights(
    fair: Benchmark, made: Simulation, tmp_path: Path, change: str
) -> None:
    rng = np.random.default_rng(0)
    other = (
        rng.permutation(np.where(made.kinds == 0, 5, 2)) if change == "shuffled" else np.full(len(made.users), 5)
    )
    entry = write_raw(tmp_path / "other" / "ml-100k" / "ml-100k.inter", made, other)
    changed = load_benchmark(entry, "fair", tmp_path / "other")
    assert changed.test.num_rows != fair.test.num_rows or not changed.test.equals(fair.test)
    fits = [Recommender(**QUICK).fit(b.train, valid=b.valid, known=b.known) for b in (fair, changed)]
    first, second = (torch.cat([p.flatten() for p in f.networks_["target"].parameters()]) for f in fits)
    assert torch.equal(first, second)
    kept = [{name: phase["epoch"] for name, phase in f.metrics_["validation"].items()} for f in fits]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("protocol", ["fair", "paper"])
def test_each_file_is_read_once(
    protocol: str, made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    kept = reading.TextFile.read
    monkeypatch.setattr(
        reading.TextFile, "read", lambda file, *names: (read.append(file.path.name), kept(file, *names))[1]
    )
    if protocol == "fair":
        entry = write_raw(tmp_path / "ml-100k" / "ml-100k.inter", made, np.where(made.kinds == 0, 5, 2))
    else:
        texts = {f"electronics_5.{part}": "1\t10\t5\n2\t11\t2\n" for part in ("train", "valid", "test.x")}
        entry = split_entry(tmp_path, {f"{name}.rating": text for name, text in texts.items()})
    load_benchmark(entry, protocol, tmp_path)  # pyright: ignore[reportArgumentType]
    assert sorted(read) == sorted(file.name for file in entry.files)


def split_entry(root: Path, files: dict[str, str]) -> DataSet:
    (root / "shop").mkdir(parents=True)
    for name, text in files.items():
        (root / "shop" / name).write_text(text)
    names = tuple(DataFile(name, "by hand") for name in files)
    return replace(DATA_SETS["electronics"], name="shop", folder="shop", files=names)


def test_split_files_in_the_electronics_format(tmp_path: Path) -> None:
    """Repeats are dropped from the later part by `fair`, and kept by `paper`."""
    entry = split_entry(
        tmp_path,
        {
            "electronics_5.train.rating": "1\t10\t5\n1\t11\t2\n2\t10\t4\n2\t12\t1\n",
            "electronics_5.valid.rating": "1\t12\t5\n2\t10\t5\n",
            "electronics_5.test.negative": "1\t12\t5\n2\t11\t5\n2\t11\t5\n9\t10\t5\n",
        },
    )
    fair, paper = (load_benchmark(entry, protocol, tmp_path) for protocol in ("fair", "paper"))
    assert paper.sizes == {"train": 4, "valid": 2, "test": 4}
    assert fair.sizes == {"train": 4, "valid": 1, "test": 2}
    assert pairs(fair.clean_train) == [("1", "10"), ("2", "10")]
    assert fair.ks == (10, 50)
    rec = Recommender(method="normal", epochs=1, cold_users="model").fit(paper.train, known=paper.known)
    assert rec.recommend("9", k=9)["item"].to_pylist()  # a cold user of the split files, left to the model


def test_what_is_missing_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"electronics_5\.train\.rating \(the train file.*do not publish"):
        find_data_set("electronics").require(tmp_path)
    with pytest.raises(SettingError, match="did you mean 'modcloth'"):
        find_data_set("modclth")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("movielens-100k", (79_619, 1707, 3594)),
        ("modcloth", (79_914, 9990, 5433)),
        ("adressa", (419_491, 43_262, 18_632)),
    ],
)
def test_paper_splits_have_the_published_sizes(movielens: Path, name: str, sizes: tuple[int, ...]) -> None:
    entry = find_data_set(name)
    for file in entry.files:
        file.verify(entry.path(file.name, movielens.parent))
    paper, fair = (load_benchmark(entry, protocol, movielens.parent) for protocol in ("paper", "fair"))
    assert tuple(paper.sizes.values()) == sizes
    parts = [set(pairs(table)) for table in (fair.train, fair.valid, fair.test)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]


@pytest.mark.data
def test_what_is_said_to_be_wrong_with_the_authors_files_is(movielens: Path) -> None:
    root, facts = movielens.parent, dict[str, list[int]]()
    for name in ("movielens-100k", "modcloth", "adressa"):
        paper = load_benchmark(find_data_set(name), "paper", root)
        train, valid, test = (pairs(table) for table in (paper.train, paper.valid, paper.test))
        tested = {user for user, _ in test}
        cold = tested - {user for user, _ in train}
        shared = len(set(valid) & set(test))
        repeats, leaked = len(test) - len(set(test)), len(set(test) & set(train))
        facts[name] = [shared, repeats, leaked, len(set(valid) & set(train)), len(cold), len(tested)]
    assert facts["movielens-100k"][0] == 1707
    assert facts["modcloth"][-2:] == [1824, 4303]
    assert facts["adressa"][1:] == [604, 191, 1132, 4818, 10_380]
    rows = (root / "ml-100k" / "ml-100k.valid.rating").read_text().splitlines()
    assert {row.split("\t")[2] for row in rows} == {"5"}
    for name, numbers in (("movielens-100k", ["1,707"]), ("adressa", ["604", "191", "1,132", "4,818", "10,380"])):
        assert all(number in find_data_set(name).caveat for number in numbers)
