"""Whole numbers that differ and become one number of float32, in which networks compute: people are told so."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from accord.data.column_values import is_text, plain, words
from accord.data.ids import EXACT, pc
from accord.data.table_columns import TableColumns
from accord.errors import DataWarning

APART = EXACT[pa.float32()]
"""Up to where all whole numbers stay apart."""
LONG = r"^-?[1-9][0-9]{7,}$"
"""A whole number of text that may be beyond."""


def warn_of_merged(inputs: pa.Table | np.ndarray, learned: TableColumns | None) -> None:
    """Say once which columns hold such numbers, with two of them; ``learned`` says which columns are numbers."""
    columns = _of_table(inputs, learned) if isinstance(inputs, pa.Table) else _of_array(inputs)
    found = [(name, pair) for name, pair in ((name, merged(column)) for name, column in columns) if pair]
    if not found:
        return
    name, (one, other) = found[0]
    more = f" (and {len(found) - 1} more columns)" if len(found) > 1 else ""
    warnings.warn(
        f"Column {name[:80]}{more} holds whole numbers that differ and become one number for the model, such as "
        f"{one} and {other}: float32 keeps them apart up to {APART:,} only; subtract the smallest, or leave the "
        "column out if it holds ids.",
        DataWarning,
        stacklevel=3,
    )


def merged(column: pa.ChunkedArray) -> tuple[str, str] | None:
    """Two such numbers of a column, if it has any."""
    column = plain(column)
    if is_text(column.type):
        text = words(column)
        values = pc.unique(text.filter(pc.match_substring_regex(text, LONG)))
    elif pa.types.is_integer(column.type) or (pa.types.is_decimal(column.type) and column.type.scale == 0):
        ends = pc.min_max(column).as_py()
        if ends["min"] is None or -APART <= ends["min"] <= ends["max"] <= APART:
            return None
        values = pc.unique(pc.drop_null(column))
    else:
        return None
    with np.errstate(over="ignore"):
        floats = np.asarray(values.cast(pa.float64(), safe=False)).astype(np.float32)
    order = np.argsort(floats, kind="stable")
    same = np.flatnonzero(np.diff(floats[order]) == 0)
    if not len(same):
        return None
    one, other = (str(values[int(order[same[0] + k])].as_py()) for k in (0, 1))
    return one, other


def _of_table(table: pa.Table, learned: TableColumns | None) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name in table.column_names if learned is None else [one.name for one in learned.numbers()]:
        yield f"'{name}'", table[name]


def _of_array(array: np.ndarray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if array.ndim == 2 and array.dtype.itemsize > 2:
        for k in range(array.shape[1]):
            yield f"{k} (counted from 0)", pa.chunked_array([pa.array(np.ascontiguousarray(array[:, k]))])
