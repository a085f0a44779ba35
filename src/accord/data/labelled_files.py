"""Labelled examples from files: a table with a label column, or a folder of images with a file of labels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy

from accord.data.columns import begun, listed
from accord.data.ids import pc
from accord.data.image_heads import open_image
from accord.data.reading import read_table
from accord.data.text_arrays import refuse_long_words
from accord.errors import AccordError, DataError, first_line, nearest
from accord.extras import needed
from accord.memory import refuse_too_large
from accord.plain import size_of

FILE_NAMES = ("file", "filename", "file_name", "image", "path", "name")
LABEL_NAMES = ("label", "labels", "class", "target", "given_label", "y")
WHOLE = re.compile(r"^(0|-?[1-9][0-9]{0,17})$")
LONGEST_LABEL = 1000
NUMBER = 20
"""Bytes of memory for a number of a table, while its columns become one array."""
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
Tick = Callable[[int, int], None]
"""Called with images read and images in all."""


@dataclass(frozen=True)
class Labelled:
    """Examples, their labels as they were written, and what is known of them."""

    inputs: np.ndarray
    labels: np.ndarray
    names: np.ndarray | None = None
    """File names of images."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Where they came from, in words that are stored with a run."""


def read_labelled_table(source: Any, label: str | None = None, ignore: tuple[str, ...] = ()) -> Labelled:
    """Numbers in every column but the label's."""
    table, where = read_table(source)
    label = _column(table.column_names, label, LABEL_NAMES, "label", where)
    for name in ignore:
        if name not in table.column_names:
            raise DataError(f"No column '{name}' in {where} to ignore: {nearest(name, table.column_names)}")
    names = [name for name in table.column_names if name != label and name not in ignore]
    if not names or table.num_rows == 0:
        raise DataError(f"{begun(where)} has no columns of numbers besides '{label}', or no rows.")
    need = NUMBER * len(names) * table.num_rows
    refuse_too_large(need, f"{begun(where)} with {table.num_rows:,} rows", "give fewer rows or columns")
    inputs = np.stack([_numbers(table[name], name, where) for name in names], 1)
    notes = {"source": "table", "label": label, "columns": names, "ignored": list(ignore)}
    return Labelled(inputs, _labels(table[label], label, where), None, notes)


def read_columns(source: Any, names: list[str]) -> np.ndarray:
    """Numbers of some columns of a file or table, whatever else it holds."""
    table, where = read_table(source)
    for name in names:
        if name not in table.column_names:
            raise DataError(f"No column '{name}' in {where}, which the run was trained on; add it.")
    if not table.num_rows:
        raise DataError(f"{begun(where)} holds no rows.")
    need = NUMBER * len(names) * table.num_rows
    refuse_too_large(need, f"{begun(where)} with {table.num_rows:,} rows", "give fewer rows")
    return np.stack([_numbers(table[name], name, where) for name in names], 1)


def read_array(path: Path) -> np.ndarray:
    """Examples in a file of numpy's; nothing in it is unpickled."""
    try:
        refuse_too_large(3 * size_of(path), f"'{path}'", "give fewer examples")
        return np.array(npy.open_memmap(path, mode="r"))  # no larger than the file
    except DataError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"'{path}' cannot be read as an array of numbers: {first_line(error)}.") from error


