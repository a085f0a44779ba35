"""A click log in memory: distinct (user, item) pairs as row numbers, with ids, counts and times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.ids import Ids, encode
from accord.data.reading import Columns, begun, choose_columns, is_text, name_of, read_log, read_table
from accord.errors import DataError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""


@dataclass(frozen=True)
class Clicks:
    """Distinct clicks, sorted by user and then by item."""

    users: np.ndarray
    items: np.ndarray
    user_ids: Ids
    item_ids: Ids
    counts: np.ndarray
    """How often each pair is in the log."""
    times: np.ndarray | None
    """Time of the first click of each pair, as a number that grows with time."""
    columns: Columns
    time_type: pa.DataType | None = None
    """The type of the log's time column, so that times go out as they came in."""

    def __len__(self) -> int:
        return len(self.users)

    @property
    def merged(self) -> int:
        """How many rows of the log repeated an earlier pair."""
        return int(self.counts.sum(dtype=np.int64)) - len(self)

    @property
    def keys(self) -> np.ndarray:
        """One increasing number per pair."""
        return pair_keys(self.users, self.items, len(self.item_ids))

    def subset(self, rows: np.ndarray) -> Clicks:
        """The clicks of some rows (a mask or increasing positions), over the same ids."""
        return replace(
            self,
            users=self.users[rows],
            items=self.items[rows],
            counts=self.counts[rows],
            times=None if self.times is None else self.times[rows],
        )

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


def pair_keys(users: np.ndarray, items: np.ndarray, n_items: int) -> np.ndarray:
    return users.astype(np.int64) * n_items + items


def load_clicks(
    source: Any, *, user: str | None = None, item: str | None = None, time: str | None = None, known: Any = None
) -> Clicks:
    """Read a log in any form, give every id a row number, and merge repeated clicks.

    ``known`` is a table of pairs whose ids are given row numbers too, though they may have no click.
    """
    table, columns = read_log(source, user=user, item=item, time=time)
    where, text = name_of(source), is_text(source)
    user_codes, user_ids = encode(table[columns.user], "user", where, columns.user, from_text=text)
    item_codes, item_ids = encode(table[columns.item], "item", where, columns.item, from_text=text)
    times, time_type = (None, None) if columns.time is None else _times(table[columns.time], where, columns.time)
    del table
    if known is not None:
        others, names = read_log(known, like=columns)
        whence = name_of(known)
        user_ids = user_ids.extended(encode(others[names.user], "user", whence, names.user)[1].values)
        item_ids = item_ids.extended(encode(others[names.item], "item", whence, names.item)[1].values)
    keys = pair_keys(user_codes, item_codes, len(item_ids))
    del user_codes, item_codes
    keys, times, counts = _merge(keys, times)
    return Clicks(
        users=(keys // len(item_ids)).astype(np.int32),
        items=(keys % len(item_ids)).astype(np.int32),
        user_ids=user_ids,
        item_ids=item_ids,
        counts=counts,
        times=times,
        columns=columns,
        time_type=time_type,
    )


def _merge(keys: np.ndarray, times: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    if times is None:
        keys.sort()
    else:
        order = np.argsort(keys, kind="stable")
        keys, times = keys[order], times[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(first, append=len(keys))
    counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))  # mostly a byte each, on logs of millions
    if len(first) == len(keys):
        return keys, times, counts
    return keys[first], None if times is None else np.minimum.reduceat(times, first), counts


def _times(column: pa.ChunkedArray, where: str, name: str) -> tuple[np.ndarray, pa.DataType | None]:
    kind = column.type
    advice = "give numbers or ISO dates, or leave it out: time=''."
    bad = DataError(f"Column '{name}' of {where} cannot be read as times; {advice}")
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = pc.if_else(pc.equal(column, ""), None, column)
            numbers = _parsed_numbers(column)
            column = _parsed_times(column) if numbers is None else numbers
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise DataError(
                f"{column.null_count} missing times in column '{name}' of {where} (the first in data row {row}); "
                "drop or fill those rows, or leave the column out: time=''."
            )
        if pa.types.is_temporal(column.type):
            exact = pa.timestamp("us", getattr(column.type, "tz", None))
            return np.asarray(pc.cast(pc.cast(column, exact, safe=False), pa.int64())), exact
        values = np.asarray(column)
    except pa.ArrowException as error:
        raise bad from error
    if values.dtype.kind not in "iuf":
        raise bad
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise DataError(
            f"{int(np.isnan(values).sum())} missing times in column '{name}' of {where}; drop or fill those rows."
        )
    return values, None


def _parsed_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO dates, with a zone or without, to the microsecond or finer."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            return pc.cast(column, kind)
        except pa.ArrowException as error:
            reason = error
    raise reason


def _parsed_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(column, kind)
        except pa.ArrowException:
            continue
    return None


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
) -> MatchedPairs:
    """Find the pairs of a file or table among known ids; its columns may be called as those of a log were."""
    table, where = read_table(source)
    if table.num_rows == 0:
        raise DataError(f"{begun(where)} holds no rows.")
    columns = choose_columns(table.column_names, where, user=user, item=item, like=like)
    return MatchedPairs(user_ids.find(table[columns.user]), item_ids.find(table[columns.item]), table, columns)
