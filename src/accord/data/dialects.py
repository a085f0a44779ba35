"""How a text file is written: what separates its columns, whether it is compressed, and where rows may end."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from accord.memory import fits, refuse_too_large
from accord.plain import open_plain, size_of

SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".rating": "\t", ".negative": "\t", ".noisy": "\t"}
"""The sign that separates columns where the rows themselves do not say."""
CANDIDATES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
BLOCK, LOOK = 1 << 20, 1 << 26
"""Bytes that are looked at together, and after which memory is asked."""
CELL, CLICK = 8, 40
"""Bytes of memory for a cell of text, besides its letters, and for a row that becomes a click."""
SHORTEST = 2
"""Bytes of a row at least: a sign between two columns, and the end of the line."""
LOOKED_AT = 20
"""Rows that say by which sign columns are separated."""
STDIN = Path("-")


@dataclass(frozen=True)
class Bytes:
    """A file, or what was read of the standard input; decompressed as it is read."""

    path: Path
    content: bytes | None = None
    compression: str | None = None

    @property
    def name(self) -> str:
        """At the beginning of a message."""
        return "The standard input" if self.path == STDIN else f"'{self.path}'"

    def size(self) -> int:
        """Bytes as they are stored."""
        return size_of(self.path) if self.content is None else len(self.content)

    def open(self) -> BinaryIO:
        raw = open_plain(self.path) if self.content is None else io.BytesIO(self.content)
        if self.compression is None:
            return raw
        return pa.input_stream(raw, compression=self.compression)  # pyright: ignore[reportReturnType]


def suffixes(path: Path) -> tuple[str, str | None]:
    """The suffix that says what a file is, and how it is compressed.

    >>> suffixes(Path("log.csv.gz"))
    ('.csv', 'gzip')
    """
    last = path.suffix.lower()
    if last in COMPRESSIONS:
        return Path(path.stem).suffix.lower(), COMPRESSIONS[last]
    return last, None


def compression_of(head: bytes) -> str | None:
    """How bytes without a name are compressed."""
    return next((how for magic, how in MAGIC.items() if head.startswith(magic)), None)


def separator_of(head: bytes, usual: str, whole: bool) -> str:
    """The sign by which the first rows have equally many cells, two at least; of several signs the one with most
    cells, and among equals the ``usual`` one, which is also taken where no sign fits. A sign by which there are
    fewer rows than by the usual one stands inside quotes, and joins rows."""
    best, most, fewest = usual, 1, 0
    for sign in dict.fromkeys((usual, *CANDIDATES)):
        rows = _first_rows(head, sign, whole)
        if rows and len(set(rows)) == 1 and rows[0] > most and len(rows) >= fewest:
            best, most = sign, rows[0]
            fewest = len(rows) if sign == usual else fewest
    return best


def _first_rows(head: bytes, separator: str, whole: bool) -> list[int]:
    """How many cells each of the first rows has."""
    counts: list[int] = []
    try:
        for row in csv.reader(io.StringIO(head.decode("latin-1"), newline=""), delimiter=separator):
            counts += [len(row)] if row else []
            if len(counts) > LOOKED_AT:
                break
    except csv.Error:
        return []
    cut = not whole and len(counts) <= LOOKED_AT  # the last of them may have been cut
    return counts[:-1] if cut and len(counts) > 1 else counts[:LOOKED_AT]


class WholeLineEnds(io.RawIOBase):
    """A file whose reads do not end at a carriage return.

    After one, Arrow drops a line feed that begins the next block, even inside quotes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._held = file, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        more = self._file.read(max(1, size - len(self._held)) if size >= 0 else -1) or b""
        block, self._held = self._held + more, b""
        whole = block.rstrip(b"\r")
        if not whole or not more or size < 0:  # nothing else, or the end of the file
            return block
        self._held = block[len(whole) :]
        return whole

    def close(self) -> None:
        self._file.close()
        super().close()


def blocks(source: Bytes) -> Iterator[bytes]:
    with source.open() as file:
        yield from iter(lambda: file.read(BLOCK), b"")


def estimated(source: Bytes, columns: int) -> bool:
    """Whether a cell may hold line ends; where none can, rows are found a third faster.

    Rows that would not fit into memory are refused on the way, before they are read as a table. Of a compressed
    file, no more is unpacked than fits. Rows are not counted where even the shortest would fit.
    """
    quoted, rows, size, look, what = False, 1, 0, LOOK, source.name
    stored = None if source.compression is None else source.size()
    refuse_too_large(source.size(), what, "give a smaller file")
    most = need_of(source.size(), source.size() // SHORTEST, columns)
    if stored is None and most and fits(most):  # a file without a size, as under /proc, is counted
        return any(b'"' in block for block in blocks(source))
    for block in blocks(source):
        quoted, size = quoted or b'"' in block, size + len(block)
        rows += block.count(b"\n") + (block.count(b"\r") if b"\r" in block else 0)
        if size >= look:
            look = size + LOOK
            refuse_rows(size, rows, columns, what, stored)
    refuse_rows(size, rows, columns, what, stored)
    return quoted


def need_of(size: int, rows: int, columns: int) -> int:
    """Bytes of memory for text of so many rows."""
    return size + rows * (CELL * columns + CLICK)


def refuse_rows(size: int, rows: int, columns: int, what: str, stored: int | None) -> None:
    need = need_of(size, rows, columns)
    refuse_too_large(need, f"{what} with {rows:,} rows", "give fewer rows", stored)
