"""Tables in: every form of click log becomes one Arrow table of the columns that were asked for."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from accord.data.columns import Columns, begun, choose_columns, named
from accord.data.columns import listed as listed
from accord.data.databases import Query, is_address, is_database
from accord.data.dialects import (
    CANDIDATES,
    SEPARATORS,
    STDIN,
    Bytes,
    WholeLineEnds,
    compression_of,
    estimated,
    separator_of,
    suffixes,
)
from accord.data.parquet_files import read_parquet_bytes
from accord.data.parquet_parts import ParquetParts, Share
from accord.errors import DataError, Stopped, first_line
from accord.plain import open_plain

READABLE = (
    "CSV (.csv), TSV (.tsv, .rating) or RecBole (.inter), also compressed (.gz, .zst, .bz2), Parquet (.parquet), a "
    "folder of Parquet files, or a database (.sqlite, .duckdb)"
)
PARQUET_MAGIC = b"PAR1"
HEAD = 1 << 16
"""Bytes that the header of a text file must fit into."""
BLOCK = 1 << 22
"""Bytes of a text file that are parsed at a time; no row may be longer."""
NAME_KEY, TEXT_KEY = b"accord.source", b"accord.text"
"""Metadata of a table that was read from a file."""


@dataclass(frozen=True)
class OpenLog:
    """A log whose columns are chosen and whose rows may not have been read yet."""

    table: Any
    columns: Columns
    where: str
    """The words that name it in messages."""

    @property
    def rows(self) -> int:
        """How many there are, as far as that is known before they are read."""
        if isinstance(self.table, TextFile):
            return 0
        return self.table.rows if isinstance(self.table, ParquetParts) else self.table.num_rows

    def read(self) -> pa.Table:
        return _materialise(self.table, self.columns.names, self.where)

    def column(self, name: str) -> pa.ChunkedArray:
        """One of them, whole."""
        return _read(self.table, [name])[name]

    def stream(self, rows: int, share: Share | None = None) -> Iterator[pa.Table]:
        """All rows, or a share of those in Parquet files, at most so many at a time."""
        if isinstance(self.table, ParquetParts):
            yield from self.table.stream(self.columns.names, rows, share)
            return
        table = self.read()
        for start in range(0, len(table), rows):
            yield table.slice(start, rows)


def open_log(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    trusted: str | None = None,
) -> OpenLog:
    """Choose the user, item and (if there is one) time column of a file or of a table held in memory, and further
    ones that are named."""
    table, where = open_table(source)
    columns = choose_columns(table.column_names, where, user=user, item=item, time=time)
    given = {"weight": weight, "trusted": trusted}
    more = {what: named(name, what, table.column_names, where) for what, name in given.items()}
    return OpenLog(table, replace(columns, **more), where)


def read_log(source: Any, **columns: Any) -> tuple[pa.Table, Columns]:
    """The columns of a log that `open_log` chooses."""
    log = open_log(source, **columns)
    return log.read(), log.columns


def open_table(source: Any) -> tuple[Any, str]:
    """A table, or files of which no row is read yet, and the words that name it in messages."""
    if isinstance(source, Query):
        return source.read(), source.name
    if is_address(source):
        raise DataError("An address of a database needs a query; say which rows are the log with query=SQL.")
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _open_file(path), f"'{path}'"
    if isinstance(source, pa.Table):
        return source, name_of(source)
    if hasattr(source, "tocoo"):
        return _from_sparse(source), "the matrix"
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # a lazy frame of polars
        source = source.collect()
    try:
        return pa.table(source), "the table"
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _no_table(source, error) from error


def _no_table(source: Any, error: Exception) -> DataError:
    """Why an object is no log: a column of several types, or something else altogether."""
    if hasattr(source, "columns") and len(error.args) > 1:  # of pandas; Arrow names the column last
        return DataError(
            f"The table cannot be read: {error.args[-1]} ({error.args[0]}); give each column values of one type."
        )
    words = first_line(error) if str(error) else type(error).__name__
    if hasattr(source, "columns"):
        return DataError(f"The table cannot be read: {words}; give each column a name and values of one type.")
    return DataError(
        f"A {type(source).__name__} is not a click log ({words}); "
        "give a file, a pandas, polars or pyarrow table, or a SciPy CSR matrix."
    )


def read_table(source: Any) -> tuple[pa.Table, str]:
    """All columns of a file or of a table held in memory, and the words that name it in messages.

    A table that was read from a file can be given instead of the file: it knows the file, and whether all was text.
    """
    table, where = open_table(source)
    return _read(table), where


def read_standard_input(content: bytes) -> pa.Table:
    """What came through the standard input: Parquet or text, compressed or not."""
    if content.startswith(PARQUET_MAGIC):
        return _from_file(read_parquet_bytes(content, "the standard input"), STDIN, text=False)
    source = Bytes(STDIN, content, compression_of(content[:8]))
    return _open_bytes(source, ".csv").read()


def filtered(table: pa.Table, kept: np.ndarray) -> pa.Table:
    """Some rows of a table; Arrow cannot take rows of the view types that polars uses."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    schema, taken = table.schema, {field.type for field in table.schema} & set(views)
    if taken:
        table = table.cast(pa.schema([field.with_type(views.get(field.type, field.type)) for field in schema]))
    return table.filter(pa.array(kept)).cast(schema) if taken else table.filter(pa.array(kept))


