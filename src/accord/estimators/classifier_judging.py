"""What a trained classifier says: of every label that it was given, and of further examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from accord.batches.label_batches import BLOCK
from accord.batches.labels import LabelFeed
from accord.decisions.design import Design
from accord.decisions.resolving import verdicts
from accord.decisions.tables import Names, Subject
from accord.errors import DataError
from accord.estimators.base import Trained
from accord.estimators.classifier_folder import images_kept
from accord.estimators.classifier_inputs import as_fitted
from accord.estimators.classifier_training import TRAIN, VALID, data_of
from accord.estimators.deciding import Decided, find_rows, note, shown
from accord.estimators.examples import known_ids, on_device
from accord.estimators.issues import worst_first
from accord.estimators.label_issues import judge
from accord.estimators.scikit_models import Said, ScikitModel
from accord.estimators.trust import reach_of_chance
from accord.models.stack import as_stack

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

USUAL = "the most frequent label"
"""What a sentence of doubt calls the answer that is the same for everything."""


def finish(clf: Classifier, trained: Trained, judges: bool) -> None:
    """Keep what was learned and judge every given label."""
    clf._keep(trained)
    method = clf._method()
    if trained.last and clf._eval_set is not None:
        together = as_stack(method.target(trained.last).eval())
        found = clf._eval_set.measure(together, [0], [clf._eval_set])
        clf.history_[-1]["eval_set_together"] = {name: float(value) for name, value in found.items()}
    clf.n_iter_, clf.device_ = len(clf.history_), str(clf._device)
    if trained.council is not None:
        _hear(clf, trained.council)
    elif judges:
        target: Any = clf.networks_.get("target")
        said = [Said(target.told(), clf.labels_)] if isinstance(target, ScikitModel) else None
        batches = LabelFeed([clf._whole]).in_order if said is None else lambda: iter(said)
        judged = judge(method, clf.networks_, batches, len(clf.classes_))
        clf.label_quality_, clf.predicted_ = judged.quality, judged.predicted
        clf.is_issue_, clf.noise_matrix_ = judged.is_issue, judged.noise_matrix
    if judges:
        _measure_lowest(clf)
    if clf._decided is not None:
        _apply_decisions(clf, clf._decided, judges)
    if judges:
        clf.worst_images_ = _worst_images(clf)
    del clf._whole, clf._eval_set, clf._inputs, clf._weights, clf._rows, clf._decided, clf._given


def _apply_decisions(clf: Classifier, found: Decided, judges: bool) -> None:
    """Say of decided labels what was decided; of the others, flag as many as the decisions tell are wrong."""
    clf.labels_, clf.decisions_ = clf._given, found.decisions
    if not judges and clf.votes_ is None:
        return
    right, fixed, dropped = found.at("keep"), found.at("fix"), found.at("drop")
    labels = [found.verdicts[item].label for item in fixed.tolist()]
    clf.predicted_[right], clf.predicted_[fixed] = clf.labels_[right], labels
    quality, flagged = clf.label_quality_, clf.is_issue_
    quality[right], quality[fixed], quality[dropped] = 1, 0, 0
    flagged[right], flagged[fixed], flagged[dropped] = False, True, True
    open_ = np.ones(len(flagged), bool)
    open_[np.concatenate([right, fixed, dropped])] = False
    before = int((flagged & open_).sum())
    clf.is_issue_, moved = found.flag(quality, flagged, open_)
    clf.notes_["decisions"] = note(found, before, int((clf.is_issue_ & open_).sum()), moved)


def subject(clf: Classifier) -> Subject:
    """The labels as decisions speak of them."""
    words, count = clf.classes_[clf.labels_], len(clf.labels_)
    columns: dict[str, Any] = {"index": pa.array(np.arange(count))}
    columns |= {} if clf.names_ is None else {"file": pa.array(clf.names_)}
    columns["given_label"] = pa.array(words)
    names = Names("labels", clf.classes_, lambda table: find_rows(table, count, words))
    return Subject(names, Design.of(clf.label_quality_, clf.is_issue_, clf.labels_), columns)


def _hear(clf: Classifier, council: Any) -> None:
    """Keep what a council said of every label."""
    clf.notes_["council"] = council.notes
    clf.label_quality_, clf.predicted_ = council.quality, council.targets.argmax(1)
    clf.is_issue_ = clf.predicted_ != clf.labels_
    clf.noise_matrix_, clf.votes_ = council.noise_matrix, council.votes


def _measure_lowest(clf: Classifier) -> None:
    """How often the most frequent label is right, by the labels held out: a model should beat it."""
    held = clf.part_ == VALID
    if clf._rows is not None and not held.any():
        held = np.ones(len(clf.labels_), bool)
    if held.any():
        weights = np.ones(len(clf.labels_)) if clf._weights is None else clf._weights
        usual = np.bincount(clf.labels_, weights * (clf.part_ == TRAIN)).argmax()
        counted = weights[held] if weights[held].any() else None
        right = clf.labels_[held] == usual
        clf.notes_["lowest"] = {USUAL: float(np.average(right, weights=counted))}
        if "council" not in clf.notes_:  # whose own answers, not its student's, are kept
            ahead = (clf.predicted_[held] == clf.labels_[held]) - right.astype(float)
            clf.notes_["by_chance"] = {USUAL: reach_of_chance(ahead, counted)}


def _worst_images(clf: Classifier) -> tuple[np.ndarray, np.ndarray] | None:
    """Positions and pixels of the worst images, for the report."""
    if len(clf.shape_) == 1:
        return None
    order = np.argsort(clf.label_quality_, kind="stable")
    worst = order[clf.is_issue_[order]][: images_kept(clf.shape_)]
    pixels = clf._whole.inputs[torch.from_numpy(worst).to(clf._device)].float().cpu().numpy()
    return worst, pixels


def issues_table(clf: Classifier, share: float | None) -> pa.Table:
    """Every example that it was fitted on and what is said of its label, worst first."""
    named = {} if clf.names_ is None else {"file": clf.names_}
    named |= {} if clf.index_ is None else {"source_index": clf.index_}
    table = worst_first(
        pa.table(
            {
                "index": np.arange(len(clf.labels_)),
                **named,
                "given_label": clf.classes_[clf.labels_],
                "predicted_label": clf.classes_[clf.predicted_],
                "label_quality": clf.label_quality_,
                "is_label_issue": clf._flagged(share),
                **(clf.votes_ or {}),
            }
        )
    )
    return shown(table, verdicts(clf.decisions_), np.asarray(table["index"]), clf.classes_)


def probabilities(clf: Classifier, X: Any) -> np.ndarray:
    """P(class) of each example, columns in the order of ``classes_``."""
    inputs = as_fitted(clf, X)
    if not inputs.shape[0]:
        return np.empty((0, len(clf.classes_)))
    device, target = torch.device(clf.device_), clf._target.eval()
    if isinstance(target, ScikitModel):
        return target.probabilities(inputs)
    parts = []
    for start in range(0, len(inputs), BLOCK):
        values = on_device(inputs[start : start + BLOCK], device)
        labels = torch.zeros(len(values), dtype=torch.int64, device=device)
        data = data_of(clf, values, labels, torch.arange(len(values), device=device))
        with torch.no_grad(), known_ids():
            parts += [torch.softmax(batch.logits(target)[0], 1) for batch in LabelFeed([data]).in_order()]
    answers = torch.cat(parts).double().cpu().numpy()
    lost = ~np.isfinite(answers).all(1)
    if lost.any():
        raise DataError(
            f"Example {int(lost.argmax())} is so far from those trained on that it has no answer; "
            "leave it out, or scale the columns."
        )
    return answers
