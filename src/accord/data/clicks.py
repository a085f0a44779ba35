"""A click log in memory: distinct (user, item) pairs as row numbers, with ids, counts and times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import Columns, begun, choose_columns
from accord.data.ids import Ids
from accord.data.log_rows import Origin, read_rows
from accord.data.marks import as_marks, one_mark
from accord.data.merging import merged, merged_in_files, pair_keys
from accord.data.reading import name_of, read_table
from accord.errors import DataError
from accord.stored import blocks, chosen, is_stored

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
OnMissing = Literal["drop", "refuse"]
"""What is done with rows without a user or an item."""
FEWEST = 0.01
"""The share of a truth's rows whose ids must be those of the log."""


@dataclass(frozen=True)
class Clicks:
    """Distinct clicks, sorted by user and then by item."""

    users: np.ndarray
    items: np.ndarray
    user_ids: Ids
    item_ids: Ids
    counts: np.ndarray
    """How often each pair is in the log."""
    columns: Columns
    times: np.ndarray | None = None
    """Time of the first click of each pair, as a number that grows with time."""
    time_type: pa.DataType | None = None
    """The type of the log's time column, so that times go out as they came in."""
    first_rows: np.ndarray | None = None
    """The first row of each pair in the source, counted from 0; −1 for pairs that were joined to the log."""
    weights: np.ndarray | None = None
    """The mean weight of each pair's rows, where a column of weights was named."""
    marks: np.ndarray | None = None
    """Of each pair, whether it is known to be right or wrong (`accord.data.marks`), where that was said."""
    origin: Origin | None = None

    def __len__(self) -> int:
        return len(self.users)

    @property
    def merged(self) -> int:
        """How many rows of the log repeated an earlier pair."""
        return sum(int(some.sum(dtype=np.int64)) for (some,) in blocks(self.counts)) - len(self)

    @property
    def keys(self) -> np.ndarray:
        """One increasing number per pair."""
        return pair_keys(self.users, self.items, len(self.item_ids))

    @property
    def identity(self) -> np.ndarray | str:
        """By which they are known to be the same: every pair; of a log in files, what its rows were known by."""
        return self.origin.fingerprint if self.origin is not None and is_stored(self.users) else self.keys

    @property
    def in_order(self) -> bool:
        """Whether they are distinct and sorted by user and then by item."""
        before, n_items = -1, len(self.item_ids)
        for users, items in blocks(self.users, self.items):
            keys = pair_keys(users, items, n_items)
            if keys[0] <= before or (np.diff(keys) <= 0).any():
                return False
            before = int(keys[-1])
        return True

    def subset(self, rows: np.ndarray) -> Clicks:
        """The clicks of some rows (a mask or increasing positions), over the same ids."""
        each = ("users", "items", "counts", "times", "first_rows", "weights", "marks")
        columns: dict[str, Any] = {name: getattr(self, name) for name in each}
        return replace(self, **{name: None if own is None else chosen(own, rows) for name, own in columns.items()})

    def to_table(self) -> pa.Table:
        """Raw ids and times under the names they came with."""
        columns = {
            self.columns.user: self.user_ids.take(self.users),
            self.columns.item: self.item_ids.take(self.items),
        }
        if self.times is not None and self.columns.time:
            times = pa.array(self.times)
            columns[self.columns.time] = pc.cast(times, self.time_type) if self.time_type else times
        return pa.table(columns)


def load_clicks(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    known: Any = None,
    query: str | None = None,
    weight: str | None = None,
    trusted: Any = None,
    on_missing: str = "drop",
    memory: float | None = None,
) -> Clicks:
    """Read a log in any form, give every id a row number, and merge repeated clicks.

    ``known`` is a table of pairs whose ids are given row numbers too, though they may have no click. ``query`` says
    which rows of a database are the log. Rows without a user or an item are dropped (and counted in ``origin``), or
    refused. ``weight`` names a column of weights. ``trusted`` is a column, or a table of pairs with such a column,
    that says which clicks are right or wrong for sure. What would take more than ``memory`` bytes is kept in files:
    the arrays are the same, and are read where they are looked at.
    """
    column = trusted if isinstance(trusted, str) and not _is_place(trusted) else None
    named: dict[str, Any] = {"user": user, "item": item, "time": time, "weight": weight, "trusted": column}
    log = read_rows(source, query=query, on_missing=on_missing, memory=memory, **named)
    columns, user_ids, item_ids, where = log.columns, log.user_ids, log.item_ids, name_of(source)
    if known is not None:
        named = columns_alike(columns, known)
        others = read_rows(known, **named)
        user_ids, item_ids = user_ids.extended(others.user_ids.values), item_ids.extended(others.item_ids.values)
    kept: dict[str, Any] = {"columns": columns, "time_type": log.time_type, "origin": log.origin}
    if is_stored(log.users):
        found = merged_in_files(log, len(item_ids), where)
    else:
        keys, values, first_of = pair_keys(log.users, log.items, len(item_ids)), log.values, log.rows
        del log
        pa.default_memory_pool().release_unused()  # the text of the log, before as much is taken for its order
        found = merged(keys, values, len(item_ids), where)
        if first_of is not None:
            found["first_rows"] = first_of[found["first_rows"]]
    clicks = Clicks(user_ids=user_ids, item_ids=item_ids, **kept, **found)
    return clicks if trusted is None or column is not None else _marked(clicks, trusted)


