"""Fitting several classifiers at once: small ones as one stack, others side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from accord.errors import AccordError, DataError
from accord.estimators.classifier import TABLE_ADVICE, Classifier, Prepared
from accord.estimators.classifier_settings import ClassifierSettings
from accord.estimators.examples import as_images, is_table, on_device, refused
from accord.estimators.limits import free_memory
from accord.estimators.stacking import SHARE, StackError
from accord.methods import ClassifierMethodSettings, make_classifier_method
from accord.methods.denoising import PerRun
from accord.models.stacked import Stack, stack
from accord.models.vision.mlp import WIDTH
from accord.training import EpochRecord, Hook, drive, resolve_device
from accord.training.side_by_side import Failed
from accord.training.stacked_worlds import Labels
from accord.training.stacking import StackedRun, train_stacked

MAY_DIFFER = frozenset({"seed", "learning_rate", "weight_decay", "c1", "c2", "alpha"})
"""Settings in which the runs of a stack may differ."""
STACKED_METHODS = ("normal", "ensemble", "deca", "deca-p")
"""Methods whose loss is the same for one run and for many."""
SIDE_BY_SIDE = 8
"""Runs that share a GPU, each on a stream of its own."""
ON_CPU, ON_GPU = 16, 64
"""Most runs of a stack: beyond them nothing is gained."""


def at_once(settings: ClassifierSettings, example: int, classes: int, is_images: bool) -> int:
    """How many runs are trained together, on examples of so many numbers."""
    device = resolve_device(settings.device)
    if not _is_small(settings, is_images) or settings.denoising(classes).some_classes is not None:
        return _beside(device)
    numbers = 2 * settings.batch_size * (example + 8 * WIDTH + classes * WIDTH) + 12 * WIDTH * (example + 3 * WIDTH)
    most = ON_GPU if device.type == "cuda" else ON_CPU
    return int(max(1, min(most, SHARE * free_memory(device) // (4 * numbers))))


def _is_small(settings: ClassifierSettings, is_images: bool) -> bool:
    """Whether its runs can be stacked: perceptrons, without what a stack does not know."""
    usual = "convnet" if is_images else "mlp"
    models = {settings.model, settings.auxiliary} if settings.method == "deca" else {settings.model}
    if {usual if model == "auto" else model for model in models} != {"mlp"}:
        return False
    plain = settings.augment == "none" or not is_images
    plain &= not isinstance(settings.c1, tuple) and not isinstance(settings.c2, tuple)
    return plain and settings.method in STACKED_METHODS and settings.noise_classes is None


def _beside(device: torch.device) -> int:
    """How many runs that are no stack go on side by side."""
    return SIDE_BY_SIDE if device.type == "cuda" else 1


def can_stack(classifiers: Sequence[Classifier], is_images: bool) -> bool:
    """Whether these can be trained as one: perceptrons, alike but for what may differ."""
    if len(classifiers) < 2 or not all(isinstance(clf.model, str) for clf in classifiers):
        return False
    each = [clf.settings for clf in classifiers]
    if not all(_is_small(one, is_images) for one in each):
        return False
    fixed = [one.model_dump(exclude=set(MAY_DIFFER)) for one in each]
    return all(one == fixed[0] for one in fixed)


def fit_together(
    classifiers: Sequence[Classifier],
    inputs: Sequence[Any],
    labels: Sequence[Any],
    *,
    clean: Sequence[tuple[Any, Any] | None] | None = None,
    watch: tuple[Any, Any] | None = None,
    hooks: Sequence[Hook | None] | None = None,
    fitted: Callable[[int], None] = lambda k: None,
    failed: Failed | None = None,
) -> list[Classifier]:
    """Fit several classifiers at once, each on inputs and labels of its own.

    Perceptrons on the same inputs are trained as one stack (see `can_stack`). Others on a GPU run side by side,
    each on a stream of its own; elsewhere they take turns. Inputs that are the same object are held once. A run
    gives what it would give alone. ``fitted`` is told of each as it is ready; where one cannot be trained, the
    others are, and ``failed`` is told of it, or its error is raised at the end.
    """
    counts = {len(given) for given in (classifiers, inputs, labels, clean, hooks) if given is not None}
    if counts != {len(classifiers)} or not classifiers:
        raise DataError(
            "Give as many inputs and lists of labels (and clean examples and hooks) as classifiers, at least one."
        )
    device = resolve_device(classifiers[0].settings.device)
    held: dict[int, Tensor] = {}
    for X in inputs:
        if id(X) not in held:
            with refused(TABLE_ADVICE):
                held[id(X)] = on_device(np.asarray(X, np.float32) if is_table(X) else as_images(X), device)
    if len(held) == 1 and can_stack(classifiers, not is_table(inputs[0])):
        try:
            return _fit_stacked(
                classifiers, inputs[0], labels, watch, next(iter(held.values())), hooks, fitted, failed
            )
        except StackError:  # their training parts differ in what a stack must share
            pass
    extra = clean or [None] * len(classifiers)
    told = hooks or [None] * len(classifiers)
    errors: dict[int, AccordError] = {}
    for first in range(0, len(classifiers), _beside(device)):
        part = range(first, min(first + _beside(device), len(classifiers)))
        runs = [
            classifiers[k].start(inputs[k], labels[k], clean=extra[k], watch=watch, resident=held[id(inputs[k])])
            for k in part
        ]

        def ended(k: int, history: list[EpochRecord], first: int = first) -> None:
            classifiers[first + k].finish(history)
            fitted(first + k)

        def stopped(k: int, error: AccordError, first: int = first) -> None:
            errors[first + k] = error

        drive(runs, device, [told[k] for k in part], ended, stopped)
    _tell(errors, failed)
    return list(classifiers)


def _tell(errors: dict[int, AccordError], failed: Failed | None) -> None:
    for k, error in errors.items():
        if failed is None:
            raise error
        failed(k, error)


def _fit_stacked(
    classifiers: Sequence[Classifier],
    X: Any,
    labels: Sequence[Any],
    watch: tuple[Any, Any] | None,
    resident: Tensor,
    hooks: Sequence[Hook | None] | None,
    fitted: Callable[[int], None],
    failed: Failed | None,
) -> list[Classifier]:
    taken = [
        clf.prepare(X, y, watch=watch if k == 0 else None, resident=resident)
        for k, (clf, y) in enumerate(zip(classifiers, labels, strict=True))
    ]
    _refuse_apart(classifiers, taken)
    first, size = classifiers[0].settings, len(classifiers[0].classes_)
    told = hooks or [None] * len(classifiers)
    runs = []
    for clf, own, hook in zip(classifiers, taken, told, strict=True):
        watched = taken[0].watched and replace(taken[0].watched, scaling=own.data.scaling)
        runs.append(StackedRun(clf.settings.training_options("mlp"), own.data, own.valid, hook, watched))
    stacks: list[Stack] = []

    def build(role: str, model: str | None = None) -> nn.Module:
        stacks.append(stack([own.build(role, model) for own in taken]))
        return stacks[-1]

    settings = {
        name: _per_run([float(getattr(c.settings, name)) for c in classifiers], resident.device)
        for name in ("c1", "c2", "alpha")
    }
    denoising = replace(first.denoising(size), **settings)
    method = make_classifier_method(first.method, ClassifierMethodSettings(denoising, "mlp"))
    phases = method.phases(build)
    changing = [value for value in settings.values() if isinstance(value, PerRun)]
    train_stacked(phases, stacks, changing, runs, Labels())
    kept: dict[str, Any] = {role: phase.networks[role] for phase in phases for role in phase.kept}
    errors: dict[int, AccordError] = {}
    for k, (clf, run) in enumerate(zip(classifiers, runs, strict=True)):
        try:
            if run.error is not None:
                raise run.error
            clf.finish(run.history, {role: own.everyone[k] for role, own in kept.items()})
            fitted(k)
        except AccordError as error:  # the others are kept
            errors[k] = error
    _tell(errors, failed)
    return list(classifiers)


def _per_run(values: list[float], device: torch.device) -> float | PerRun:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else PerRun(values, device)


def _refuse_apart(classifiers: Sequence[Classifier], taken: Sequence[Prepared]) -> None:
    """Runs whose epochs have different lengths, or who know different classes, are not one stack."""
    size = classifiers[0].settings.batch_size
    lengths = {(own.data.steps_in_epoch(size), -(-len(own.data) // size), own.valid is None) for own in taken}
    classes = {tuple(clf.classes_) for clf in classifiers}
    if len(lengths) > 1 or len(classes) > 1 or min(len(own.data) for own in taken) < size:
        raise StackError("The training parts of these runs differ in size or classes.")
    if classifiers[0].settings.denoising(len(classifiers[0].classes_)).some_classes is not None:
        raise StackError("With so many classes runs are not stacked.")
