"""Small pictures of examples, inside the page itself."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from accord.estimators import Classifier

LARGEST = 128
"""Pixels a side that a picture keeps."""
FEW_GREYS = 32
"""Images whose brightest number is no larger are not in bytes: they go to 1, or to 16."""


def thumbnails(clf: Classifier) -> list[dict[str, Any]]:
    """The images of the worst labels; none for tables."""
    if clf.worst_images_ is None:
        return []
    shown = []
    for at, pixels in zip(*clf.worst_images_, strict=True):
        name = at if clf.names_ is None else clf.names_[at]
        given, predicted = (clf.classes_[classes[at]] for classes in (clf.labels_, clf.predicted_))
        shown.append(
            {"index": at, "name": name, "given": given, "predicted": predicted, "picture": picture(pixels)}
        )
    return shown


def picture(pixels: np.ndarray) -> str:
    """An image (height, width, channels) as a PNG in a data address.

    Other numbers than bytes are stretched to them.
    """
    from PIL import Image

    values = np.asarray(pixels, float)
    low, high = values.min(), values.max()
    if low < 0 or high > 255 or high <= FEW_GREYS:
        values = (values - low) / ((high - low) or 1) * 255
    array = values.round().astype(np.uint8)
    image = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
