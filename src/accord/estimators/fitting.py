"""Fitting several classifiers at once: small ones as one stack, others side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from accord.data.labelled import BLOCK
from accord.data.labelled_stack import StackedLabels, on_shared_inputs
from accord.errors import AccordError, DataError
from accord.estimators.classifier import TABLE_ADVICE, Classifier, Prepared
from accord.estimators.classifier_settings import ClassifierSettings
from accord.estimators.examples import as_images, is_table, on_device, refused
from accord.estimators.limits import free_memory
from accord.estimators.networks import Trained
from accord.estimators.stacking import SHARE, StackError, batched, once
from accord.kernels import kernels_work
from accord.methods.denoising import PerRun
from accord.models.stack import Stack
from accord.models.stacked import stack
from accord.models.vision.mlp import WIDTH
from accord.training import Checkpoints, EpochRecord, Hook, checkpoint_of, drive, resolve_device
from accord.training.side_by_side import Failed
from accord.training.stacked_worlds import Labels
from accord.training.stacking import StackedRun, train_stacked

MAY_DIFFER = frozenset({"seed", "learning_rate", "weight_decay", "c1", "c2", "alpha"})
"""Settings in which the runs of a stack may differ."""
STACKED_METHODS = ("normal", "ensemble", "itlm", "mw-net", "deca", "deca-p")
"""Methods whose loss is the same for one run and for many."""
STACKED_ON = {"mlp": ("cpu", "cuda")}
"""Which models are trained as stacks, and on which devices that is faster."""
SIDE_BY_SIDE = 8
"""Runs that share a GPU, each on a stream of its own."""
MOST = {("mlp", "cpu"): 16, ("mlp", "cuda"): 64}
"""Most runs of a stack: beyond them nothing is gained."""
PIXEL_BYTES = 3_000, 150
"""Memory that ResNet-32 takes for a pixel of an example, in training and when it is asked."""
PASSES = {"mw-net": 3}
"""How many times as much a method holds in a step as a plain pass."""


def at_once(settings: ClassifierSettings, shape: Sequence[int], classes: int, own: int = 0) -> int:
    """How many runs are trained together, on examples of such a shape; ``own`` of them are a run's alone."""
    device = resolve_device(settings.device)
    model = _stackable(settings, len(shape) > 1)
    if model is None or settings.denoising(classes).some_classes is not None:
        return beside(device)
    if model == "mlp":
        example = int(np.prod(shape))
        inner = settings.batch_size * (example + 8 * WIDTH + classes * WIDTH)
        taken = 4 * (2 * inner + 12 * WIDTH * (example + 3 * WIDTH))
    else:
        step = PASSES.get(settings.method, 1) * PIXEL_BYTES[0] * settings.batch_size
        taken = int(np.prod(shape[:2])) * (step + PIXEL_BYTES[1] * BLOCK)
    taken += 2 * own * int(np.prod(shape)) * 4  # and laid end to end
    return int(max(1, min(MOST.get((model, device.type), 1), SHARE * free_memory(device) // taken)))


def _stackable(settings: ClassifierSettings, is_images: bool) -> str | None:
    """The model whose runs can be stacked here, where there is nothing that a stack does not know."""
    device = resolve_device(settings.device)
    usual = "convnet" if is_images else "mlp"
    models = {settings.model, settings.auxiliary} if settings.method == "deca" else {settings.model}
    (model, *others) = {usual if name == "auto" else name for name in models}
    known = not others and device.type in STACKED_ON.get(model, ()) and settings.method in STACKED_METHODS
    if not known or isinstance(settings.c1, tuple) or isinstance(settings.c2, tuple) or settings.compile:
        return None
    if model != "mlp" and settings.batch_size < 2:  # one example alone has no moments
        return None
    half = settings.dtype(device) == torch.bfloat16
    if model != "mlp" and device.type == "cuda" and not (half and kernels_work(device)):  # there its kernels run
        return None
    return None if settings.noise_classes is not None else model


def beside(device: torch.device) -> int:
    """How many runs that are no stack go on side by side."""
    return SIDE_BY_SIDE if device.type == "cuda" else 1


def stack_of(settings: ClassifierSettings, is_images: bool) -> str | None:
    """Words that runs share which can be trained as one stack; None where they are not stacked."""
    if _stackable(settings, is_images) is None:
        return None
    return json.dumps(settings.model_dump(exclude=set(MAY_DIFFER)), sort_keys=True, default=str)


def can_stack(classifiers: Sequence[Classifier], is_images: bool) -> bool:
    """Whether these can be trained as one: alike but for what may differ."""
    if len(classifiers) < 2 or not all(isinstance(clf.model, str) for clf in classifiers):
        return False
    each = {stack_of(clf.settings, is_images) for clf in classifiers}
    return len(each) == 1 and None not in each


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
    checkpoints: str | Path | Checkpoints | None = None,
) -> list[Classifier]:
    """Fit several classifiers at once, each on inputs and labels of its own.

    Perceptrons are trained as one stack where they are alike (see `can_stack`). Others on
    a GPU run side by side, each on a stream of its own; elsewhere they take turns. Inputs that are the same object
    are held once. A run gives what it would give alone. ``fitted`` is told of each as it is ready; where one cannot
    be trained, the others are, and ``failed`` is told of it, or its error is raised at the end. ``checkpoints`` is
    a folder in which stacks and runs are written down now and then; what is found there goes on from where it was.
    """
    counts = {len(given) for given in (classifiers, inputs, labels, clean, hooks) if given is not None}
    if counts != {len(classifiers)} or not classifiers:
        raise DataError(
            "Give as many inputs and lists of labels (and clean examples and hooks) as classifiers, at least one."
        )
    kept_in = Checkpoints(checkpoints) if isinstance(checkpoints, str | Path) else checkpoints
    device = resolve_device(classifiers[0].settings.device)
    held = _Held(inputs, device)
    extra = clean or [None] * len(classifiers)
    told = hooks or [None] * len(classifiers)
    errors: dict[int, AccordError] = {}
    others: list[int] = []
    for part in _stacks_among(classifiers, inputs, labels):
        try:
            if len(part) < 2:
                raise StackError("One run alone is no stack.")
            _fit_stacked(part, classifiers, inputs, labels, extra, watch, held, told, fitted, errors, kept_in)
            held.let_go(part)
        except StackError:  # their training parts differ in what a stack must share
            others += part
    for part in batched(others, beside(device)):
        runs = []
        for k in part:
            more = {"clean": extra[k], "watch": watch, "resident": held[k], "checkpoint": kept_in}
            runs.append(classifiers[k].start(inputs[k], labels[k], **more))

        def ended(k: int, history: list[EpochRecord], part: list[int] = part) -> None:
            classifiers[part[k]].finish(history)
            fitted(part[k])

        def stopped(k: int, error: AccordError, part: list[int] = part) -> None:
            errors[part[k]] = error

        drive(runs, device, [told[k] for k in part], ended, stopped)
        held.let_go(part)
    if kept_in is not None and kept_in is not checkpoints:
        kept_in.forget()
    _tell(errors, failed)
    return list(classifiers)


class _Held:
    """The inputs of runs, on the device while they are needed; those that are one object are held once."""

    def __init__(self, inputs: Sequence[Any], device: torch.device) -> None:
        self.device, self._keys = device, [id(X) for X in inputs]
        self._waiting: dict[int, np.ndarray] = {}
        self._there: dict[int, Tensor] = {}
        self._wanted = Counter(self._keys)
        for key, X in zip(self._keys, inputs, strict=True):
            if key not in self._waiting:  # what cannot be used is refused before anything is trained
                with refused(TABLE_ADVICE):
                    self._waiting[key] = np.asarray(X, np.float32) if is_table(X) else as_images(X)

    def __getitem__(self, run: int) -> Tensor:
        key = self._keys[run]
        if key not in self._there:
            self._there[key] = on_device(self._waiting[key], self.device)
        return self._there[key]

    def bytes_of(self, runs: Sequence[int]) -> int:
        """What the inputs of these runs take where they are not all one; else nothing more than they do anyway."""
        distinct = {self._keys[run] for run in runs}
        return sum(self._waiting[key].nbytes for key in distinct) if len(distinct) > 1 else 0

    def let_go(self, runs: Sequence[int]) -> None:
        for run in runs:
            self._wanted[self._keys[run]] -= 1
            if not self._wanted[self._keys[run]]:
                self._waiting.pop(self._keys[run])
                self._there.pop(self._keys[run], None)


def _stacks_among(
    classifiers: Sequence[Classifier], inputs: Sequence[Any], labels: Sequence[Any]
) -> list[list[int]]:
    """Those that can be trained as one, together; no more than there is memory for."""
    parts: dict[Any, list[int]] = {}
    for k, (clf, X) in enumerate(zip(classifiers, inputs, strict=True)):
        words = stack_of(clf.settings, not is_table(X)) if isinstance(clf.model, str) else None
        parts.setdefault((k,) if words is None else (words, np.shape(X)), []).append(k)
    stacks = []
    for part in parts.values():
        shape, classes = np.shape(inputs[part[0]])[1:], len(np.unique(labels[part[0]]))
        distinct = len({id(inputs[k]) for k in part}) > 1
        examples = len(inputs[part[0]]) if distinct else 0
        most = at_once(classifiers[part[0]].settings, shape, classes, examples) if len(part) > 1 else 1
        stacks += batched(part, most)
    return stacks


def _tell(errors: dict[int, AccordError], failed: Failed | None) -> None:
    for k, error in errors.items():
        if failed is None:
            raise error
        failed(k, error)


def _fit_stacked(
    part: Sequence[int],
    classifiers: Sequence[Classifier],
    inputs: Sequence[Any],
    labels: Sequence[Any],
    clean: Sequence[tuple[Any, Any] | None],
    watch: tuple[Any, Any] | None,
    held: _Held,
    hooks: Sequence[Hook | None],
    fitted: Callable[[int], None],
    errors: dict[int, AccordError],
    checkpoints: Checkpoints | None,
) -> None:
    """Train those of one part as a stack; what went wrong with one of them goes into ``errors``."""
    own, device = [classifiers[k] for k in part], held.device
    if 2 * held.bytes_of(part) > SHARE * free_memory(device):
        raise StackError("There is no room to lay the inputs of these runs end to end.")
    taken = []
    for clf, k in zip(own, part, strict=True):
        seen = {"clean": clean[k], "watch": watch if k == part[0] else None, "resident": held[k]}
        taken.append(clf.prepare(inputs[k], labels[k], **seen))
    _refuse_apart(own, taken)
    first, size = own[0].settings, len(own[0].classes_)
    model = _stackable(first, not is_table(inputs[part[0]])) or "mlp"
    sets = on_shared_inputs([one.data for one in taken] + [one.valid for one in taken if one.valid is not None])
    runs = []
    for place, (k, clf, one) in enumerate(zip(part, own, taken, strict=True)):
        valid = None if one.valid is None else sets[len(taken) + place]
        watched = taken[0].watched and replace(taken[0].watched, scaling=one.data.scaling)
        runs.append(StackedRun(clf.settings.training_options(model), sets[place], valid, hooks[k], watched))
    trusted = [one.trusted for one in taken if one.trusted is not None]
    stacks: list[Stack] = []

    def build(role: str, model: str | None = None) -> nn.Module:
        stacks.append(stack([one.build(role, model) for one in taken]))
        return stacks[-1]

    settings = {
        name: _per_run([float(getattr(c.settings, name)) for c in own], device) for name in ("c1", "c2", "alpha")
    }
    method = first.make_method(
        size,
        model,
        StackedLabels(on_shared_inputs(trusted)) if trusted else None,
        replace(first.denoising(size), **settings),
        keep_last=watch is not None,
    )
    phases = method.phases(build)
    changing = [value for value in settings.values() if isinstance(value, PerRun)]
    known = [device.type, *(clf.settings.model_dump_json() for clf in own), *(clf.labels_ for clf in own)]
    shared = [(inputs[k], one.inputs) for k, one in zip(part, taken, strict=True)]
    others = [*(given for k in part for given in clean[k] or ()), *(watch or ())]
    kept_in = checkpoint_of(checkpoints, *known, *once(shared + [(one, np.asarray(one)) for one in others]))
    train_stacked(phases, stacks, changing, runs, Labels(), kept_in)
    for place, (k, clf, run) in enumerate(zip(part, own, runs, strict=True)):
        try:
            if run.error is not None:
                raise run.error
            clf.finish(run.history, Trained.by(phases, run.watched, place))
            fitted(k)
        except AccordError as error:  # the others are kept
            errors[k] = error


def _per_run(values: list[float], device: torch.device) -> float | PerRun:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else PerRun(values, device)


def _refuse_apart(classifiers: Sequence[Classifier], taken: Sequence[Prepared]) -> None:
    """Runs with unlike numbers of examples, or who know different classes, are not one stack."""
    size = classifiers[0].settings.batch_size
    numbers = {(len(own.data), own.valid is None, own.trusted and len(own.trusted)) for own in taken}
    classes = {tuple(clf.classes_) for clf in classifiers}
    if len(numbers) > 1 or len(classes) > 1 or len(taken[0].data) < size:
        raise StackError("The training parts of these runs differ in size or classes.")
    if classifiers[0].settings.denoising(len(classifiers[0].classes_)).some_classes is not None:
        raise StackError("With so many classes runs are not stacked.")
