"""What the columns of a table hold: numbers, dates, words; whatever stands for nothing is missing."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.ids import pc
from accord.errors import DataError

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None")
"""Words that stand for nothing."""
NUMBER = re.compile(r"-?(((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|Inf|INF|infinity)")
"""A number as text; 007 is none, it is a code."""
DATE = re.compile(r"\d{4}(-\d\d-|/\d\d/)\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?(Z|UTC|[+-]\d\d:?\d\d))?)?")
"""A date or a time as ISO 8601 has them, or with strokes."""
DAY = 86400.0
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain(column: Any) -> pa.ChunkedArray:
    """A column in one of the usual types: categories as their values, times of day as seconds."""
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_duration(kind)
        or types.is_time(kind)
    )


def is_date(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text without blanks around it; null where it is missing."""
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING, pa.large_string())), None, text)


def numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """A column as doubles; NaN where it is missing, or where a text is none."""
    kind = column.type
    if is_text(kind):
        text = words(column)
        column = pc.if_else(pc.match_substring_regex(text, f"^(?:{NUMBER.pattern})$"), text, None)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_duration(kind) or pa.types.is_time(kind):
        column = pc.divide(column.cast(pa.int64() if kind.bit_width == 64 else pa.int32()), 1.0 * UNITS[kind.unit])
    values = np.array(column.cast(pa.float64(), safe=False), np.float64)
    bad = np.isinf(values) | (np.abs(values) > np.finfo(np.float32).max)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"Column '{name}' has {int(bad.sum())} number(s) that are infinite or beyond 3e38, the first in data "
            f"row {row + 1}; correct them, or leave the column out."
        )
    return values


def days(column: pa.ChunkedArray) -> np.ndarray:
    """Dates as days since 1970, in UTC; NaN where one is missing, or where a text is none."""
    if is_text(column.type):
        coded = words(column).combine_chunks().dictionary_encode()
        each = np.array([_days_of(value) for value in coded.dictionary.to_pylist()] + [math.nan])
        return each[np.asarray(pc.fill_null(coded.indices, len(each) - 1))]
    if pa.types.is_null(column.type):
        return np.full(len(column), math.nan)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    return np.array(column.cast(pa.int64()).cast(pa.float64(), safe=False)) / UNITS[column.type.unit] / DAY


def _days_of(text: str) -> float:
    if not DATE.fullmatch(text):
        return math.nan
    try:
        time = datetime.fromisoformat(text.replace("/", "-").replace(" UTC", "Z").replace(" Z", "Z"))
    except ValueError:
        return math.nan
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() / DAY


def kind_of(column: pa.ChunkedArray) -> str:
    """number, date or words; empty where nothing is there, and other where there is something else."""
    kind = column.type
    if column.null_count == len(column):
        return "empty"
    if is_number(kind):
        return "number"
    if is_date(kind):
        return "date"
    if not is_text(kind):
        return "other"
    text = pc.drop_null(pc.unique(words(column)))
    if not len(text):
        return "empty"
    for found, pattern in (("number", NUMBER), ("date", DATE)):
        if pc.all(pc.match_substring_regex(text, f"^(?:{pattern.pattern})$")).as_py():
            return found
    return "words"


def label_word(value: Any) -> str:
    """A label or an id in words: 1, 1.0 and '1' are the same.

    >>> label_word(1.0), label_word("1"), label_word(0.5)
    ('1', '1', '0.5')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
