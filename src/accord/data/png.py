"""Arrays as PNG, without an image library."""

from __future__ import annotations

import struct
import zlib

import numpy as np

COLOURS = {1: 0, 3: 2, 4: 6}
"""What PNG calls grey, RGB and RGBA, by the number of channels."""
FEW_GREYS = 32
"""Images whose brightest number is no larger are not in bytes: they go to 1, or to 16."""


def small_png(pixels: np.ndarray, largest: int) -> bytes:
    """An image (height, width, channels) of at most so many pixels a side; other numbers than bytes are stretched
    to them."""
    values = np.asarray(pixels, float)
    low, high = values.min(), values.max()
    if low < 0 or high > 255 or high <= FEW_GREYS:
        values = (values - low) / ((high - low) or 1) * 255
    return as_png(smaller(values, largest).round().astype(np.uint8))


def smaller(values: np.ndarray, largest: int) -> np.ndarray:
    """An image of at most so many pixels a side: each is the mean of a square of the original's."""
    step = -(-max(values.shape[:2]) // largest)
    height, width = (max(1, size // step) for size in values.shape[:2])
    high, wide = (min(size, step) for size in values.shape[:2])
    squares = values[: height * high, : width * wide].reshape(height, high, width, wide, -1)
    return squares.mean((1, 3))


def as_png(pixels: np.ndarray) -> bytes:
    """Bytes (height, width, channels) as a PNG: grey, RGB or RGBA."""
    height, width, channels = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)  # 0: as they are
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
