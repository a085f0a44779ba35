"""Images, looked at before they are decoded: their heads say what the pixels will take."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from accord.errors import DataError
from accord.extras import needed
from accord.memory import refuse_too_large
from accord.plain import open_plain

IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Decoders that are used: no format that hands its content to another program, as EPS does."""
GRAY, COLOUR, COEFFICIENTS = 4, 16, 6
"""Bytes that a pixel takes while an image is decoded and converted; a JPEG's coefficients, besides."""
TAG_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
"""Bytes of a value of each type of TIFF's tags."""
EXIF = b"Exif\0\0"
FURTHER_TAGS = 1 << 20
"""Bytes that the tags of an image may have, besides twice the file's: several may share what they lead to."""


@contextmanager
def open_image(path: Path, name: str = "", formats: tuple[str, ...] = IMAGE_FORMATS) -> Iterator[Any]:
    """A plain file as Pillow's image, not decoded yet; one that would not fit into memory is refused.

    ``name`` is what messages call it.
    """
    Image = needed("PIL.Image", "Reading images")
    name = name or f"'{path}'"
    with _plain(path, name) as file:
        _refuse_tags(file, name)
        try:
            image = Image.open(file, formats=formats)
        except Image.DecompressionBombError as error:
            raise DataError(f"{name} has too many pixels ({error}); make it smaller.") from error
        with image:
            width, height = image.size
            each = GRAY if image.mode in ("1", "L") else COLOUR
            each += COEFFICIENTS if image.format == "JPEG" else 0
            refuse_too_large(width * height * each, f"{name} of {width}×{height} pixels", "make it smaller")
            notes = image.info.get("exif")
            if isinstance(notes, bytes):
                _refuse_directory(notes.removeprefix(EXIF), len(notes), name)
            yield image


def _plain(path: Path, name: str) -> BufferedReader:
    try:
        return open_plain(path)
    except DataError as error:
        raise DataError(f"{name} cannot be read as an image: {error}") from error


def _refuse_tags(file: BufferedReader, name: str) -> None:
    """Refuse a TIFF whose tags are copies of one another: each is read as bytes of its own."""
    size = os.fstat(file.fileno()).st_size
    head = file.read(16)
    if head[:2] in (b"II", b"MM"):
        file.seek(0)
        _refuse_directory(file, size, name)
    file.seek(0)


def _refuse_directory(content: Any, size: int, name: str) -> None:
    total = 0
    try:
        for kind, count in _tags(content):
            total += TAG_SIZES.get(kind, 1) * count
    except (struct.error, ValueError):
        return  # its decoder says what is wrong
    if total > 2 * size + FURTHER_TAGS:
        raise DataError(f"{name} has tags of {total:,} bytes in a file of {size:,}; save the image again.")


def _tags(content: Any) -> Iterator[tuple[int, int]]:
    """Type and number of values of each tag of the first directory."""

    def read(form: str, at: int) -> tuple[Any, ...]:
        length = struct.calcsize(order + form)
        if isinstance(content, bytes):
            return struct.unpack(order + form, content[at : at + length])
        content.seek(at)
        return struct.unpack(order + form, content.read(length))

    order = "<"
    (mark,) = read("2s", 0)
    order = ">" if mark == b"MM" else "<"
    if read("H", 2)[0] == 43:  # with addresses of eight bytes
        at = read("Q", 8)[0]
        number, first, length, form = read("Q", at)[0], at + 8, 20, "HHQ"
    else:
        at = read("I", 4)[0]
        number, first, length, form = read("H", at)[0], at + 2, 12, "HHI"
    for k in range(min(number, 1 << 16)):
        _, kind, count = read(form, first + k * length)
        yield kind, count
