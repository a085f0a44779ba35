"""Decisions of people on the labels of a fitted estimator, and learning again from labels that were decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa

from accord.data.column_values import label_word
from accord.data.reading import read_table
from accord.decisions.estimates import Value, answers_of, estimate
from accord.decisions.journal import FOLDER, REVIEWER, Decision, checked, journals, now, write_journal
from accord.decisions.resolving import Verdict, counts, verdicts
from accord.decisions.tables import KEYS, Names, Subject, design_of, from_table, to_table
from accord.errors import DataError, SettingError

if TYPE_CHECKING:
    from accord.estimators.base import Estimator

Undecided = Literal["keep", "drop"]
"""What becomes of labels that are flagged and that nobody decided."""


def check_undecided(undecided: str) -> None:
    if undecided not in get_args(Undecided):
        raise SettingError(f"Unknown way '{undecided}' with flagged labels that nobody decided: keep or drop them.")


def gone(decisions: Iterable[Decision], flagged: np.ndarray, undecided: Undecided) -> np.ndarray:
    """True for what people dropped; and for what is flagged and that nobody decided, if it is to go too."""
    mask = flagged & (undecided == "drop")
    for item, one in verdicts(decisions).items():
        if one.action != "unsure":
            mask[item] = one.action == "drop"
    return mask


@dataclass(frozen=True)
class Decided:
    """What people decided on the labels that are to be learnt from."""

    decisions: list[Decision]
    verdicts: dict[int, Verdict]
    every: Value | None
    """How many of all labels they would call wrong, as far as their decisions tell."""
    called_wrong: int
    """How many they did."""

    def at(self, *actions: str) -> np.ndarray:
        """The positions of labels with one of these verdicts."""
        return np.array([item for item, one in self.verdicts.items() if one.action in actions], np.int64)

    def flag(self, quality: np.ndarray, flagged: np.ndarray, open_: np.ndarray) -> tuple[np.ndarray, bool]:
        """Which labels to flag of those that nobody decided (``open_``), and whether that is another number.

        The usual rule holds, unless it flags more or fewer than the decisions say are wrong.
        """
        if self.every is None:
            return flagged, False
        low, high = self.every.low - self.called_wrong, self.every.high - self.called_wrong
        if low <= (flagged & open_).sum() <= high:
            return flagged, False
        number = round(min(max(0.0, self.every.value - self.called_wrong), float(open_.sum())))
        order = np.flatnonzero(open_)[np.argsort(quality[open_], kind="stable")]
        anew = flagged & ~open_
        anew[order[:number]] = True
        return anew, True


def decided(given: Any, names: Names, size: int) -> Decided:
    """Decisions as `fit` was given them: a table, a file of one, or decisions on the same positions."""
    if isinstance(given, list) and all(isinstance(one, Decision) for one in given):
        return Decided(given, verdicts(given), None, 0)
    table, where = read_table(given)
    where = f"the decisions of {where}"
    decisions = from_table(table, names, where)
    at = np.array([one.item for one in decisions], np.int64)
    design = design_of(table, at, size)
    every, wrong = None, 0
    if design is not None:
        every = estimate(design, decisions).would.every
        wrong = sum(bool(says) for says in answers_of(design, decisions)[0].values())
    return Decided(decisions, verdicts(decisions), every, wrong)


# -- of a fitted estimator -------------------------------------------------------------------------------


def subject_of(estimator: Estimator) -> Subject:
    """The labels of a fitted estimator, and the order in which people look at them."""
    return estimator._subject()


def record(estimator: Estimator, items: Any, action: str | None, label: Any, reviewer: str) -> list[Decision]:
    """Decisions that a program makes, or that a table holds."""
    subject = subject_of(estimator)
    if action is None:
        if label is not None:
            raise SettingError("A label is given with the decision 'fix'; a table of decisions has its own.")
        if isinstance(items, Mapping) and "decision" not in items:
            raise SettingError("Give the decision: decide(rows, 'keep'), 'fix', 'drop' or 'unsure'.")
        table, where = read_table(items)
        return from_table(table, subject.names, f"the decisions of {where}")
    if action not in subject.names.actions:
        raise SettingError(f"Unknown decision '{action}'; choose from {', '.join(subject.names.actions)}.")
    if not isinstance(reviewer, str) or not REVIEWER.fullmatch(reviewer):
        raise SettingError(f"'{reviewer}' is no name of a reviewer: take letters, digits, '.', '_', '@' and '-'.")
    at = subject.names.find(_keys(subject.names.task, items))
    if (at < 0).any() or not len(at):
        unknown = f" {_listed(items)[int((at < 0).argmax())]}" if len(at) else ""
        raise DataError(f"There is no label{unknown} to decide on.")
    code = None if label is None else subject.names.class_number(label)
    step = checked(at.tolist(), action, code, "chosen", len(subject.design.quality))
    number, moment = len(estimator.decisions_), now()
    return [Decision(item, action, code, reviewer, moment, "chosen", number) for item in step.items]


def _listed(items: Any) -> list[Any]:
    return [items] if np.ndim(items) == 0 or isinstance(items, tuple | str) else list(items)


def _keys(task: str, items: Any) -> pa.Table:
    """Rows of examples, or pairs of a user and an item, as a table that names labels."""
    own = _listed(items)
    if task == "labels":
        if not all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in own):
            raise SettingError("Labels are decided by the numbers of their rows, from 0, as in the column 'index'.")
        return pa.table({"index": pa.array([int(one) for one in own], pa.int64())})
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in own):
        raise SettingError("Clicks are decided by pairs of a user and an item: decide([('u1', 'i1')], 'drop').")
    return pa.table({name: pa.array([one[k] for one in own]) for k, name in enumerate(KEYS["clicks"])})


def shown(
    table: pa.Table, verdict_of: Mapping[int, Verdict], at: np.ndarray, classes: np.ndarray | None
) -> pa.Table:
    """A table of issues with what was decided, where anything was; ``at`` are the positions of its rows."""
    if not verdict_of:
        return table
    own = [verdict_of.get(int(item)) for item in at]
    table = table.append_column("decision", pa.array([one and one.action for one in own], pa.string()))
    if classes is not None:
        names = classes.tolist()
        labels = [None if one is None or one.label is None else names[one.label] for one in own]
        table = table.append_column("decided_label", pa.array(labels, pa.array(names).type))
    return table


def table_of(estimator: Estimator) -> pa.Table:
    """All decisions, as they are exported."""
    return to_table(subject_of(estimator), estimator.decisions_)


# -- in a run folder -------------------------------------------------------------------------------------


def save(estimator: Estimator, draft: Path) -> None:
    """A journal for each reviewer."""
    if not estimator.decisions_:
        return
    identity = subject_of(estimator).design.identity
    by_reviewer: dict[str, list[Decision]] = {}
    for one in estimator.decisions_:
        by_reviewer.setdefault(one.reviewer, []).append(one)
    for reviewer, own in by_reviewer.items():
        write_journal(draft, reviewer, identity, own)


def load(estimator: Estimator, run: Path) -> list[Decision]:
    """What the journals of a run say, if there are any."""
    if not (run / FOLDER).is_dir():
        return []
    design = subject_of(estimator).design
    every = journals(run, design.identity, len(design.quality))
    return [one for own in every.values() for one in own]


def note(found: Decided, before: int, after: int, moved: bool) -> dict[str, Any]:
    """What a report says of the decisions that were learnt from."""
    return {
        **counts(found.verdicts.values()),
        "reviewers": len({one.reviewer for one in found.decisions}),
        "differing": sum(not one.agreed for one in found.verdicts.values()),
        "wrong_of_all": None if found.every is None else found.every.to_show(),
        "flagged_by_the_usual_rule": before,
        "flagged": after,
        "calibrated": moved,
    }


def find_rows(table: pa.Table, size: int, given: np.ndarray) -> np.ndarray:
    """The rows that a table names by `index`; −1 where there is none, or where the given label is another."""
    index = table["index"]
    try:
        rows = np.asarray(index.cast(pa.int64()))
    except (pa.ArrowException, ValueError):
        return np.full(len(index), -1)
    at = np.where((rows >= 0) & (rows < size), rows, -1)
    if "given_label" in table.column_names:
        said, own = table["given_label"].to_pylist(), given[at].tolist()
        same = [label_word(one) == label_word(word) for one, word in zip(own, said, strict=True)]
        at = np.where(same, at, -1)
    return at
