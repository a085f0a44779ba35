"""Tables of Arrow (Feather), each looked at before it is read: what its buffers say that they unpack to.

A file ends with a footer that says where its batches are. A batch is a header, a FlatBuffers table that says where
its buffers are, and their bytes. A buffer that is compressed begins with the size that it has when it is unpacked.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.feather

from accord.data.parquet_pages import content_at, length_of
from accord.data.text_arrays import decoded_bytes
from accord.errors import DataError, first_line
from accord.memory import refuse_too_large
from accord.plain import open_plain

ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
MAGIC, END = b"ARROW1", 10
"""How a file begins and ends, and the bytes of its end: the size of the footer, and the magic."""
DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer."""
HEADER, DICTIONARY_BATCH, BATCH = 2, 2, 3
"""The field of a message that holds its header, and the kinds of headers that have buffers (of field 1)."""
BUFFERS, COMPRESSION = 2, 3
"""Fields of a batch."""
EARLY = b"ARROW:experimental_compression"
"""What a message says whose buffers an early version of Arrow has packed."""
CONTINUES = b"\xff\xff\xff\xff"
ADVICE = "give fewer rows, or columns with shorter text"
DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError, struct.error)


def read_arrow_file(path: str | os.PathLike[str]) -> pa.Table:
    """A table of Arrow with every value looked at; what cannot fit into memory is refused unread."""
    where = f"'{path}'"
    try:
        with open_plain(Path(path)) as file:
            stored = length_of(file)
            refuse_too_large(_need(file, stored), where, ADVICE, stored)
            file.seek(0)
            table = pyarrow.feather.read_table(file, memory_map=False)
        table.validate(full=True)
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(f"{where} cannot be read as a table of Arrow: {first_line(error)}.") from error
    refuse_too_large(sum(map(decoded_bytes, table.columns)), f"The text of {where}", ADVICE, stored)
    return table


def _need(file: BinaryIO, stored: int) -> int:
    """Bytes that the batches of a file will take, unpacked; of other files twice what is stored."""
    end = content_at(file, END, stored - END) if stored > END else b""
    if end[4:] != MAGIC:
        return 2 * stored  # the first version of Feather, which packs nothing, or no table at all
    size = int.from_bytes(end[:4], "little")
    if size > stored - END:
        raise ValueError("its footer is cut off")
    need, seen = 0, 0
    for at, head, body in _blocks(content_at(file, size, stored - END - size)):
        seen += head + body
        if min(at, head, body) < 0 or seen > stored:
            raise ValueError("its batches lie over one another")
        need += body + _unpacked(file, content_at(file, head, at), at + head, body)
    return need


def _blocks(footer: bytes) -> Iterator[tuple[int, int, int]]:
    """Where each batch begins, and the bytes of its header and of its buffers."""
    root = _Table(footer, _number(footer, "I", 0))
    for field in (DICTIONARIES, BATCHES):
        for at in root.structs(field, 24):
            yield _number(footer, "q", at), _number(footer, "i", at + 8), _number(footer, "q", at + 16)


def _unpacked(file: BinaryIO, message: bytes, start: int, length: int) -> int:
    """Bytes that the packed buffers of a batch say they unpack to."""
    message = message[8 if message.startswith(CONTINUES) else 4 :]
    root = _Table(message, _number(message, "I", 0))
    header, kind = root.table(HEADER), root.byte(HEADER - 1)
    if kind == DICTIONARY_BATCH and header is not None:
        header = header.table(1)
    if kind not in (DICTIONARY_BATCH, BATCH) or header is None:
        raise ValueError("a batch has no header")
    if header.table(COMPRESSION) is None and EARLY not in message:
        return 0
    total = 0
    for at in header.structs(BUFFERS, 16):
        offset, size = _number(message, "q", at), _number(message, "q", at + 8)
        if min(offset, size) < 0 or offset + size > length:
            raise ValueError("a buffer lies beyond its batch")
        if size >= 8:
            (unpacked,) = struct.unpack("<q", content_at(file, 8, start + offset))
            total += max(0, unpacked)  # -1: it is not packed
    return total


def _number(content: bytes, form: str, at: int) -> int:
    if at < 0:
        raise ValueError("a header leads to nowhere")
    return struct.unpack_from(f"<{form}", content, at)[0]


class _Table:
    """A table of FlatBuffers: numbered fields, each of which may be missing."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at
        self.fields = at - _number(content, "i", at)

    def _field(self, number: int) -> int | None:
        """Where a field is."""
        size = _number(self.content, "H", self.fields)
        at = _number(self.content, "H", self.fields + 4 + 2 * number) if 4 + 2 * number < size else 0
        return self.at + at if at else None

    def byte(self, number: int) -> int:
        at = self._field(number)
        return 0 if at is None else _number(self.content, "B", at)

    def table(self, number: int) -> _Table | None:
        at = self._field(number)
        return None if at is None else _Table(self.content, at + _number(self.content, "I", at))

    def structs(self, number: int, size: int) -> range:
        """Where each of several structs of one size is."""
        at = self._field(number)
        if at is None:
            return range(0)
        start = at + _number(self.content, "I", at)
        count = _number(self.content, "I", start)
        if start + 4 + count * size > len(self.content):
            raise ValueError("a header is cut off")
        return range(start + 4, start + 4 + count * size, size)
