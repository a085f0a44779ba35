"""A text file again with some of its rows, or with more columns: every other byte as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from accord.data.dialects import SEPARATORS, suffixes
from accord.data.reading import TextFile, open_table
from accord.errors import DataError

CLOSED = re.compile(rb'(?:[^"]|"")*"(?!")')
"""The rest of a quoted cell."""
LINE_END = re.compile(rb"[\r\n]*$")


def same_form(source: Path, target: Path) -> bool:
    """Whether both are text files whose names ask for the same sign between columns."""
    signs = [SEPARATORS.get(suffixes(path)[0]) for path in (source, target)]
    return signs[0] is not None and signs[0] == signs[1]


def text_file(source: Path) -> TextFile:
    opened, where = open_table(source)
    if not isinstance(opened, TextFile):
        raise DataError(f"{where} is no text file.")
    return opened


def write_rows(
    file: TextFile, draft: Path, target: Path, kept: np.ndarray, columns: dict[str, Sequence[str]]
) -> None:
    """The rows of a text file that are ``kept``, with further columns, compressed as the target's name says."""
    pieces = _rows(file)
    sign = file.separator.encode()
    with pa.output_stream(draft, compression=suffixes(target)[1]) as out:
        if file.has_header:
            out.write(_extended(next(pieces, b""), sign, list(columns)))
        count = 0
        for k, row in enumerate(pieces):
            count += 1
            if k < len(kept) and kept[k]:
                out.write(_extended(row, sign, [own[k] for own in columns.values()]))
    if count != len(kept):
        raise DataError(
            f"The rows of '{file.path}' cannot be told apart; write them as Parquet (.parquet) instead."
        )


def _extended(row: bytes, sign: bytes, values: list[str]) -> bytes:
    """A row with more cells before its line end."""
    if not values:
        return row
    found = LINE_END.search(row)
    end = found.start() if found else len(row)
    return row[:end] + b"".join(sign + value.encode() for value in values) + row[end:]


def _rows(file: TextFile) -> Iterator[bytes]:
    """Every row with its line end; a quoted cell may have line ends too. Empty lines go with the row before."""
    sign, pending, inside, row = file.separator.encode(), b"", False, b""
    with file.source.open() as raw:
        for line in _lines(raw):
            if not inside and not line.strip(b"\r\n"):
                row += line
                continue
            if not inside and row:
                yield row
                row = b""
            inside = _ends_inside(line, sign, inside)
            pending += line
            if not inside:
                row, pending = pending, b""
    if row or pending:
        yield row + pending


def _lines(raw: BinaryIO) -> Iterator[bytes]:
    """Lines as Arrow knows them: they end in a line feed, a carriage return, or both."""
    held = b""
    for block in iter(lambda: raw.read(1 << 20), b""):
        lines = (held + block).splitlines(keepends=True)
        held = lines.pop()  # it may go on in the next block
        yield from lines
    yield from held.splitlines(keepends=True)


def _ends_inside(line: bytes, sign: bytes, inside: bool) -> bool:
    """Whether a quoted cell is still open at the end of a line; a quote opens a cell at its beginning alone."""
    if not inside and b'"' not in line:
        return False
    at, begins = 0, not inside
    while True:
        if not begins or line[at : at + 1] == b'"':
            found = CLOSED.match(line, at + begins)
            if found is None:
                return True
            at = found.end()
        at, begins = line.find(sign, at) + 1, True
        if at == 0:
            return False