def name_of(source: Any) -> str:
    """The words that name a source in messages."""
    if isinstance(source, Query):
        return source.name
    if isinstance(source, pa.Table):
        return (source.schema.metadata or {}).get(NAME_KEY, b"the table").decode()
    return f"'{source}'" if isinstance(source, str | os.PathLike) else "the table"


def is_text(source: Any) -> bool:
    """Whether all that a source holds is text: a file of text, or what was read of one."""
    if isinstance(source, pa.Table):
        return TEXT_KEY in (source.schema.metadata or {})
    return isinstance(source, str | os.PathLike) and suffixes(Path(source))[0] in SEPARATORS


def _from_file(table: pa.Table, path: Path, *, text: bool) -> pa.Table:
    """A table that knows which file it was read from, and what else the file said of itself."""
    own = {} if text else {k: v for k, v in (table.schema.metadata or {}).items() if k not in (NAME_KEY, TEXT_KEY)}
    name = "the standard input" if path == STDIN else f"'{path}'"
    return table.replace_schema_metadata({**own, NAME_KEY: name, **({TEXT_KEY: ""} if text else {})})


def _read(table: Any, names: list[str] | None = None) -> pa.Table:
    """A table, read if it was not yet."""
    if isinstance(table, TextFile):
        return table.read(names)
    return _from_file(table.read(names), table.path, text=False) if isinstance(table, ParquetParts) else table


def _materialise(table: Any, names: list[str], where: str) -> pa.Table:
    twice = [name for name in names if table.column_names.count(name) > 1]
    if twice:
        raise DataError(f"{begun(where)} has several columns '{twice[0]}'; give each its own name.")
    table = _read(table, names).select(names)
    if table.num_rows == 0:
        raise DataError(f"{begun(where)} holds no rows; give a log with at least a few clicks.")
    return table


@dataclass(frozen=True)
class TextFile:
    """A delimited text file whose header has been read and whose rows have not."""

    source: Bytes
    separator: str
    column_names: list[str]
    has_header: bool

    @property
    def path(self) -> Path:
        return self.source.path

    def read(self, names: list[str] | None = None) -> pa.Table:
        # Everything is read as text, so that ids such as 007 survive; numbers are recognised later.
        wanted = names or self.column_names
        try:
            quoted = estimated(self.source, len(wanted))
            plain = not quoted and self.source.content is None and self.source.compression is None
            with closing(WholeLineEnds(self.source.open())) as lines:
                table = pyarrow.csv.read_csv(
                    self.path if plain else lines,  # Arrow reads a file itself faster
                    read_options=pyarrow.csv.ReadOptions(
                        column_names=self.column_names,
                        skip_rows_after_names=int(self.has_header),  # a row may have several lines
                        block_size=BLOCK,
                    ),
                    parse_options=pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=quoted),
                    convert_options=pyarrow.csv.ConvertOptions(
                        include_columns=wanted, column_types={name: pa.string() for name in wanted}
                    ),
                )
        except DataError:
            raise
        except pa.ArrowCancelled as error:  # by a signal, whose handler has run by now
            raise Stopped from error
        except (pa.ArrowException, OSError, EOFError) as error:
            reason = first_line(error)
            if "straddl" in reason:
                reason = f"a row has more than {BLOCK >> 10} KiB, or a quote that is never closed"
            raise DataError(f"'{self.path}' cannot be read as text with columns: {reason}.") from error
        return _from_file(table, self.path, text=True)


