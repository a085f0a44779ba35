"""Tables in: every form of click log becomes one Arrow table of the columns that were asked for."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from accord.data.parquet_files import read_parquet_file
from accord.errors import DataError, first_line, nearest
from accord.memory import refuse_too_large
from accord.plain import open_plain, size_of

USER_NAMES = ("user", "user_id", "userid", "uid", "user id")
ITEM_NAMES = ("item", "item_id", "itemid", "iid", "movie_id", "movieid", "product_id", "article_id", "item id")
TIME_NAMES = ("ts", "timestamp", "time", "datetime", "date")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".rating": "\t", ".negative": "\t", ".noisy": "\t"}
READABLE = "CSV (.csv), TSV (.tsv, .rating), Parquet (.parquet) or RecBole (.inter)"
PARQUET_MAGIC = b"PAR1"
HEAD = 1 << 16
"""Bytes that the header of a text file must fit into."""
BLOCK = 1 << 22
"""Bytes of a text file that are parsed at a time; no row may be longer."""
NAMES_SHOWN = 20
NAME_KEY, TEXT_KEY = b"accord.source", b"accord.text"
"""Metadata of a table that was read from a file."""
CELL, CLICK = 8, 40
"""Bytes of memory for a cell of text, besides its letters, and for a row that becomes a click."""


@dataclass(frozen=True)
class Columns:
    """Which columns of the input hold what; ``note`` says how they were found."""

    user: str
    item: str
    time: str | None = None
    note: str = ""


def read_log(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    like: Columns | None = None,
) -> tuple[pa.Table, Columns]:
    """The user, item and (if there is one) time column of a file or of a table held in memory."""
    table, where = open_table(source)
    columns = choose_columns(table.column_names, where, user=user, item=item, time=time, like=like)
    wanted = [columns.user, columns.item] + ([columns.time] if columns.time else [])
    return _materialise(table, wanted, where), columns


def open_table(source: Any) -> tuple[Any, str]:
    """A table, or a lazily read text file, and the words that name it in messages."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _open_file(path), f"'{path}'"
    if isinstance(source, pa.Table):
        return source, name_of(source)
    if hasattr(source, "tocoo"):
        return _from_sparse(source), "the matrix"
    try:
        return pa.table(source), "the table"
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"A {type(source).__name__} is not a click log ({first_line(error)}); "
            "give a file, a pandas, polars or pyarrow table, or a SciPy CSR matrix."
        ) from error


def read_table(source: Any) -> tuple[pa.Table, str]:
    """All columns of a file or of a table held in memory, and the words that name it in messages.

    A table that was read from a file can be given instead of the file: it knows the file, and whether all was text.
    """
    table, where = open_table(source)
    return (table.read() if isinstance(table, TextFile) else table), where


def name_of(source: Any) -> str:
    """The words that name a source in messages."""
    if isinstance(source, pa.Table):
        return (source.schema.metadata or {}).get(NAME_KEY, b"the table").decode()
    return f"'{source}'" if isinstance(source, str | os.PathLike) else "the table"


def is_text(source: Any) -> bool:
    """Whether all that a source holds is text: a file of text, or what was read of one."""
    if isinstance(source, pa.Table):
        return TEXT_KEY in (source.schema.metadata or {})
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in SEPARATORS


def _from_file(table: pa.Table, path: Path, *, text: bool) -> pa.Table:
    """A table that knows which file it was read from."""
    return table.replace_schema_metadata({NAME_KEY: f"'{path}'", **({TEXT_KEY: ""} if text else {})})


def _materialise(table: Any, names: list[str], where: str) -> pa.Table:
    twice = [name for name in names if table.column_names.count(name) > 1]
    if twice:
        raise DataError(f"{begun(where)} has several columns '{twice[0]}'; give each its own name.")
    if isinstance(table, TextFile):
        table = table.read(names)
    table = table.select(names)
    if table.num_rows == 0:
        raise DataError(f"{begun(where)} holds no rows; give a log with at least a few clicks.")
    return table


def begun(where: str) -> str:
    """The words that name a source, at the beginning of a sentence; a path keeps its letters."""
    return where[:1].upper() + where[1:]