def read_images(folder: Path, size: int | None = None) -> tuple[np.ndarray, list[str]]:
    """Every image in a folder, by name, and their names."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in IMAGE_ENDINGS)
    if not names:
        raise DataError(f"'{folder}' holds no images; give a folder of {', '.join(IMAGE_ENDINGS)} files.")
    return _read_images(folder, names, size, None), names


def read_image_folder(
    folder: Path, labels: Any, *, label: str | None = None, size: int | None = None, tick: Tick | None = None
) -> Labelled:
    """The images that a file of labels names, all of one size; gray if all are, else in colour."""
    if not folder.is_dir():
        raise DataError(f"'{folder}' is no folder of images.")
    if size is not None and size < 1:
        raise DataError(f"A size of {size} pixels makes no sense; give for example size=32.")
    table, where = read_table(labels)
    label = _column(table.column_names, label, LABEL_NAMES, "label", where)
    file = _column([n for n in table.column_names if n != label], None, FILE_NAMES, "file", where)
    names = _words(table[file], file, where)
    if not names:
        raise DataError(f"{begun(where)} names no images.")
    if size is not None:
        _refuse_too_many(len(names), size, size, None)
    pixels = _read_images(folder, names, size, tick)
    notes = {"source": "folder", "label": label, "size": list(pixels.shape[1:3])}
    return Labelled(pixels, _labels(table[label], label, where), np.array(names), notes)


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


def _numbers(column: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_string(column.type):  # an empty cell of a CSV file is a missing number
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        values = np.asarray(column.cast(pa.float64()), np.float64)
    except pa.ArrowException as error:
        raise DataError(
            f"Column '{name}' of {where} holds text; turn it into numbers, or leave it out with ignore=['{name}']."
        ) from error
    bad = ~np.isfinite(values)  # a missing number is NaN here
    if bad.any():
        row = int(np.flatnonzero(bad)[0]) + 1
        raise DataError(
            f"Column '{name}' of {where} has {int(bad.sum())} missing or infinite value(s), the first in data row "
            f"{row}; fill them in, or leave it out with ignore=['{name}']."
        )
    if np.abs(values).max(initial=0) > np.finfo(np.float32).max:
        raise DataError(f"Column '{name}' of {where} holds numbers beyond 3e38; scale it.")
    return values.astype(np.float32)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


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


def _refuse_too_many(count: int, width: int, height: int, stored: int | None) -> None:
    need = 2 * 3 * count * width * height  # read one by one, and then as one
    words = f"Reading {count} images of {width}×{height} pixels"
    refuse_too_large(need, words, "give a smaller size, or fewer images", stored)


def _words(column: pa.ChunkedArray, name: str, where: str) -> list[str]:
    refuse_long_words(column, f"column '{name}' of {where}")
    try:
        return [str(value) for value in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError) as error:  # a date beyond the calendar
        raise DataError(f"Column '{name}' of {where} cannot be read as names or whole numbers.") from error


def _read_images(folder: Path, names: list[str], size: int | None, tick: Tick | None) -> np.ndarray:
    home, read = folder.resolve(), []
    stored = 0 if size else sum(_size(folder / name) for name in names)
    for k, name in enumerate(names):
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in it, or a link to itself
            raise DataError(
                f"{name[:200]!r} (data row {k + 1} of the labels of '{folder}') is no name of a file: {error}."
            ) from error
        if not path.is_relative_to(home):
            raise DataError(f"'{name}' (data row {k + 1}) leads out of '{folder}'; name images inside the folder.")
        try:
            with open_image(path, f"'{path}' (data row {k + 1})") as image:
                if not size:  # all will be of the size of the first, or refused
                    width, height = image.size
                    _refuse_too_many(len(names), width, height, stored)
                plain = _eight_bits(image).resize((size, size)) if size else _eight_bits(image)
                read.append(np.asarray(plain))
        except AccordError:
            raise
        except MemoryError as error:
            raise DataError(f"There is not enough memory for '{path}' (data row {k + 1}); give size=N.") from error
        except Exception as error:  # a damaged image can make a decoder raise anything
            reason = "it is no image, or damaged" if _is_file(path) else "it is not there"
            raise DataError(f"'{path}' (data row {k + 1}) cannot be read as an image: {reason}.") from error
        if not size and read[-1].shape[:2] != read[0].shape[:2]:
            break  # which is one too many
        if tick is not None:
            tick(k + 1, len(names))
    return _alike(read, names)


def _eight_bits(image: Any) -> Any:
    """Gray or colour in bytes; of sixteen bits the upper eight."""
    Image = needed("PIL.Image", "Reading images")
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _alike(images: list[np.ndarray], names: list[str]) -> np.ndarray:
    sizes = {image.shape[:2] for image in images}
    if len(sizes) > 1:
        other = next(k for k, image in enumerate(images) if image.shape[:2] != images[0].shape[:2])
        first, second = (f"{images[k].shape[1]}×{images[k].shape[0]}" for k in (0, other))
        raise DataError(
            f"Images differ in size ('{names[0]}' is {first}, '{names[other]}' is {second}); give size=N."
        )
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, 2) for image in images]
        return np.stack(images)
    return np.stack(images)[..., None]
