"""Small pictures of examples, inside the page itself."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.data.png import small_png

if TYPE_CHECKING:
    from accord.estimators import Classifier

LARGEST = 128
"""Pixels a side that a picture keeps."""


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
    """An image (height, width, channels) as a PNG in a data address."""
    return "data:image/png;base64," + base64.b64encode(small_png(pixels, LARGEST)).decode()
