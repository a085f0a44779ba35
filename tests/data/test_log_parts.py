"""A log in parts: every pair in one of them, and a clean signal that decides the test alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from accord import Recommender
from accord.data import fold_log, split_log
from accord.errors import DataError, SettingError


@pytest.fixture(scope="module")
def rated() -> pa.Table:
    """2,000 rows of 40 users, some pairs many times, some rows without an item."""
    rng = np.random.default_rng(0)
    items = [None if k % 97 == 0 else f"i{v}" for k, v in enumerate(rng.integers(0, 60, 2000))]
    return pa.table(
        {
            "who": [f"u{v}" for v in rng.integers(0, 40, 2000)],
            "item": items,
            "rating": rng.integers(1, 6, 2000),
            "when": rng.permutation(2000),
        }
    )


NAMES: dict[str, Any] = {"user": "who", "time": "when"}


def pairs(table: pa.Table) -> list[tuple[Any, Any]]:
    return list(zip(table["who"].to_pylist(), table["item"].to_pylist(), strict=True))


def whole(table: pa.Table) -> set[tuple[Any, Any]]:
    return {pair for pair in pairs(table) if pair[1] is not None}


@pytest.mark.parametrize("by", ["auto", "random", "time", "global-time", "leave-one-out"])
def test_every_pair_is_in_one_part_and_every_row_is_its_own(rated: pa.Table, by: str) -> None:
    parts = split_log(rated, by=by, seed=3, **NAMES)
    each = [set(pairs(one)) for one in (parts.train, parts.valid, parts.test)]
    assert set.union(*each) == whole(rated)
    assert sum(map(len, each)) == len(whole(rated))  # disjoint
    rows = {tuple(row.values()) for row in rated.to_pylist()}
    assert {tuple(row.values()) for row in parts.test.to_pylist()} <= rows
    learnt = parts.train.num_rows + parts.valid.num_rows
    assert learnt == sum(pair in each[0] | each[1] for pair in pairs(rated))  # with their repeats
    assert parts.test.num_rows == len(each[2])  # once each
    assert parts.clicks is None
    assert [parts.notes[name] for name in ("train", "valid", "test")] == list(map(len, each))


def test_the_clean_signal_decides_the_test_alone(rated: pa.Table) -> None:
    plain = split_log(rated, by="time", **NAMES)
    clean = split_log(rated, by="time", clean="rating>=4", **NAMES)
    for name in ("train", "valid"):
        assert pairs(getattr(plain, name)) == pairs(getattr(clean, name))
        assert getattr(clean, name).column_names == ["who", "item", "when"]  # nothing of it is seen
    ratings: dict[Any, list[int]] = {}
    for pair, rating in zip(pairs(rated), rated["rating"].to_pylist(), strict=True):
        ratings.setdefault(pair, []).append(rating)
    liked = {pair for pair, own in ratings.items() if min(own) >= 4}  # where all of its rows are
    assert set(pairs(clean.test)) == set(pairs(plain.test)) & liked
    assert clean.notes["not_clean_in_test"] == len(set(pairs(plain.test)) - liked)
    assert clean.clicks is not None
    told = dict(zip(pairs(clean.clicks), clean.clicks["is_noise"].to_pylist(), strict=True))
    assert told == {pair: pair not in liked for pair in pairs(plain.train) + pairs(plain.valid)}


def test_leave_one_out_of_a_user_of_two_clicks_tests_by_one() -> None:
    log = {"user": [1, 1, 2, 2, 2, 3], "item": [1, 2, 1, 2, 3, 9], "ts": [5, 6, 1, 2, 3, 1]}
    parts = split_log(log, by="leave-one-out")
    found = {name: getattr(parts, name).select(["user", "item"]).to_pylist() for name in ("train", "valid", "test")}
    each = {name: {(row["user"], row["item"]) for row in rows} for name, rows in found.items()}
    assert each == {"train": {(1, 1), (2, 1), (3, 9)}, "valid": {(2, 2)}, "test": {(1, 2), (2, 3)}}


@pytest.mark.parametrize("clean", [None, "rating>=3"])
def test_folds_test_every_pair_once(rated: pa.Table, clean: str | None) -> None:
    folds = fold_log(rated, 4, clean=clean, **NAMES)
    tested = [pair for one in folds for pair in pairs(one.test)]
    assert len(set(tested)) == len(tested)
    if clean is None:
        assert set(tested) == whole(rated)
    for one in folds:
        learnt = set(pairs(one.train)) | set(pairs(one.valid))
        assert not learnt & set(pairs(one.test))
        assert not set(pairs(one.train)) & set(pairs(one.valid))
        assert one.valid.num_rows


def test_the_parts_train_and_test_a_recommender(rated: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    pyarrow.csv.write_csv(rated, path)
    parts = split_log(path, clean="rating>=4", **NAMES)
    rec = Recommender("gmf", "normal", epochs=1, dims=4)
    rec.fit(parts.train, valid=parts.valid, **NAMES)
    found = rec.evaluate(parts.test)
    assert found["pairs"] == parts.notes["test"]
    assert found["seen_pairs"] == 0


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"valid": 0.5, "test": 0.5}, SettingError, "leave nothing"),
        ({"test": 0.0}, SettingError, "leave nothing, or test nothing"),
        ({"valid": float("nan")}, SettingError, "leave nothing"),
        ({"by": "times"}, SettingError, "did you mean 'time'"),
        ({"clean": "rating>=6"}, DataError, "no click .* is clean"),
        ({"clean": "rating>=0"}, DataError, "every click .* is clean"),
    ],
)
def test_what_makes_no_split_says_so(rated: pa.Table, given: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        split_log(rated, **NAMES | given)


def test_a_split_by_time_needs_times(rated: pa.Table) -> None:
    for by in ("time", "global-time"):
        with pytest.raises(DataError, match="needs a time column"):
            split_log(rated, by=by, user="who", time="")
