"""Pictures in: files, Pillow images or arrays, of any sizes and depths, become one array of one size."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.image_heads import open_image
from accord.errors import AccordError, DataError
from accord.extras import needed
from accord.memory import refuse_too_large
from accord.plain import size_of

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")
LARGEST_COMMON = 64
"""Pixels of the longer side that pictures of several sizes are brought to, at most."""
DEPTHS = {"F": "fractions", "I": "32 bits"}
"""Depths by Pillow's modes; I;16 and its kin have 16 bits, and all others 8."""
ORIENTATION = 0x0112
"""The tag of EXIF that says how a photograph is to be turned."""
TURNED, LYING = range(2, 9), range(5, 9)
"""Values of that tag by which it is turned at all, and by which width and height change places."""
Tick = Callable[[int, int], None]
"""Called with images read and images in all."""


@dataclass(frozen=True)
class Pictures:
    """Pictures as one array, and what was done to them."""

    pixels: np.ndarray
    """(examples, height, width, channels): bytes, or float32 where the pictures are deeper."""
    depth: str
    remarks: list[str]


@dataclass(frozen=True)
class _Look:
    """What the head of a picture says."""

    width: int
    height: int
    colour: bool
    depth: str


def read_pictures(
    pictures: Sequence[Any],
    names: Sequence[str],
    *,
    size: int | tuple[int, int] | None = None,
    like: tuple[int, ...] | None = None,
    depth: str | None = None,
    tick: Tick | None = None,
) -> Pictures:
    """Paths, Pillow images or arrays as one array; ``names`` are what messages call them.

    All are gray if all are, else in colour. Photographs are turned as their EXIF data say. Pictures of 16 or 32
    bits or of fractions keep their numbers, so all have to be of one depth. Those of several sizes are brought to
    the median height and width, the longer side of at most `LARGEST_COMMON` pixels; ``size`` sets the sides, and
    ``like`` asks for a shape (height, width, channels) that was trained on.
    """
    looks = [_look_at(picture, name) for picture, name in zip(pictures, names, strict=True)]
    found = _one_depth(looks, names, depth)
    height, width = like[:2] if like is not None else _common_size(looks, size)
    channels = like[2] if like is not None else 3 if any(look.colour for look in looks) else 1
    if channels not in (1, 3) or (channels == 1 and any(look.colour for look in looks)):
        name = names[next((k for k, look in enumerate(looks) if look.colour), 0)]
        raise DataError(f"{name} has not the {channels} channel(s) of the images trained on; give it in gray.")
    kind = np.uint8 if found == "8 bits" else np.float32
    stored = _stored(pictures) if size is None and like is None else None
    _refuse_too_many(len(looks), height, width, channels * np.dtype(kind).itemsize, stored)
    pixels = np.empty((len(looks), height, width, channels), kind)
    for k, (picture, name) in enumerate(zip(pictures, names, strict=True)):
        pixels[k] = _pixels(picture, name, found, height, width, channels)
        if tick is not None:
            tick(k + 1, len(looks))
    resized = sum((look.height, look.width) != (height, width) for look in looks)
    sizes = len({(look.height, look.width) for look in looks})
    remark = f"{resized} of {len(looks)} images, of {sizes} size(s), were brought to {width}×{height} pixels"
    remark += "" if size or like else "; size=N chooses another size"
    return Pictures(pixels, found, [remark] if resized else [])


def _one_depth(looks: list[_Look], names: Sequence[str], wanted: str | None) -> str:
    depth = wanted or looks[0].depth
    for look, name in zip(looks, names, strict=True):
        if look.depth != depth:
            other = f"{names[0]} has {depth}" if wanted is None else f"those trained on have {depth}"
            raise DataError(f"{name} has pixels of {look.depth}, and {other}; save all images alike, as 8 bits.")
    return depth


def _common_size(looks: list[_Look], size: int | tuple[int, int] | None) -> tuple[int, int]:
    if size is not None:
        return (size, size) if isinstance(size, int) else size
    heights, widths = [look.height for look in looks], [look.width for look in looks]
    if len(set(heights)) == len(set(widths)) == 1:
        return heights[0], widths[0]
    height, width = statistics.median(heights), statistics.median(widths)
    shrink = min(1.0, LARGEST_COMMON / max(height, width))
    return max(1, round(height * shrink)), max(1, round(width * shrink))


