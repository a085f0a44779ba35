"""Columns that say more of a click: how much it counts, and whether it is known to be right or wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.errors import DataError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
UNKNOWN, RIGHT, WRONG = range(3)
"""What is known of a click."""
WORDS = {
    **dict.fromkeys(("true", "1", "1.0", "right", "yes"), RIGHT),
    **dict.fromkeys(("false", "0", "0.0", "wrong", "no"), WRONG),
    **dict.fromkeys(("", "none", "null", "nan", "<na>", "unknown"), UNKNOWN),
}


def as_weights(column: pa.ChunkedArray, where: str, name: str) -> np.ndarray:
    """Weights of rows: finite numbers, none below zero."""
    try:
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_boolean(column.type) or pa.types.is_duration(column.type):
            column = pc.cast(column, pa.int64())
        numbers = pc.cast(column, pa.float64())
    except pa.ArrowException as error:
        raise DataError(f"Column '{name}' of {where} does not hold numbers, so it holds no weights.") from error
    values = np.asarray(pc.fill_null(numbers, float("nan")), dtype=np.float64)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"Column '{name}' of {where} holds {int(wrong.sum())} value(s) that are no weights, the first "
            f"({column[row].as_py()}) in click {row + 1}; give finite numbers of at least 0."
        )
    if not values.any():
        raise DataError(f"Every weight in column '{name}' of {where} is 0, so there is nothing to learn.")
    return values


def mean_weights(weights: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean weight of each pair's rows: weights of 1 everywhere change nothing, however often pairs repeat."""
    return np.add.reduceat(weights, first) / counts


def as_marks(column: pa.ChunkedArray, where: str, name: str) -> np.ndarray:
    """What is known of each row: true, 1, right or yes; false, 0, wrong or no; or nothing."""
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    values = [str(value).strip().lower() for value in encoded.dictionary.to_pylist()]
    unknown = [value for value in values if value not in WORDS]
    if unknown:
        raise DataError(
            f"Column '{name}' of {where} holds '{unknown[0]}'; a click is right (true, 1, right, yes) "
            "or wrong (false, 0, wrong, no), or nothing is known of it (empty)."
        )
    return np.array([WORDS[value] for value in values], np.int8)[np.asarray(encoded.indices)]


def one_mark(marks: np.ndarray, first: np.ndarray, where: str) -> np.ndarray:
    """What is known of each pair by its rows, which must not contradict each other."""
    right, wrong = np.maximum.reduceat(marks == RIGHT, first), np.maximum.reduceat(marks == WRONG, first)
    if (right & wrong).any():
        count = int((right & wrong).sum())
        raise DataError(f"{count} pair(s) of {where} are marked as right in one row and as wrong in another.")
    return np.where(right, RIGHT, np.where(wrong, WRONG, UNKNOWN)).astype(np.int8)
