"""Words of a column as an array of NumPy, in which each takes as much memory as the longest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.memory import refuse_too_large

pc: Any = pyarrow.compute
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


def as_array(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """Words as an array."""
    refuse_long_words(column, where)
    return np.array(column.to_pylist())


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
