"""Tables in memory, of every kind, as Arrow tables; rows of anything that has rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from accord.errors import DataError, first_line


def is_frame(values: Any) -> bool:
    """Whether a table with named columns was given: of pandas, polars, Arrow, or of Hugging Face's datasets."""
    return isinstance(values, pa.Table | pa.RecordBatch) or module_of(values) in ("pandas", "polars", "datasets")


def module_of(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def as_table(frame: Any) -> pa.Table:
    """A table as Arrow's, with the names of its columns as words, in order."""
    module = module_of(frame)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if module == "pandas":
        return _from_pandas(frame.to_frame() if frame.ndim == 1 else frame)
    if module == "polars":
        frame = frame.collect() if hasattr(frame, "collect") else frame
        return (frame.to_frame() if hasattr(frame, "to_frame") else frame).to_arrow()
    if module == "datasets":
        return frame.with_format("arrow")[:]
    return frame


def _from_pandas(frame: Any) -> pa.Table:
    names = [str(name) for name in frame.columns]
    columns = [_from_series(frame.iloc[:, k], name) for k, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names=names)


def _from_series(series: Any, name: str) -> pa.Array | pa.ChunkedArray:
    """One column; what Arrow does not take as it is, such as words and numbers in one column, becomes words."""
    kind = str(series.dtype)
    if kind.startswith("Sparse"):
        series = series.sparse.to_dense()
    if kind.startswith("period"):
        series = series.dt.to_timestamp()
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _from_values(series.tolist(), name)


def _from_values(values: list[Any], name: str) -> pa.Array:
    """One column of Python's values; of several kinds, they become words."""
    values = [None if _is_missing(value) else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        odd = next((value for value in values if isinstance(value, dict | list | set | tuple | np.ndarray)), None)
        if odd is not None or any(isinstance(value, complex) for value in values):
            raise DataError(f"Column '{name}' cannot be read ({first_line(error)}); leave it out.") from error
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True


def table_of_array(values: np.ndarray, names: list[str]) -> pa.Table:
    """The columns of an array, by names."""
    return pa.Table.from_arrays([_from_values(values[:, k].tolist(), name) for k, name in enumerate(names)], names)


def index_of(frame: Any) -> pa.Array | None:
    """The index of a pandas table where it has one of its own: words or numbers, one for each row."""
    if module_of(frame) != "pandas" or "pandas" not in sys.modules:
        return None
    import pandas as pd  # pyright: ignore[reportMissingImports]

    index = frame.index
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    values = index.map(str) if index.nlevels > 1 else index
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([str(value) for value in values])


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """Some rows, in the order asked for, of an array, a table of any kind or a list, as the kind that it is."""
    module = module_of(values)
    if module == "pandas":
        return values.iloc[rows]
    if isinstance(values, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        return values.take(pa.array(rows))
    if module == "polars":
        return values[rows.tolist()]
    if module == "datasets":
        return values.select(rows.tolist())
    if isinstance(values, list | tuple):
        return [values[k] for k in rows.tolist()]
    return values[rows]


def column_of(frame: Any, name: str) -> pa.Array | pa.ChunkedArray:
    """One column of a table of any kind."""
    module = module_of(frame)
    if module == "pandas":
        return _from_series(frame[name], name)
    if module == "datasets":
        return as_table(frame)[name]
    return frame[name].to_arrow() if module == "polars" else frame[name]


def with_columns(frame: Any, columns: dict[str, np.ndarray], *, replace: bool = False) -> Any:
    """A table with further columns at its end, as the kind that it is.

    With ``replace``, a column of the frame takes its own values, from the rows that are given by number.
    """
    if not is_frame(frame):
        raise DataError("Only a table with named columns can have more of them; give it as such.")
    names = list(frame.columns if module_of(frame) in ("pandas", "polars") else frame.column_names)
    twice = next((name for name in columns if name in names), None)
    if twice is not None and not replace:
        raise DataError(f"The table has a column '{twice}' already; give that another name first.")
    module = module_of(frame)
    if module == "datasets":
        frame, module = as_table(frame), "pyarrow"
    if module == "pandas":
        changed = frame.copy()
        for name, values in columns.items():
            changed[name] = frame[name].array.take(values) if replace else values
        return changed
    if module == "polars":
        import polars as pl  # pyright: ignore[reportMissingImports]

        return frame.with_columns(
            *(
                frame[name][values.tolist()] if replace else pl.Series(name, values)
                for name, values in columns.items()
            )
        )
    for name, values in columns.items():
        if replace:
            at = frame.schema.get_field_index(name)
            frame = frame.set_column(at, frame.schema.field(at), frame[name].take(pa.array(values)))
        else:
            frame = frame.append_column(name, pa.array(values))
    return frame
