"""From what a person named to a training: an estimator, what it is fitted on, and what is saved besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.errors import SettingError
from accord.methods.two_stage import cost_of_many_classes

TRUTH = "truth.parquet"


@dataclass
class FitJob:
    """A training that can begin."""

    estimator: Any
    source: Mapping[str, Any]
    """Keyword arguments of `fit`."""
    first: str
    """What is done before the first epoch, in words."""
    notes: dict[str, Any] | None = None
    """What is stored with a run besides its settings."""
    also: Callable[[Path], None] = lambda draft: None
    """Writes further files into the run folder."""
    remarks: list[str] = field(default_factory=list)
    """What is said when it is done."""
    beforehand: list[str] = field(default_factory=list)
    """What is said before it begins."""

    def fit(self, callback: Any, checkpoint: Any) -> Any:
        self.estimator.fit(**self.source, callback=callback, checkpoint=checkpoint)
        if self.notes is not None:
            remarks = [*self.notes.get("remarks", []), *self.estimator.notes_.get("remarks", [])]
            self.estimator.notes_ |= self.notes | ({"remarks": remarks} if remarks else {})
        return self.estimator


def click_job(
    log: Any, values: dict[str, Any], columns: Mapping[str, Any], valid: Any = None, known: Any = None
) -> FitJob:
    from accord.estimators.recommender import Recommender

    source = {"log": log, "valid": valid, "known": known, **columns}
    return FitJob(Recommender(**values), source, "reading the log")


def label_job(
    given: Any, values: dict[str, Any], noise: float, noise_kind: str, clean: Path | None, matrix: Any = None
) -> FitJob:
    """``given`` are examples as `label_sources` reads them; noise is added to their labels on purpose."""
    from accord.data.noise import NoisyLabels, add_noise
    from accord.estimators.classifier import Classifier
    from accord.methods import METHODS
    from accord.tasks.label_sources import further, set_apart
    from accord.tasks.labels import GIVEN, OWN_NOISE

    values = {"augment": given.augment} | values
    settings = Classifier.check_settings(values)
    uses_clean = settings.method_class.uses_clean_labels
    if clean is not None and not uses_clean:
        using = ", ".join(name for name in METHODS if METHODS.find(name).uses_clean_labels)
        raise SettingError(f"clean= is for {using}; method '{settings.method}' uses none.")
    if noise and given.truth is not None:
        raise SettingError(OWN_NOISE)
    examples, true, rows = given.examples, given.truth, None
    trusted = None if clean is None else further(given, clean, as_table=True)
    if uses_clean and clean is None:
        if not noise and true is None:
            raise SettingError("This method learns from some clean examples: give them with clean=FILE.")
        examples, trusted, rows, true = set_apart(examples, settings.seed, true)
    labels, noisy = examples.labels, None
    true = labels if true is None else true
    classes, numbers = np.unique(np.concatenate([true, labels]), return_inverse=True)
    truth, own = numbers[: len(true)], numbers[len(true) :]
    if noise:
        drawn: dict[str, Any] = {"kind": noise_kind, "seed": settings.seed, "matrix": matrix}
        noisy = add_noise(truth, len(classes), noise, inputs=examples.inputs, **drawn)
        labels = classes[noisy.labels]
    elif given.truth is not None:
        noisy = NoisyLabels(own, truth, GIVEN, float((own != truth).mean()))

    def write_truth(draft: Path) -> None:
        if noisy is not None:
            # By the number of each example among those trained on and, where others were kept apart, among all.
            known = {"index": np.arange(len(labels)), "true_label": true, "is_noise": noisy.is_noise}
            parquet.write_table(pa.table(known if rows is None else known | {"row": rows}), draft / TRUTH)

    X = examples.inputs if examples.table is None else examples.table
    source = {"X": X, "y": labels, "clean": trusted, "names": examples.names}
    notes = examples.notes | {"noise": None if noisy is None else noisy.notes(), "examples": len(labels)}
    job = FitJob(Classifier(**values), source, "taking the examples in", notes, write_truth)
    job.beforehand += cost_of_many_classes(settings, len(classes))
    if rows is not None and trusted is not None:
        words = f"examples were kept apart as clean; {TRUTH} says in 'row' which ones the others are"
        job.remarks.append(f"{len(trusted[1])} {words}")
    return job
