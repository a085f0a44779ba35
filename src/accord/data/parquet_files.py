"""Parquet files, each looked at before it is read: what its pages will become in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from accord.data.columns import begun
from accord.data.parquet_pages import (
    DICTIONARY_PAGE,
    FIXED,
    TEXT,
    Chunk,
    Page,
    content_at,
    footer_size,
    length_of,
    pages,
    read_chunks,
)
from accord.data.text_arrays import decoded_bytes
from accord.errors import DataError, first_line
from accord.memory import refuse_too_large
from accord.plain import open_plain

FOOTER = 80
"""Bytes of memory that a byte of the footer may become."""
MOST_PAGES = 1 << 20
"""Pages of a file; usual writers make one for 20,000 values."""
LEVELS = 12
"""Bytes of memory for a value of a list: where it lies in its list, and where the list ends."""
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}
DELTA_BYTE_ARRAY = 7
DICTIONARY = (2, 8)
"""Encodings whose values are numbers of a dictionary's."""
GROWING = 2
"""While text is read, its buffer is doubled now and then."""
ADVICE = "give fewer rows, or columns with shorter text"
DAMAGE = (
    *(pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, OverflowError, MemoryError),
    *(AttributeError, RuntimeError),
)


def read_parquet_file(path: Path, names: list[str] | None = None, *, inside: bool = False) -> pa.Table:
    """A Parquet file, or some columns of it, with every value looked at: text is UTF-8, and all rows are there.

    What cannot fit into memory is refused unread. A file ``inside`` a folder of ours is no link.
    """
    try:
        with open_plain(path, inside=inside) as raw:
            return _read(raw, f"'{path}'", names)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise _damaged(f"'{path}'", error) from error


def read_parquet_bytes(content: bytes, where: str) -> pa.Table:
    """The same of what was read already, which is named ``where`` in messages."""
    return _read(BytesIO(content), where, None)


def _read(raw: BinaryIO, where: str, names: list[str] | None) -> pa.Table:
    try:
        with _opened(raw, where) as file:
            slow, stored = _refuse_bombs(raw, where, names), length_of(raw)
            table = _read_slowly(file, where, stored, names, slow) if slow else file.read(names)
        table.validate(full=True)
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(where, error) from error
    _refuse_twice(table.column_names, where)
    if names is not None and set(table.column_names) != set(names):
        raise DataError(f"{begun(where)} has not the columns {', '.join(names)}.")
    return table


def head_of(path: Path, *, inside: bool = False) -> tuple[pa.Schema, int]:
    """The columns of a file and its rows, as its footer says."""
    try:
        with open_plain(path, inside=inside) as raw, _opened(raw, f"'{path}'") as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(f"'{path}'", error) from error
    _refuse_twice(schema.names, f"'{path}'")
    return schema, rows


def rows_of_groups(path: Path) -> list[int]:
    """How many rows each group of rows of a file has, as its footer says."""
    try:
        with open_plain(path) as raw, _opened(raw, f"'{path}'") as file:
            return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(f"'{path}'", error) from error


def stream_parquet_file(
    path: Path, names: list[str], rows: int, *, inside: bool = False, groups: Sequence[int] | None = None
) -> Iterator[pa.Table]:
    """Some columns of a Parquet file, or of some of its groups of rows, at most so many rows at a time, each value
    looked at.

    A group of rows that cannot fit into memory is refused before anything of it is read.
    """
    where = f"'{path}'"
    try:
        with open_plain(path, inside=inside) as raw, _opened(raw, where) as file:
            groups = range(file.num_row_groups) if groups is None else groups
            missing = sum(file.metadata.row_group(group).num_rows for group in groups)
            for group in groups:
                slow = _refuse_bombs(raw, where, names, group)
                size = min(rows, slow) if slow else rows
                for batch in file.iter_batches(size, [group], names, use_threads=False):
                    table = pa.Table.from_batches([batch])
                    table.validate(full=True)
                    missing -= len(table)
                    yield table.select(names)
            if missing:
                raise ValueError(f"it has other rows than the {file.metadata.num_rows:,} of its footer")
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(where, error) from error


