"""Wrong labels, from the labels and out-of-sample probabilities of one model or several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from accord.errors import DataError
from accord.estimators.issues import flag_share, worst_first
from accord.predictions.arrays import as_arrow, check_members, class_numbers, members_of
from accord.predictions.council import Council, fit_council, judge

NOTES = b"accord.council"
"""Metadata of a table of issues: what the council's members weigh, and how labels go wrong, as JSON."""


def find_label_issues(
    labels: Any, pred_probs: Any, *, classes: Any = None, share: float | None = None, seed: int = 0
) -> pa.Table:
    """Every label, worst first, judged by probabilities of models that have not learned it; nothing is trained.

    Parameters
    ----------
    labels
        One label for each example: strings, whole numbers or booleans, in any sequence or column.
    pred_probs
        Out-of-sample probabilities, (examples, classes), such as
        ``cross_val_predict(model, X, labels, method="predict_proba")`` returns; or those of several models, a
        council: a list, a tuple, a mapping by name, or an array (models, examples, classes). The members' weights
        are learned from the given labels, with a loss that wrong ones hardly move.
    classes
        The class of each column, in order. By default the columns' names, where pred_probs are tables whose columns
        are named like the labels; the numbers of the columns, where labels are whole numbers from 0 on; or the
        sorted distinct labels.
    share
        Flag this share of the labels in place of those whose example is taken for another class.
    seed
        Draws the examples that weights and noise are fitted to, where there are very many.

    Returns
    -------
    pyarrow.Table
        index (the row number), given_label, predicted_label (the likeliest class by the predictions and the given
        label), label_quality (the chance of the given label against the likeliest other one; 1 = clean) and
        is_label_issue; of several arrays also ``votes`` (members whose likeliest class is the given label) of so
        many ``voters``, and ``agreement`` (the share of pairs of members with the same likeliest class).

    Examples
    --------
    >>> probabilities = [[0.9, 0.1]] * 9 + [[0.1, 0.9]] * 10
    >>> issues = find_label_issues(["cat"] * 9 + ["dog"] * 9 + ["cat"], probabilities)
    >>> issues.slice(0, 1).select(["index", "given_label", "predicted_label"]).to_pylist()
    [{'index': 18, 'given_label': 'cat', 'predicted_label': 'dog'}]
    """
    members, names = members_of(pred_probs)
    given_label = as_arrow(labels, "label")
    count = len(given_label)
    if not count:
        raise DataError("There are no labels; give one for each row of probabilities, at least one.")
    check_members(members, count)
    width = next(iter(members.values())).shape[1]
    given, order = class_numbers(given_label, width, classes, names)
    arrays = list(members.values())
    council = fit_council(arrays, given, seed=seed)
    verdict = judge(council, arrays, given)
    flagged = verdict.predicted != given if share is None else flag_share(verdict.quality, share)
    columns: dict[str, Any] = {
        "index": np.arange(count),
        "given_label": order.take(pa.array(given)),
        "predicted_label": order.take(pa.array(verdict.predicted)),
        "label_quality": verdict.quality,
        "is_label_issue": flagged,
    }
    if len(arrays) > 1:
        voters = np.full(count, len(arrays), np.int16)
        columns |= {"votes": verdict.believers, "voters": voters, "agreement": verdict.agreement}
    return worst_first(pa.table(columns)).replace_schema_metadata({NOTES: json.dumps(_notes(council, members))})


def _notes(council: Council, members: Mapping[str, np.ndarray]) -> dict[str, Any]:
    total = float(council.weights.sum())
    right = float(np.diag(council.noise.matrix).mean())
    weights = {name: round(float(w) / total, 4) for name, w in zip(members, council.weights, strict=True)}
    return {"weights": weights, "trust": round(council.trust, 4), "right": round(right, 4)}


def notes_of(issues: pa.Table) -> dict[str, Any]:
    """What `find_label_issues` says of its members, such as their ``weights``.

    >>> issues = find_label_issues([0, 1, 1], [[[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]] * 2)
    >>> notes_of(issues)["weights"]
    {'1': 0.5, '2': 0.5}
    """
    return json.loads((issues.schema.metadata or {}).get(NOTES, b"{}"))