def _open_file(path: Path) -> Any:
    if path.is_dir():
        return open_parts(path)
    suffix, compression = suffixes(path)
    source = Bytes(path, None, compression)
    try:
        with open_plain(path) as file:
            head = file.read(HEAD)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"'{path}' cannot be opened: {error.strerror or error}.") from error
    except ValueError as error:  # a NUL in the name
        raise DataError(f"{str(path)!r} is no name of a file.") from error
    if not head:
        raise DataError(f"'{path}' is empty; give a log with at least a few clicks.")
    if suffix == ".parquet" and compression is None:
        return ParquetParts.of(path, [path])
    if is_database(path, head):
        return Query(path).read()
    if suffix not in SEPARATORS:
        raise DataError(f"'{path}' has a name accord does not know; give {READABLE}.")
    return _open_bytes(source, suffix)


def _open_bytes(source: Bytes, suffix: str) -> TextFile:
    """A text file, or what was read of the standard input."""
    where = "the standard input" if source.path == STDIN else f"'{source.path}'"
    try:
        with source.open() as file:
            head = file.read(HEAD)
    except DataError:
        raise
    except (OSError, EOFError, pa.ArrowException) as error:
        raise DataError(f"{begun(where)} cannot be decompressed: {first_line(error)}.") from error
    if not head:
        raise DataError(f"{begun(where)} is empty; give a log with at least a few clicks.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{begun(where)} is text in UTF-16; save it as UTF-8.")
    if head.startswith(PARQUET_MAGIC) or b"\0" in head:
        raise DataError(f"{begun(where)} is not a text file, though its name says so; give {READABLE}.")
    return _open_text(source, head, suffix, where)


def parts_of(folder: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names; names that begin with _ or . are not data."""
    found = [path for path in folder.iterdir() if path.suffix.lower() == ".parquet" and path.name[0] not in "_."]
    return sorted(path for path in found if path.is_file())


def open_parts(folder: Path) -> ParquetParts:
    """A log that was written as several Parquet files of the same columns."""
    files = parts_of(folder)
    if not files:
        raise DataError(f"'{folder}' is a folder without Parquet files; give the log file in it.")
    return ParquetParts.of(folder, files)


def _open_text(source: Bytes, head: bytes, suffix: str, where: str) -> TextFile:
    separator = separator_of(head, SEPARATORS[suffix], len(head) < HEAD)
    cells = _first_row(where, separator, head)
    if len(cells) < 2:
        signs = list(CANDIDATES.values())
        raise DataError(
            f"{begun(where)} has one column in its first line; columns are separated by a {', '.join(signs[:-1])} "
            f"or {signs[-1]}."
        )
    if all(_is_number(cell) for cell in cells):  # the authors' split files have no header
        return TextFile(source, separator, [str(k + 1) for k in range(len(cells))], has_header=False)
    if suffix == ".inter":
        cells = [cell.split(":", 1)[0] for cell in cells]
    if len(set(cells)) < len(cells):
        raise DataError(f"{begun(where)} names a column twice in its first line; give each its own name.")
    return TextFile(source, separator, cells, has_header=True)


def _first_row(where: str, separator: str, head: bytes) -> list[str]:
    """The cells of the first row, which has several lines where a quoted cell has."""
    lines = head.splitlines(keepends=True)
    reader = csv.reader(_decoded(lines), delimiter=separator)
    try:
        cells = [cell.strip() for cell in next(reader, [])]
    except UnicodeDecodeError as error:
        raise DataError(f"{begun(where)} is not UTF-8 text: byte {error.start} of its first line.") from error
    except csv.Error as error:
        raise DataError(f"{begun(where)} has a first line that cannot be read: {first_line(error)}.") from error
    if len(head) == HEAD and reader.line_num == len(lines):
        raise DataError(
            f"{begun(where)} has a first line of more than {HEAD >> 10} KiB; give one line for each row."
        )
    return cells


def _decoded(lines: list[bytes]) -> Iterator[str]:
    """Lines as text, one by one: what follows the header may be of another encoding where nobody asks for it."""
    for k, line in enumerate(lines):
        yield line.decode("utf-8" if k else "utf-8-sig")


def _from_sparse(matrix: Any) -> pa.Table:
    coo = matrix.tocoo()
    kept = coo.data != 0
    return pa.table({"user": coo.row[kept], "item": coo.col[kept], "value": coo.data[kept]})


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