def _refuse_twice(names: list[str], where: str) -> None:
    if len(set(names)) < len(names):
        raise DataError(f"{begun(where)} names a column twice; give each its own name.")


def _damaged(where: str, error: Exception) -> DataError:
    return DataError(
        f"{begun(where)} is not a Parquet file, though its name says so, or damaged: {first_line(error)}."
    )


def is_whole(path: Path) -> bool:
    """Whether a table of a folder of ours is not there, or can be opened and has rows."""
    try:
        if not path.is_file():
            return True
        with open_plain(path, inside=True) as raw, _opened(raw, f"'{path}'") as file:
            return file.metadata.num_rows > 0
    except (DataError, *DAMAGE):
        return False


def parquet_names(path: Path, *, inside: bool = False) -> list[str]:
    """The columns of a table; none where it cannot be read, and its reader says why."""
    try:
        with open_plain(path, inside=inside) as raw, _opened(raw, f"'{path}'") as file:
            return list(file.schema_arrow.names)
    except (DataError, *DAMAGE):
        return []


def parquet_facts(path: Path, *, inside: bool = False) -> dict[bytes, bytes]:
    """What a table says of itself besides its columns; nothing where it cannot be read."""
    try:
        with open_plain(path, inside=inside) as raw, _opened(raw, f"'{path}'") as file:
            return dict(file.schema_arrow.metadata or {})
    except (DataError, *DAMAGE):
        return {}


def _opened(raw: BinaryIO, where: str, **more: Any) -> pyarrow.parquet.ParquetFile:
    """The footer of an open file; one that would be too large in memory is refused."""
    refuse_too_large(FOOTER * footer_size(raw), begun(where), ADVICE)
    raw.seek(0)
    return pyarrow.parquet.ParquetFile(pa.PythonFile(raw, "r"), **more)


# -- what will be in memory --------------------------------------------------------------------------------


@dataclass
class _Need:
    """What a column will take in memory at most."""

    fixed: int = 0
    """Bytes of numbers, of pages, and of where texts end."""
    plain: int = 0
    """Bytes of text that pages hold."""
    repeated: int = 0
    """Bytes of text that comes out of dictionaries, if every row had the longest."""
    indices: int = 0
    """Bytes where such text stays in its dictionaries."""
    largest_text: int = 0
    """Bytes that a text of a page which shares beginnings may have."""

    @property
    def text(self) -> int:
        return self.plain + self.repeated


