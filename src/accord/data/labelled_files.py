"""Labelled examples from files: a table with a label column, or a folder of images with a file of labels."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy

from accord.data.arrow_files import ARROW_SUFFIXES, read_arrow_file
from accord.data.columns import begun, listed
from accord.data.ids import pc
from accord.data.pictures import SUFFIXES, Tick, read_pictures
from accord.data.reading import read_table
from accord.data.table_columns import TableColumns
from accord.data.text_arrays import refuse_long_words
from accord.errors import DataError, first_line, nearest
from accord.memory import refuse_too_large
from accord.plain import size_of

FILE_NAMES = ("file", "filename", "file_name", "image", "path", "name")
LABEL_NAMES = ("label", "labels", "class", "target", "given_label", "y")
WHOLE = re.compile(r"^(0|-?[1-9][0-9]{0,17})$")
LABEL_FILES = tuple(f"{name}.{kind}" for name in ("labels", "metadata") for kind in ("csv", "tsv", "parquet"))
"""Files of labels that are found by themselves in a folder of images."""
LONGEST_LABEL = 1000
NUMBER = 20
"""Bytes of memory for a number of a table, while its columns become one array."""


@dataclass(frozen=True)
class Labelled:
    """Examples, their labels as they were written, and what is known of them."""

    inputs: np.ndarray
    labels: np.ndarray
    names: np.ndarray | None = None
    """File names of images."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Where they came from, in words that are stored with a run."""
    table: pa.Table | None = None
    """The columns of a table as they are; ``inputs`` has them as numbers."""
    columns: TableColumns | None = None


def table_of_file(source: Any) -> tuple[pa.Table, str]:
    """All columns of a table in a file or in memory, and the words that name it in messages."""
    if not isinstance(source, str | os.PathLike) or Path(source).suffix.lower() not in ARROW_SUFFIXES:
        return read_table(source)
    return read_arrow_file(source), f"'{source}'"


def read_labelled_table(source: Any, label: str | None = None, ignore: tuple[str, ...] = ()) -> Labelled:
    """A table of any columns, its labels, and its columns brought to numbers."""
    table, where = table_of_file(source)
    label = _column(table.column_names, label, LABEL_NAMES, "label", where)
    for name in ignore:
        if name not in table.column_names:
            raise DataError(f"No column '{name}' in {where} to ignore: {nearest(name, table.column_names)}")
    names = [name for name in table.column_names if name != label and name not in ignore]
    if not names or table.num_rows == 0:
        raise DataError(f"{begun(where)} has no columns besides '{label}', or no rows.")
    need = NUMBER * len(names) * table.num_rows
    refuse_too_large(need, f"{begun(where)} with {table.num_rows:,} rows", "give fewer rows or columns")
    labels, rest = _labels(table[label], label, where), table.select(names)
    notes: dict[str, Any] = {"source": "table", "label": label, "columns": names, "ignored": list(ignore)}
    if isinstance(source, str | os.PathLike):
        notes["file"] = os.path.abspath(source)
    try:
        columns = TableColumns.learn(rest)
        return Labelled(columns.encode(rest), labels, None, notes, rest, columns)
    except DataError as error:
        raise DataError(f"{begun(where)} cannot be learned from: {error}") from error


def read_columns(source: Any, names: list[str]) -> pa.Table:
    """Some columns of a file or table, whatever else it holds."""
    table, where = table_of_file(source)
    for name in names:
        if name not in table.column_names:
            raise DataError(f"No column '{name}' in {where}, which the run was trained on; add it.")
    if not table.num_rows:
        raise DataError(f"{begun(where)} holds no rows.")
    need = NUMBER * len(names) * table.num_rows
    refuse_too_large(need, f"{begun(where)} with {table.num_rows:,} rows", "give fewer rows")
    return table.select(names)


def read_array(path: Path) -> np.ndarray:
    """Examples in a file of numpy's; nothing in it is unpickled."""
    try:
        refuse_too_large(3 * size_of(path), f"'{path}'", "give fewer examples")
        return np.array(npy.open_memmap(path, mode="r"))  # no larger than the file
    except DataError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"'{path}' cannot be read as an array of numbers: {first_line(error)}.") from error


