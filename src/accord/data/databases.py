"""Logs in databases: a SQLite or DuckDB file, or the address of a server, and the query that gives the rows."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from accord.errors import DataError, first_line
from accord.extras import needed
from accord.memory import machine_memory, refuse_too_large
from accord.plain import open_plain

SQLITE_MAGIC, DUCKDB_MAGIC, DUCKDB_AT = b"SQLite format 3\0", b"DUCK", 8
"""What the files begin with, DuckDB's from its ninth byte."""
ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://?")
"""A scheme of two letters at least, and slashes; one of them may be forgotten."""
AT_ONCE = 1 << 16
"""Rows that are fetched at a time."""
LARGE, LONGEST = 1 << 24, 1 << 24
"""Bytes after which memory is asked, and that a cell of SQLite may have."""
POINTER = 16
"""Bytes of memory for a cell of a row, besides its value."""
ADVICE = "let the query give fewer rows, or shorter text"
TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"


@dataclass(frozen=True)
class Query:
    """A database and the query whose rows are the log.

    >>> Query("postgresql://ada:secret@host/shop", "SELECT user, item FROM clicks").name
    "the query of 'postgresql://…'"
    """

    place: str | Path
    sql: str | None = None
    """May be left out where a file has one table alone."""

    @property
    def name(self) -> str:
        """In messages; without a password."""
        return f"the query of '{self.shown}'"

    @property
    def shown(self) -> str:
        found = ADDRESS.match(str(self.place))
        return f"{found[1]}://…" if found else str(self.place)

    def __repr__(self) -> str:
        return f"Query({self.shown!r}, {self.sql!r})"

    def read(self) -> pa.Table:
        """Every row that the query gives."""
        if is_address(self.place):
            return self._of_server()
        try:
            with open_plain(Path(self.place)) as file:
                head = file.read(64)
        except DataError:
            raise
        except OSError as error:
            raise DataError(f"'{self.place}' cannot be opened: {error.strerror or error}.") from error
        if head.startswith(SQLITE_MAGIC):
            return self._of_sqlite()
        if head[DUCKDB_AT:].startswith(DUCKDB_MAGIC):
            return self._of_duckdb()
        raise DataError(f"'{self.place}' is no SQLite or DuckDB file, so there is nothing to query.")

    def _of_sqlite(self) -> pa.Table:
        address = f"{Path(self.place).resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as connection:
                connection.text_factory = _text
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
                sql = self.sql or self._only_table([name for (name,) in connection.execute(TABLES)])
                cursor = connection.execute(sql)
                return self._table([each[0] for each in cursor.description or ()], _fetched(cursor, self.name))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _of_duckdb(self) -> pa.Table:
        duckdb = needed("duckdb", f"Reading '{self.place}'")
        safe: dict[str, Any] = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
        try:
            with duckdb.connect(str(self.place), read_only=True, config=safe) as connection:
                memory = f"SET memory_limit = '{max(1, machine_memory() >> 21)}MiB'"  # half, the rest for the table
                connection.execute(memory)
                names = "SELECT table_name FROM information_schema.tables"
                sql = self.sql or self._only_table([name for (name,) in connection.execute(names).fetchall()])
                rows = connection.sql(sql)
                if rows is None:
                    return self._table([], [])
                return self._checked(_read_bounded(rows.to_arrow_reader(AT_ONCE), self.name))
        except duckdb.Error as error:
            raise self._failed(error) from error

    def _of_server(self) -> pa.Table:
        if not self.sql:
            raise DataError("An address of a database needs a query; say which rows are the log with query=SQL.")
        sqlalchemy = needed("sqlalchemy", f"Reading '{self.shown}'")
        address = ADDRESS.sub(r"\1://", str(self.place), count=1)  # a forgotten slash is put back
        try:
            engine = sqlalchemy.create_engine(address)
            with closing(_Disposed(engine)), engine.connect() as connection:
                rows = connection.execution_options(stream_results=True).execute(sqlalchemy.text(self.sql))
                return self._table(list(rows.keys()), _fetched(rows, self.name))
        except ImportError as error:
            raise DataError(f"'{self.shown}' needs a driver: {self._harmless(error)}.") from error
        except (sqlalchemy.exc.SQLAlchemyError, ValueError, OSError) as error:
            if isinstance(error, DataError):
                raise
            raise self._failed(error) from error

    def _table(self, names: list[str], fetched: Iterable[Sequence[Sequence[Any]]]) -> pa.Table:
        """A table of rows as a database gives them, block by block; a column has one type throughout."""
        if not names:
            raise DataError(f"The query of '{self.shown}' gives no columns; let it begin with SELECT.")
        blocks = [[list(column) for column in zip(*rows, strict=True)] for rows in fetched]
        if not blocks:
            return pa.Table.from_arrays([pa.nulls(0, pa.string()) for _ in names], names)
        columns = [_column(name, [value for block in blocks for value in block[k]]) for k, name in enumerate(names)]
        return self._checked(pa.Table.from_arrays(columns, names))

    def _checked(self, table: pa.Table) -> pa.Table:
        if len(set(table.column_names)) < len(table.column_names):
            raise DataError(f"The query of '{self.shown}' gives a column twice; give each its own name.")
        return table

    def _only_table(self, names: list[str]) -> str:
        if len(names) == 1:
            quoted = names[0].replace('"', '""')
            return f'SELECT * FROM "{quoted}"'
        held = f"has the tables {', '.join(sorted(names)[:20])}" if names else "has no table"
        raise DataError(f"'{self.place}' {held}; say which rows are the log with query=SQL.")

    def _failed(self, error: Exception) -> DataError:
        return DataError(f"The query of '{self.shown}' failed: {self._harmless(error)}.")

    def _harmless(self, error: Exception) -> str:
        """A driver's message without any word of the address, which may be a password."""
        words = first_line(error)
        found = ADDRESS.match(str(self.place))
        if not found:
            return words
        rest = str(self.place)[found.end() :]
        words = words.replace(str(self.place), self.shown).replace(rest, "…")
        pieces = {piece for text in (rest, unquote(rest)) for piece in re.split(r"[:/@?&=,;\s]+", text)}
        for piece in sorted(pieces, key=len, reverse=True):
            words = words.replace(piece, "…") if len(piece) > 1 else words
        return words


