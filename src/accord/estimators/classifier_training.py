"""What a classifier is trained on: its examples on the device, the part that is held out, and its networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation
from accord.data.splits import stratified_mask
from accord.decisions.tables import Names
from accord.errors import DataError, SettingError
from accord.estimators.base import Cache, Prepared, place_of
from accord.estimators.classifier_inputs import as_fitted, asked, known_of, take_examples
from accord.estimators.classifier_networks import check_networks, keeps_weights, networks_of
from accord.estimators.classifier_stacks import shared_by_stack
from accord.estimators.deciding import decided, find_rows
from accord.estimators.examples import as_weights, count, on_device, refuse_other_than_pairs, scaled_weights
from accord.estimators.handed import weights_of
from accord.estimators.inputs import examples_of
from accord.estimators.limits import require_memory
from accord.estimators.networks import Networks
from accord.estimators.scikit_models import Judges, Lessons, folds_of, taken
from accord.training import Run, has_whole_gpu

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

TRAIN, VALID, LEFT_OUT = 0, 1, 2
"""The use of an example: trained on, held out for choosing the epoch, or of neither use, as a person dropped it."""


def prepare(clf: Classifier, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
    """Check the arguments of `fit`, hold a part out, and say what to train."""
    settings, clean, lesson = clf.settings, source.get("clean"), source.get("lesson")
    _refuse(settings, source)
    clf._device, clf.notes_ = device, {}
    take_examples(clf, source, cache)
    left = _learn_decisions(clf, source)
    weights = as_weights(source.get("sample_weight"), len(clf.labels_))
    crossed = clf._rows is not None and not settings.method_class.convenes  # then models of folds judge all labels
    held = _held_out(clf, source, crossed) & ~left
    learnt = ~held & ~left
    clf.part_ = np.select([left, held], [LEFT_OUT, VALID], TRAIN).astype(np.int8)
    clf._weights = scaled_weights(weights, learnt)
    values = _on_device(clf, source["X"], cache)
    rows = torch.from_numpy(np.flatnonzero(learnt) if lesson is None else lesson.rows).to(device)
    clf.scaling_ = _scaling(clf, values, rows, lesson)
    given = torch.from_numpy(clf.labels_).to(device)
    clf._whole = data_of(clf, values, given, torch.arange(len(clf.labels_), device=device))
    data = _to_train_on(clf, values, given, rows, lesson)
    run = Run(settings.training_options(clf.model_, keeps_weights(clf)), data, LabelFeed)
    build = networks_of(clf, _has_lone_steps(clf, len(rows)))
    build.begins = {} if lesson is None else lesson.begins
    valid: Any = None
    if clf._rows is not None:
        valid = _teach(clf, build, run, held, crossed, weights)
    else:
        check_networks(clf, build)
        if held.any():
            valid = data_of(clf, values, given, torch.from_numpy(np.flatnonzero(held)).to(device))
    if clf._weights is not None:
        data.weights = torch.from_numpy(clf._weights).float().to(device)
        if isinstance(valid, LabelData):
            valid.weights = data.weights
    clf._eval_set = _other(clf, source.get("eval_set"), cache)
    run.valid, run.eval_set = valid, clf._eval_set
    shared = shared_by_stack(clf, data, valid, clean)
    return Prepared(run, build, clf.model_, _identity(clf, source), shared, _other(clf, clean, cache))


def _refuse(settings: Any, source: Mapping[str, Any]) -> None:
    """Refuse arguments that are of the wrong kind, or not for this method."""
    clean, method = source.get("clean"), settings.method_class
    refuse_other_than_pairs(clean=clean, eval_set=source.get("eval_set"))
    if method.uses_clean_labels and (clean is None or not count(clean[1])):
        raise DataError(
            f"Method {method.name} learns from some clean examples: give fit(..., clean=(inputs, labels))."
        )
    if clean is not None and not method.uses_clean_labels:
        raise SettingError(f"Method '{settings.method}' learns from no clean examples; leave clean= out.")
    if source.get("sample_weight") is not None and not method.takes_weights:
        raise SettingError(f"Method '{settings.method}' takes no sample_weight; leave it out.")


def _learn_decisions(clf: Classifier, source: Mapping[str, Any]) -> np.ndarray:
    """Take decided labels in the place of those that were given; gives the examples that are left out."""
    left = np.zeros(len(clf.labels_), bool)
    clf._decided, clf._given = None, clf.labels_
    if source.get("decisions") is None:
        return left
    words = clf.classes_[clf.labels_]
    names = Names("labels", clf.classes_, lambda table: find_rows(table, len(words), words))
    found = clf._decided = decided(source["decisions"], names, len(words))
    clf.labels_ = clf.labels_.copy()
    for item, verdict in found.verdicts.items():
        if verdict.action == "fix":
            clf.labels_[item] = verdict.label
    left[found.at("drop")] = True
    if left.all():
        raise DataError("The decisions drop every example, so nothing is left to learn from.")
    return left


def _held_out(clf: Classifier, source: Mapping[str, Any], crossed: bool) -> np.ndarray:
    """True for the examples on which the epoch is chosen."""
    settings, drawn = clf.settings, source.get("lesson") is None and "divided" not in source
    if settings.valid_share > 0 and drawn and not crossed:
        return stratified_mask(clf.labels_, settings.valid_share, seed=settings.seed)
    return source.get("divided", np.zeros(len(clf.labels_), bool))


def _scaling(clf: Classifier, values: Tensor, rows: Tensor, lesson: Any) -> Scaling:
    """That of the examples to train on; a council's for its members."""
    if not standardises(clf):
        return Scaling.none(clf.shape_[-1])
    if lesson is None:
        return Scaling.of(values.index_select(0, rows)).to(torch.device("cpu"))
    return lesson.scaling


