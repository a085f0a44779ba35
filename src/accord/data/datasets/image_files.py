"""Image files of the benchmark sets as arrays: IDX, CIFAR's binary form, and sheets of PNG rows."""

from __future__ import annotations

import gzip
import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from accord.data.image_heads import open_image
from accord.errors import DataError
from accord.memory import refuse_too_large
from accord.plain import open_plain, read_plain, size_of

LARGEST = 1 << 28
"""Bytes that an IDX file may hold; the largest of the benchmark sets has 47 million."""


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes (LeCun's format), plain or gzipped; never more is read than its header announces."""
    try:
        packed = path.suffix == ".gz"
        with open_plain(path) as raw, gzip.GzipFile(fileobj=raw) if packed else raw as file:
            zero, kind, dims = struct.unpack(">HBB", file.read(4))
            if zero != 0 or kind != 8 or not 1 <= dims <= 4:
                raise ValueError("its first bytes are not those of an IDX file of bytes")
            shape = struct.unpack(f">{dims}I", file.read(4 * dims))
            size = math.prod(shape)
            if size > LARGEST:
                raise ValueError(f"its header announces {size} bytes, more than any benchmark set holds")
            refuse_too_large(4 * size, f"'{path}'", "free some memory")
            content = file.read(size + 1)
        if len(content) != size:
            raise ValueError(f"its header announces {size} bytes, and it does not hold as many")
        return np.frombuffer(content, np.uint8).reshape(shape)
    except DataError:
        raise
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise DataError(f"'{path}' cannot be read as IDX images or labels: {error}.") from error


def read_cifar_binary(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Records of one label byte and 3 × 32 × 32 pixel bytes, as images with channels last."""
    records = np.concatenate([_cifar_records(path) for path in paths])
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def _cifar_records(path: Path) -> np.ndarray:
    try:
        refuse_too_large(4 * size_of(path), f"'{path}'", "free some memory")
        return np.fromfile(path, np.uint8).reshape(-1, 3073)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' is not one of CIFAR-10's binary files: {error}.") from error


def read_png_sheets(paths: list[Path], size: int, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sheets whose every row is one image of size × size RGB pixels, and a JSON list of labels."""
    images = np.concatenate([_sheet(path, size) for path in paths])
    numbers = _label_list(labels)
    if len(images) != len(numbers):
        raise DataError(f"'{labels}' has {len(numbers)} labels for {len(images)} images of '{paths[0]}'.")
    return images, numbers


def _sheet(path: Path, size: int) -> np.ndarray:
    try:
        with open_image(path, formats=("PNG",)) as image:
            return np.asarray(image.convert("RGB")).reshape(-1, size, size, 3)
    except DataError:
        raise
    except Exception as error:  # a damaged image can make a decoder raise anything
        raise DataError(f"'{path}' is not a sheet of images of {size}×{size} pixels: {error}.") from error


def _label_list(path: Path) -> np.ndarray:
    try:
        numbers = json.loads(read_plain(path, kind="json"))
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise ValueError("it is no list of whole numbers")
        return np.array(numbers, np.int64)
    except DataError:
        raise
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"'{path}' does not hold the labels of the images: {error}.") from error
