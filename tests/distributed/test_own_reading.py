"""Ranks that read their own parts of a log have what one process has that reads all of it."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threads import by_ranks

from accord import Recommender
from accord.data import own_clicks
from accord.data.clicks import Clicks, load_clicks
from accord.data.ids import Ids
from accord.data.own_clicks import read_own_clicks
from accord.data.parquet_parts import ParquetParts
from accord.data.reading import open_log
from accord.data.shared_ids import hashes, numbered
from accord.errors import DataError
from accord.estimators import own_log
from accord.estimators.base import Cache
from accord.estimators.log_split import split_log
from accord.estimators.own_log import own_split, together
from accord.estimators.recommender_data import split_of
from accord.ranks.group import Ranks

COLUMNS = ("users", "items", "counts", "times", "first_rows")


def in_parts(folder: Path, table: pa.Table, cuts: list[int], group: int = 1 << 20) -> Path:
    """A log as files that are cut at some rows, with groups of so many rows."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    bounds = [0, *sorted(cuts), len(table)]
    for k, (first, last) in enumerate(pairwise(bounds)):
        parquet.write_table(table.slice(first, last - first), folder / f"{k}.parquet", row_group_size=group)
    return folder


def a_log(seed: int, rows: int, ids: str, *, gaps: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 12, rows), rng.integers(0, 9, rows)
    table = {"user": pa.array(users), "item": pa.array(items), "ts": pa.array(rng.integers(0, 99, rows))}
    if ids == "strings":
        table["user"] = pa.array([f"{'u' * int(k % 5)}{k}é" for k in users])
    if ids == "decimals":
        table["item"] = pa.array([Decimal(int(k)) / (2 if k == 8 else 1) for k in items], pa.decimal128(6, 2))
    if ids == "large":
        table["item"] = pa.array([int(k) + (2**63 if k == 8 else 0) for k in items], pa.uint64())
    if ids == "categories":
        table["user"] = table["user"].cast(pa.string()).dictionary_encode()
    made = pa.table(table)
    if gaps:
        empty = pa.array(rng.random(rows) < 0.3)
        made = made.set_column(0, "user", pa.compute.if_else(empty, None, made["user"]))  # pyright: ignore
    return made


def assert_same_ids(one: Ids, other: Ids) -> None:
    assert one.values.equals(other.values)


def assert_shared_out(whole: Clicks, parts: list[Clicks | None]) -> None:
    for rank, own in enumerate(parts):
        assert own is not None
        mine = whole.users % len(parts) == rank
        for name in COLUMNS:
            values, wanted = getattr(own, name), getattr(whole, name)
            assert (values is None) == (wanted is None)
            if wanted is not None:
                assert values.dtype == wanted.dtype, name
                np.testing.assert_array_equal(values, wanted[mine], err_msg=name)
        assert (own.origin, own.columns, own.time_type) == (whole.origin, whole.columns, whole.time_type)
        assert (len(own.user_ids), len(own.item_ids)) == (len(whole.user_ids), len(whole.item_ids))
    assert parts[0] is not None
    assert_same_ids(parts[0].user_ids, whole.user_ids)
    assert_same_ids(parts[0].item_ids, whole.item_ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 99),
    rows=st.integers(1, 60),
    size=st.integers(2, 4),
    ids=st.sampled_from(["integers", "strings", "decimals", "large", "categories"]),
    gaps=st.booleans(),
    group=st.sampled_from([3, 7, 100]),
    data=st.data(),
)
def test_each_rank_has_the_clicks_of_its_users_as_in_the_whole_log(
    folder: Path, seed: int, rows: int, size: int, ids: str, gaps: bool, group: int, data: st.DataObject
) -> None:
    """With uneven parts, and ranks that have none to read."""
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=3))
    table = a_log(seed, rows, ids, gaps=gaps)
    log = in_parts(folder / "log", table, cuts, group)
    if table["user"].null_count == rows:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_clicks, "AT_ONCE", 5)  # so that clicks go in several rounds
        found = by_ranks(size, lambda ranks: read_own_clicks(open_log(log), True, ranks))
    assert_shared_out(load_clicks(log), found)


