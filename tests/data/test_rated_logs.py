"""Rated logs: every rating is a click; which part a pair counts in, and what decides whether it is clean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.datasets.benchmarks import Benchmark, load_benchmark
from accord.data.datasets.catalogue import DATA_SETS, DataSet, find_data_set
from accord.data.datasets.rated_logs import PARTS, Repeats, read_by_time, read_divided
from accord.errors import DataError, SettingError

Row = tuple[str, str, int, str]
ROWS: list[Row] = [
    ("a", "x", 5, "test"),  # in training as well
    ("a", "x", 2, "train"),
    ("a", "y", 4, "valid"),
    ("a", "z", 5, "test"),
    ("b", "x", 4, "train"),
    ("b", "x", 1, "train"),  # differs from the row before
    ("b", "y", 4, "test"),
    ("b", "y", 3, "test"),  # differs within the test
    ("b", "z", 3, "test"),
    ("c", "y", 4, "train"),
    ("c", "y", 5, "valid"),  # in training as well
]


def table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    made = pa.table(
        {name: list(column) for name, column in zip(("user", "item", "rating", "part"), columns, strict=True)}
    )
    return made.set_column(3, "part", made["part"].cast(pa.string()).dictionary_encode())


def entry(root: Path, rows: list[Row], **changes: Any) -> DataSet:
    """A file of these rows, and its entry."""
    (root / "epinions").mkdir(parents=True, exist_ok=True)
    parquet.write_table(table(rows), root / "epinions" / "ratings.parquet")
    counts = {"users": len({row[0] for row in rows}), "items": len({row[1] for row in rows})}
    return replace(DATA_SETS["epinions"], interactions=len(rows), **(counts | changes))


def load(root: Path, rows: list[Row], **changes: Any) -> Benchmark:
    return load_benchmark(entry(root, rows, **changes), "fair", root)


def pairs(found: pa.Table | None) -> list[str]:
    assert found is not None
    assert found.column_names[:2] == ["user", "item"]
    return [row["user"] + row["item"] for row in found.to_pylist()]


def test_a_pair_counts_in_the_first_part_that_holds_it(tmp_path: Path) -> None:
    fair = load(tmp_path, ROWS)
    assert pairs(fair.train) == ["ax", "bx", "cy"]
    assert pairs(fair.valid) == ["ay"]
    assert pairs(fair.test) == ["az"]  # bz has three stars; of by's two rows one is not clean
    assert sorted(pairs(fair.known)) == ["ax", "ay", "az", "bx", "by", "bz", "cy"]
    assert fair.repeats == Repeats(rows=4, in_parts=2, differing=4)
    assert fair.sizes == {"train": 3, "valid": 1, "test": 1}
    assert (fair.name, fair.protocol, fair.ks, fair.cold_users) == ("epinions", "fair", (5, 20), "popularity")


def test_the_oracle_and_judges_see_the_lowest_rating_of_a_pair_in_training(tmp_path: Path) -> None:
    fair = load(tmp_path, ROWS)
    assert pairs(fair.clean_train) == ["cy"]  # bx has a row with one star; ax's five stars are the test's
    assert fair.ratings is not None
    assert fair.ratings["rating"].to_pylist() == [2, 1, 4]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 5), st.sampled_from(PARTS)),
        min_size=1,
        max_size=25,
    )
)
def test_parts_and_repeats_by_brute_force(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = tmp_path_factory.mktemp("rated") / "ratings.parquet"
    parquet.write_table(table(rows), path)
    log = read_divided(path)
    held: dict[str, dict[str, list[int]]] = {}
    for user, item, rating, part in rows:
        held.setdefault(user + item, {}).setdefault(part, []).append(rating)
    expected = {
        pair: min((PARTS.index(part), min(own)) for part, own in each.items()) for pair, each in held.items()
    }
    found = zip(pairs(log.pairs), log.part.tolist(), log.pairs["rating"].to_pylist(), strict=True)
    assert {pair: (part, rating) for pair, part, rating in found} == expected
    assert log.pairs.num_rows == len(expected)
    everything = [[one for own in each.values() for one in own] for each in held.values()]
    assert log.repeats == Repeats(
        len(rows) - len(held),
        sum(len(each) > 1 for each in held.values()),
        sum(len(set(own)) > 1 for own in everything),
    )


def test_no_rating_reaches_training_or_validation(tmp_path: Path) -> None:
    """Other ratings change the test, the oracle and the judges alone."""
    usual = load(tmp_path / "usual", ROWS)
    turned = load(tmp_path / "turned", [(user, item, 6 - rating, part) for user, item, rating, part in ROWS])
    for name in ("train", "valid", "known"):
        one, other = getattr(usual, name), getattr(turned, name)
        assert one.equals(other)
        assert one.column_names == ["user", "item"]
    assert not usual.test.equals(turned.test)
    assert pairs(load(tmp_path / "all", [(u, i, 5, p) for u, i, _, p in ROWS]).test) == ["az", "by", "bz"]


def test_feedback_of_nought_and_one_is_clean_where_it_is_one(tmp_path: Path) -> None:
    rows = [(user, item, int(rating > 3), part) for user, item, rating, part in ROWS]
    kuai = DATA_SETS["kuairand"]
    fair = load(tmp_path, rows, clean_from=kuai.clean_from, liked_from=kuai.liked_from)
    assert (pairs(fair.test), pairs(fair.clean_train)) == (["az"], ["cy"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns(["part"]), "has no column 'part'; give user, item, rating and part."),
        (lambda t: t.drop_columns(["rating"]), "has no column 'rating'; give user, item, rating and part."),
        (lambda t: t.slice(0, 0), "holds no rows."),
        (
            lambda t: t.set_column(0, "user", pa.array([None, *"abcdefghij"])),
            "has 1 rows without a user; leave them",
        ),
        (
            lambda t: t.set_column(2, "rating", pa.array(["good"] * 11)),
            "The column 'rating' of .* holds something that is no number.",
        ),
        (
            lambda t: t.set_column(2, "rating", pa.array([np.nan] * 11)),
            "The column 'rating' of .* holds values that are no finite numbers.",
        ),
        (
            lambda t: t.set_column(3, "part", pa.array(["train"] * 10 + ["dev"])),
            "The column 'part' of .* holds 'dev'; its values are train, valid and test.",
        ),
        (
            lambda t: t.set_column(3, "part", pa.array([[1]] * 11)),
            "The column 'part' of .* holds no words; its values are train, valid and test.",
        ),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "ratings.parquet"
    parquet.write_table(change(table(ROWS)), path)
    with pytest.raises(DataError, match=words) as raised:
        read_divided(path)
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    made = entry(tmp_path, ROWS)
    path = tmp_path / "epinions" / "ratings.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"ratings\.parquet' ") as raised:
        load_benchmark(made, "fair", tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("change", [{"users": 4}, {"items": 2}])
def test_a_file_of_another_size_is_refused(change: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ratings\.parquet' is not Epinions: 11 clicks of 3 users on 3 items\."):
        load(tmp_path, ROWS, **change)
    with pytest.raises(DataError, match="is not Epinions"):
        load_benchmark(replace(entry(tmp_path, ROWS), interactions=7), "fair", tmp_path)  # repeats are counted too


def test_there_is_no_paper_protocol_of_a_rated_log(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'epinions' has no split files of the paper's authors; choose fair"):
        load_benchmark(entry(tmp_path, ROWS), "paper", tmp_path)
    assert DATA_SETS["epinions"].protocols == ("fair",)
    assert DATA_SETS["movielens-100k"].protocols == DATA_SETS["modcloth"].protocols == ("fair", "paper")


def test_a_log_without_ratings_or_with_repeats_is_not_divided_by_time(tmp_path: Path) -> None:
    path = tmp_path / "ml-1m.inter"
    path.write_text("user_id:token\titem_id:token\ttimestamp:float\na\tx\t1\nb\tx\t2\n")
    with pytest.raises(DataError, match="has no column 'rating'; give user, item, rating and time"):
        read_by_time(path)
    path.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tx\t1\t1\na\tx\t2\t2\n")
    with pytest.raises(DataError, match="holds 1 pairs more than once"):
        read_by_time(path)


# -- the real ones ------------------------------------------------------------------------------------------


SIZES = {
    "kuairec": (177_789, 25_398, 7312, 25_592),
    "kuairand": (180_013, 25_096, 22_781, 80_788),
    "epinions": (289_645, 41_376, 60_274, 210_967),
    "amazon-music": (34_915, 4986, 8008, 28_031),
}


@pytest.mark.data
@pytest.mark.parametrize("name", list(SIZES))
def test_statistics_of_the_real_files_by_brute_force(movielens: Path, name: str) -> None:
    made = find_data_set(name)
    fair = load_benchmark(made, "fair", movielens.parent)
    rows = parquet.read_table(made.path("ratings.parquet", movielens.parent)).to_pylist()
    lowest: dict[tuple[int, int], float] = {}
    parts: dict[str, list[tuple[int, int]]] = {}
    for part in PARTS:
        own: dict[tuple[int, int], float] = {}
        for pair, rating in [((row["user"], row["item"]), row["rating"]) for row in rows if row["part"] == part]:
            if pair not in lowest:
                own[pair] = min(rating, own[pair]) if pair in own else rating
        parts[part], lowest = list(own), lowest | own
    for part, found in (("train", fair.train), ("valid", fair.valid)):
        assert list(zip(found["user"].to_pylist(), found["item"].to_pylist(), strict=True)) == parts[part]
    tested = list(zip(fair.test["user"].to_pylist(), fair.test["item"].to_pylist(), strict=True))
    assert tested == [pair for pair in parts["test"] if lowest[pair] >= made.clean_from]
    assert fair.clean_train is not None
    liked = sum(lowest[pair] >= made.liked_from for pair in parts["train"])
    assert (*fair.sizes.values(), fair.clean_train.num_rows) == SIZES[name]
    assert fair.clean_train.num_rows == liked


@pytest.mark.data
def test_what_is_said_of_the_rows_is_so(movielens: Path) -> None:
    found = load_benchmark(find_data_set("kuairand"), "fair", movielens.parent).repeats
    assert found == Repeats(8302, 3698, 448)
    assert all(words in DATA_SETS["kuairand"].note for words in ("8,302", "3,698", "448"))
    rated = load_benchmark(find_data_set("kuairec"), "fair", movielens.parent).ratings
    assert rated is not None
    items, positive = np.asarray(rated["item"]), np.asarray(rated["rating"]) == 1
    most = np.argsort(-np.bincount(items), kind="stable")[:100]
    among = np.isin(items, most)
    assert (among.sum(), positive[among].sum()) == (68_215, 24)
    assert "24 of the 68,215" in DATA_SETS["kuairec"].note
