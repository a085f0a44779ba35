"""Logs in files: what is read, sorted, divided and drawn is the same as in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import stored
from accord.data import Clicks, holdout_mask, interactions, load_clicks, log_rows, merging, stored_interactions
from accord.data.coding import Coder
from accord.data.ids import encode
from accord.data.interactions import Interactions
from accord.data.stored_interactions import StoredInteractions
from accord.errors import DataError

ARRAYS = ("users", "items", "counts", "times", "first_rows", "weights", "marks")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks, buckets and pages even of a small log."""
    for module, name, size in (
        (stored, "AT_ONCE", 64),
        (log_rows, "AT_ONCE", 64),
        (merging, "SORTED", 50),
        (stored_interactions, "PAGE", 40),
        (stored_interactions, "PAGES", 3),
    ):
        monkeypatch.setattr(module, name, size)


def drawn(rows: int = 700, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    users = (rng.pareto(1.0, rows) * 20).astype(int) % 90
    return {
        "user": pa.array([f"u{user}" for user in users]),
        "item": pa.array(rng.integers(0, 40, rows) * 7 - 30),
        "time": pa.array(rng.integers(0, 1000, rows)),
        "seconds": pa.array(rng.random(rows)),
        "sure": pa.array([True if item % 5 == 0 else None for item in rng.permutation(rows)]),
    }


def with_gaps(log: dict[str, Any]) -> dict[str, Any]:
    """Some rows without an id; one user and one item have such rows alone."""
    user, item = log["user"].to_pylist(), log["item"].to_pylist()
    user[3::11] = [None] * len(user[3::11])
    item[3], user[8], item[8] = 999, "alone", None
    return log | {"user": pa.array(user), "item": pa.array(item)}


def assert_same(one: Clicks, other: Clicks) -> None:
    assert one.user_ids.values.equals(other.user_ids.values)
    assert one.item_ids.values.equals(other.item_ids.values)
    assert (one.origin, one.columns, one.time_type) == (other.origin, other.columns, other.time_type)
    for name in ARRAYS:
        own, its = getattr(one, name), getattr(other, name)
        assert (own is None) == (its is None), name
        assert own is None or np.array_equal(own, its), name
        assert own is None or name == "first_rows" or own.dtype == its.dtype, name


MADE = {"plain": drawn(), "with gaps": with_gaps(drawn(seed=1)), "of one user": drawn() | {"user": ["u"] * 700}}


@pytest.mark.parametrize("log", MADE.values(), ids=MADE)
def test_a_log_in_files_is_the_log_in_memory(log: dict[str, Any]) -> None:
    table = pa.table(log)
    own: dict[str, Any] = {"weight": "seconds", "trusted": "sure"}
    in_files = load_clicks(table, memory=0, **own)
    assert stored.is_stored(in_files.users)
    assert in_files.in_order
    assert_same(load_clicks(table, **own), in_files)


def test_parts_of_several_types_and_row_groups_are_one_log(tmp_path: Path) -> None:
    log = pa.table(with_gaps(drawn()))
    first, rest = log.slice(0, 300), log.slice(300)
    first = first.set_column(1, "item", first["item"].cast(pa.int32()))
    parquet.write_table(first, tmp_path / "a.parquet", row_group_size=17)
    parquet.write_table(rest.select(["time", "item", "user", "sure", "seconds"]), tmp_path / "b.parquet")
    assert_same(load_clicks(tmp_path), load_clicks(tmp_path, memory=0))
    assert_same(
        load_clicks(tmp_path / "a.parquet", time=""), load_clicks(tmp_path / "a.parquet", time="", memory=0)
    )


def test_text_is_read_as_it_is_in_memory(tmp_path: Path) -> None:
    rows = "".join(f"{k % 60},{k % 13},2020-01-{1 + k % 28:02}\n" for k in range(400))
    (tmp_path / "log.csv").write_text(f"user,item,time\n{rows}")
    from accord.data.reading import read_table

    table = read_table(tmp_path / "log.csv")[0]  # a file of text has no known number of rows
    in_files = load_clicks(table, memory=0)
    assert stored.is_stored(in_files.users)
    assert in_files.user_ids.values.type == pa.int64()
    assert_same(load_clicks(table), in_files)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"time": [5] * 600 + [None] * 100},
            r"100 missing times in .* \(the first in data row 601",
        ),
        (
            {"seconds": [1.0] * 690 + [-1.0] * 10},
            r"holds 10 value\(s\) that .* the first \(-1.0\) in click 691",
        ),
        ({"user": [None] * 700}, "No row of the table has both"),
    ],
)
def test_errors_count_all_rows(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_clicks(pa.table(drawn() | change), weight="seconds", memory=0)


def test_missing_ids_can_be_refused() -> None:
    log = pa.table(with_gaps(drawn()))
    with pytest.raises(DataError) as in_memory:
        load_clicks(log, on_missing="refuse")
    with pytest.raises(DataError) as in_files:
        load_clicks(log, on_missing="refuse", memory=0)
    assert str(in_files.value) == str(in_memory.value)


def test_a_file_that_lacks_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pa.table(drawn()), tmp_path / "log.parquet", row_group_size=100)
    kept = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *given, **_: list(kept(*given))[:-1])
    with pytest.raises(DataError, match="other rows than the 700 of its footer"):
        load_clicks(tmp_path / "log.parquet", memory=0)


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored.os, "posix_fallocate", full)
    with pytest.raises(DataError, match="make room, or set TMPDIR"):
        load_clicks(pa.table(drawn()), memory=0)


NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 9))
WORDS = st.one_of(st.none(), st.sampled_from(["", "nan", "a", "007", "7", "é"]), st.text(max_size=3))
LARGE = st.one_of(st.none(), st.integers(0, 2**64 - 1))
IDS = st.one_of(
    *(
        st.lists(values, max_size=60).map(lambda own, kind=kind: pa.array(own, kind))
        for values, kind in ((NUMBERS, pa.int64()), (WORDS, pa.string()), (LARGE, pa.uint64()))
    )
)


@given(column=IDS, cuts=st.lists(st.integers(0, 60), max_size=4), from_text=st.booleans())
@settings(deadline=None)
def test_ids_of_parts_are_the_ids_of_the_whole(column: pa.Array, cuts: list[int], from_text: bool) -> None:
    whole = pa.chunked_array([column])
    codes, ids = encode(whole, "user", "the log", "user", from_text=from_text, drop=True)
    coder = Coder("user", "the log", "user", from_text=from_text)
    found = np.full(len(column), -1)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(column)], strict=True):
        plain, present = coder.plain(whole.slice(first, max(0, last - first)))
        found[first:last][present] = coder.codes(plain.filter(pa.array(present)))
    assert np.array_equal(found, codes)
    assert coder.ids(drop=True).values.equals(ids.values) or not len(ids)


@pytest.mark.parametrize("by_time", [False, True])
def test_the_same_clicks_are_held_out(by_time: bool) -> None:
    table = pa.table(drawn())
    masks = [
        holdout_mask(load_clicks(table, memory=m), 0.3, seed=5, by="time" if by_time else "random")
        for m in (None, 0)
    ]
    assert 0 < masks[0].sum() < len(masks[0])
    assert np.array_equal(masks[0], masks[1])


# -- drawing -----------------------------------------------------------------------------------------------


def in_file(values: np.ndarray) -> np.ndarray:
    file = stored.Growing(values.dtype)
    file.append(values)
    return file.array()


def both(weights: bool = False, full: bool = False) -> tuple[Interactions, StoredInteractions]:
    log = drawn() | {"item": drawn()["item"]}
    clicks = load_clicks(pa.table(log), weight="seconds" if weights else None, memory=0)
    sizes = len(clicks.user_ids), len(clicks.item_ids)
    if full:  # the first user has clicked everything
        n = sizes[1]
        others = np.asarray(clicks.users) > 0
        users = np.concatenate([np.zeros(n, np.int32), np.asarray(clicks.users)[others]])
        items = np.concatenate([np.arange(n, dtype=np.int32), np.asarray(clicks.items)[others]])
        in_files = StoredInteractions.of(in_file(users), in_file(items), *sizes)
        return Interactions.from_pairs(users, items, *sizes), in_files
    own = clicks.weights
    return (
        Interactions.from_pairs(np.asarray(clicks.users), np.asarray(clicks.items), *sizes, weights=own),
        StoredInteractions.of(clicks.users, clicks.items, *sizes, weights=own),
    )