def listed(names: list[str]) -> str:
    """Names of columns in a message: the first few, each cut to a length."""
    shown = ", ".join(" ".join(name[:80].split()) for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


@dataclass(frozen=True)
class TextFile:
    """A delimited text file whose header has been read and whose rows have not."""

    path: Path
    separator: str
    column_names: list[str]
    has_header: bool

    def read(self, names: list[str] | None = None) -> pa.Table:
        # Everything is read as text, so that ids such as 007 survive; numbers are recognised later.
        wanted = names or self.column_names
        try:
            size = size_of(self.path)
            refuse_too_large(size, f"'{self.path}'", "give a smaller file")
            quoted, rows = _quotes_and_rows(self.path)
            need = size + rows * (CELL * len(wanted) + CLICK)
            refuse_too_large(need, f"'{self.path}' with {rows:,} rows", "give fewer rows")
            with _WholeLineEnds(self.path) if quoted else nullcontext(self.path) as source:
                table = pyarrow.csv.read_csv(
                    source,
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
        except (pa.ArrowException, OSError) as error:
            reason = first_line(error)
            if "straddl" in reason:
                reason = f"a row has more than {BLOCK >> 10} KiB, or a quote that is never closed"
            raise DataError(f"'{self.path}' cannot be read as text with columns: {reason}.") from error
        return _from_file(table, self.path, text=True)


class _WholeLineEnds(io.FileIO):
    """A file whose reads do not end at a carriage return.

    After one, Arrow drops a line feed that begins the next block, even inside quotes.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(size) or b""
        whole = block.rstrip(b"\r")
        if not whole or len(block) != size:  # nothing else, or the end of the file
            return block
        self.seek(len(whole) - len(block), os.SEEK_CUR)
        return whole


def _quotes_and_rows(path: Path) -> tuple[bool, int]:
    """Whether a cell may hold line ends, and the most rows that there are.

    Where no cell can, rows are found a third faster.
    """
    quoted, rows = False, 1
    with open_plain(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            quoted = quoted or b'"' in block
            rows += block.count(b"\n") + (block.count(b"\r") if b"\r" in block else 0)
    return quoted, rows


def _open_file(path: Path) -> pa.Table | TextFile:
    if path.is_dir():
        raise DataError(f"'{path}' is a folder; give the log file in it.")
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
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _from_file(read_parquet_file(path), path, text=False)
    if suffix not in SEPARATORS:
        raise DataError(f"'{path}' has a name accord does not know; give {READABLE}.")
    if head.startswith(PARQUET_MAGIC) or b"\0" in head:
        raise DataError(f"'{path}' is not a text file, though its name says so; give {READABLE}.")
    return _open_text(path, SEPARATORS[suffix], head)


def _open_text(path: Path, separator: str, head: bytes) -> TextFile:
    cells = _first_row(path, separator, head)
    if len(cells) < 2:
        raise DataError(
            f"'{path}' has one column in its first line; columns are separated by "
            f"{'a tab' if separator == chr(9) else 'a comma'} in {path.suffix} files."
        )
    if all(_is_number(cell) for cell in cells):  # the authors' split files have no header
        return TextFile(path, separator, [str(k + 1) for k in range(len(cells))], has_header=False)
    if path.suffix.lower() == ".inter":
        cells = [cell.split(":", 1)[0] for cell in cells]
    if len(set(cells)) < len(cells):
        raise DataError(f"'{path}' names a column twice in its first line; give each its own name.")
    return TextFile(path, separator, cells, has_header=True)


def _first_row(path: Path, separator: str, head: bytes) -> list[str]:
    """The cells of the first row, which has several lines where a quoted cell has."""
    lines = head.splitlines(keepends=True)
    reader = csv.reader(_decoded(lines), delimiter=separator)
    try:
        cells = [cell.strip() for cell in next(reader, [])]
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' is not UTF-8 text: byte {error.start} of its first line.") from error
    except csv.Error as error:
        raise DataError(f"'{path}' has a first line that cannot be read: {first_line(error)}.") from error
    if len(head) == HEAD and reader.line_num == len(lines):
        raise DataError(f"'{path}' has a first line of more than {HEAD >> 10} KiB; give one line for each row.")
    return cells


def _decoded(lines: list[bytes]) -> Iterator[str]:
    """Lines as text, one by one: what follows the header may be of another encoding where nobody asks for it."""
    for k, line in enumerate(lines):
        yield line.decode("utf-8" if k else "utf-8-sig")


def _from_sparse(matrix: Any) -> pa.Table:
    coo = matrix.tocoo()
    kept = coo.data != 0
    return pa.table({"user": coo.row[kept], "item": coo.col[kept]})


def choose_columns(
    names: list[str],
    where: str,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    like: Columns | None = None,
) -> Columns:
    """The columns that were named, or, where none was, those of a log that it is ``like``, or of usual names."""
    if like is not None:
        user = user or (like.user if like.user in names else None)
        item = item or (like.item if like.item in names else None)
    numbered = names == [str(k + 1) for k in range(len(names))]
    chosen_user = _named(user, "user", names, where) or _guessed(USER_NAMES, names)
    chosen_item = _named(item, "item", names, where) or _guessed(ITEM_NAMES, names)
    chosen_time = _guessed(TIME_NAMES, names) if time is None else None
    if time:  # named; an empty name means that there is none
        chosen_time = _named(time, "time", names, where)
    if numbered:  # no header: the first two columns are the pair
        chosen_user, chosen_item = chosen_user or "1", chosen_item or "2"
    for what, chosen in (("user", chosen_user), ("item", chosen_item)):
        if chosen is None:
            raise DataError(
                f"No {what} column found in {where} (it has {listed(names)}); call it '{what}', name it with "
                f"{what}=COLUMN, or add a first line of names if it has none."
            )
    if chosen_user is None or chosen_item is None or chosen_user == chosen_item:
        raise DataError(f"User and item are both column '{chosen_user}' of {where}; name two columns.")
    if chosen_time in (chosen_user, chosen_item):
        raise DataError(
            f"Column '{chosen_time}' of {where} cannot be the time as well; name another one with time=COLUMN."
        )
    note = f"user={chosen_user}, item={chosen_item}, time={chosen_time or 'none'}"
    return Columns(chosen_user, chosen_item, chosen_time, note + (" (no header row)" if numbered else ""))


def _named(name: str | None, what: str, names: list[str], where: str) -> str | None:
    if name is not None and name not in names:
        raise DataError(f"No column '{name}' in {where} for the {what}: {nearest(name, names)}")
    return name


def _guessed(candidates: tuple[str, ...], names: list[str]) -> str | None:
    by_folded = {name.lower(): name for name in reversed(names)}
    return next((by_folded[c] for c in candidates if c in by_folded), None)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
