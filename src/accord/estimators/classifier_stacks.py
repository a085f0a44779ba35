"""Classifiers that are trained as one stack: what they must share, and how many there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from accord.batches.labels import LabelData, LabelFeed, on_shared_inputs
from accord.estimators.base import Cache, Prepared, class_of
from accord.estimators.classifier_inputs import given_examples
from accord.estimators.examples import count, is_table
from accord.estimators.limits import free_memory
from accord.methods.two_stage import some_classes
from accord.models.classifiers.mlp import WIDTH
from accord.models.stack import stack_kind

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

MOST = {"cpu": 16, "cuda": 64}
"""Most runs of a stack: beyond them nothing is gained."""


def shared_by_stack(clf: Classifier, data: LabelData, valid: LabelData | None, clean: Any) -> dict[str, Any]:
    """What the runs of a stack must have in common."""
    alone = len(data) < clf.settings.batch_size or some_classes(clf.settings, len(clf.classes_)) is not None
    return {
        "number of examples": (len(data), valid is None, None if clean is None else count(clean[1])),
        "classes": tuple(clf.classes_.tolist()),
        "targets": (data.targets is None, data.mixup, data.augmentation),
        "weights, all or none": data.weights is None,
        "size of a step, or sum over all classes": id(clf) if alone else None,
    }


def join(clf: Classifier, prepared: Sequence[Prepared]) -> dict[str, Any]:
    """Let the runs of a stack share their inputs; returns more fields of the method's setup."""
    if clf._rows is not None:
        return {}
    runs = [one.run for one in prepared]
    distinct = {id(run.data.inputs): run.data.inputs for run in runs}
    size = sum(inputs.numel() * inputs.element_size() for inputs in distinct.values())
    if len(distinct) > 1:
        from accord.estimators.fitting import SHARE, StackError

        if 2 * size > SHARE * free_memory(clf._device):
            raise StackError("There is no room to lay the inputs of these runs end to end.")
    sets = on_shared_inputs([run.data for run in runs] + [run.valid for run in runs if run.valid is not None])
    for k, run in enumerate(runs):
        run.data = sets[k]
        run.valid = None if run.valid is None else sets[len(runs) + k]
    trusted = [one.clean for one in prepared if one.clean is not None]
    clean = LabelFeed(on_shared_inputs(trusted)) if trusted else None
    return {"clean": clean, "keep_last": runs[0].eval_set is not None}


def stackable(clf: Classifier, settings: Any) -> bool:
    """Whether runs with such settings are worth training as stacks, where they are alike."""
    named = settings.model in ("auto", "mlp") or stack_kind(class_of(settings.model, clf.task)) is not None
    return isinstance(clf.model, str) and named and not settings.compile and not clf.objects()


def room(clf: Classifier, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
    """How many runs like this one are best trained as one stack; 1 where they are not stacked."""
    from accord.estimators.fitting import room_for

    settings, given = clf.settings, given_examples(clf, source, cache)
    X = given.inputs
    model = settings.model if settings.model != "auto" else "mlp" if is_table(X) else "convnet"
    if stack_kind(class_of(model, clf.task)) is None:
        return 1
    example, classes = int(np.prod(np.shape(X)[1:])), len(np.unique(given.labels))
    inner = settings.batch_size * (example + 8 * WIDTH + classes * WIDTH)
    taken = 4 * (2 * inner + 12 * WIDTH * (example + 3 * WIDTH))
    own = len(X) if source.get("clean") is not None else 0  # laid end to end
    return room_for(taken + 2 * own * example * 4, MOST[device.type], device)
