"""Examples in: arrays and tensors of any usual form become rows of a table or images with channels last."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from accord.errors import DataError

CHANNELS = (1, 3, 4)


def is_table(values: Any) -> bool:
    return getattr(values, "ndim", 2) <= 2


def as_images(values: Any) -> np.ndarray:
    """(N, height, width, channels), bytes as they are and other numbers as float32."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in CHANNELS and array.shape[1] in CHANNELS:
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[3] not in CHANNELS:
        raise DataError(
            f"Inputs of shape {array.shape} are neither a table (examples, columns) nor images "
            "(examples, height, width[, channels]) of 1, 3 or 4 channels."
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    array = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(array).all():
        raise DataError("Some pixels are NaN or infinity; leave those images out.")
    return array


def as_classes(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, sorted, and the number of each example's."""
    labels = column_or_1d(labels, warn=True)
    check_classification_targets(labels)
    return np.unique(labels, return_inverse=True)


def on_device(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)  # a copy: arrays read from a file may not be written to