def _refuse_too_many(count: int, height: int, width: int, each: int, stored: int | None) -> None:
    words = f"Reading {count} images of {width}×{height} pixels"
    refuse_too_large(count * height * width * each, words, "give a smaller size, or fewer images", stored)


def _stored(pictures: Sequence[Any]) -> int | None:
    """Bytes of the files; nothing where pictures are in memory."""
    try:
        return sum(size_of(one) for one in pictures) if all(isinstance(one, Path) for one in pictures) else None
    except OSError:
        return None


@contextmanager
def _opened(picture: Any, name: str) -> Iterator[Any]:
    """A picture as Pillow's image; whatever is wrong with it is one sentence."""
    Image = needed("PIL.Image", "Reading images")
    try:
        if isinstance(picture, Path):
            # As a file, not by its name: then Pillow maps no pixels, and turns TIFFs of all kinds alike.
            with open_image(picture, name) as image:
                yield image
        elif isinstance(picture, Image.Image):
            yield picture
        else:
            yield _from_array(np.asarray(picture))
    except AccordError:
        raise
    except MemoryError as error:
        raise DataError(f"There is not enough memory for {name}; give size=N.") from error
    except Exception as error:  # a damaged image can make a decoder raise anything
        reason = "it is no image, or damaged"
        if isinstance(picture, Path) and not _is_file(picture):
            reason = "it is not there"
        raise DataError(f"{name} cannot be read as an image: {reason}.") from error


def _from_array(array: np.ndarray) -> Any:
    """An array (height, width[, channels]) as Pillow's image; other gray numbers than bytes as fractions."""
    Image = needed("PIL.Image", "Reading images")
    array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if array.dtype != np.uint8 and array.ndim == 2:
        return Image.fromarray(array.astype(np.float32))
    return Image.fromarray(array)


def _look_at(picture: Any, name: str) -> _Look:
    """Size, channels and depth by the head of a file; its pixels are not decoded."""
    Image = needed("PIL.Image", "Reading images")
    with _opened(picture, name) as image:
        width, height = image.size
        # The class's own method: that of PNG decodes the whole image.
        if Image.Image.getexif(image).get(ORIENTATION, 1) in LYING:
            # Some versions of Pillow say the size of a TIFF as it is to be seen, others as it is stored.
            width, height = _turned(image).size if image.format == "TIFF" else (height, width)
        depth = DEPTHS.get(image.mode, "16 bits" if image.mode.startswith("I;") else "8 bits")
        return _Look(width, height, depth == "8 bits" and image.mode not in ("1", "L"), depth)


def _pixels(picture: Any, name: str, depth: str, height: int, width: int, channels: int) -> np.ndarray:
    """(height, width, channels), as EXIF says it is to be seen."""
    with _opened(picture, name) as image:
        image = _turned(image)
        if depth == "8 bits":
            wanted = "L" if channels == 1 else "RGB"
            image = image if image.mode == wanted else image.convert(wanted)  # which copies what is so already
        elif image.mode != "F":
            image = _fractions(image)
        if image.size != (width, height):
            image = image.resize((width, height))
        array = np.asarray(image)
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise DataError(f"{name} has pixels that are NaN or infinite; leave it out.")
        array = array[..., None] if array.ndim == 2 else array
        return np.repeat(array, channels, 2) if array.shape[2] == 1 else array


def _turned(image: Any) -> Any:
    """An image as EXIF says it is to be seen."""
    ImageOps = needed("PIL.ImageOps", "Reading images")
    image.load()  # which turns a TIFF already; asked before, it would be turned twice
    as_it_lies = image.getexif().get(ORIENTATION, 1) not in TURNED
    return image if as_it_lies else ImageOps.exif_transpose(image)  # which copies what is so already


def _fractions(image: Any) -> Any:
    Image = needed("PIL.Image", "Reading images")
    return Image.fromarray(np.asarray(image).astype(np.float32))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
