"""Fair and paper protocols on made files: who is clean, who is liked, and what stands in which part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from accord.data.datasets.benchmarks import Benchmark, load_benchmark
from accord.data.datasets.catalogue import DATA_SETS, DataFile, DataSet
from accord.errors import DataError, SettingError

RATINGS = [1, 2, 3, 4, 5, 3, 4, 5, 5]
"""Of each user's clicks but the last, in time: eight for training, the ninth for validation."""
LAST = {"u3": 3, "u4": 4, "u5": 5}
"""The rating of each user's last click, the test's."""


def stars() -> list[tuple[str, str, int, int]]:
    """Three users, ten clicks each. Later items were clicked earlier: neither ids nor lines stand in time."""
    rows = [
        (user, f"i{9 - place}", rating, place)
        for user, last in LAST.items()
        for place, rating in enumerate([*RATINGS, last])
    ]
    return [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]


def movielens(root: Path, rows: list[tuple[str, str, int, int]], **changes: int) -> DataSet:
    """A file like MovieLens', and its entry with the counts of what was made."""
    (root / "ml-100k").mkdir(parents=True, exist_ok=True)
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    lines += ["\t".join(map(str, row)) for row in rows]
    (root / "ml-100k" / "ml-100k.inter").write_text("\n".join(lines) + "\n")
    entry = DATA_SETS["movielens-100k"]
    counts = {"users": len({row[0] for row in rows}), "items": len({row[1] for row in rows})}
    counts |= {"interactions": len(rows)} | changes
    return replace(entry, files=(replace(entry.files[0], checksum=None),), **counts)