class _Disposed:
    """An engine whose connections are closed when it is."""

    def __init__(self, engine: Any) -> None:
        self.close = engine.dispose


def is_address(place: object) -> bool:
    """Whether a place is the address of a database, and no path."""
    return isinstance(place, str) and ADDRESS.match(place) is not None and not Path(place).exists()


def is_database(path: Path, head: bytes) -> bool:
    return head.startswith(SQLITE_MAGIC) or head[DUCKDB_AT:].startswith(DUCKDB_MAGIC)


def _text(raw: bytes) -> str | bytes:
    """SQLite does not check that text is text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _fetched(rows: Iterable[Sequence[Any]], what: str) -> Iterator[list[Sequence[Any]]]:
    """Rows, many at a time, as long as memory suffices for the table that is made of them."""
    block, size, total = list[Sequence[Any]](), 0, 0
    for row in rows:
        block.append(row)
        size += POINTER * len(row) + sum(map(sys.getsizeof, row))
        if len(block) >= AT_ONCE or size >= LARGE:
            total += size
            refuse_too_large(total, f"The table of {what}", ADVICE)
            yield block
            block, size = [], 0
    if block:
        yield block


def _read_bounded(batches: pa.RecordBatchReader, what: str) -> pa.Table:
    """The same of batches, of which each is as large as the next, more or less."""
    read, largest = list[pa.RecordBatch](), 0
    for batch in batches:
        read.append(batch)
        largest = max(largest, batch.nbytes)
        refuse_too_large(2 * largest, f"The table of {what}", ADVICE)
    return pa.Table.from_batches(read, batches.schema)


def _column(name: str, values: list[Any]) -> pa.Array:
    """Values of one type; a database without types, such as SQLite, may mix numbers and text in a column."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        if set(kinds) <= {"int", "float", "str", "Decimal", "UUID", "bool"}:
            return pa.array([None if value is None else str(value) for value in values])
    raise DataError(
        f"Column '{name}' of the query holds values of several types ({', '.join(kinds)}); let the query cast it."
    )
