"""Labelled data as a person names them: a data set of the catalogue, a folder of images, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.labelled_files import (
    Labelled,
    read_array,
    read_columns,
    read_image_folder,
    read_images,
    read_labelled_table,
)
from accord.data.splits import clean_apart
from accord.data.table_columns import TableColumns
from accord.errors import DataError, SettingError
from accord.tasks.base import FILE
from accord.tasks.labels import LabelTask

Tick = Callable[[int, int], None]
"""Called with images read and images in all."""


@dataclass(frozen=True)
class LabelSource:
    """Where the labelled data are."""

    data: Path
    label: str | None = None
    labels: Path | None = None
    size: int | None = None
    ignore: list[str] = field(default_factory=list)
    tick: Tick | None = None

    @property
    def named(self) -> bool:
        """Whether a data set of the catalogue is meant."""
        return str(self.data) in IMAGE_SETS and not self.data.exists()


@dataclass(frozen=True)
class LabelExamples:
    """Examples to train on, and clean ones to test by where the data set has them."""

    source: LabelSource
    examples: Labelled
    test: tuple[np.ndarray, np.ndarray] | None = None
    augment: str = "none"
    truth: np.ndarray | None = None
    """The true labels, where those of the examples are known to be wrong in part."""

    def task(self, noise: float, noise_kind: str, truth: Path | None, matrix: Any = None) -> LabelTask:
        """The task of these examples; a file of clean examples to test by takes the place of the set's own."""
        test = self.test if truth is None else further(self, truth)
        name = "data" if self.source.named else FILE
        protocol = {name: self.examples.notes["data"], "noise": noise, "noise_kind": noise_kind}
        given = self.examples.inputs, self.examples.labels, test, noise, noise_kind
        return LabelTask(*given, protocol=protocol, truth=self.truth, noise_matrix=matrix)


def read_examples(source: LabelSource) -> LabelExamples:
    name = str(source.data)
    if source.named:
        entry = IMAGE_SETS[name]
        data = entry.load()
        examples = Labelled(data.inputs, data.labels, None, {"source": "catalogue", "data": name})
        return LabelExamples(source, examples, (data.test_inputs, data.test_labels), entry.augment, data.truth)
    if source.data.is_dir():
        examples = read_image_folder(
            source.data, source.labels, label=source.label, tick=source.tick, size=source.size
        )
    elif source.labels is not None:
        raise SettingError(f"labels= is for a folder of images, but '{name}' is none; use label=COLUMN.")
    else:
        examples = read_labelled_table(source.data, source.label, tuple(source.ignore))
    return LabelExamples(source, replace(examples, notes={"data": name, **examples.notes}))


def further(given: LabelExamples, path: Path, *, as_table: bool = False) -> tuple[Any, np.ndarray]:
    """More examples like those at hand: labels of images of the same folder, or a table with the same columns.

    Those of a table come as numbers, or ``as_table``.
    """
    source, examples = given.source, given.examples
    if source.data.is_dir():
        alike = {"like": examples.inputs.shape[1:], "depth": examples.notes["depth"]}
        more = read_image_folder(source.data, path, label=source.label, tick=source.tick, **alike)
    elif "columns" in examples.notes:
        more = read_labelled_table(path, source.label, tuple(source.ignore))
        table = in_the_order_of(more, examples.notes["columns"], path)
        return table if as_table else _known(examples.columns).encode(table), more.labels
    else:
        raise SettingError(f"'{path}' cannot be used with the data set '{source.data}'.")
    return more.inputs, more.labels


def _known(columns: TableColumns | None) -> TableColumns:
    assert columns is not None, "examples of a table have columns"
    return columns


def in_the_order_of(examples: Labelled, columns: list[str], path: Path) -> pa.Table:
    """A table with its columns in the order that was trained on."""
    own = examples.notes["columns"]
    assert examples.table is not None
    if sorted(own) != sorted(columns):
        odd = sorted(set(own) ^ set(columns))[0]
        raise DataError(f"'{path}' has other columns than the training data; '{odd}' is in one of them alone.")
    return examples.table.select(columns)


def set_apart(
    examples: Labelled, seed: int, truth: np.ndarray | None = None
) -> tuple[Labelled, tuple[Any, np.ndarray], np.ndarray, np.ndarray | None]:
    """Some examples are taken out before noise is added on purpose: their labels are clean, or made so.

    The others, these, which the others are, and the others' truth where it is known.
    """
    apart, rest = clean_apart(len(examples.labels), seed)
    names: Any = None if examples.names is None else examples.names[rest]
    table = None if examples.table is None else examples.table.take(pa.array(rest))
    kept = Labelled(examples.inputs[rest], examples.labels[rest], names, examples.notes, table, examples.columns)
    clean = examples.labels if truth is None else truth
    inputs = examples.inputs[apart] if examples.table is None else examples.table.take(pa.array(apart))
    return kept, (inputs, clean[apart]), rest, None if truth is None else truth[rest]


def new_examples(data: Path, notes: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Examples to label, like those of a run, and the names of their files: a table with its columns, a folder of
    images, an array, or the test examples of a data set of the catalogue."""
    if str(data) in IMAGE_SETS and not data.exists():
        return IMAGE_SETS[str(data)].load().test_inputs, None
    if data.suffix.lower() == ".npy":
        return read_array(data), None
    if data.is_dir():
        return read_images(data, like=shape if len(shape) == 3 else None, depth=notes.get("depth"))
    if "columns" not in notes:
        raise SettingError(
            f"'{data}' is a file; the run was trained on images, so give a folder of images or a .npy."
        )
    return read_columns(data, notes["columns"]), None
