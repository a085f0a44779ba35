"""Labelled examples, whose labels may be made wrong on purpose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.data.noise import NoisyLabels, add_noise
from accord.data.splits import clean_apart
from accord.errors import DataError
from accord.evaluation.detection import detection_metrics
from accord.files import whole_file
from accord.methods import Space
from accord.tasks.base import ORACLE, Cell, CellData, Task

CLEANLAB = "cleanlab"
"""A row in which cleanlab finds the noise, by out-of-sample probabilities of networks that are trained normally."""
GIVEN = "given"
"""The kind of noise that was in the labels from the start."""
OWN_NOISE = "This data set has wrong labels of its own, and says which; leave the noise to be added (noise=) out."
FOLDS = 5
FOUND = "noise auc"
"""The metric of how well the noise was found."""


@dataclass(frozen=True)
class LabelTask(Task):
    """Examples with labels, and clean test examples to judge by."""

    name: ClassVar[str] = "labels"
    metric: ClassVar[str] = "accuracy"
    units: ClassVar[str] = "examples"
    special_rows: ClassVar[tuple[str, ...]] = (CLEANLAB,)

    X: Any
    y: Any
    test: tuple[Any, Any] | None = None
    """Clean examples: for the final test, and measured after every epoch, but never used to choose."""
    noise: float = 0.0
    """Share of training labels redrawn; the labels as given are then taken for the truth."""
    noise_kind: str = "uniform"
    noise_matrix: Any = None
    """Of the kind `matrix`: a row of probabilities of labels for each class."""
    noise_seed: int | None = None
    """Which labels are redrawn; by default others for every seed."""
    spaces: dict[str, Space] = field(default_factory=dict)
    """What is searched for a method, in place of its usual space."""
    truth: Any = None
    """The true training labels, where they are known and differ from those given: to measure by, and for the rows
    that may know them. No noise is added then."""

    def estimator_class(self) -> Any:
        from accord.estimators.classifier import Classifier

        return Classifier

    def check(self, methods: Sequence[str]) -> None:
        needy = [m for m in methods if m == CLEANLAB or self.uses_knowledge(m)]
        if self.noise and self.truth is not None:
            raise DataError(OWN_NOISE)
        if needy and not self.knows_noise:
            raise DataError(
                f"The {needy[0]} row needs to know clean labels: give noise=0.2, say, which adds known noise."
            )

    @cached_property
    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct labels, and the class number of each example: the true one, where it is known."""
        if self.truth is None:
            return np.unique(self.y, return_inverse=True)
        both, numbers = np.unique(np.concatenate([self.truth, self.y]), return_inverse=True)
        return both, numbers[: len(self.truth)]

    @property
    def knows_noise(self) -> bool:
        """Whether it is known which labels are wrong."""
        return bool(self.noise) or self.truth is not None

    def _noisy(self, inputs: Any, truth: np.ndarray, rows: Any, seed: int, cache: dict[Any, Any]) -> NoisyLabels:
        """The labels to train on; ``rows`` are the examples, all of them where it is None."""
        classes, _ = self._classes
        if self.truth is not None:
            given = np.searchsorted(classes, np.asarray(self.y) if rows is None else np.asarray(self.y)[rows])
            return NoisyLabels(given, truth, GIVEN, float((given != truth).mean()))
        drawn = seed if self.noise_seed is None else self.noise_seed
        key = "noise", id(inputs), id(truth), self.noise, self.noise_kind, drawn
        if key not in cache:
            more = {"kind": self.noise_kind, "matrix": self.noise_matrix, "inputs": inputs}
            noisy = add_noise(truth, len(classes), self.noise, seed=drawn, **more)
            cache[key] = inputs, truth, noisy
        return cache[key][2]

    def cell_data(self, method: str, seed: int, settings: Any, cache: dict[Any, Any]) -> CellData:
        classes, truth = self._classes
        if not self.knows_noise:
            return CellData([self._source(self.X, np.asarray(self.y))])
        inputs, clean, rows = self.X, None, None
        if self.knows(method) and self.uses_knowledge(method):
            inputs, clean, truth, rows = self._apart(seed, cache)
        noisy = self._noisy(inputs, truth, rows, seed, cache)
        if method == ORACLE:
            right = ~noisy.is_noise
            return CellData([self._source(inputs[right], classes[truth[right]], clean)])
        if method == CLEANLAB:
            return CellData(self._folds(inputs, classes[noisy.labels], seed), noisy)
        return CellData([self._source(inputs, classes[noisy.labels], clean)], noisy)

    def _apart(self, seed: int, cache: dict[Any, Any]) -> tuple[Any, tuple[Any, Any], np.ndarray, np.ndarray]:
        """Clean examples are taken out before noise is added: the others' inputs, these, their truth and rows.

        Cells that take the same ones share the others' inputs.
        """
        classes, truth = self._classes
        key = "apart", id(self.X), id(self.y), seed
        if key not in cache:
            taken, rest = clean_apart(len(truth), seed)
            clean = self.X[taken], classes[truth[taken]]
            cache[key] = self.X, self.y, (self.X[rest], clean, truth[rest], rest)
        return cache[key][2]

    def _folds(self, inputs: Any, labels: np.ndarray, seed: int) -> list[dict[str, Any]]:
        """Four fifths of the examples for each of five networks."""
        kept = (train for train, _ in _splits(labels, seed))
        return [{"X": inputs[train], "y": labels[train]} for train in kept]

    def _source(self, X: Any, y: np.ndarray, clean: Any = None) -> dict[str, Any]:
        return {"X": X, "y": y, "clean": clean, "eval_set": self.test}

    def stack_group(self, cell: Cell) -> Any:
        """Rows of several studies may be one stack; the oracle has fewer examples than the others."""
        return None if cell.method == ORACLE else cell.method == CLEANLAB

    def ready(self, method: str) -> bool:
        """Whether what a row needs is installed."""
        return method != CLEANLAB or find_spec("cleanlab") is not None

    def trainings_of(self, method: str) -> int:
        return FOLDS if method == CLEANLAB else 1

    def space(self, method: str, model: str = "") -> Space:
        return self.spaces.get(method) or super().space(method, model)

    def measured(self, estimators: Sequence[Any], data: CellData, cell: Cell, path: Path) -> dict[str, Any]:
        if cell.method == CLEANLAB:
            return self._found_by_cleanlab(estimators, data, cell)
        (clf,) = estimators
        last, noisy = clf.history_[-1], data.noise
        result: dict[str, Any] = {"noise": None if noisy is None else noisy.notes(), "history": clf.history_}
        result["metrics"] = {}
        if self.test is not None:
            right = clf.predict_proba(self.test[0]).argmax(1) == clf.class_numbers(self.test[1])
            with whole_file(path) as draft:
                parquet.write_table(pa.table({"right": right}), draft)
            result["metrics"] |= {"accuracy": float(right.mean())}
            if "eval_set" in last:
                result["metrics"]["last accuracy"] = last.get("eval_set_together", last["eval_set"])["accuracy"]
        if noisy is not None and 0 < noisy.realised < 1:
            result["detection"] = clf.evaluate_issues(noisy.is_noise)
            result["metrics"][FOUND] = result["detection"]["roc_auc"]
        return result

    def _found_by_cleanlab(self, folds: Sequence[Any], data: CellData, cell: Cell) -> dict[str, Any]:
        """How well cleanlab finds the changed labels, by five networks that saw four fifths of them each."""
        from cleanlab.rank import get_label_quality_scores  # pyright: ignore[reportMissingImports]

        noisy: NoisyLabels = data.noise
        classes, _ = self._classes
        given = np.unique(classes[noisy.labels], return_inverse=True)[1]
        probabilities = np.full((len(given), given.max() + 1), np.nan)
        for clf, (_, held) in zip(folds, _splits(classes[noisy.labels], cell.seed), strict=True):
            probabilities[held] = clf.predict_proba(self.X[held])
        quality = np.asarray(get_label_quality_scores(given, probabilities))
        detection = detection_metrics(quality, noisy.is_noise, "label")
        return {
            "noise": noisy.notes(),
            "seconds": sum(fold.metrics_["train_seconds"] for fold in folds),
            "detection": detection,
            "metrics": {FOUND: detection["roc_auc"]},
        }

    def selection(self, estimator: Any) -> str:
        if estimator.settings.kept_epoch == "last" or not estimator.settings.valid_share:
            return "none, the last epoch"
        return "best epoch by accuracy on held-out examples with the labels they have"

    def tested(self) -> str:
        return "right"

    def tested_mean(self) -> str:
        return "accuracy"

    def remarks(self) -> list[str]:
        if not self.knows_noise:
            return []
        noisy = self.cell_data("normal", 0, None, {}).noise
        realised = "" if noisy is None else f", of which {noisy.realised:.1%} of all are wrong (seed 0)"
        if noisy is not None and self.truth is not None:
            return [f"Noise: the labels as people gave them, of which {noisy.realised:.1%} are wrong"]
        return [f"Noise: {self.noise:.0%} of labels redrawn ({self.noise_kind}){realised}"]

    def inputs(self) -> list[Any]:
        more = [one for one in (self.truth, self.noise_matrix) if one is not None]
        return [self.X, self.y, *(() if self.test is None else self.test), *more]

    def identity_words(self, measurements: Sequence[str]) -> list[str]:
        drawn = [] if self.noise_seed is None else [self.noise_seed]
        return [json.dumps([self.noise, self.noise_kind, list(measurements), *drawn])]

    def comparable(self, source: Any) -> Any:
        return np.asarray(source)


def _splits(labels: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Five times the examples to train on and those held out."""
    from sklearn.model_selection import StratifiedKFold

    numbers = np.unique(labels, return_inverse=True)[1]
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(numbers, numbers))
