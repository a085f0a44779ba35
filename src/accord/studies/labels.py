"""Comparisons on labelled examples, whose labels may be made wrong on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from accord.data.noise import NoisyLabels, add_noise
from accord.data.splits import clean_apart
from accord.errors import AccordError, DataError
from accord.estimators.classifier import Classifier
from accord.estimators.classifier_settings import make_classifier_settings
from accord.estimators.fitting import at_once, beside, fit_together, stack_of
from accord.estimators.stacking import batched
from accord.evaluation.detection import detection_metrics
from accord.files import whole_file
from accord.methods import CLASSIFIER_METHODS, USES_CLEAN_LABELS
from accord.studies.budget import Budget
from accord.studies.spaces import Space, labels_space
from accord.studies.study import ORACLE, Cell, Job, Keep, Study, validation_value
from accord.training import Checkpoints, Hook, resolve_device

CLEANLAB = "cleanlab"
"""A row in which cleanlab finds the noise, by out-of-sample probabilities of networks that are trained normally."""
FOLDS = 5
FOUND = "noise auc"
"""The metric of how well the noise was found."""


@dataclass(frozen=True)
class LabelComparison(Study):
    """Examples with labels, methods, models, seeds, and clean test examples to judge by."""

    X: Any
    y: Any
    methods: Sequence[str]
    seeds: int = 3
    models: Sequence[str] = ("auto",)
    settings: dict[str, Any] = field(default_factory=dict)
    test: tuple[Any, Any] | None = None
    """Clean examples: for the final test, and watched along the way, but never chosen by."""
    noise: float = 0.0
    """Share of training labels redrawn; the labels as given are then taken for the truth."""
    noise_kind: str = "uniform"
    protocol: dict[str, Any] = field(default_factory=dict)
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: Budget | None = None
    only_tuned: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measurements: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Further measurements of every cell, by name: of a fitted classifier, its inputs, labels and noise, the test,
    and the path of the cell, beside which they may write."""
    spaces: Mapping[str, Space] = field(default_factory=dict)
    """What is searched for a method, in place of its usual space."""
    follows: Mapping[str, str] = field(default_factory=dict)
    noise_seed: int | None = None
    """Which labels are redrawn; by default others for every seed."""

    known_methods: ClassVar[Any] = CLASSIFIER_METHODS
    validation_metric: ClassVar[str] = "accuracy"

    def check(self) -> None:
        super().check()
        needy = [m for m in self.methods if m in (*USES_CLEAN_LABELS, ORACLE, CLEANLAB)]
        if needy and not self.noise:
            raise DataError(f"The {needy[0]} row needs to know clean labels: give --noise, which adds known noise.")

    def check_settings(self, values: dict[str, Any]) -> Any:
        return make_classifier_settings(values)

    def inputs(self) -> list[Any]:
        test = () if self.test is None else self.test
        return [self.X, self.y, *test]

    def digest(self, source: Any) -> str:
        return super().digest(np.asarray(source))

    def tested(self) -> str:
        return "right"

    def tested_mean(self) -> str:
        return "accuracy"

    def remarks(self, summary: dict[str, Any]) -> list[str]:
        if not self.noise:
            return super().remarks(summary)
        noisy = self._materials(Cell("", "normal", 0), {}).noisy
        realised = "" if noisy is None else f", of which {noisy.realised:.1%} of all are wrong (seed 0)"
        words = f"Noise: {self.noise:.0%} of labels redrawn ({self.noise_kind}){realised}"
        return [*super().remarks(summary), words]

    def identity_words(self) -> list[str]:
        drawn = [] if self.noise_seed is None else [self.noise_seed]
        return [json.dumps([self.noise, self.noise_kind, list(self.measurements), *drawn])]

    def groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Those that can be trained as one stack, whatever their rows and noise; the others side by side."""
        parts: dict[tuple[bool, str], list[Job]] = {}
        for job in sorted(jobs, key=lambda job: job.cell.seed):  # those of one seed may share a prior
            key = job.cell.method == CLEANLAB, job.study.stack_words(job.cell) or ""
            parts.setdefault(key, []).append(job)
        made = []
        for (in_folds, words), own in parts.items():
            many = self._at_once(*own[0].cell[:2]) if words else beside(self._device())
            made += batched(own, max(1, many // FOLDS) if in_folds else many)
        return made

    def _device(self) -> torch.device:
        return resolve_device(make_classifier_settings(self.settings_of(self.models[0], "normal", 0)).device)

    def stack_words(self, cell: Cell) -> str | None:
        """Words that cells share which can be trained as one stack; None for those that have fewer examples."""
        if cell.method == ORACLE:
            return None
        return stack_of(make_classifier_settings(self.settings_of(*cell)), np.ndim(self.X) > 2)

    def validated_at_once(self) -> int:
        return self._at_once(self.models[0], self.methods[0])

    def _at_once(self, model: str, method: str) -> int:
        settings = make_classifier_settings(self.settings_of(model, method, 0))
        own = len(self.X) if method in (*USES_CLEAN_LABELS, CLEANLAB) else 0
        return at_once(settings, np.shape(self.X)[1:], len(np.unique(self.y)), own)

    def validate(
        self,
        settings: Sequence[dict[str, Any]],
        method: str,
        hooks: Sequence[Hook | None],
        unfinished: Checkpoints | None = None,
    ) -> list[float]:
        apart: dict[Any, _Apart] = {}
        materials = [self._materials(Cell("", method, int(one["seed"])), apart) for one in settings]
        classifiers = [Classifier(**one) for one in settings]
        errors: dict[int, AccordError] = {}
        fit_together(
            classifiers,
            [m.inputs for m in materials],
            [m.labels for m in materials],
            clean=[m.clean for m in materials],
            hooks=hooks,
            failed=errors.__setitem__,
            checkpoints=unfinished,
        )
        return [
            nan if k in errors else validation_value(clf.metrics_["validation"], self.validation_metric)
            for k, clf in enumerate(classifiers)
        ]

    def ready(self, cell: Cell) -> bool:
        return (cell.method != CLEANLAB or find_spec("cleanlab") is not None) and super().ready(cell)

    def space(self, method: str) -> Space:
        return self.spaces.get(method) or labels_space(method)

    def run(
        self, jobs: Sequence[Job], hooks: Sequence[Hook | None], keep: Keep, unfinished: Checkpoints | None = None
    ) -> None:
        apart: dict[Any, _Apart] = {}
        materials = [job.study._materials(job.cell, apart) for job in jobs]
        if jobs[0].cell.method == CLEANLAB:  # a group of its own
            _find_by_cleanlab(jobs, materials, hooks, keep, unfinished)
            return
        classifiers = [Classifier(**job.study.settings_of(*job.cell)) for job in jobs]

        def fitted(k: int) -> None:
            study, cell, folder = jobs[k]
            path = folder / f"{cell.name}.parquet"
            keep(jobs[k], study._measured(cell, classifiers[k], materials[k], path))

        fit_together(
            classifiers,
            [m.inputs for m in materials],
            [m.labels for m in materials],
            clean=[m.clean for m in materials],
            watch=self.test,
            hooks=hooks,
            fitted=fitted,
            checkpoints=unfinished,
        )

    def _materials(self, cell: Cell, apart: dict[Any, _Apart]) -> _Materials:
        """What a cell is trained on; those that take the same clean examples ``apart`` share their inputs."""
        classes, truth = np.unique(self.y, return_inverse=True)
        if not self.noise:
            return _Materials(self.X, np.asarray(self.y), None, None)
        inputs, clean = self.X, None
        if cell.method in USES_CLEAN_LABELS:
            key = id(self.X), id(self.y), cell.seed
            if key not in apart:
                taken, rest = clean_apart(len(truth), cell.seed)
                apart[key] = _Apart(self.X[taken], classes[truth[taken]], self.X[rest], rest)
            clean, inputs = apart[key][:2], apart[key].others
            truth = truth[apart[key].rest]
        drawn = cell.seed if self.noise_seed is None else self.noise_seed
        noisy = add_noise(truth, len(classes), self.noise, kind=self.noise_kind, seed=drawn)
        if cell.method == ORACLE:
            right = ~noisy.is_noise
            return _Materials(inputs[right], classes[truth[right]], clean, None)
        return _Materials(inputs, classes[noisy.labels], clean, noisy)

    def _measured(self, cell: Cell, clf: Classifier, materials: _Materials, path: Path) -> dict[str, Any]:
        last = clf.history_[-1]
        result = self.facts(clf, _selection(clf), cell.method in (ORACLE, *USES_CLEAN_LABELS))
        result |= {
            "noise": None if materials.noisy is None else materials.noisy.notes(),
            "history": clf.history_,
        }
        if self.test is not None:
            right = clf.predict_proba(self.test[0]).argmax(1) == clf.class_numbers(self.test[1])
            with whole_file(path) as draft:
                parquet.write_table(pa.table({"right": right}), draft)
            result["metrics"] |= {"accuracy": float(right.mean())}
            if "watched" in last:
                result["metrics"]["last accuracy"] = last.get("watched_together", last["watched"])["accuracy"]
        if materials.noisy is not None and 0 < materials.noisy.realised < 1:
            result["detection"] = clf.evaluate_issues(materials.noisy.is_noise)
            result["metrics"][FOUND] = result["detection"]["roc_auc"]
        if self.measurements:
            given = (materials.inputs, materials.labels, materials.noisy, self.test)
            result["also"] = {name: measure(clf, *given, path) for name, measure in self.measurements.items()}
        return result


class _Apart(NamedTuple):
    """Examples taken out before noise is added, with their labels; the others, and which these are."""

    clean: Any
    labels: np.ndarray
    others: Any
    rest: np.ndarray


@dataclass(frozen=True)
class _Materials:
    """What a cell is trained on."""

    inputs: Any
    labels: np.ndarray
    clean: tuple[Any, Any] | None
    noisy: NoisyLabels | None


def _selection(clf: Classifier) -> str:
    if clf.settings.restore == "last" or not clf.settings.valid_share:
        return "none, the last epoch"
    return "best epoch by accuracy on held-out examples with the labels they have"


def _find_by_cleanlab(
    jobs: Sequence[Job],
    materials: Sequence[_Materials],
    hooks: Sequence[Hook | None],
    keep: Keep,
    unfinished: Checkpoints | None,
) -> None:
    """How well cleanlab finds the changed labels, by five networks that saw four fifths of them each."""
    from cleanlab.rank import get_label_quality_scores  # pyright: ignore[reportMissingImports]
    from sklearn.model_selection import StratifiedKFold

    given = [np.unique(own.labels, return_inverse=True)[1] for own in materials]
    folds: list[tuple[int, np.ndarray, np.ndarray]] = []  # whose, trained on, held out
    for which, (job, labels) in enumerate(zip(jobs, given, strict=True)):
        parts = StratifiedKFold(FOLDS, shuffle=True, random_state=job.cell.seed).split(labels, labels)
        folds += [(which, train, held) for train, held in parts]
    classifiers = [Classifier(**jobs[which].study.settings_of(*jobs[which].cell)) for which, *_ in folds]
    probabilities = [np.full((len(labels), labels.max() + 1), nan) for labels in given]

    def fitted(k: int) -> None:
        which, _, held = folds[k]
        job, own, found = jobs[which], materials[which], probabilities[which]
        found[held] = classifiers[k].predict_proba(own.inputs[held])
        if np.isnan(found).any():
            return
        assert own.noisy is not None  # as `check` has seen
        detection = detection_metrics(
            np.asarray(get_label_quality_scores(given[which], found)), own.noisy.is_noise, "label"
        )
        own_folds = classifiers[which * FOLDS :][:FOLDS]
        keep(
            job,
            job.study.facts(own_folds[0], _selection(own_folds[0]), False)
            | {
                "noise": own.noisy.notes(),
                "seconds": sum(fold.metrics_["train_seconds"] for fold in own_folds),
                "detection": detection,
                "metrics": {FOUND: detection["roc_auc"]},
            },
        )

    fit_together(
        classifiers,
        [materials[which].inputs[train] for which, train, _ in folds],
        [materials[which].labels[train] for which, train, _ in folds],
        hooks=[hooks[which] if k % FOLDS == 0 else None for k, (which, *_) in enumerate(folds)],
        fitted=fitted,
        checkpoints=unfinished,
    )