def _is_place(trusted: str) -> bool:
    """Whether the words are those of a file; a name without a suffix is that of a column."""
    from pathlib import Path

    return Path(trusted).suffix != "" and Path(trusted).exists()


def columns_alike(columns: Columns, other: Any) -> dict[str, str]:
    """The names of a log's columns as far as another table has them."""
    table, _ = read_table(other) if not isinstance(other, pa.Table) else (other, "")
    names = {"user": columns.user, "item": columns.item}
    return {what: name for what, name in names.items() if name in table.column_names} | {"time": ""}


def _marked(clicks: Clicks, trusted: Any) -> Clicks:
    """Clicks with what a table of pairs says of some of them."""
    pairs = match_pairs(trusted, clicks.user_ids, clicks.item_ids, clicks.columns)
    where = name_of(trusted)
    if "trusted" not in pairs.table.column_names:
        raise DataError(f"{begun(where)} has no column 'trusted' that says which pairs are right and which wrong.")
    keys, given = clicks.keys, as_marks(pairs.table["trusted"], where, "trusted")
    at, found = locate(keys, pair_keys(pairs.users, pairs.items, len(clicks.item_ids)), pairs.known)
    if not found.any():
        raise DataError(f"No pair of {where} is a click of the log; are these the same ids?")
    at, given = at[found], given[found]
    order = np.argsort(at, kind="stable")
    at, given = at[order], given[order]
    first = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
    marks = np.zeros(len(clicks), np.int8)
    marks[at[first]] = one_mark(given, first, where)
    return replace(clicks, marks=marks)


def locate(keys: np.ndarray, wanted: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where numbers are among increasing ones, and which of them are there at all."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, known & (keys[at] == wanted)


@dataclass(frozen=True)
class MatchedPairs:
    """The pairs of another table as row numbers, −1 where an id is unknown."""

    users: np.ndarray
    items: np.ndarray
    table: pa.Table
    columns: Columns

    @property
    def known(self) -> np.ndarray:
        return (self.users >= 0) & (self.items >= 0)


def match_pairs(
    source: Any,
    user_ids: Ids,
    item_ids: Ids,
    like: Columns | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    allow_unknown: bool = False,
) -> MatchedPairs:
    """Find the pairs of a file or table among known ids; its columns may be called as those of a log were.

    A table almost none of whose users, or items, are known is refused, unless ``allow_unknown`` says that it may.
    """
    table, where = read_table(source)
    if table.num_rows == 0:
        raise DataError(f"{begun(where)} holds no rows.")
    columns = choose_columns(table.column_names, where, user=user, item=item, time="", like=like)
    users, items = user_ids.find(table[columns.user]), item_ids.find(table[columns.item])
    if not allow_unknown:
        for codes, ids, name in ((users, user_ids, columns.user), (items, item_ids, columns.item)):
            _refuse_unknown(codes, ids, table[name], where)
    return MatchedPairs(users, items, table, columns)


def _refuse_unknown(codes: np.ndarray, ids: Ids, column: pa.ChunkedArray, where: str) -> None:
    known = int((codes >= 0).sum())
    if known < FEWEST * len(codes) or not known:
        theirs, ours = column[int((codes < 0).argmax())].as_py(), ids.values[0].as_py()
        raise DataError(
            f"{known:,} of {len(codes):,} rows of {where} have {ids.kind} ids of the log. They are such as "
            f"{ours!r} in the log, and here such as {theirs!r}; give the same ids in the same form."
        )
