"""Labels by several annotators: the consensus, how good each annotator is, and which labels look wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import begun
from accord.data.ids import Ids
from accord.data.reading import read_table
from accord.data.tables_out import TableKind, as_kind, kind_of_table
from accord.errors import DataError, nearest
from accord.estimators.issues import worst_first
from accord.objectives.consensus import softmax
from accord.objectives.dawid_skene import Annotations, Annotators, fit_annotators, frequent, posterior_of
from accord.predictions.arrays import as_arrow, check_members, class_numbers, members_of
from accord.predictions.council import pooled_logits

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
TURNS = 2
"""Times that it is found how far models count, and the consensus is made with them."""
FACTORS = tuple(0.25 * 2 ** (k / 2) for k in range(11))
"""How sure models may be, of how sure they say that they are: a quarter to eight times."""


@dataclass(frozen=True)
class AnnotatorIssues:
    """What annotators say together: tables of the kind that came in, pandas, polars or else pyarrow."""

    consensus: Any
    """Each example: example, consensus_label, label_quality (its probability), annotations (labels it has) and
    agreement (the share of them that are the consensus label)."""
    annotators: Any
    """Each annotator, worst first: annotator, quality (how often it is right), labels (how many it gave), agreement
    (the share of these that are the consensus label) and worst_class (the class it gets wrong most often)."""
    issues: Any
    """Each given label, worst first: index (its row in the table), example, annotator, given_label,
    predicted_label (the consensus), label_quality and is_label_issue."""


def find_annotator_issues(
    annotations: Any,
    pred_probs: Any = None,
    *,
    example: str = "example",
    annotator: str = "annotator",
    label: str = "label",
    classes: Any = None,
    seed: int = 0,
) -> AnnotatorIssues:
    """Consensus labels, the quality of each annotator, and the labels that look wrong; missing labels are normal.

    Annotators count by how often they agree with what all of them say together, class by class where there is
    enough to tell (Dawid & Skene, 1979). Multi-label data and regression are out of scope.

    Parameters
    ----------
    annotations
        A long table with a row for each label that was given: a pandas, polars or Arrow table, a mapping of
        columns, or a CSV or Parquet file.
    pred_probs
        Optional out-of-sample probabilities of one model or several, as of `find_label_issues`; a row for each
        example, in the order of their first appearance in the table (or, where examples are the whole numbers from
        0 on, in that order).
    example, annotator, label
        Names of the columns.
    classes
        The class of each column of pred_probs, in order.
    seed
        Draws the labels that are held out to choose how much is fitted.

    Examples
    --------
    >>> table = {"example": [0, 0, 0, 1, 1, 1], "annotator": ["a1", "a2", "a3"] * 2, "label": list("xxyyyy")}
    >>> find_annotator_issues(table).consensus["consensus_label"].to_pylist()
    ['x', 'y']
    """
    table, where = read_table(annotations)
    columns = [_column(table, name, where) for name in (example, annotator, label)]
    if not table.num_rows:
        raise DataError(f"{begun(where)} holds no labels.")
    ids, people = (_numbered(column, what) for column, what in zip(columns, ("example", "annotator"), strict=False))
    _refuse_repeats(ids[0], people[0], where)
    members, names = ({}, None) if pred_probs is None else members_of(pred_probs)
    given, order = class_numbers(columns[2], _width(members), classes, names)
    if len(order) < 2:
        raise DataError(f"All labels in {where} are one class; there is nothing to tell apart.")
    if members:
        ids = _in_order(*ids)
        check_members(members, len(ids[1]), "example")
    counts = len(ids[1]), len(people[1]), len(order)
    held = Annotations(ids[0], people[0], given, counts)
    fit = _fitted(held, list(members.values()), seed)
    return _told(held, fit, ids[1], people[1], order, kind_of_table(annotations))


def _fitted(held: Annotations, members: list[np.ndarray], seed: int) -> Annotators:
    """Annotators alone first. Models then count as far as they make likelier what annotators wrote."""
    fit = fit_annotators(held, seed=seed)
    if not members:
        return fit
    pool = pooled_logits(members, fit.posterior.argmax(1), seed=seed)
    for _ in range(TURNS):
        by_labels = posterior_of(held, fit)
        evidence = by_labels / frequent(fit)
        likely = [np.log((softmax(factor * pool) * evidence).sum(1)).mean() for factor in FACTORS]
        prior = softmax(FACTORS[int(np.argmax(likely))] * pool)
        fit = fit_annotators(held, prior, seed=seed)
    return fit


def _told(
    held: Annotations, fit: Annotators, ids: pa.Array, people: pa.Array, order: pa.Array, kind: TableKind
) -> AnnotatorIssues:
    agreed = fit.posterior.argmax(1)
    same = agreed[held.examples] == held.labels
    given = np.bincount(held.examples, minlength=len(ids))
    consensus = {
        "example": ids,
        "consensus_label": order.take(pa.array(agreed)),
        "label_quality": fit.posterior[np.arange(len(agreed)), agreed],
        "annotations": given,
        "agreement": np.bincount(held.examples, same, len(ids)) / given,
    }
    made = np.bincount(held.annotators, minlength=len(people))
    annotators = {
        "annotator": people,
        "quality": (quality := fit.quality()),
        "labels": made,
        "agreement": np.bincount(held.annotators, same, len(people)) / made,
        "worst_class": order.take(pa.array(_worst_class(fit, held))),
    }
    at = fit.posterior[held.examples]
    rows = np.arange(len(held.labels)), held.labels
    own = at[rows]
    at[rows] = -1
    issues = {
        "index": np.arange(len(own)),
        "example": ids.take(pa.array(held.examples)),
        "annotator": people.take(pa.array(held.annotators)),
        "given_label": order.take(pa.array(held.labels)),
        "predicted_label": order.take(pa.array(agreed[held.examples])),
        "label_quality": own / np.maximum(own + at.max(1), 1e-300),
        "is_label_issue": ~same,
    }
    by_quality = pa.array(np.argsort(quality, kind="stable"))
    tables = pa.table(consensus), pa.table(annotators).take(by_quality), worst_first(pa.table(issues))
    return AnnotatorIssues(*(as_kind(table, kind) for table in tables))


def _worst_class(fit: Annotators, held: Annotations) -> np.ndarray:
    """The class that each annotator gets wrong most often, as a share of what it labelled of it."""
    _, people, classes = held.counts
    weights = fit.posterior[held.examples]
    right, made = np.zeros((people, classes)), np.zeros((people, classes))
    for y in range(classes):
        made[:, y] = np.bincount(held.annotators, weights[:, y], people)
        right[:, y] = np.bincount(held.annotators, weights[:, y] * (held.labels == y), people)
    return ((made - right) / (made + 1)).argmax(1)


def _column(table: pa.Table, name: str, where: str) -> pa.Array:
    if name not in table.column_names:
        raise DataError(f"No column '{name}' in {where}: {nearest(name, table.column_names)}")
    return as_arrow(table[name], name)


def _numbered(column: pa.Array, kind: str) -> tuple[np.ndarray, pa.Array]:
    encoded = column.dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), Ids(encoded.dictionary, kind).values


def _in_order(codes: np.ndarray, ids: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Examples that are the whole numbers from 0 on stand in this order; others as they appear."""
    if not pa.types.is_integer(ids.type) or sorted(ids.to_pylist()) != list(range(len(ids))):
        return codes, ids
    return np.asarray(ids)[codes], pa.array(np.arange(len(ids)))


def _refuse_repeats(examples: np.ndarray, people: np.ndarray, where: str) -> None:
    keys = examples * (int(people.max()) + 1) + people
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    if (count > 1).any():
        raise DataError(
            f"{int((count - 1).sum())} labels in {where} repeat an example and an annotator (the first in data row "
            f"{int(first[count > 1].min()) + 1}); keep one label of each annotator for each example."
        )


def _width(members: dict[str, np.ndarray]) -> int | None:
    return next(iter(members.values())).shape[1] if members else None
