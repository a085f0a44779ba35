"""Decisions as a table that can be kept, sent and joined: a row for each word of a person on a label.

The columns tell which label is meant without the run: the ids of a click, or the row and given label of an
example. They are also enough to estimate anew what all decisions say: the part of the labels it belongs to, how
many they are, its place among them worst first (`rank`), and its place in their random order (`draw`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.column_values import label_word
from accord.decisions.design import PARTS, Design, Part
from accord.decisions.journal import ACTIONS, REVIEWER, USUAL_REVIEWER, WHY, Decision
from accord.decisions.resolving import verdicts
from accord.errors import DataError, SettingError, nearest

PLACES = ("label_quality", "part", "part_size", "rank", "draw")
KEYS = {"labels": ("index",), "clicks": ("user", "item")}
NOWHERE = -1


@dataclass(frozen=True)
class Names:
    """How the labels of some data are named."""

    task: str
    classes: np.ndarray | None
    """A click is right or not; it has no other class."""
    find: Callable[[pa.Table], np.ndarray]
    """The positions of the labels that a table names, −1 where there is none."""

    @property
    def actions(self) -> tuple[str, ...]:
        return ACTIONS if self.classes is not None else tuple(one for one in ACTIONS if one != "fix")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        names = [] if self.classes is None else self.classes.tolist()
        return {label_word(name): number for number, name in enumerate(names)}

    def class_number(self, label: Any) -> int:
        """The number of a class, by its name in any form."""
        number = self._numbers.get(label_word(label))
        if number is None:
            raise DataError(f"'{label}' is none of the classes of the data: {nearest(str(label), self._numbers)}")
        return number


@dataclass(frozen=True)
class Subject:
    """The labels of a run, as decisions speak of them."""

    names: Names
    design: Design
    columns: dict[str, pa.Array]
    """What names each label, by position."""


def to_table(subject: Subject, decisions: Iterable[Decision]) -> pa.Table:
    """Every word, in order."""
    own = list(decisions)
    at = pa.array([one.item for one in own], pa.int64())
    columns: dict[str, Any] = {name: values.take(at) for name, values in subject.columns.items()}
    columns["decision"] = pa.array([one.action for one in own], pa.string())
    if subject.names.classes is not None:
        names = subject.names.classes.tolist()
        kind = pa.array(names).type
        columns["decided_label"] = pa.array([None if one.label is None else names[one.label] for one in own], kind)
    for column, name in (("reviewer", "reviewer"), ("decided_at", "at"), ("why", "why")):
        columns[column] = pa.array([getattr(one, name) for one in own], pa.string())
    return pa.table(columns | _places(subject.design, [one.item for one in own]))


def _places(design: Design, items: list[int]) -> dict[str, Any]:
    part_of = np.full(len(design.quality), NOWHERE)
    rank, draw = np.full((2, len(design.quality)), NOWHERE)
    for number, part in enumerate(design.parts):
        part_of[part.items], rank[part.items] = number, np.arange(len(part.items))
        draw[part.drawn] = np.arange(len(part.drawn))
    own = np.array(items, np.int64)
    names = [design.parts[k].name if k != NOWHERE else None for k in part_of[own]]
    sizes = [len(design.parts[k].items) if k != NOWHERE else None for k in part_of[own]]
    return {
        "label_quality": design.quality[own].astype(np.float64),
        "part": pa.array(names, pa.string()),
        "part_size": pa.array(sizes, pa.int64()),
        "rank": pa.array(rank[own], pa.int64()),
        "draw": pa.array(draw[own], pa.int64()),
    }


def from_table(table: pa.Table, names: Names, where: str = "the decisions") -> list[Decision]:
    """The decisions of a table on labels of these names."""
    checked(table, where)
    lacking = set(KEYS[names.task]) - set(table.column_names)
    if lacking:
        raise DataError(f"{_begun(where)} have no column '{lacking.pop()}', so they are not on {names.task}.")
    at = names.find(table)
    if (at < 0).any():
        row = int((at < 0).argmax())
        keys = ", ".join(str(table[name][row].as_py()) for name in KEYS[names.task])
        raise DataError(
            f"Row {row + 1} of {where} is on a label that is not in the data ({keys}), or that is given as another "
            "class there; give the decisions that were made on these data."
        )
    found = []
    columns = (_column(table, name) for name in (*WORDS, "decided_label", "given_label"))
    for number, (action, reviewer, moment, why, label, given, item) in enumerate(
        zip(*columns, at.tolist(), strict=True)
    ):
        if action not in names.actions:
            raise DataError(f"Row {number + 1} of {where} says '{action}'; of clicks it is keep, drop or unsure.")
        if (label is not None) != (action == "fix"):
            raise DataError(
                f"Row {number + 1} of {where} says '{action}' and has {'a' if label is not None else 'no'} "
                "decided_label; a decision to fix has one, and no other."
            )
        if label is not None and given is not None and label_word(label) == label_word(given):
            action, label = "keep", None  # it is fixed to what it was
        code = None if label is None else names.class_number(label)
        who = USUAL_REVIEWER if reviewer is None else label_word(reviewer)
        found.append(Decision(item, action, code, who, str(moment or ""), why or "chosen", number))
    return found


def design_of(table: pa.Table, at: np.ndarray, size: int) -> Design | None:
    """The order in which labels were looked at, as far as a table tells it; all that is not in it is −1.

    ``at`` are the positions of the labels of the table, ``size`` how many labels there are.
    """
    if not set(PLACES) <= set(table.column_names):
        return None
    part_of, sizes, rank, draw = (_column(table, name) for name in ("part", "part_size", "rank", "draw"))
    parts = []
    for name in PARTS:
        rows = [row for row, own in enumerate(part_of) if own == name]
        own = {sizes[row] for row in rows} or {0}
        places = [(rank[row], draw[row]) for row in rows]
        count = own.pop()
        sound = not own and type(count) is int and 0 <= count <= size
        if not sound or not all(type(k) is int and 0 <= k < count for place in places for k in place):
            return None
        items, drawn = np.full((2, count), NOWHERE)
        items[[place for place, _ in places]] = drawn[[place for _, place in places]] = at[rows]
        parts.append(Part(name, items, drawn))
    flagged = np.zeros(size, bool)
    return Design("0" * 32, np.zeros(size), flagged, None, np.empty(0, np.int64), tuple(parts))


WORDS = ("decision", "reviewer", "decided_at", "why")


def checked(table: pa.Table, where: str = "the decisions") -> pa.Table:
    """A table of decisions, whatever the run; refused where it is none."""
    keys = [name for one in KEYS.values() for name in one]
    named = any(set(one) <= set(table.column_names) for one in KEYS.values())
    if "decision" not in table.column_names or not named:
        raise DataError(
            f"{_begun(where)} have no column 'decision' with 'index', or with 'user' and 'item'; "
            f"the columns are {', '.join(table.column_names[:12])}. Known keys are {', '.join(keys)}."
        )
    allowed = {"decision": ACTIONS, "why": (*WHY, None)}
    for name, values in allowed.items():
        for row, value in enumerate(_column(table, name)):
            if value not in values:
                raise DataError(
                    f"Row {row + 1} of {where} has '{value}' in column '{name}'; it can be "
                    f"{', '.join(one for one in values if one)}."
                )
    for row, value in enumerate(_column(table, "reviewer")):
        if value is not None and not REVIEWER.fullmatch(label_word(value)):
            raise DataError(
                f"Row {row + 1} of {where} has a reviewer's name that is none: '{label_word(value)[:80]}'."
            )
    return table


def _begun(where: str) -> str:
    return where[:1].upper() + where[1:]


def _column(table: pa.Table, name: str) -> list[Any]:
    if name not in table.column_names:
        return [None] * table.num_rows
    values = table[name].to_pylist()
    return [None if value == "" else _written(value) for value in values]


def _written(value: Any) -> Any:
    """Times as they are written: readers of text recognise them."""
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=value.tzinfo or UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# -- joining ---------------------------------------------------------------------------------------------


def merged(tables: Sequence[pa.Table], names: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """All decisions of several tables, each word once; and those on which people differ.

    Of the words of one person on one label the last table's holds: clocks of several machines order nothing.
    """
    parts = [checked(table, f"the decisions of '{name}'") for table, name in zip(tables, names, strict=True)]
    task = "labels" if "index" in parts[0].column_names else "clicks"
    key = list(KEYS[task])
    for part, name in zip(parts, names, strict=True):
        if not set(key) <= set(part.column_names):
            raise SettingError(f"'{name}' holds decisions of another kind than '{names[0]}': one has clicks.")
    columns = list(dict.fromkeys(name for part in parts for name in part.column_names))
    schema = _schema(parts, columns)
    rows = [
        {name: _as_typed(row.get(name), schema.field(name).type) for name in columns}
        for part in parts
        for row in part.to_pylist()
    ]
    once = {tuple((name, label_word(row[name])) for name in (*key, *MEANT) if name in row): row for row in rows}
    whole = pa.Table.from_pylist(list(once.values()), schema=schema) if once else parts[0]
    return whole, _differing(whole, key)


MEANT = ("decision", "decided_label", "reviewer", "decided_at", "why")


def _as_typed(value: Any, kind: pa.DataType) -> Any:
    """A value for a column that may be text because other parts have it as text."""
    if value is None or value == "":
        return None
    return label_word(_written(value)) if pa.types.is_string(kind) else value


def _schema(parts: Sequence[pa.Table], columns: list[str]) -> pa.Schema:
    """Of each column the type of the first part that has it; text where parts differ."""
    fields = []
    for name in columns:
        kinds = [part.schema.field(name).type for part in parts if name in part.column_names]
        kinds = [kind for kind in kinds if not pa.types.is_null(kind)] or [pa.string()]
        alike = all(kind == kinds[0] for kind in kinds) and not pa.types.is_timestamp(kinds[0])
        fields.append(pa.field(name, kinds[0] if alike else pa.string()))
    return pa.schema(fields)


def _differing(table: pa.Table, key: list[str]) -> pa.Table:
    """The last words of people on labels on which they differ."""
    rows = table.to_pylist()
    place: dict[tuple[str, ...], int] = {}
    classes: dict[str, int] = {}
    words = []
    for number, row in enumerate(rows):
        item = place.setdefault(tuple(label_word(row[name]) for name in key), len(place))
        label = row.get("decided_label")
        code = None if label in (None, "") else classes.setdefault(label_word(label), len(classes))
        words.append(Decision(item, row["decision"], code, row.get("reviewer") or "", "", "chosen", number))
    differing = {item for item, verdict in verdicts(words).items() if not verdict.agreed}
    last = {(one.item, one.reviewer): one.number for one in words if one.item in differing}
    order = sorted(last.items())
    return table.take(pa.array([number for _, number in order], pa.int64()))
