"""Pictures of examples and of items, made as PNG when they are asked for; never a file outside what was named."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

from accord.data.image_heads import open_image
from accord.data.png import small_png
from accord.errors import DataError, first_line
from accord.extras import needed
from accord.plain import size_of

SMALL, LARGE = 160, 640
"""Pixels of the longer side, in the queue and beside it."""
PLAIN = ("1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr")
"""Pillow's modes of eight bits; others are stretched from their lowest to their highest number."""


class Pictures(Protocol):
    """Gives the picture at a position as PNG; nothing where there is none."""

    def png(self, at: int, largest: int) -> bytes | None: ...


class ArrayPictures:
    """Images that are in an array; those of ``rows``, where not all of it are meant."""

    def __init__(self, pixels: Any, rows: np.ndarray | None = None) -> None:
        self.pixels, self.rows = pixels, rows

    def png(self, at: int, largest: int) -> bytes | None:
        image = np.asarray(self.pixels[at if self.rows is None else self.rows[at]])
        image = image[..., None] if image.ndim == 2 else image
        if image.size == 0 or image.shape[2] not in (1, 3, 4) or not np.isfinite(image).all():
            return None
        return small_png(image, largest)


class FewPictures:
    """Images of some positions alone, as a run keeps those of its worst labels."""

    def __init__(self, at: np.ndarray, pixels: np.ndarray) -> None:
        self.place = {int(one): k for k, one in enumerate(at)}
        self.inner = ArrayPictures(pixels)

    def png(self, at: int, largest: int) -> bytes | None:
        return self.inner.png(self.place[at], largest) if at in self.place else None


class FilePictures:
    """Files of a folder by the names that a table has for them."""

    def __init__(self, folder: Path, names: Sequence[Any]) -> None:
        self.folder, self.home, self.names = folder, folder.resolve(), names

    def path(self, at: int) -> Path | None:
        """The file at a position, if it is in the folder."""
        name = self.names[at]
        try:
            path = (self.folder / str(name)).resolve()
            inside = name is not None and path.is_relative_to(self.home) and path.is_file()
        except (OSError, ValueError, RuntimeError):  # a NUL in it, or a link to itself
            return None
        return path if inside else None

    def png(self, at: int, largest: int) -> bytes | None:
        path = self.path(at)
        if path is None:
            return None
        try:
            with open_image(path) as image:
                return _as_png(image, largest)
        except DataError:
            return None
        except Exception as error:  # a damaged image can make a decoder raise anything
            if isinstance(error, MemoryError | ImportError):
                raise
            return None


def _as_png(image: Any, largest: int) -> bytes:
    """An image of Pillow's, made smaller and written anew: nothing of the file itself goes out."""
    ImageOps = needed("PIL.ImageOps", "Showing pictures")
    if image.mode not in PLAIN:
        pixels = np.asarray(image, np.float64)
        return small_png(pixels[..., None] if pixels.ndim == 2 else pixels, largest)
    image.draft("RGB", (2 * largest, 2 * largest))  # a JPEG is decoded smaller at once
    image = ImageOps.exif_transpose(image)
    has_alpha = image.mode in ("RGBA", "LA") or "transparency" in image.info
    image = image.convert("RGBA" if has_alpha else "RGB")
    image.thumbnail((largest, largest))
    for name in list(image.info):
        del image.info[name]
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)
    return file.getvalue()


def array_of_images(path: Path, count: int, shape: tuple[int, ...]) -> Any:
    """The images of a .npy file, left on the disk, where they are so many of such a shape."""
    try:
        size_of(path)
        pixels = npy.open_memmap(path, mode="r")
    except DataError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"'{path}' cannot be read as an array of images: {first_line(error)}.") from error
    found = pixels.shape[1:] if pixels.ndim == 4 else (*pixels.shape[1:], 1)
    if len(pixels) != count or tuple(found) != tuple(shape) or pixels.dtype.kind not in "buif":
        size = "×".join(map(str, pixels.shape))
        wanted = "×".join(map(str, (count, *shape)))
        raise DataError(f"'{path}' holds {size} numbers, and the run was fitted on {wanted}; give those images.")
    return pixels