def pairs(table: pa.Table | None) -> list[tuple[str, str]]:
    assert table is not None
    assert table.column_names[:2] == ["user", "item"]
    return sorted(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


@pytest.fixture
def fair(tmp_path: Path) -> Benchmark:
    return load_benchmark(movielens(tmp_path, stars()), "fair", tmp_path)


def test_the_fair_test_is_of_five_stars_alone(fair: Benchmark) -> None:
    """Each user's last click is held out; that of three stars and that of four are not clean."""
    assert pairs(fair.test) == [("u5", "i0")]
    assert pairs(fair.valid) == [(user, "i1") for user in LAST]
    assert pairs(fair.train) == sorted((user, f"i{item}") for user in LAST for item in range(2, 10))
    assert fair.sizes == {"train": 24, "valid": 3, "test": 1}


def test_the_oracle_knows_the_likes_of_training_from_four_stars_on(fair: Benchmark) -> None:
    liked = [f"i{9 - place}" for place, rating in enumerate(RATINGS[:8]) if rating >= 4]
    assert len(liked) == 4
    assert pairs(fair.clean_train) == sorted((user, item) for user in LAST for item in liked)


def test_every_pair_keeps_its_rating_and_its_ids(fair: Benchmark) -> None:
    assert fair.ratings is not None
    assert fair.ratings.column_names == ["user", "item", "rating"]
    rated = {(user, item): rating for user, item, rating, _ in stars()}
    assert len(fair.ratings) == 24
    for row in fair.ratings.to_pylist():
        assert row["rating"] == rated[row["user"], row["item"]]
    assert pairs(fair.known) == sorted(rated)
    assert (fair.name, fair.protocol, fair.ks, fair.cold_users) == ("movielens-100k", "fair", (3, 20), "popularity")


def test_ratings_decide_over_the_test_and_the_oracle_alone(fair: Benchmark, tmp_path: Path) -> None:
    other = [(user, item, 5, when) for user, item, _, when in stars()]
    every = load_benchmark(movielens(tmp_path / "five", other), "fair", tmp_path / "five")
    assert every.train.equals(fair.train)
    assert every.valid.equals(fair.valid)
    assert pairs(every.test) == [(user, "i0") for user in LAST]
    assert pairs(every.clean_train) == pairs(every.train)
    none = [(user, item, 3, when) for user, item, _, when in stars()]
    nobody = load_benchmark(movielens(tmp_path / "three", none), "fair", tmp_path / "three")
    assert (pairs(nobody.test), pairs(nobody.clean_train)) == ([], [])


@pytest.mark.parametrize(
    "change", [{"users": 4}, {"users": 2}, {"items": 9}, {"interactions": 29}, {"interactions": 31}]
)
def test_a_file_of_another_size_is_refused(change: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"ml-100k\.inter' is not MovieLens-100K: 30 clicks of 3 users on 10 items\."
    ):
        load_benchmark(movielens(tmp_path, stars(), **change), "fair", tmp_path)


def test_a_tenth_of_many_clicks_is_held_out_for_each(tmp_path: Path) -> None:
    rows = [("u", f"i{item}", 5, 99 - item) for item in range(30)]
    fair = load_benchmark(movielens(tmp_path, rows), "fair", tmp_path)
    assert pairs(fair.test) == [("u", f"i{item}") for item in range(3)]
    assert pairs(fair.valid) == [("u", f"i{item}") for item in range(3, 6)]


def test_of_clicks_at_the_same_time_the_same_are_held_out_as_ever(tmp_path: Path) -> None:
    rows = [("u", f"i{item}", 5, 7) for item in range(10)]
    fair = load_benchmark(movielens(tmp_path, rows), "fair", tmp_path)
    assert (pairs(fair.test), pairs(fair.valid)) == ([("u", "i9")], [("u", "i0")])


# -- split files ------------------------------------------------------------------------------------------

FILES = {
    "train.rating": "a\tx\t3\na\ty\t4\nb\tx\t5\nb\ty\t2\na\tx\t5\n",
    "valid.rating": "a\tz\t5\na\ty\t5\na\tz\t4\n",
    "test.negative": "a\tz\t5\nb\tz\t5\nb\tx\t5\nb\tz\t5\nc\tx\t5\n",
}


"""Users a, b, c and items x, y, z, written as numbers: files without a header are told by them."""
NUMBERS = str.maketrans("abcxyz", "123789")


def shop(root: Path, files: dict[str, str]) -> DataSet:
    (root / "shop").mkdir(parents=True)
    for name, text in files.items():
        (root / "shop" / f"shop.{name}").write_text(text.translate(NUMBERS))
    names = tuple(DataFile(f"shop.{name}", "by hand") for name in files)
    return replace(DATA_SETS["electronics"], name="shop", folder="shop", files=names)


def rows(table: pa.Table | None) -> list[str]:
    assert table is not None
    names = {number: letter for letter, number in zip("abcxyz", "123789", strict=True)}
    return [names[str(row["user"])] + names[str(row["item"])] for row in table.to_pylist()]


def test_paper_takes_the_files_as_they_are(tmp_path: Path) -> None:
    """Repeats, and what stands in two parts, in the order of the lines; four stars are liked, three are not."""
    paper = load_benchmark(shop(tmp_path, FILES), "paper", tmp_path)
    assert rows(paper.train) == ["ax", "ay", "bx", "by", "ax"]
    assert rows(paper.valid) == ["az", "ay", "az"]
    assert rows(paper.test) == ["az", "bz", "bx", "bz", "cx"]
    assert rows(paper.known) == rows(paper.train) + rows(paper.valid) + rows(paper.test)
    assert rows(paper.clean_train) == ["ay", "bx", "ax"]
    assert paper.ratings is not None
    assert paper.ratings["rating"].to_pylist() == [3, 4, 5, 2, 5]
    assert (paper.protocol, paper.cold_users, paper.ks) == ("paper", "model", (10, 50))


def test_fair_leaves_a_pair_in_the_first_part_it_stands_in(tmp_path: Path) -> None:
    fair = load_benchmark(shop(tmp_path, FILES), "fair", tmp_path)
    assert rows(fair.train) == ["ax", "ay", "bx", "by"]
    assert rows(fair.valid) == ["az"]
    assert rows(fair.test) == ["bz", "cx"]
    assert rows(fair.known) == rows(load_benchmark(shop(tmp_path / "b", FILES), "paper", tmp_path / "b").known)
    assert (fair.protocol, fair.cold_users) == ("fair", "popularity")


def test_files_without_ratings_have_no_oracle(tmp_path: Path) -> None:
    plain = {name: "".join(line[:3] + "\n" for line in text.splitlines()) for name, text in FILES.items()}
    paper = load_benchmark(shop(tmp_path, plain), "paper", tmp_path)
    assert paper.clean_train is None
    assert paper.ratings is None
    assert rows(paper.train) == ["ax", "ay", "bx", "by", "ax"]


def test_the_authors_files_of_movielens_beside_its_own(tmp_path: Path) -> None:
    """`paper` reads the split files, and `fair` the whole file, which no split file is taken for."""
    entry = movielens(tmp_path, stars())
    names = []
    for name, text in FILES.items():
        names.append(DataFile(f"ml-100k.{name}", "by hand"))
        (tmp_path / "ml-100k" / f"ml-100k.{name}").write_text(text.translate(NUMBERS))
    entry = replace(entry, files=(*entry.files, *names))
    assert rows(load_benchmark(entry, "paper", tmp_path).valid) == ["az", "ay", "az"]
    assert load_benchmark(entry, "fair", tmp_path).sizes == {"train": 24, "valid": 3, "test": 1}


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Unknown protocol 'honest': choose fair or paper"):
        load_benchmark(shop(tmp_path, FILES), "honest", tmp_path)  # pyright: ignore[reportArgumentType]