def epoch(data: Interactions, seed: int, at_once: int = 64, negatives: Any = "uniform") -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    parts = list(data.draw_pairs(at_once, [generator], negatives))
    assert all(part[0].shape[1] == at_once for part in parts[:-1])  # batches are whole but for the last
    return [torch.cat(column, 1)[0] for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
@pytest.mark.parametrize("full", [False, True])
def test_every_click_is_drawn_once_and_no_click_is_a_negative(negatives: str, full: bool) -> None:
    data, in_files = both(full=full)
    assert len(in_files._pages) > 5 * stored_interactions.PAGES // 3
    users, clicked, unclicked = epoch(in_files, 1, negatives=negatives)
    n = data.n_items
    keys = data.users.long() * n + data.items
    usable = keys[~data.full_users[data.users.long()]]
    assert torch.equal((users * n + clicked).sort().values, usable)
    assert len(users) == in_files.drawn_in_an_epoch == data.drawn_in_an_epoch
    assert not torch.isin(users * n + unclicked, keys).any()


def test_epochs_differ_and_seeds_repeat_them() -> None:
    _, data = both()
    first, again, other = epoch(data, 1), epoch(data, 1), epoch(data, 2)
    assert torch.equal(torch.stack(first[:2]), torch.stack(again[:2]))
    assert not torch.equal(first[1], other[1])
    generator = torch.Generator().manual_seed(1)
    passes = [torch.cat([p[1] for p in data.draw_pairs(64, [generator])], 1) for _ in range(2)]
    assert not torch.equal(*passes)


def test_clicks_of_a_block_are_mixed() -> None:
    """Users of several pages are in a batch, and not in their order."""
    _, data = both()
    users = epoch(data, 3)[0][:64]
    assert len(users.unique()) > 10
    assert (users.diff() < 0).float().mean() > 0.3


def test_negatives_are_uniform_over_what_is_left() -> None:
    _, data = both()
    user = int(data.degrees.argmax())
    own = set(data.items[data.starts[user] : data.starts[user + 1]].tolist())
    drawn_ = [u[users == user] for seed in range(60) for users, _, u in [epoch(data, seed)]]
    counts = torch.bincount(torch.cat(drawn_), minlength=data.n_items)
    left = [item for item in range(data.n_items) if item not in own]
    expected = counts.sum() / len(left)
    assert counts[sorted(own)].sum() == 0
    assert ((counts[left] - expected) ** 2 / expected).sum() < 2.5 * len(left)


def test_weights_go_with_their_clicks() -> None:
    data, in_files = both(weights=True)
    users, clicked, _, weights = epoch(in_files, 1)
    order = (users * data.n_items + clicked).argsort()
    assert data.weights is not None
    assert torch.allclose(weights[order], data.weights, rtol=1e-5)


def test_several_runs_draw_as_each_alone() -> None:
    _, data = both()
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    together = [torch.cat(column, 1) for column in zip(*data.draw_pairs(64, generators), strict=True)]
    for k, seed in enumerate((1, 2)):
        assert all(torch.equal(one[k], alone) for one, alone in zip(together, epoch(data, seed), strict=True))


def test_what_is_counted_is_the_same() -> None:
    data, in_files = both()
    assert torch.equal(data.popularity, in_files.popularity)
    assert torch.equal(data.starts, in_files.starts)
    assert torch.equal(data.items, in_files.items)
    assert torch.equal(data.users, in_files.users)
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    pairs = [own.sample_pairs(50, g) for own, g in zip((data, in_files), generators, strict=True)]
    assert all(torch.equal(one, other) for one, other in zip(*pairs, strict=True))


def pairs_of(users: np.ndarray, items: np.ndarray, n_users: int, n_items: int) -> tuple[Any, StoredInteractions]:
    """The same pairs in memory and in files."""
    users, items, sizes = users.astype(np.int32), items.astype(np.int32), (n_users, n_items)
    return Interactions.from_pairs(users, items, *sizes), StoredInteractions.of(
        in_file(users), in_file(items), *sizes
    )


@pytest.mark.parametrize("bitmap", [True, False])
def test_what_is_looked_up_in_files_is_what_is_in_memory(bitmap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_interactions, "SOUGHT", 50)
    monkeypatch.setattr(interactions, "BITMAP_LIMIT", 1 << 27 if bitmap else 0)
    keys = np.unique(np.random.default_rng(0).integers(0, 90 * 40, 700))
    in_memory, in_files = pairs_of(keys // 40, keys % 40, 90, 40)
    streams = [torch.Generator().manual_seed(3) for _ in range(2)]
    drawn = [one.sample_pairs(500, stream) for one, stream in zip((in_memory, in_files), streams, strict=True)]
    users = torch.tensor([7, 0, 89, 7, 41])
    for a, b in zip((*drawn[0], *in_memory.rows_of(users)), (*drawn[1], *in_files.rows_of(users)), strict=True):
        assert a.equal(b)
        assert a.dtype == b.dtype


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what is resident")
def test_what_is_looked_up_all_over_files_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "AT_ONCE", 1 << 20)

    def resident() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) / 1024

    n_users, n_items, each = 1 << 14, 1 << 16, 1 << 9  # two files of 32 MB
    of_one = np.arange(each, dtype=np.int32) * 100
    _, log = pairs_of(
        np.repeat(np.arange(n_users, dtype=np.int32), each), np.tile(of_one, n_users), n_users, n_items
    )
    stored.release(*log.files)
    before, held, give_back = resident(), [], stored.release
    for module in (stored, stored_interactions):
        monkeypatch.setattr(module, "release", lambda *files: (held.append(resident()), give_back(*files)))
    log.sample_pairs(20_000, torch.Generator().manual_seed(0))
    log.rows_of(torch.randint(n_users, (64,), generator=torch.Generator().manual_seed(0)))
    assert len(held) > 5
    assert max(held) - before < 16
