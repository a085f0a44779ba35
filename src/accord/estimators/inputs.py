"""Examples in, of every kind that people have, brought to a table, an array or images.

Tables of pandas, polars, Arrow and Hugging Face's datasets become Arrow tables, with the labels as one of their
columns or apart. Sparse matrices become arrays. Data sets and loaders of torch are read whole, in order. Paths of
images, images of Pillow and arrays of several sizes become one array of images.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from accord.data.columns import listed
from accord.data.frames import as_table, index_of, is_frame, module_of
from accord.data.pictures import SUFFIXES, read_pictures
from accord.errors import DataError
from accord.memory import in_bytes, machine_memory

READ_AT_ONCE = 256
"""Examples of a data set that are read together."""
TEXT = "text"
"""What the one column of a list of texts is called."""


@dataclass(frozen=True)
class Examples:
    """Examples and their labels, as they are learned from."""

    inputs: Any
    """An Arrow table, an array of numbers (examples, columns), or images."""
    labels: Any = None
    frame: Any = None
    """The table as scikit-learn looks at the names of its columns."""
    names: np.ndarray | None = None
    """Of images: where they were read from."""
    index: pa.Array | None = None
    """The table's own names of its rows."""
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_table(self) -> bool:
        return isinstance(self.inputs, pa.Table)

    @property
    def is_whole(self) -> bool:
        """Whether a table holds integers alone, without gaps."""
        return self.is_table and all(pa.types.is_integer(c.type) and not c.null_count for c in self.inputs.columns)


@dataclass(frozen=True)
class Known:
    """What is known of the examples that were trained on, for those that are asked about later."""

    shape: tuple[int, ...]
    label: str | None = None
    """The column of labels, which may be among the others now."""
    depth: str | None = None


def examples_of(X: Any, y: Any = None, trained: Known | None = None) -> Examples:
    """What was given, as an Arrow table, an array or images; ``y`` may be the name of a column of X."""
    if isinstance(X, str | os.PathLike):
        return _of_path(Path(X), y, trained)
    if isinstance(X, DataLoader | Dataset) and not is_frame(X):
        return examples_of(*_of_data_set(X, y), trained)
    if is_frame(X):
        return _of_frame(X, y, trained)
    if hasattr(X, "toarray") and hasattr(X, "tocsr"):
        return Examples(_dense(X), y)
    if isinstance(X, list | tuple | np.ndarray) and len(X):
        return _of_list(X, y, trained)
    return Examples(X, y)


def _of_frame(X: Any, y: Any, trained: Known | None) -> Examples:
    table, index = as_table(X), index_of(X)
    label = y if isinstance(y, str) else trained.label if trained is not None else None
    if isinstance(y, str) and y not in table.column_names:
        raise DataError(f"The table has no column '{y}' of labels; its columns are {listed(table.column_names)}.")
    notes: dict[str, Any] = {}
    if isinstance(y, str):
        y, notes = _labels(table[y], y), {"label": y}
        names = getattr(X.features.get(label), "names", None) if module_of(X) == "datasets" else None
        y = [names[value] for value in y] if names else y
    elif y is not None:
        _refuse_other_order(X, y)
    frame = X if module_of(X) == "pandas" and X.ndim == 2 else table
    if label is not None and label in table.column_names:
        table = table.drop_columns([label])
        frame = frame.drop(columns=[label]) if module_of(frame) == "pandas" else table
    return Examples(table, y, frame, None, index, notes)


def _labels(column: pa.ChunkedArray, name: str) -> list[Any]:
    labels = column.to_pylist()
    at = next((k for k, value in enumerate(labels) if value is None or value != value or value == ""), None)
    if at is not None:
        raise DataError(f"A label is missing in column '{name}', data row {at + 1}; give one, or drop the row.")
    return labels


def _refuse_other_order(X: Any, y: Any) -> None:
    """Labels of pandas whose index has the rows of X in another order would be taken for those of other rows."""
    if module_of(X) == module_of(y) == "pandas" and len(X) == len(y) and not X.index.equals(y.index):
        unique = X.index.is_unique and y.index.is_unique
        if unique and y.index.isin(X.index).all():
            raise DataError("The labels have the rows of the table in another order; give y.loc[X.index].")


def _of_path(path: Path, y: Any, trained: Known | None) -> Examples:
    """A file with a table, whose column of labels ``y`` names, or a folder of images."""
    from accord.data.labelled_files import read_image_folder, table_of_file

    if path.is_dir():
        known = {} if trained is None else {"like": trained.shape, "depth": trained.depth}
        read = read_image_folder(path, label=y if isinstance(y, str) else None, **known)
        y = read.labels if y is None or isinstance(y, str) else y
        return Examples(read.inputs, y, None, read.names, None, read.notes)
    table, _ = table_of_file(path)
    found = _of_frame(table, y, trained)
    return replace(found, notes={**found.notes, "file": os.path.abspath(path)})