def read_images(folder: Path, **alike: Any) -> tuple[np.ndarray, list[str]]:
    """Every image in a folder, by name, and their names; ``alike`` says what they are brought to."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not names:
        raise DataError(f"'{folder}' holds no images; give a folder of {', '.join(SUFFIXES)} files.")
    return read_pictures(
        [folder / name for name in names], [f"'{folder / name}'" for name in names], **alike
    ).pixels, names


def read_image_folder(
    folder: Path, labels: Any = None, *, label: str | None = None, tick: Tick | None = None, **alike: Any
) -> Labelled:
    """The images that a file of labels names, or those of one folder for each class, all of one size.

    Without ``labels``, a file such as labels.csv in the folder is taken, and where there is none, the folders in it
    are the classes. ``alike`` says what the images are brought to, as for `read_pictures`.
    """
    if not folder.is_dir():
        raise DataError(f"'{folder}' is no folder of images.")
    size = alike.get("size")
    if isinstance(size, int) and size < 1:
        raise DataError(f"A size of {size} pixels makes no sense; give for example size=32.")
    if labels is None:
        labels = next((folder / name for name in LABEL_FILES if (folder / name).is_file()), None)
    remarks: list[str] = []
    if labels is None:
        names, given, remarks = _class_folders(folder)
        notes: dict[str, Any] = {"source": "folder", "label": "label", "labels": "folders"}
    else:
        table, where = read_table(labels)
        label = _column(table.column_names, label, LABEL_NAMES, "label", where)
        file = _column([n for n in table.column_names if n != label], None, FILE_NAMES, "file", where)
        names = _words(table[file], file, where)
        if not names:
            raise DataError(f"{begun(where)} names no images.")
        given = _labels(table[label], label, where)
        notes = {"source": "folder", "label": label}
        notes |= {"labels": os.path.abspath(labels)} if isinstance(labels, str | os.PathLike) else {}
    paths = _inside(folder, names)
    words = [f"'{path}' (data row {k + 1})" for k, path in enumerate(paths)]
    read = read_pictures(paths, words, tick=tick, **alike)
    notes |= {"size": list(read.pixels.shape[1:3]), "depth": read.depth, "remarks": remarks + read.remarks}
    return Labelled(read.pixels, given, np.array(names), notes)


def _class_folders(folder: Path) -> tuple[list[str], np.ndarray, list[str]]:
    """The images of one folder for each class, by name, their classes, and what was left out."""
    names, classes, other = [], [], 0
    for place, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        within = Path(place).relative_to(folder)
        for name in sorted(name for name in files if not name.startswith(".")):
            if within.parts and Path(name).suffix.lower() in SUFFIXES:
                names.append(str(within / name))
                classes.append(within.parts[0])
            else:
                other += 1
    if len(set(classes)) < 2:
        found = f"the images of one class alone, '{classes[0]}'" if classes else "neither"
        raise DataError(
            f"A folder of images holds labels.csv or a folder for each class, and '{folder}' holds {found}; say "
            "which file holds the labels with labels=FILE."
        )
    left = f"{other} file(s) in '{folder}' are no images of a class and were left out"
    return names, np.array(classes), [left] if other else []


def _inside(folder: Path, names: list[str]) -> list[Path]:
    """The paths of images, none of which leads out of the folder."""
    home, paths = folder.resolve(), []
    for k, name in enumerate(names):
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in it, or a link to itself
            raise DataError(
                f"{name[:200]!r} (data row {k + 1} of the labels of '{folder}') is no name of a file: {error}."
            ) from error
        if not path.is_relative_to(home):
            raise DataError(f"'{name}' (data row {k + 1}) leads out of '{folder}'; name images inside the folder.")
        paths.append(path)
    return paths


def _column(names: list[str], given: str | None, usual: tuple[str, ...], what: str, where: str) -> str:
    if given is not None:
        if given not in names:
            raise DataError(f"No column '{given}' in {where} for the {what}: {nearest(given, names)}")
        return given
    folded = {name.lower(): name for name in reversed(names)}
    found = next((folded[n] for n in usual if n in folded), None)
    if found is None:
        raise DataError(
            f"No {what} column found in {where} (it has {listed(names)}); "
            + ("call it 'label', or name it with label=COLUMN." if what == "label" else "call it 'file'.")
        )
    return found


def _labels(column: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
    if column.null_count:
        row = pc.index(pc.is_null(column.combine_chunks()), True).as_py() + 1
        raise DataError(
            f"{column.null_count} label(s) are missing in column '{name}' of {where} (the first in data row {row})."
        )
    if pa.types.is_floating(column.type):
        values = np.asarray(column, np.float64)
        if not ((values == np.round(values)) & (np.abs(values) < 2**53)).all():
            raise DataError(f"Column '{name}' of {where} holds fractions; labels are names or whole numbers.")
        return values.astype(np.int64)
    if pa.types.is_integer(column.type):
        numbers = np.asarray(column)
        fits = not numbers.size or numbers.max() <= np.iinfo(np.int64).max
        return numbers.astype(np.int64 if fits else str)  # what does not fit is a name
    words = _words(column, name, where)
    longest = max(range(len(words)), key=lambda k: len(words[k]), default=0)
    if words and len(words[longest]) > LONGEST_LABEL:
        raise DataError(
            f"Column '{name}' of {where} has a label of {len(words[longest])} characters in data row "
            f"{longest + 1}; labels are short names or whole numbers."
        )
    values = np.array(words)
    blank = np.flatnonzero(values == "")
    if len(blank):
        raise DataError(f"A label is missing in column '{name}' of {where}, data row {int(blank[0]) + 1}.")
    whole = all(WHOLE.match(value) for value in np.unique(values).tolist())
    return values.astype(np.int64) if whole else values


def _words(column: pa.ChunkedArray, name: str, where: str) -> list[str]:
    refuse_long_words(column, f"column '{name}' of {where}")
    try:
        return [str(value) for value in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError) as error:  # a date beyond the calendar
        raise DataError(f"Column '{name}' of {where} cannot be read as names or whole numbers.") from error
