"""The rows of a log that are clicks, in their order: in memory, or in files where there is no room for them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.coding import Coder
from accord.data.columns import Columns
from accord.data.databases import Query
from accord.data.ids import Ids, encode
from accord.data.marks import as_marks, as_weights
from accord.data.parquet_parts import Share
from accord.data.reading import OpenLog, filtered, is_text, open_log
from accord.data.times import read_times
from accord.errors import DataError, SettingError
from accord.stored import AT_ONCE, Growing, blocks, slices, trim

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
PER_ROW = 60
"""Bytes of memory that a row takes at most while a log is read, sorted and divided."""


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
class LogRows:
    """The rows of a log that are clicks, in their order."""

    columns: Columns
    rows: np.ndarray | None
    """Their numbers in the source; None where every row is a click."""
    users: np.ndarray
    items: np.ndarray
    user_ids: Ids
    item_ids: Ids
    values: dict[str, np.ndarray]
    """What else is known of each row: its time, its weight, its mark, as far as there are columns of them."""
    time_type: pa.DataType | None
    origin: Origin


def read_rows(
    source: Any,
    *,
    query: str | None = None,
    on_missing: str = "drop",
    memory: float | None = None,
    **columns: str | None,
) -> LogRows:
    """Read a log in any form and give every id a row number; rows without an id are left out, or refused.

    A log that would take more than ``memory`` bytes is read in a stream, and its rows are kept in files.
    """
    if on_missing not in ("drop", "refuse"):
        raise SettingError(f"on_missing is '{on_missing}'; choose drop or refuse.")
    source = with_query(source, query)
    log = open_log(source, **columns)
    read = _streamed if memory is not None and log.rows * PER_ROW > memory else _at_once
    return read(log, is_text(source), on_missing == "drop")


def with_query(source: Any, query: str | None) -> Any:
    """A database and a query are one source."""
    if query is None:
        return source
    if isinstance(source, Query):
        raise SettingError("The log is a query already; give one of them.")
    return Query(source, query)


def readers(log: OpenLog) -> dict[str, tuple[str, Callable[[pa.ChunkedArray], tuple[np.ndarray, Any]]]]:
    """The columns besides users and items, and how each is read: values, and their type."""
    columns, where = log.columns, log.where
    found: dict[str, Any] = {}
    if (time := columns.time) is not None:
        found["times"] = time, lambda column: read_times(column, where, time)
    if (weight := columns.weight) is not None:
        found["weights"] = weight, lambda column: (as_weights(column, where, weight), None)
    if (trusted := columns.trusted) is not None:
        found["marks"] = trusted, lambda column: (as_marks(column, where, trusted), None)
    return found


def no_clicks(where: str) -> DataError:
    return DataError(f"No row of {where} has both a user and an item; name the columns that hold them.")


def _at_once(log: OpenLog, text: bool, drop: bool) -> LogRows:
    """Every row of a log that is a click, in memory."""
    table, columns, where = log.read(), log.columns, log.where
    total, rows = len(table), None

    def codes(kind: str, name: str) -> tuple[np.ndarray, Ids]:
        return encode(table[name], kind, where, name, from_text=text, drop=drop)

    users, user_ids = codes("user", columns.user)
    items, item_ids = codes("item", columns.item)
    clicked = (users >= 0) & (items >= 0)
    if not clicked.all():
        rows = np.flatnonzero(clicked)
        if not len(rows):
            raise no_clicks(where)
        table = filtered(table, clicked)  # ids of such rows alone are no users and no items
        (users, user_ids), (items, item_ids) = codes("user", columns.user), codes("item", columns.item)
    read = {what: of(table[name]) for what, (name, of) in readers(log).items()}
    values = {what: own for what, (own, _) in read.items()}
    time_type = read["times"][1] if "times" in read else None
    origin = Origin(total, total - len(users), _fingerprint(users, items, user_ids, item_ids, rows))
    return LogRows(columns, rows, users, items, user_ids, item_ids, values, time_type, origin)


@dataclass(frozen=True)
class Scanned:
    """The rows of a log, or of a share of it, that are clicks, in files; their ids are numbered, in memory."""

    of_users: Coder
    of_items: Coder
    users: np.ndarray
    items: np.ndarray
    rows: np.ndarray | None
    """Their numbers in what was read; None where every row is a click."""
    total: int
    others: dict[str, Values]


def scan(log: OpenLog, text: bool, share: Share | None = None) -> Scanned:
    """Read a log, or a share of it, in a stream."""
    columns, where = log.columns, log.where
    of_users = Coder("user", where, columns.user, from_text=text)
    of_items = Coder("item", where, columns.item, from_text=text)
    files = [Growing(np.int32), Growing(np.int32)]
    others = {what: Values(*how) for what, how in readers(log).items()}
    kept: Growing | None = None
    total = 0
    for table in parts_of_log(log, of_users, share):
        users, has_user = of_users.plain(table[columns.user])
        items, has_item = of_items.plain(table[columns.item])
        clicked = has_user & has_item
        if kept is None and not clicked.all():  # mostly every row is a click
            kept = Growing(np.int64)
            for own in slices(total):
                kept.append(np.arange(own.start, own.stop))
        if kept is not None:
            kept.append(total + np.flatnonzero(clicked))
        total += len(table)
        if not clicked.all():
            mask = pa.array(clicked)
            users, items, table = users.filter(mask), items.filter(mask), filtered(table, clicked)
        files[0].append(of_users.codes(users))
        files[1].append(of_items.codes(items))
        for own in others.values():
            own.add(table)
    rows = None if kept is None else kept.array()
    return Scanned(of_users, of_items, files[0].array(), files[1].array(), rows, total, others)


def _streamed(log: OpenLog, text: bool, drop: bool) -> LogRows:
    """Every row of a log that is a click, in files; ids alone are held in memory."""
    found = scan(log, text)
    user_ids, item_ids = found.of_users.ids(drop), found.of_items.ids(drop)
    users, items, rows, total = found.users, found.items, found.rows, found.total
    if not len(users):
        raise no_clicks(log.where)
    read = {what: own.array(log, rows) for what, own in found.others.items()}
    values = {what: own for what, (own, _) in read.items()}
    time_type = read["times"][1] if "times" in read else None
    origin = Origin(total, total - len(users), _fingerprint(users, items, user_ids, item_ids, rows))
    trim()  # ids were looked up in large tables
    return LogRows(log.columns, rows, users, items, user_ids, item_ids, values, time_type, origin)


def parts_of_log(log: OpenLog, coder: Coder, share: Share | None = None) -> Iterator[pa.Table]:
    """A log, or a share of it, part after part, each at least as long as there are ids so far."""
    waiting: list[pa.Table] = []
    for table in log.stream(AT_ONCE, share):
        waiting.append(table)
        if sum(map(len, waiting)) >= max(AT_ONCE, len(coder)):
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


class Values:
    """Values of a column that is read part after part; where parts alone do not tell, it is read whole."""

    def __init__(self, name: str, read: Callable[[pa.ChunkedArray], tuple[np.ndarray, Any]]) -> None:
        self.name, self._read = name, read
        self._file: Growing | None = None
        self._kind: Any = None
        self._whole = False

    @property
    def unlike(self) -> bool:
        """Whether the parts that were read are of several types, or one of them could not be read by itself."""
        return self._whole

    def add(self, table: pa.Table) -> None:
        if self._whole or not len(table):
            return
        try:
            values, kind = self._read(table[self.name])
        except DataError:  # it may be sound as a whole; if not, the error shall count all of its rows
            self._whole = True
            return
        if self._file is None:
            self._file, self._kind = Growing(values.dtype), kind
        self._whole = (self._file.dtype, self._kind) != (values.dtype, kind)
        self._file.append(values)

    def array(self, log: OpenLog, rows: np.ndarray | None) -> tuple[np.ndarray, Any]:
        """The values, and their type."""
        if not self._whole and self._file is not None:
            return self._file.array(), self._kind
        column = log.column(self.name)
        values, kind = self._read(column if rows is None else column.take(pa.array(rows)))
        file = Growing(values.dtype)
        file.append(values)
        return file.array(), kind


def _fingerprint(
    users: np.ndarray, items: np.ndarray, user_ids: Ids, item_ids: Ids, rows: np.ndarray | None
) -> str:
    """A hash of the pairs of a log, row by row, the same in whatever format they came."""
    made = hash_of_ids(user_ids, item_ids)
    for codes in (users, items, *(() if rows is None else (rows,))):
        for (some,) in blocks(codes):
            made.update(np.ascontiguousarray(some).data)
    return made.hexdigest()


def hash_of_ids(user_ids: Ids, item_ids: Ids) -> Any:
    """What a fingerprint begins with; the row numbers of users follow, those of items, and the rows if some were
    dropped."""
    made = hashlib.blake2b(digest_size=16)
    for ids in (user_ids, item_ids):
        text = pc.cast(ids.values, pa.large_string())
        made.update(f"{len(text)} ".encode())
        for buffer in text.buffers()[1:]:
            made.update(b"" if buffer is None else buffer)
    return made
