"""Image files of the benchmark sets as arrays: IDX, CIFAR's binary form, and sheets of PNG rows."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np

from accord.errors import DataError


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes (LeCun's format), plain or gzipped."""
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            content = file.read()
        zero, kind, dims = struct.unpack(">HBB", content[:4])
        shape = struct.unpack(f">{dims}I", content[4 : 4 + 4 * dims])
        if zero != 0 or kind != 8:
            raise ValueError("its first bytes are not those of an IDX file of bytes")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dims).reshape(shape)
    except (OSError, EOFError, ValueError, struct.error) as error:
        raise DataError(f"'{path}' cannot be read as IDX images or labels: {error}.") from error


def read_cifar_binary(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Records of one label byte and 3 × 32 × 32 pixel bytes, as images with channels last."""
    try:
        records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in paths])
    except (OSError, ValueError) as error:
        raise DataError(f"'{paths[0].parent}' does not hold CIFAR-10's binary files: {error}.") from error
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def read_png_sheets(paths: list[Path], size: int, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sheets whose every row is one image of size × size RGB pixels, and a JSON list of labels."""
    from PIL import Image

    try:
        sheets = [np.asarray(Image.open(path).convert("RGB")).reshape(-1, size, size, 3) for path in paths]
        numbers = np.array(json.loads(labels.read_text(encoding="utf-8")), np.int64)
    except (OSError, ValueError) as error:
        raise DataError(f"'{paths[0].parent}' does not hold the sheets of images: {error}.") from error
    images = np.concatenate(sheets)
    if len(images) != len(numbers):
        raise DataError(f"'{labels}' has {len(numbers)} labels for {len(images)} images.")
    return images, numbers