def _refuse_bombs(raw: BinaryIO, where: str, names: list[str] | None, group: int | None = None) -> int:
    """Refuse what cannot fit, of all groups of rows or of one. Rows to read at a time, where the sizes of texts are
    known only then; else 0."""
    needs: dict[str, _Need] = {}
    chunks, count = [one for one in read_chunks(raw) if group in (None, one.group)], 0
    for chunk in chunks:
        name = chunk.leaf.name
        if names is None or any(name == one or name.startswith(f"{one}.") for one in names):
            count += _add(needs.setdefault(name, _Need()), raw, chunk, count, where)
    rows = max((sum(c.rows for c in chunks if c.leaf.name == name) for name in needs), default=0)
    what, stored = f"{begun(where)} with {rows:,} rows", length_of(raw)
    fixed = sum(need.fixed for need in needs.values())
    refuse_too_large(fixed + GROWING * sum(one.plain for one in needs.values()), what, ADVICE, stored)
    try:
        refuse_too_large(fixed + GROWING * sum(one.text for one in needs.values()), what, ADVICE, stored)
    except DataError:
        refuse_too_large(sum(need.indices for need in needs.values()), what, ADVICE, stored)
        for name, need in needs.items():
            if need.repeated:  # the texts that rows have, where their number times the longest is too much
                need.repeated = _repeated(raw, where, name, need.repeated)
        refuse_too_large(fixed + GROWING * sum(one.text for one in needs.values()), what, ADVICE, stored)
    largest = max((need.largest_text for need in needs.values()), default=0)
    return max(1, SLOWLY // largest) if largest else 0


SLOWLY = 1 << 26
"""Bytes of text that are read at a time where texts share beginnings."""


def _add(need: _Need, raw: BinaryIO, chunk: Chunk, before: int, where: str) -> int:
    """Add what a chunk of a column will take; gives its number of pages."""
    leaf, text = chunk.leaf, chunk.leaf.kind == TEXT
    count = values = longest = largest = 0
    for page in pages(raw, chunk):
        count, largest = count + 1, max(largest, page.size)
        if before + count > MOST_PAGES:
            raise DataError(f"{begun(where)} has more than {MOST_PAGES:,} pages; write it again with larger ones.")
        refuse_too_large(page.size, f"A page of {where}", ADVICE)
        if page.kind == DICTIONARY_PAGE:
            longest = _longest(raw, chunk, page) if text else 0
            need.indices += GROWING * page.size
            continue
        values += page.values
        if text and page.encoding in DICTIONARY:
            need.repeated += page.values * longest
            need.indices += 8 * page.values
        elif text and page.encoding == DELTA_BYTE_ARRAY:
            need.largest_text = max(need.largest_text, page.size)
        elif text:
            need.plain += page.size
            need.indices += GROWING * page.size
    values = max(values, 0 if leaf.lists else chunk.rows)
    nested = LEVELS * (leaf.lists + leaf.gaps) if leaf.lists or leaf.gaps > 1 else 1
    need.fixed += values * (_width(leaf.kind, leaf.length) + nested) + 2 * largest
    return count


def _width(kind: int, length: int) -> int:
    """Bytes of a value in memory: of text where it ends, of times 8, of decimal numbers up to 32."""
    return max(32, length) if kind == FIXED else {0: 1, 1: 8, 4: 4, TEXT: 8}.get(kind, 16)


def _longest(raw: BinaryIO, chunk: Chunk, page: Page) -> int:
    """Bytes of the longest text of a dictionary; of the whole page where it cannot be unpacked here."""
    content: Any = content_at(raw, page.packed, page.at)
    if chunk.codec:
        try:
            content = pa.decompress(content, page.size, CODECS[chunk.codec], asbytes=True)
        except (pa.ArrowException, KeyError, ValueError, OSError):
            return page.size
    at, longest, end = 0, 0, len(content)
    while at + 4 <= end:
        length = int.from_bytes(content[at : at + 4], "little")
        longest, at = max(longest, length), at + 4 + length
    return min(longest, page.size)


def _repeated(raw: BinaryIO, where: str, name: str, most: int) -> int:
    """Bytes of the texts of a column that come out of dictionaries, one for each row that has them."""
    total = 0
    with _opened(raw, where, read_dictionary=[name]) as file:
        for column in file.read([name]).columns:
            for chunk in column.chunks:
                while pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
                    chunk = chunk.flatten()
                if not pa.types.is_dictionary(chunk.type):
                    return most
                total += decoded_bytes(pa.chunked_array([chunk]))
    return total


def _read_slowly(file: Any, where: str, stored: int, names: list[str] | None, rows: int) -> pa.Table:
    """Texts that share beginnings are few bytes in a file and may be many in memory: a few rows at a time."""
    batches, before = [], 0
    for batch in file.iter_batches(batch_size=rows, columns=names, use_threads=False):
        batches.append(batch)
        before += batch.nbytes
        words = f"{begun(where)}, of which {sum(one.num_rows for one in batches):,} rows were read,"
        refuse_too_large(before + GROWING * batch.nbytes, words, ADVICE, stored)
        refuse_too_large(GROWING * batch.nbytes + SLOWLY, words, ADVICE)
    schema = file.schema_arrow
    if names is not None:
        schema = pa.schema([field for field in schema if field.name in names])
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)
