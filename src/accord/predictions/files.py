"""Labels and probabilities from files: CSV, TSV, Parquet, and NumPy's .npy, which is never unpickled."""

from __future__ import annotations

import csv
import os
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import listed
from accord.data.dialects import SEPARATORS
from accord.data.labelled_files import LABEL_NAMES
from accord.data.reading import is_text, read_table
from accord.errors import DataError, first_line, nearest
from accord.memory import refuse_too_large
from accord.plain import GROWTH, open_plain, size_of

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
NUMBER = 16
"""Bytes of memory for a number of a table that was text, until its columns are one array."""
ADDED = ("predicted_label", "label_quality", "is_label_issue")
"""Columns that a table of issues adds to what was judged."""


def read_array(path: Path) -> np.ndarray:
    """The array of a .npy file, read from the disk as it is needed; one of Python objects is refused."""
    from numpy.lib.format import open_memmap

    try:
        size_of(path)  # a pipe or a device is refused
        return open_memmap(path, mode="r")
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"'{path}' cannot be opened: {error.strerror or error}.") from error
    except Exception as error:  # a damaged header can raise anything
        reason = "it holds Python objects" if "object" in str(error).lower() else first_line(error)
        raise DataError(
            f"'{path}' is no array that can be read: {reason}; save numbers with numpy.save."
        ) from error


def read_probabilities(path: Path) -> Any:
    """An array, or a table where columns have names: those of the classes."""
    if path.suffix.lower() == ".npy":
        return read_array(path)
    table, _ = read_table(path)
    if is_text(path):
        need = NUMBER * table.num_columns * table.num_rows
        refuse_too_large(need, f"'{path}' with {table.num_rows:,} rows", "give fewer rows")
        try:
            table = pa.table({name: table[name].cast(pa.float64()) for name in table.column_names})
        except pa.ArrowException as error:
            raise DataError(
                f"'{path}' holds something other than numbers; give a column of probabilities for each class."
            ) from error
    if table.column_names == [str(k + 1) for k in range(table.num_columns)]:  # no header
        return np.stack([np.asarray(column) for column in table.columns], 1)
    return table


def read_labels(path: Path, column: str | None, count: int) -> tuple[pa.Table, pa.ChunkedArray]:
    """The table that a file holds and its labels, of which there should be so many."""
    if path.suffix.lower() == ".npy":
        array = read_array(path)
        if array.ndim != 1:
            raise DataError(f"'{path}' is of shape {'×'.join(map(str, array.shape))}; give one label a row.")
        table = pa.table({"label": pa.array(np.asarray(array))})
    elif path.suffix.lower() in SEPARATORS and (words := _one_column(path)) is not None:
        table = _of_one_column(words, count)
    else:
        table, _ = read_table(path)
    name = _label_column(table.column_names, column, f"'{path}'")
    return table, recognised(table[name])


def recognised(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that is whole numbers throughout as numbers, empty text as missing."""
    if not pa.types.is_string(labels.type):
        return labels
    labels = pc.if_else(pc.equal(labels, ""), None, labels)
    whole = pc.all(pc.match_substring_regex(labels, WHOLE)).as_py()
    return labels.cast(pa.int64()) if whole else labels


def with_verdicts(table: pa.Table, issues: pa.Table) -> pa.Table:
    """The table as it came, with what is said of each row beside it."""
    by_row = issues.sort_by("index")
    for name in (*ADDED, "votes", "voters", "agreement"):
        if name in by_row.column_names:
            own = name if name not in table.column_names else f"accord_{name}"
            table = table.append_column(own, by_row[name])
    return table


def without_issues(table: pa.Table, issues: pa.Table) -> pa.Table:
    """The table as it came, less the rows that are flagged."""
    return table.filter(pc.invert(issues.sort_by("index")["is_label_issue"]))


def _one_column(path: Path) -> list[str] | None:
    """The cells of a text file of one column; nothing where it has several."""
    try:
        with open_plain(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=SEPARATORS[path.suffix.lower()])
            first = next(rows, [])
            if len(first) != 1:
                return None
            refuse_too_large(GROWTH["lines"] * os.fstat(raw.fileno()).st_size, f"'{path}'", "give a smaller file")
            return [first[0], *(row[0] if row else "" for row in rows)]
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"'{path}' cannot be opened: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{path}' is not UTF-8 text with one label a line: {first_line(error)}.") from error


def _of_one_column(words: list[str], count: int) -> pa.Table:
    """With a header, unless there are as many lines as labels."""
    headed = words[0].strip().lower() in LABEL_NAMES or len(words) == count + 1
    name, labels = (words[0].strip() or "label", words[1:]) if headed else ("label", words)
    return pa.table({name: pa.array(labels, pa.string())})


def _label_column(names: list[str], given: str | None, where: str) -> str:
    if given is not None:
        if given not in names:
            raise DataError(f"No column '{given}' in {where} for the labels: {nearest(given, names)}")
        return given
    folded = {name.lower(): name for name in reversed(names)}
    found = next((folded[name] for name in LABEL_NAMES if name in folded), None)
    if found is None and len(names) != 1:
        raise DataError(
            f"No column of labels found in {where} (it has {listed(names)}); call it 'label', or say which."
        )
    return found or names[0]
