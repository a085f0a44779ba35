"""Labels of a benchmark as arrays of an npz file: a zip of npy files, read without unpickling anything."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from accord.errors import DataError, first_line
from accord.memory import refuse_too_large
from accord.plain import open_plain

LARGEST = 1 << 24
"""Labels that an array may have; the largest benchmark has a fiftieth of it."""
LONGEST_HEADER = 10_000
"""Bytes of an array's header, which says its type and shape."""
ENTRY = 25
"""Bytes of memory for a byte of an archive's list of contents."""
DAMAGED = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, KeyError, struct.error,
           zipfile.BadZipFile, zlib.error)  # fmt: skip
"""What a damaged file raises when it is read."""


def array_names(path: Path) -> set[str]:
    """Names of the arrays of an npz file; none where it cannot be read."""
    try:
        with _opened(path) as packed:
            return {name.removesuffix(".npy") for name in packed.namelist()}
    except (DataError, *DAMAGED):
        return set()


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A plain file as an archive, whose list of contents fits into memory."""
    with open_plain(path) as file:
        refuse_too_large(ENTRY * os.fstat(file.fileno()).st_size, f"'{path}'", "give a smaller file")
        with zipfile.ZipFile(file) as packed:
            yield packed


def read_label_array(path: Path, names: Sequence[str], classes: int) -> np.ndarray:
    """Class numbers: the array of an npz file that has one of these names."""
    try:
        with _opened(path) as packed:
            held = set(packed.namelist())
            name = next((name for name in names if f"{name}.npy" in held), None)
            if name is None:
                raise ValueError(f"it has no array '{names[0]}'")
            with packed.open(f"{name}.npy") as file:
                numbers = _whole_numbers(file, name)
    except DataError:
        raise
    except DAMAGED as error:
        raise DataError(f"'{path}' cannot be read as arrays of labels: {first_line(error)}.") from error
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < classes:
        raise DataError(f"'{name}' of '{path}' has labels outside of 0 to {classes - 1}.")
    return numbers


def _whole_numbers(file: IO[bytes], name: str) -> np.ndarray:
    """One npy array of whole numbers; its header is read first, and never more than it announces."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"'{name}' is in a version of the format that is not known")
    width = 2 if version == (1, 0) else 4
    length = file.read(width)
    if int.from_bytes(length, "little") > LONGEST_HEADER:
        raise ValueError(f"'{name}' has a header of more than {LONGEST_HEADER} bytes")
    header = io.BytesIO(length + file.read(int.from_bytes(length, "little")))
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(header)
    if dtype.kind not in "iu" or len(shape) != 1:
        raise ValueError(f"'{name}' is no list of whole numbers")
    if shape[0] > LARGEST:
        raise ValueError(f"'{name}' announces {shape[0]} labels, more than any benchmark has")
    content = file.read(shape[0] * dtype.itemsize + 1)
    if len(content) != shape[0] * dtype.itemsize:
        raise ValueError(f"'{name}' announces {shape[0]} labels, and does not hold as many")
    return np.frombuffer(content, dtype).astype(np.int64)