def _to_train_on(clf: Classifier, values: Tensor, given: Tensor, rows: Tensor, lesson: Any) -> LabelData:
    data = data_of(clf, values, given, rows)
    if values.dim() == 4 and clf.settings.augment != "none":
        data.augmentation = Augmentation(flip=clf.settings.augment == "crop-flip")
    return data if lesson is None else lesson.given_to(data)


def _teach(
    clf: Classifier, build: Networks, run: Run, held: np.ndarray, crossed: bool, weights: np.ndarray | None
) -> Judges:
    """Hand an estimator of scikit-learn the rows to learn from; gives those on which it is measured."""
    seen, seed = np.flatnonzero(held), clf.settings.seed
    build.lessons = Lessons(clf._rows, clf.labels_, clf.classes_, run, seed, not len(seen), weights)
    clf.notes_ |= {"judged_by_folds": folds_of(len(run.data))} if crossed and not len(seen) else {}
    unseen = taken(clf._rows, seen) if len(seen) else None
    own = seen if len(seen) else slice(None)
    return Judges(clf.labels_[own], unseen, None if weights is None else weights[own])


def _on_device(clf: Classifier, X: Any, cache: Cache) -> Tensor:
    """The inputs on the device; those that are one object are held once."""

    def make() -> Tensor:
        if clf._rows is not None and len(clf.shape_) == 1:  # which stay as they are
            return torch.zeros(len(clf.labels_), 1, device=clf._device)
        size = clf._inputs.size * clf._inputs.itemsize
        require_memory(size, clf._device, "Holding these examples", "use fewer examples, or smaller images")
        return on_device(clf._inputs, clf._device)

    return cache.get(("inputs", str(clf._device)), [X], make)


def standardises(clf: Classifier) -> bool:
    """Whether inputs are scaled to mean 0 and deviation 1."""
    settings = clf.settings
    if clf._rows is not None:
        return False
    if settings.standardise != "auto":
        return settings.standardise
    serves = settings.method_class.convenes and settings.serve == "council"  # then all members have names
    return not ((keeps_weights(clf) and not serves) or clf.integers_)


def data_of(clf: Classifier, values: Tensor, labels: Tensor, rows: Tensor) -> LabelData:
    """Rows of the examples on the device, in the numbers that the settings ask for."""
    device, precision = values.device, clf.settings.precision
    half = precision == "bfloat16" or (precision == "auto" and device.type == "cuda" and has_whole_gpu())
    kind = torch.bfloat16 if half else torch.float32
    return LabelData(values, labels, rows, clf.scaling_.to(device), None, kind)


def _other(clf: Classifier, examples: tuple[Any, Any] | None, cache: Cache) -> LabelData | None:
    """Further examples with labels of the known classes, on the device."""
    if examples is None:
        return None
    if clf._rows is not None:
        labels = examples_of(*examples, known_of(clf)).labels
        return Judges(clf.class_numbers(labels), as_fitted(clf, examples[0]))  # pyright: ignore
    made = lambda: on_device(asked(clf, *examples)[0], clf._device)  # noqa: E731
    values = cache.get(("inputs", str(clf._device)), [examples[0]], made)
    labels = torch.from_numpy(clf.class_numbers(examples_of(*examples, known_of(clf)).labels)).to(clf._device)
    if len(values) != len(labels) or not len(labels):
        raise DataError(
            f"There are {len(values)} clean or eval_set examples and {len(labels)} labels of theirs; "
            "give one for each, and at least one."
        )
    return data_of(clf, values, labels, torch.arange(len(labels), device=clf._device))


def _has_lone_steps(clf: Classifier, examples: int) -> bool:
    """Whether some step may have a single example."""
    settings = clf.settings
    fewest = settings.method_class.fewest_examples(settings, examples)
    return settings.batch_size == 1 or min(fewest, examples) <= 1


def _identity(clf: Classifier, source: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Words and arrays that identify the training, for its checkpoint."""
    pairs = [asked(clf, *pair) for pair in (source.get("clean"), source.get("eval_set")) if pair is not None]
    further = [one for pair in pairs for one in pair]
    own = [(source["X"], clf._inputs), (clf.labels_, clf.labels_)]
    own += [] if source.get("lesson") is None else source["lesson"].identity()
    own += place_of(source)
    own += weights_of([clf.model, *clf.objects().values()], clf.settings.pretrained)
    own += [] if clf._decided is None else [(clf.part_, clf.part_)]
    own += [] if clf._weights is None else [(clf._weights, clf._weights)]
    own += [] if source.get("divided") is None else [(source["divided"], source["divided"])]
    return [*own, *((one, np.asarray(one)) for one in further)]