def test_groups_of_rows_are_dealt_out_in_order_each_once(folder: Path) -> None:
    log = in_parts(folder / "groups", a_log(0, 100, "integers"), [5, 60], 10)
    table = open_log(log).table
    assert isinstance(table, ParquetParts)
    shares = table.shares(3)
    found = [group for one in shares for group in ((file.name, k) for file, own in one.groups.items() for k in own)]
    assert found == [("0.parquet", 0), *(("1.parquet", k) for k in range(6)), *(("2.parquet", k) for k in range(4))]
    assert [one.first for one in shares] == [0, 35, 70]
    one, other = table.shares(2)[0], in_parts(folder / "one", a_log(0, 100, "integers"), [])
    assert list(one.groups) == [log / "0.parquet", log / "1.parquet"]
    alone = open_log(other).table.shares(4)
    assert sorted(len(share.groups) for share in alone) == [0, 0, 0, 1]


@pytest.mark.parametrize("by", ["random", "time"])
def test_the_same_clicks_are_held_out_and_come_together_again(by: Any, folder: Path, monkeypatch: Any) -> None:
    log = in_parts(folder / "split", a_log(3, 90, "strings"), [20, 70])
    rec = Recommender(model="mf", method="normal", split=by, valid_share=0.3, seed=4)
    whole = split_log(load_clicks(log), None, None, rec.settings)
    quality = np.random.default_rng(0).random(len(whole.clicks)).astype(np.float32)

    def work(ranks: Ranks) -> Any:
        own, source = rec.renewed(), {"log": str(log)}
        split = own_split(own, source, lambda: pytest.fail("it was read whole"), ranks)
        own.clicks_, own.part_, own._sharing = split.clicks, split.part, ranks
        own.user_ids_ = split.user_ids
        mine = whole.clicks.users % ranks.size == ranks.rank
        np.testing.assert_array_equal(split.part, whole.part[mine])
        assert split.notes == whole.notes
        return own, together(own, quality[mine], ranks)

    for files in (False, True):
        monkeypatch.setattr(own_log, "most_in_memory", lambda rec, files=files: 0 if files else 1e9)
        monkeypatch.setattr(own_log, "AT_ONCE", 40)  # so that they come in several pieces
        (first, found), *others = by_ranks(3, work)
        np.testing.assert_array_equal(found, quality)
        np.testing.assert_array_equal(first.part_, whole.part)
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(first.clicks_, name), getattr(whole.clicks, name))
            assert getattr(first.clicks_, name).dtype == getattr(whole.clicks, name).dtype
        assert isinstance(first.clicks_.users, np.memmap) == files
        assert all(one is None for _, one in others)


def test_a_log_whose_times_changed_is_another_one(folder: Path) -> None:
    """Its pairs are the same, and others of them are held out: a checkpoint of the one is not of the other."""
    table = a_log(3, 90, "integers")
    turned = table.set_column(2, "ts", pa.array(99 - np.asarray(table["ts"])))
    rec = Recommender(model="mf", method="normal", split="time", valid_share=0.3)
    whole = partial(pytest.fail, "it was read whole")
    found: list[str | None] = []
    for one in (table, table, turned):
        log = {"log": str(in_parts(folder / "times", one, [20, 70]))}
        each = by_ranks(2, lambda ranks, log=log: own_split(rec.renewed(), log, whole, ranks))
        assert each[0].digest == each[1].digest
        found.append(each[0].digest)
    assert found[0] == found[1] != found[2]


def test_ranks_that_treat_gaps_differently_are_refused(folder: Path) -> None:
    log = str(in_parts(folder / "gaps", a_log(3, 90, "integers"), [20, 70]))
    rec = Recommender(model="mf", method="normal")

    def work(ranks: Ranks) -> Any:
        on_missing = ("drop", "refuse")[ranks.rank]
        return own_split(rec.renewed(), {"log": log, "on_missing": on_missing}, lambda: pytest.fail("whole"), ranks)

    with pytest.raises(DataError, match="give all the same file and the same command"):
        by_ranks(2, work)


