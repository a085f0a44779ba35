"""Labelled data as a person names them: a data set of the catalogue, a folder of images, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

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

    def task(self, noise: float, noise_kind: str, truth: Path | None) -> LabelTask:
        """The task of these examples; a file of clean examples to test by takes the place of the set's own."""
        test = self.test if truth is None else further(self, truth)
        name = "data" if self.source.named else FILE
        protocol = {name: self.examples.notes["data"], "noise": noise, "noise_kind": noise_kind}
        given = self.examples.inputs, self.examples.labels, test, noise, noise_kind
        return LabelTask(*given, protocol=protocol, truth=self.truth)


def read_examples(source: LabelSource) -> LabelExamples:
    name = str(source.data)
    if source.named:
        entry = IMAGE_SETS[name]
        data = entry.load()
        examples = Labelled(data.inputs, data.labels, None, {"source": "catalogue", "data": name})
        return LabelExamples(source, examples, (data.test_inputs, data.test_labels), entry.augment, data.truth)
    if source.data.is_dir():
        if source.labels is None:
            raise SettingError(f"'{name}' is a folder; say which file holds its labels with labels=FILE.")
        examples = read_folder(source.data, source.labels, source.label, source.size, source.tick)
    elif source.labels is not None:
        raise SettingError(f"labels= is for a folder of images, but '{name}' is none; use label=COLUMN.")
    else:
        examples = read_labelled_table(source.data, source.label, tuple(source.ignore))
    return LabelExamples(source, replace(examples, notes={"data": name, **examples.notes}))


def read_folder(
    folder: Path, labels: Path, label: str | None, size: int | None, tick: Tick | None = None
) -> Labelled:
    return read_image_folder(folder, labels, label=label, size=size, tick=tick)


def further(given: LabelExamples, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """More examples like those at hand: labels of images of the same folder, or a table with the same columns."""
    source, examples = given.source, given.examples
    if source.data.is_dir():
        size = source.size or examples.inputs.shape[1]
        more = read_folder(source.data, path, source.label, size, source.tick)
    elif "columns" in examples.notes:
        more = read_labelled_table(path, source.label, tuple(source.ignore))
        more = in_the_order_of(more, examples.notes["columns"], path)
    else:
        raise SettingError(f"'{path}' cannot be used with the data set '{source.data}'.")
    return more.inputs, more.labels


def in_the_order_of(examples: Labelled, columns: list[str], path: Path) -> Labelled:
    """A table with its columns in the order that was trained on."""
    own = examples.notes["columns"]
    if sorted(own) != sorted(columns):
        odd = sorted(set(own) ^ set(columns))[0]
        raise DataError(f"'{path}' has other columns than the training data; '{odd}' is in one of them alone.")
    return replace(examples, inputs=examples.inputs[:, [own.index(name) for name in columns]])


def set_apart(
    examples: Labelled, seed: int, truth: np.ndarray | None = None
) -> tuple[Labelled, tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray | None]:
    """Some examples are taken out before noise is added on purpose: their labels are clean, or made so.

    The others, these, which the others are, and the others' truth where it is known.
    """
    apart, rest = clean_apart(len(examples.labels), seed)
    names: Any = None if examples.names is None else examples.names[rest]
    kept = Labelled(examples.inputs[rest], examples.labels[rest], names, examples.notes)
    clean = examples.labels if truth is None else truth
    return kept, (examples.inputs[apart], clean[apart]), rest, None if truth is None else truth[rest]


def new_examples(data: Path, notes: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """Examples to label, like those of a run, and the names of their files: a table with its columns, a folder of
    images, an array, or the test examples of a data set of the catalogue."""
    if str(data) in IMAGE_SETS and not data.exists():
        return IMAGE_SETS[str(data)].load().test_inputs, None
    if data.suffix.lower() == ".npy":
        return read_array(data), None
    if data.is_dir():
        inputs, names = read_images(data, shape[0] if len(shape) == 3 else None)
        wanted = shape[2] if len(shape) == 3 else inputs.shape[3]
        return (np.repeat(inputs, wanted, 3) if inputs.shape[3] == 1 else inputs), names
    if "columns" not in notes:
        raise SettingError(
            f"'{data}' is a file; the run was trained on images, so give a folder of images or a .npy."
        )
    return read_columns(data, notes["columns"]), None
