"""What the footer and the page headers of a Parquet file say, read by ourselves before Arrow reads anything.

Sizes in the footer may be wrong. Arrow goes by the headers of the pages, and so do we.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

MAGIC = b"PAR1"
HEADER, LONGEST_HEADER = 1 << 10, 1 << 24
"""Bytes of a page's header that are read first, and the most that Arrow reads."""
TEXT, FIXED = 6, 7
"""Physical types of text, and of values of one length that the schema says."""
DICTIONARY_PAGE, DATA_PAGE, DATA_PAGE_2 = 2, 0, 3
OPTIONAL, REPEATED = 1, 2
DEEPEST = 64
"""Columns within columns; more deeply nested data are refused."""


class Page(NamedTuple):
    kind: int
    size: int
    """Bytes when unpacked."""
    packed: int
    at: int
    """Where its content begins in the file."""
    values: int
    encoding: int


@dataclass(frozen=True)
class Leaf:
    """A column that holds values."""

    name: str
    """Its path, with dots."""
    kind: int
    length: int
    lists: int
    """How many lists it is within."""
    gaps: int
    """How many of the columns around it, itself included, may have gaps."""


@dataclass(frozen=True)
class Chunk:
    """The part of a column that is in one group of rows."""

    leaf: Leaf
    rows: int
    codec: int
    values: int
    start: int
    end: int
    group: int = 0
    """The number of the group."""


def length_of(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def content_at(file: BinaryIO, count: int, at: int) -> bytes:
    """Bytes of a file, or of what was read already; fewer where it ends."""
    file.seek(at)
    return file.read(max(0, count))


def footer_size(file: BinaryIO) -> int:
    """Bytes of the footer as the file says; 0 where it is no Parquet file."""
    size = length_of(file)
    end = content_at(file, 8, max(0, size - 8))
    return min(size, int.from_bytes(end[:4], "little")) if len(end) == 8 and end[4:] == MAGIC else 0


def read_chunks(file: BinaryIO) -> list[Chunk]:
    """All parts of all columns; a footer that makes no sense is a ValueError."""
    size, length = length_of(file), footer_size(file)
    try:
        footer = _Compact(content_at(file, length, size - 8 - length)).struct()
        leaves = _leaves(_many(footer, 2))
        chunks = []
        for number, group in enumerate(_many(footer, 4)):
            columns = _many(group, 1)
            if len(columns) != len(leaves):
                raise ValueError("a group of rows has other columns than the file")
            chunks += [_chunk(leaf, one, group, number) for leaf, one in zip(leaves, columns, strict=True)]
    except IndexError:
        raise ValueError("its footer is cut off") from None
    return chunks


def pages(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """The pages of a chunk, as Arrow will go through them."""
    at, seen = chunk.start, 0
    while at < chunk.end and seen < chunk.values:
        header, length = _header(file, at)
        kind, size, packed = _number(header, 1), _number(header, 2), _number(header, 3)
        inner = header.get({DICTIONARY_PAGE: 7, DATA_PAGE: 5, DATA_PAGE_2: 8}.get(kind, 6), {})
        values = _number(inner, 1, 0)
        if min(size, packed, values) < 0:
            raise ValueError("the header of a page has sizes below zero")
        encoding = _number(inner, 4 if kind == DATA_PAGE_2 else 2, 0)
        yield Page(kind, size, packed, at + length, values, encoding)
        seen += values if kind in (DATA_PAGE, DATA_PAGE_2) else 0
        at += length + packed


def _leaves(schema: list[Any]) -> list[Leaf]:
    """The columns that hold values, in order; the schema is a tree, of which each node says how many it has."""
    leaves: list[Leaf] = []
    nodes = iter(schema[1:])

    def add(path: tuple[str, ...], lists: int, gaps: int) -> None:
        node = next(nodes, None)
        if node is None or len(path) > DEEPEST:
            raise ValueError("its schema is cut off, or nested too deeply")
        repetition = _number(node, 3, 0)
        path = (*path, bytes(node.get(4, b"")).decode("utf-8", "replace"))
        lists, gaps = lists + (repetition == REPEATED), gaps + (repetition == OPTIONAL)
        children = _number(node, 5, 0)
        if not children:
            leaves.append(Leaf(".".join(path), _number(node, 1, TEXT), _number(node, 2, 0), lists, gaps))
        for _ in range(min(children, len(schema))):
            add(path, lists, gaps)

    for _ in range(_number(schema[0], 5, 0) if schema else 0):
        add((), 0, 0)
    return leaves


def _chunk(leaf: Leaf, column: Any, group: Any, number: int) -> Chunk:
    told = column.get(3)
    if not isinstance(told, dict):
        raise ValueError("a column does not say where it is")
    start, dictionary = _number(told, 9), _number(told, 11, 0)
    start = dictionary if 0 < dictionary < start else start
    end = start + _number(told, 7)
    return Chunk(leaf, _number(group, 3), _number(told, 4, 0), _number(told, 5), start, end, number)


def _many(struct: Any, field: int) -> list[Any]:
    found = struct.get(field, []) if isinstance(struct, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("its footer makes no sense")
    return found


def _number(struct: Any, field: int, default: int = -1) -> int:
    value = struct.get(field, default) if isinstance(struct, dict) else None
    if type(value) is not int:
        raise ValueError("a header has a field of another type")
    return value


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """A page's header and its length."""
    some = HEADER
    while True:
        content = content_at(file, some, at) if at >= 0 else b""
        try:
            reader = _Compact(content)
            return reader.struct(), reader.at
        except IndexError:
            if len(content) < some or some >= LONGEST_HEADER:
                raise ValueError("the header of a page is cut off") from None
            some *= 16


class _Compact:
    """Structs of Thrift's compact protocol, by the numbers of their fields."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._whole()
            kind = byte & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("a header is nested too deeply")
        if kind in (1, 2, 3):  # in a list, a truth value is a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            byte = self._byte()
            count = byte >> 4 if byte >> 4 < 15 else self._varint()
            if count > len(self.content):
                raise IndexError
            return [self._value(byte & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("a header has a field of no known type")

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.content):
            raise IndexError
        return self.content[self.at - count : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 70:
                raise ValueError("a header has a number without end")

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