def test_a_log_that_is_read_whole_is_shared_out_alike(folder: Path) -> None:
    """A log with weights; its marks and the pairs of a validation file go with their users."""
    table = a_log(5, 80, "integers")
    table = table.append_column("weight", pa.array(np.arange(80) / 7 + 0.1))
    log, valid = folder / "whole.parquet", {"user": [0, 1, 2], "item": [8, 8, 8]}
    parquet.write_table(table, log)
    rec = Recommender(model="mf", method="normal")
    source = {"log": log, "weight": "weight", "valid": valid}
    whole = split_of(rec, source, Cache())
    found = by_ranks(2, lambda ranks: own_split(rec, source, lambda: whole, ranks))
    for rank, own in enumerate(found):
        mine = whole.clicks.users % 2 == rank
        np.testing.assert_array_equal(own.part, whole.part[mine])
        assert whole.clicks.weights is not None
        np.testing.assert_array_equal(own.clicks.weights, whole.clicks.weights[mine])  # pyright: ignore
        assert own.digest == found[0].digest
    assert replace(found[1], digest=None).notes == whole.notes


@settings(deadline=None, max_examples=40)
@given(each=st.lists(st.lists(st.text(max_size=9), unique=True, max_size=12), min_size=2, max_size=4))
def test_ids_are_numbered_by_their_first_appearance_rank_after_rank(each: list[list[str]]) -> None:
    wanted = list(dict.fromkeys(one for own in each for one in own))
    found = by_ranks(
        len(each), lambda ranks: numbered(pa.array(each[ranks.rank], pa.string()), "user", "", "", ranks)
    )
    for (numbers, ids), own in zip(found, each, strict=True):
        assert [wanted[k] for k in numbers] == own
        assert len(ids) == len(wanted)
    if wanted:
        assert found[0][1].values.to_pylist() == wanted


def test_hashes_spread_ids_evenly_and_are_the_same_everywhere() -> None:
    for values in (pa.array(range(0, 80_000, 8)), pa.array([f"user-{k:06d}" for k in range(10_000)])):
        found = hashes(values)
        counts = np.bincount((found % np.uint64(7)).astype(np.int64), minlength=7)
        assert counts.min() > 0.9 * 10_000 / 7
        assert len(np.unique(found)) == 10_000
        assert np.array_equal(hashes(values[77:99]), found[77:99])
    assert hashes(pa.array([1, -1])).tolist() == [13787848775058251473, 16364702533577921080]
    assert hashes(pa.array(["a", "ü"])).tolist() == [16100440188754278045, 18124050657390370033]


def test_missing_ids_and_a_part_that_one_rank_cannot_read_are_one_sentence(folder: Path) -> None:
    log = in_parts(folder / "gaps", a_log(0, 40, "integers", gaps=True), [20])
    missing = parquet.read_table(log)["user"].null_count
    opened = open_log(log)
    with pytest.raises(DataError, match=rf"^{missing} missing user ids in column 'user' of ") as whole:
        load_clicks(log, on_missing="refuse")
    with pytest.raises(DataError, match=f"^{re.escape(str(whole.value))}$"):
        by_ranks(2, lambda ranks: read_own_clicks(opened, False, ranks))
    damaged = log / "1.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:60] = b"\xff" * 56
    damaged.write_bytes(content)
    said: list[str] = []

    def work(ranks: Ranks) -> None:
        try:
            read_own_clicks(opened, True, ranks)
        except DataError as error:
            said.append(str(error))

    by_ranks(3, work)
    assert len(said) == 3
    assert sum("1.parquet' is not a Parquet file" in one and "Rank" not in one for one in said) == 1
    assert (
        sum(bool(re.match("Rank [12] of 3 stopped, and so do all: .*1.parquet' is not", one)) for one in said) == 2
    )
    assert not any(set(own.split("\n")) - {own} for own in said)


def test_times_of_several_forms_are_read_whole(folder: Path) -> None:
    table = a_log(0, 40, "integers")
    texts = pa.array([str(k) if k < 20 else f"{k}.5" for k in range(40)])
    log = in_parts(folder / "times", table.set_column(2, "ts", texts), [20])
    assert by_ranks(2, lambda ranks: read_own_clicks(open_log(log), True, ranks)) == [None, None]
