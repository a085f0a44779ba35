"""The clicks of a run as a table in its folder: written and read by groups of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from accord.data.log_rows import PER_ROW
from accord.data.parquet_files import head_of, stream_parquet_file
from accord.errors import DataError
from accord.estimators.run_folder import VOTES, column, read_parquet, sound_quality
from accord.stored import Growing, blocks, trim

ROW, TRUSTED = {"row": pa.int64()}, {"trusted": pa.int8()}
"""The first row of each click in the log; and whether it is known to be right or wrong."""
LAST_PART = 3
GROUP = 1 << 20
"""Rows of a table that are written together."""


def write_clicks(path: Path, columns: Mapping[str, np.ndarray], time_type: pa.DataType | None) -> None:
    """Columns of one length; times of a type."""
    schema = pa.schema([(name, pa.from_numpy_dtype(values.dtype)) for name, values in columns.items()])
    if time_type is not None and "time" in columns:
        schema = schema.set(schema.get_field_index("time"), pa.field("time", time_type))
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for some in blocks(*columns.values(), size=GROUP):
            arrays = [pa.array(values).cast(kind) for values, kind in zip(some, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema), GROUP)


def read_clicks(path: Path, *, timed: bool, memory: float) -> tuple[dict[str, np.ndarray], pa.DataType | None]:
    """The clicks of a recommender's run, each column without gaps and of its own type; and the type of times.

    What would take more than ``memory`` bytes is kept in files.
    """
    kinds = {"user": pa.int32(), "item": pa.int32(), "count": pa.int64(), "part": pa.int8()}
    kinds |= {"label_quality": pa.float32()}
    there, rows = _head(path)
    for own in (VOTES, ROW, TRUSTED):
        kinds |= own if set(own) <= set(there) else {}
    names = [*kinds, *(["time"] if timed else [])]
    if rows * PER_ROW <= memory:
        return _sound(read_parquet(path, names), kinds, timed, path)
    files: dict[str, Growing] = {}
    time_type: pa.DataType | None = None
    for table in _streamed(path, names):
        columns, time_type = _sound(table, kinds, timed, path)
        for name, values in columns.items():
            if name not in files:
                files[name] = Growing(values.dtype)
            files[name].append(values)
    trim()
    return {name: file.array() for name, file in files.items()}, time_type


def _head(path: Path) -> tuple[list[str], int]:
    """The columns of a table and its rows; nothing where it cannot be read, and its reader says why."""
    try:
        schema, rows = head_of(path, inside=True)
    except DataError:
        return [], 0
    return schema.names, rows


def _streamed(path: Path, names: list[str]) -> Iterator[pa.Table]:
    try:
        yield from stream_parquet_file(path, names, GROUP, inside=True)
    except DataError as error:
        raise DataError(
            f"'{path}' cannot be read as a table with {', '.join(names)}; fit the run again."
        ) from error


def _sound(
    table: pa.Table, kinds: Mapping[str, pa.DataType], timed: bool, path: Path
) -> tuple[dict[str, np.ndarray], Any]:
    """The columns of a table, if all is as it was written."""
    columns: dict[str, np.ndarray] = {name: column(table, name, kind, path) for name, kind in kinds.items()}
    sound_quality(columns["label_quality"], path)
    if columns["part"].size and not 0 <= columns["part"].min() <= columns["part"].max() <= LAST_PART:
        raise DataError(f"'{path}' has clicks of a part that is none; fit the run again.")
    if not timed:
        return columns, None
    times = table["time"]
    dated = pa.types.is_timestamp(times.type)
    if times.null_count or not (dated or pa.types.is_integer(times.type) or pa.types.is_floating(times.type)):
        raise DataError(f"Column 'time' of '{path}' does not hold times; fit the run again.")
    return columns | {"time": np.asarray(times.cast(pa.int64()) if dated else times)}, times.type if dated else None
