"""Labels and probabilities as people have them, as class numbers and arrays; nothing large is copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.errors import DataError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
NEAR_ONE = 0.02
"""How far the probabilities of a row may be from adding up to 1: half precision is not exact."""
BLOCK_CELLS = 1 << 20


def members_of(pred_probs: Any) -> tuple[dict[str, np.ndarray], list[str] | None]:
    """One array or several, by name, as arrays (n, C); and the classes, where tables name their columns."""
    if isinstance(pred_probs, Mapping):
        given = {str(name): one for name, one in pred_probs.items()}
    elif isinstance(pred_probs, list | tuple) and len(pred_probs) and all(np.ndim(one) == 2 for one in pred_probs):
        given = {str(k + 1): one for k, one in enumerate(pred_probs)}
    elif not _is_table(pred_probs) and np.ndim(pred_probs) == 3:
        given = {str(k + 1): one for k, one in enumerate(np.asarray(pred_probs))}
    else:
        given = {"1": pred_probs}
    if not given:
        raise DataError("No probabilities were given; give an array with a row of probabilities for each label.")
    members, names = {}, None
    for name, one in given.items():
        members[name], own = _array(one, _called(name, len(given)))
        if names is not None and own is not None and own != names:
            raise DataError("The tables of probabilities name their columns differently; give them in one order.")
        names = names or own
    return members, names


def check_members(members: Mapping[str, np.ndarray], count: int, of: str = "label") -> None:
    """Refuse what are no probabilities of one set of classes for each of so many labels."""
    widths = sorted({one.shape[1] for one in members.values()})
    for name, one in members.items():
        what = _called(name, len(members))
        if len(one) != count:
            raise DataError(f"{what} has {len(one)} rows for {count} {of}s; give one row for each {of}, in order.")
        if len(widths) > 1:
            raise DataError(
                f"The arrays of probabilities have {listed(widths)} columns; give the same classes in all."
            )
        if one.shape[1] < 2:
            raise DataError(f"{what} has {one.shape[1]} column; give one for each class, at least two.")
        for rows in blocks(count, one.shape[1]):
            _check_block(one[rows], what, rows.start)


def _check_block(block: np.ndarray, what: str, start: int) -> None:
    sums = block.sum(1, dtype=np.float64)
    if np.isfinite(sums).all() and (np.abs(sums - 1) <= NEAR_ONE).all() and block.min() >= 0:
        return
    bad = ~np.isfinite(block).all(1)
    if bad.any():
        raise DataError(
            f"{what} has a missing or infinite number in row {start + int(bad.argmax())}; every label needs "
            "probabilities of a model that has not learned it."
        )
    bad = (block < 0).any(1) | (np.abs(sums - 1) > NEAR_ONE)
    row = int(bad.argmax())
    raise DataError(
        f"Row {start + row} of {what[:1].lower()}{what[1:]} holds no probabilities (they add up to "
        f"{sums[row]:.4g}); give numbers of at least 0 that add up to 1, such as predict_proba returns."
    )


def _array(one: Any, what: str) -> tuple[np.ndarray, list[str] | None]:
    names = None
    if _is_table(one):
        table = one if isinstance(one, pa.Table) else pa.table(one)
        names = [str(name) for name in table.column_names]
        try:
            columns = [np.asarray(table[k].cast(pa.float64())) for k in range(table.num_columns)]
        except pa.ArrowException as error:
            raise DataError(f"{what} has a column that holds no numbers; give probabilities alone.") from error
        one = np.stack(columns, 1) if columns else np.zeros((0, 0))
    try:
        array = np.asarray(one)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.ndim != 2 or array.dtype.kind != "f":
        shape = "×".join(map(str, array.shape)) or "no numbers"
        raise DataError(
            f"{what} is of shape {shape}; give numbers with one row for each label, one column for each class."
        )
    return array, names


def _is_table(one: Any) -> bool:
    return isinstance(one, pa.Table) or hasattr(one, "__arrow_c_stream__") or hasattr(one, "iloc")


def _called(name: str, count: int) -> str:
    return f"Array {name} of probabilities" if count > 1 else "The array of probabilities"


def as_arrow(values: Any, what: str) -> pa.Array:
    """A column of labels or ids, of any kind of sequence, as an Arrow array; missing ones are refused."""
    if hasattr(values, "to_numpy") and not isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_numpy()
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(f"The {what}s are of shape {'×'.join(map(str, values.shape))}; give one {what} a row.")
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        values = values.astype(str).tolist() if values.dtype.kind == "S" else values.tolist()
    try:
        found: Any = (
            values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"The {what}s are of several kinds; give strings alone or whole numbers alone.") from error
    array: Any = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not len(array):
        return array
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py()
        raise DataError(f"{array.null_count} {what}(s) are missing (the first in row {row}); leave those rows out.")
    return _plain(array, what)


def _plain(array: pa.Array, what: str) -> pa.Array:
    if pa.types.is_floating(array.type):
        try:
            return array.cast(pa.int64())
        except pa.ArrowException as error:
            raise DataError(
                f"The {what}s are fractions; {what}s are names or whole numbers (multi-label and regression are "
                "not judged)."
            ) from error
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if not (pa.types.is_integer(array.type) or pa.types.is_string(array.type) or pa.types.is_boolean(array.type)):
        raise DataError(
            f"The {what}s are of type {array.type}; {what}s are names or whole numbers, one a row (multi-label and "
            "regression are not judged)."
        )
    return array


def class_numbers(
    labels: pa.Array, width: int | None, classes: Any = None, names: Sequence[str] | None = None
) -> tuple[np.ndarray, pa.Array]:
    """Labels as numbers of their columns, and the class of each column.

    Classes are as given, or as tables name their columns; else whole numbers from 0 on that have columns are the
    numbers of these; else the sorted distinct labels, as in scikit-learn's ``classes_``.
    """
    found = pc.unique(labels)
    if classes is not None:
        order = as_arrow(classes, "class")
        if len(pc.unique(order)) < len(order):
            raise DataError("A class is named twice in classes; name each once, in the order of the columns.")
    elif names is not None and _all_in(found, pa.array(names)):
        order = pa.array(names)
    elif width is not None and _are_columns(found, width):
        order = pa.array(np.arange(width))
    else:
        order = found.take(pc.sort_indices(found))
    if width is not None and len(order) != width:
        hint = "" if classes is not None else "; say with classes= which class each column is, in order"
        raise DataError(f"There are {width} columns of probabilities and {len(order)} classes{hint}.")
    if labels.type != order.type:
        labels = labels.cast(pa.string() if pa.types.is_string(order.type) else order.type, safe=False)
    numbers = pc.index_in(labels, value_set=order)
    if numbers.null_count:
        row = pc.index(pc.is_null(numbers), True).as_py()
        raise DataError(
            f"Label {labels[row].as_py()!r} (row {row}) is none of the classes; name all of them in classes=."
        )
    return np.asarray(numbers).astype(np.int32), order


def _all_in(found: pa.Array, names: pa.Array) -> bool:
    return bool(pc.all(pc.is_in(found.cast(pa.string()), value_set=names)).as_py())


def _are_columns(found: pa.Array, width: int) -> bool:
    if not pa.types.is_integer(found.type) or not len(found):
        return False
    low, high = pc.min_max(found).as_py().values()
    return low >= 0 and high < width


def blocks(count: int, cells: int) -> Iterator[slice]:
    """Rows of so many cells each, a block's worth at a time."""
    step = max(1, BLOCK_CELLS // max(1, cells))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def listed(values: Sequence[object]) -> str:
    """Values in a sentence.

    >>> listed([2, 3, 5])
    '2, 3 and 5'
    """
    words = [str(value) for value in values]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
