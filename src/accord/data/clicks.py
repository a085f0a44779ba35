"""A click log in memory: distinct (user, item) pairs as row numbers, with ids, counts and times."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import Columns, begun, choose_columns
from accord.data.databases import Query
from accord.data.ids import Ids, encode
from accord.data.marks import as_marks, as_weights, mean_weights, one_mark
from accord.data.reading import filtered, is_text, name_of, read_log, read_table
from accord.data.times import read_times
from accord.errors import DataError, SettingError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
OnMissing = Literal["drop", "refuse"]
"""What is done with rows without a user or an item."""
FEWEST = 0.01
"""The share of a truth's rows whose ids must be those of the log."""


@dataclass(frozen=True)
class Origin:
    """By which a log is known again, and its rows are found."""

    rows: int
    """How many the source has."""
    dropped: int
    """Rows without a user or an item, which are no clicks."""
    fingerprint: str
    """Of the pairs, row by row."""


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
        return int(self.counts.sum(dtype=np.int64)) - len(self)

    @property
    def keys(self) -> np.ndarray:
        """One increasing number per pair."""
        return pair_keys(self.users, self.items, len(self.item_ids))

    def subset(self, rows: np.ndarray) -> Clicks:
        """The clicks of some rows (a mask or increasing positions), over the same ids."""
        each = ("users", "items", "counts", "times", "first_rows", "weights", "marks")
        columns: dict[str, Any] = {name: getattr(self, name) for name in each}
        return replace(self, **{name: None if own is None else own[rows] for name, own in columns.items()})

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
    keys = np.multiply(users, n_items, dtype=np.int64)
    keys += items
    return keys


@dataclass(frozen=True)
class LogRows:
    """The rows of a log that are clicks, in their order."""

    table: pa.Table
    """The columns that were asked for besides those of users and items."""
    columns: Columns
    rows: np.ndarray | None
    """Their numbers in the source; None where every row is a click."""
    users: np.ndarray
    items: np.ndarray
    user_ids: Ids
    item_ids: Ids
    origin: Origin


def read_rows(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    query: str | None = None,
    weight: str | None = None,
    trusted: str | None = None,
    on_missing: str = "drop",
) -> LogRows:
    """Read a log in any form and give every id a row number; rows without an id are left out, or refused."""
    if on_missing not in ("drop", "refuse"):
        raise SettingError(f"on_missing is '{on_missing}'; choose drop or refuse.")
    source = with_query(source, query)
    where, text = name_of(source), is_text(source)
    table, columns = read_log(source, user=user, item=item, time=time, weight=weight, trusted=trusted)
    total, rows = len(table), None

    def codes(kind: str, name: str) -> tuple[np.ndarray, Ids]:
        return encode(table[name], kind, where, name, from_text=text, drop=on_missing == "drop")

    users, user_ids = codes("user", columns.user)
    items, item_ids = codes("item", columns.item)
    clicked = (users >= 0) & (items >= 0)
    if not clicked.all():
        rows = np.flatnonzero(clicked)
        if not len(rows):
            raise DataError(f"No row of {where} has both a user and an item; name the columns that hold them.")
        table = filtered(table, clicked)  # ids of such rows alone are no users and no items
        (users, user_ids), (items, item_ids) = codes("user", columns.user), codes("item", columns.item)
    origin = Origin(total, total - len(users), _fingerprint(users, items, user_ids, item_ids, rows))
    further = [name for name in (columns.time, columns.weight, columns.trusted) if name]
    return LogRows(table.select(further), columns, rows, users, items, user_ids, item_ids, origin)


def with_query(source: Any, query: str | None) -> Any:
    """A database and a query are one source."""
    if query is None:
        return source
    if isinstance(source, Query):
        raise SettingError("The log is a query already; give one of them.")
    return Query(source, query)


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
) -> Clicks:
    """Read a log in any form, give every id a row number, and merge repeated clicks.

    ``known`` is a table of pairs whose ids are given row numbers too, though they may have no click. ``query`` says
    which rows of a database are the log. Rows without a user or an item are dropped (and counted in ``origin``), or
    refused. ``weight`` names a column of weights. ``trusted`` is a column, or a table of pairs with such a column,
    that says which clicks are right or wrong for sure.
    """
    column = trusted if isinstance(trusted, str) and not _is_place(trusted) else None
    log = read_rows(
        source, user=user, item=item, time=time, query=query, weight=weight, trusted=column, on_missing=on_missing
    )
    columns, where, user_ids, item_ids = log.columns, name_of(source), log.user_ids, log.item_ids
    times, time_type = (
        (None, None) if columns.time is None else read_times(log.table[columns.time], where, columns.time)
    )
    weights = None if weight is None else as_weights(log.table[weight], where, weight)
    marks = None if column is None else as_marks(log.table[column], where, column)
    first_of, origin = log.rows, log.origin
    if known is not None:
        others = read_rows(known, **columns_alike(columns, known))
        user_ids, item_ids = user_ids.extended(others.user_ids.values), item_ids.extended(others.item_ids.values)
    keys = pair_keys(log.users, log.items, len(item_ids))
    del log
    pa.default_memory_pool().release_unused()  # the text of the log, before as much is taken for its order
    keys, order = _sorted(keys)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(first, append=len(keys))
    keys, first_rows = keys[first], order[first]
    clicks = Clicks(
        users=(keys // len(item_ids)).astype(np.int32),
        items=(keys % len(item_ids)).astype(np.int32),
        user_ids=user_ids,
        item_ids=item_ids,
        counts=counts.astype(np.min_scalar_type(counts.max(initial=0))),  # mostly a byte each, of millions
        times=None if times is None else np.minimum.reduceat(times[order], first),
        columns=columns,
        time_type=time_type,
        first_rows=first_rows if first_of is None else first_of[first_rows],
        weights=None if weights is None else mean_weights(weights[order], first, counts),
        marks=None if marks is None else one_mark(marks[order], first, where),
        origin=origin,
    )
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


def _fingerprint(
    users: np.ndarray, items: np.ndarray, user_ids: Ids, item_ids: Ids, rows: np.ndarray | None
) -> str:
    """A hash of the pairs of a log, row by row, the same in whatever format they came."""
    made = hashlib.blake2b(digest_size=16)
    for ids in (user_ids, item_ids):
        text = pc.cast(ids.values, pa.large_string())
        made.update(f"{len(text)} ".encode())
        for buffer in text.buffers()[1:]:
            made.update(b"" if buffer is None else buffer)
    for codes in (users, items, *(() if rows is None else (rows,))):
        made.update(np.ascontiguousarray(codes).data)
    return made.hexdigest()


def _sorted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in increasing order, and where each was; of equal ones the first comes first.

    It is done in place where it can be: each further array of ten million numbers is 80 MB.
    """
    bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    kind = np.int32 if bits < 32 else np.int64
    keys <<= bits  # one sort of numbers is faster than one of places
    keys |= np.arange(len(keys), dtype=kind)
    keys.sort()
    order = np.empty(len(keys), kind)
    np.bitwise_and(keys, (1 << bits) - 1, out=order, casting="unsafe")
    keys >>= bits
    return keys, order


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
