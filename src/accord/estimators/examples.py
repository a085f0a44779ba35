"""Examples in: arrays and tensors of any usual form become rows of a table or images with channels last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from accord.errors import AccordError, DataError

CHANNELS = (1, 3, 4)


class WrongKindError(DataError, TypeError):
    """Values of a kind that cannot be numbers or labels; scikit-learn wants a TypeError."""


class NotTrainedError(AccordError, NotFittedError):
    """Asked before it was trained; scikit-learn wants its own error."""


@contextmanager
def refused(advice: str) -> Iterator[None]:
    """Whatever numpy and scikit-learn refuse is refused in one sentence, which ends in what to do."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
            yield
    except AccordError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".:")
        kind = WrongKindError if isinstance(error, TypeError) else DataError
        raise kind(f"{reason[:1].upper()}{reason[1:]}; {advice}.") from error


def count(labels: Any) -> int:
    """How many there are; an object without a length is one."""
    try:
        return len(labels)
    except TypeError:
        return 1


def refuse_other_than_pairs(**given: Any) -> None:
    """Further examples are given as (inputs, labels), if at all."""
    for name, examples in given.items():
        if examples is not None and not (isinstance(examples, tuple | list) and len(examples) == 2):
            raise DataError(f"'{name}' is not a pair; give {name}=(inputs, labels).")


def is_table(values: Any) -> bool:
    """Whether rows of numbers were given, and not images; a list is known by its first element."""
    if isinstance(values, list | tuple) and values:
        try:
            return np.ndim(values[0]) < 2
        except ValueError:  # rows of different lengths
            return True
    return getattr(values, "ndim", 2) <= 2


def as_images(values: Any) -> np.ndarray:
    """(N, height, width, channels), bytes as they are and other numbers as float32."""
    with refused("images of one size want to be one array of numbers"):
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
    if 0 in array.shape[1:]:
        raise DataError(f"Images of shape {array.shape[1:]} have no pixels; give images of at least one.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    with refused("images are numbers"):
        array = np.ascontiguousarray(array, np.float32)
    broken = ~np.isfinite(array).all((1, 2, 3))
    if broken.any():
        raise DataError(
            f"{int(broken.sum())} images, the first of them number {int(broken.argmax())}, have pixels that are "
            "NaN, infinity or too large for float32; leave them out."
        )
    return array


def is_whole(table: Any) -> bool:
    """Whether a table is of integers, by its type; of a DataFrame, all columns."""
    if isinstance(table, Tensor):
        return not (table.is_floating_point() or table.is_complex() or table.dtype == torch.bool)
    dtypes = getattr(table, "dtypes", None)  # of pandas and polars
    if dtypes is not None:
        return len(dtypes) > 0 and all(str(one).lower().startswith(("int", "uint")) for one in dtypes)
    try:
        return np.asarray(table).dtype.kind in "iu"
    except ValueError:  # rows of different lengths, which are refused later
        return False


def lowest_and_highest(table: np.ndarray) -> Tensor:
    """The first row, and those with the lowest and the highest number: if a model takes them, it takes all."""
    rows = [0, *(int(at // table.shape[1]) for at in (table.argmin(), table.argmax()))] if table.size else []
    return torch.from_numpy(table[rows])


def as_whole(table: np.ndarray) -> np.ndarray:
    """Whole numbers as int64; others are refused."""
    if table.dtype.kind not in "iu" and not (table == np.floor(table)).all():
        raise DataError("The model was trained on whole numbers, and some of these are none; give the same kind.")
    return table.astype(np.int64)


@contextmanager
def known_ids() -> Iterator[None]:
    """An embedding that has no row for an id is one sentence."""
    try:
        yield
    except IndexError as error:
        raise DataError(
            f"These examples have an id that the model does not have ({error}); leave it out."
        ) from error


def as_classes(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, sorted, and the number of each example's."""
    with refused("give each example one label, a word or a whole number"):
        labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        return np.unique(labels, return_inverse=True)


def as_weights(weights: Any, examples: int) -> np.ndarray | None:
    """One weight for each example, none of them negative; a number alone is that of all."""
    if weights is None:
        return None
    advice = "sample_weight is one number for each example, zero or more"
    with refused(advice):
        values = np.asarray(weights, np.float64)
    if values.ndim == 0:
        values = np.full(examples, float(values))
    if values.shape != (examples,):
        raise DataError(f"Weights of shape {values.shape} for {examples} examples; {advice}.")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        raise DataError(f"Weight {values[bad][0]} of example {int(bad.argmax())}; {advice}.")
    return values


def scaled_weights(weights: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Weights whose mean over these rows is 1."""
    if weights is None:
        return None
    mean = weights[rows].mean()
    if not mean > 0:
        raise DataError("Every example to train on has a weight of zero; give some of them more.")
    return weights / mean


def on_device(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)  # a copy: arrays read from a file may not be written to