def _of_list(X: Any, y: Any, trained: Known | None) -> Examples:
    """A list or an array: of paths of images, of images, of texts, or of numbers."""
    first = X[0]
    if isinstance(first, Path) or (isinstance(first, str) and Path(first).suffix.lower() in SUFFIXES):
        names = [str(one) for one in X]
        return _of_pictures([Path(name) for name in names], [f"'{name}'" for name in names], y, trained, names)
    if isinstance(first, str) and np.ndim(X) == 1:
        if not all(isinstance(one, str) or one is None for one in X):
            raise DataError("Some of the texts are no text; give a list of strings alone.")
        texts = pa.table({TEXT: pa.array(list(X), pa.string())})
        return Examples(texts, y, texts)
    if module_of(first) == "PIL" or _differ_in_size(X):
        return _of_pictures(list(X), [f"Image {k}" for k in range(len(X))], y, trained)
    return Examples(X, y)


def _differ_in_size(X: Any) -> bool:
    arrays = isinstance(X, list | tuple) and all(isinstance(one, np.ndarray) and one.ndim in (2, 3) for one in X)
    return arrays and len({one.shape for one in X}) > 1


def _of_pictures(
    pictures: Sequence[Any], words: list[str], y: Any, trained: Known | None, names: list[str] | None = None
) -> Examples:
    if trained is not None and len(trained.shape) != 3:
        raise DataError("These are images, but the examples trained on are rows of a table; give rows like those.")
    like = {} if trained is None else {"like": trained.shape, "depth": trained.depth}
    read = read_pictures(pictures, words, **like)
    notes = {"depth": read.depth, "remarks": read.remarks}
    return Examples(read.pixels, y, None, None if names is None else np.array(names), None, notes)


def _dense(matrix: Any) -> np.ndarray:
    """A sparse matrix as an array, where there is memory for it."""
    rows, columns = matrix.shape
    need, free = 4 * rows * columns, machine_memory()
    if need > free:
        raise DataError(
            f"A sparse matrix of {rows:,} × {columns:,} numbers needs {in_bytes(need)} of memory as an array, but "
            f"this machine has {in_bytes(free)} free; make it narrower first, for example with TruncatedSVD."
        )
    if np.issubdtype(matrix.dtype, np.complexfloating):
        raise DataError("Complex data not supported; give real numbers.")
    return matrix.toarray()


# -- torch's data sets -----------------------------------------------------------------------------------------


def _of_data_set(given: Any, y: Any) -> tuple[Any, Any]:
    """All examples of a data set or of a loader, in the order of the data set, and their labels."""
    parts = list(_parts(given))
    if not parts:
        raise DataError("The data set holds no example.")
    inputs = [one for part, _ in parts for one in part]
    labels = [one for _, part in parts if part is not None for one in part]
    if y is None and labels:
        y = [one.item() if isinstance(one, Tensor | np.generic) else one for one in labels]
    if all(isinstance(one, Tensor) for one in inputs):
        inputs = [one.detach().cpu().numpy() for one in inputs]
    first = inputs[0]
    if isinstance(first, np.ndarray | np.generic | int | float) and len({np.shape(one) for one in inputs}) == 1:
        inputs = np.stack([np.asarray(one) for one in inputs])
        inputs = inputs[:, None] if inputs.ndim == 1 else inputs
    return inputs, y


def _parts(given: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any] | None]]:
    """Inputs and labels, some at a time; labels are None where the data set has none."""
    if isinstance(given, DataLoader):
        data, collate = given.dataset, given.collate_fn
        if not isinstance(data, IterableDataset) and not _goes_over_all(given):
            raise DataError(
                "The loader does not go over its data set once; give torch.utils.data.Subset(dataset, indices) "
                "instead, so that each label keeps its place."
            )
        for batch in DataLoader(data, READ_AT_ONCE, collate_fn=collate):
            yield _split(batch)
        return
    data = given if isinstance(given, IterableDataset) else (given[k] for k in range(len(given)))
    for one in data:
        inputs, label = _split(one)
        yield [inputs], None if label is None else [label]


def _goes_over_all(loader: DataLoader[Any]) -> bool:
    """Whether a loader gives each example of its data set once."""
    sampler = loader.sampler if loader.batch_sampler is None else getattr(loader.batch_sampler, "sampler", None)
    if isinstance(sampler, RandomSampler):
        return not sampler.replacement and sampler.num_samples == len(loader.dataset)  # pyright: ignore
    return isinstance(sampler, SequentialSampler)


def _split(one: Any) -> tuple[Any, Any]:
    """What a data set gives for an example, or a loader for several, as inputs and labels."""
    if isinstance(one, Mapping):
        from accord.data.labelled_files import LABEL_NAMES

        label = next((name for name in one if str(name).lower() in LABEL_NAMES), None)
        rest = [value for name, value in one.items() if name != label]
        if len(rest) != 1:
            raise DataError("An example of the data set has several inputs by name; give one input and its label.")
        return rest[0], None if label is None else one[label]
    if isinstance(one, tuple | list):
        if len(one) not in (1, 2):
            raise DataError(f"An example of the data set has {len(one)} parts; give an input and its label.")
        return one[0], one[1] if len(one) == 2 else None
    return one, None


__all__ = ["Examples", "Known", "examples_of"]
