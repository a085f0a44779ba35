"""Words of a column as an array of NumPy, in which each takes as much memory as the longest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.memory import refuse_too_large

pc: Any = pyarrow.compute
VIEWS = (pa.string_view(), pa.binary_view())
LETTER, OBJECT = 4, 60
"""Bytes of a letter in an array, and of a string of Python without its letters."""


def refuse_long_words(column: pa.ChunkedArray, where: str) -> None:
    """Refuse words that would not fit as an array, before one is made."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    lengths = pc.binary_length(column.cast(pa.large_string())) if _is_text(kind) and len(column) else None
    longest = 0 if lengths is None else pc.max(lengths).as_py() or 0
    total = 0 if lengths is None else pc.sum(lengths).as_py() or 0
    need = len(column) * (OBJECT + LETTER * longest) + 4 * total
    refuse_too_large(need, f"The text of {where}", "shorten the longest names")


def decoded_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of text that a column has when every row holds its own: few values may be those of many rows."""
    return sum(map(_decoded_bytes, column.chunks))


def _decoded_bytes(chunk: pa.Array) -> int:
    if pa.types.is_dictionary(chunk.type):
        lengths = _lengths(chunk.dictionary)
        used = np.bincount(np.asarray(chunk.indices.drop_null(), np.int64), minlength=len(lengths))
        return int((used * lengths).sum())
    return int(_lengths(chunk).sum()) if chunk.type in VIEWS else 0


def _lengths(values: pa.Array) -> np.ndarray:
    """Bytes of each text; zeros of what is none."""
    kind = values.type
    if kind in VIEWS:  # the length of each comes first, in sixteen bytes; Arrow cannot tell it
        rows = np.frombuffer(values.buffers()[1] or b"", np.int32).reshape(-1, 4)
        own = rows[values.offset : values.offset + len(values), 0].astype(np.int64)
        return np.where(np.asarray(values.is_valid()), own, 0)
    if _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), np.int64)
    return np.zeros(len(values), np.int64)


def as_array(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """Words as an array."""
    refuse_long_words(column, where)
    return np.array(column.to_pylist())


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
