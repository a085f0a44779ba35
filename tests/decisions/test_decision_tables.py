"""Decisions as tables: what goes out comes in, what cannot be meant is refused, and people's words are joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accord.decisions.design import Design
from accord.decisions.estimates import estimate
from accord.decisions.journal import Decision
from accord.decisions.resolving import verdicts
from accord.decisions.tables import Names, Subject, design_of, from_table, merged, to_table
from accord.errors import DataError, SettingError

CLASSES = np.array(["cat", "dog", "owl"])


def find(table: pa.Table) -> np.ndarray:
    rows = np.array(table["index"].to_pylist())
    return np.where(rows < 200, rows, -1)


def subject() -> Subject:
    rng = np.random.default_rng(0)
    given = rng.integers(0, 3, 200)
    quality = rng.random(200)
    columns = {"index": pa.array(np.arange(200)), "given_label": pa.array(CLASSES[given])}
    return Subject(Names("labels", CLASSES, find), Design.of(quality, quality < 0.4, given), columns)


def some(own: Subject, count: int = 40) -> list[Decision]:
    given = own.design.given
    assert given is not None
    rows = [item for part in own.design.parts for item in part.drawn[:count].tolist()]
    rng = np.random.default_rng(1)
    actions = rng.choice(["keep", "fix", "drop", "unsure"], len(rows))
    return [
        Decision(
            item,
            action,
            (int(given[item]) + 1) % 3 if action == "fix" else None,
            "r1",
            f"2026-01-01T00:00:{k % 60:02}Z",
            "check",
            k,
        )
        for k, (item, action) in enumerate(zip(rows, actions.tolist(), strict=True))
    ]


def test_what_goes_out_comes_in() -> None:
    own = subject()
    said = some(own)
    table = to_table(own, said)
    assert from_table(table, own.names) == said
    assert table.column_names[:4] == ["index", "given_label", "decision", "decided_label"]


def test_a_file_is_enough_to_estimate_anew() -> None:
    own = subject()
    said = some(own)
    table = to_table(own, said)
    at = np.array([one.item for one in said])
    design = design_of(table, at, 200)
    assert design is not None
    known, again = estimate(own.design, said).would, estimate(design, said).would
    for name in ("precision", "below", "every"):
        value, other = getattr(known, name), getattr(again, name)
        assert value is not None
        assert other is not None
        assert value.value == pytest.approx(other.value, rel=0.05, abs=1)


@pytest.mark.parametrize(
    "change",
    [
        {"part_size": 10**12},
        {"part_size": -1},
        {"rank": 10**9},
        {"draw": -5},
        {"rank": None},
        {"part_size": "many"},
    ],
)
def test_places_that_cannot_be_are_not_believed(change: dict[str, Any]) -> None:
    own = subject()
    rows = to_table(own, some(own)).to_pylist()
    (name,) = change
    table = pa.table({key: [row[key] for row in rows] for key in rows[0] if key != name})
    table = table.append_column(name, pa.array([change[name]] * len(rows)))
    assert design_of(table, np.array([row["index"] for row in rows]), 200) is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"index": 500, "decision": "keep"}, "not in the data"),
        ({"index": 1, "decision": "delete"}, "'delete'"),
        ({"index": 1, "decision": "fix"}, "no decided_label"),
        ({"index": 1, "decision": "keep", "decided_label": "cat"}, "decided_label"),
        ({"index": 1, "decision": "fix", "decided_label": "dgo"}, "did you mean 'dog'"),
        ({"index": 1, "decision": "keep", "why": "luck"}, "'luck'"),
        ({"index": 1, "decision": "keep", "reviewer": "../r"}, "reviewer"),
        ({"user": "u1", "item": "i1", "decision": "keep"}, "column 'index'"),
        ({"index": 1}, "no column 'decision'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(row: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        from_table(pa.Table.from_pylist([row]), subject().names)


def test_a_click_has_no_other_class() -> None:
    names = Names("clicks", None, lambda table: np.zeros(table.num_rows, np.int64))
    with pytest.raises(DataError, match="keep, drop or unsure"):
        from_table(pa.table({"user": ["u1"], "item": ["i1"], "decision": ["fix"]}), names)


def test_only_index_and_decision_are_needed() -> None:
    (one,) = from_table(pa.table({"index": [3], "decision": ["drop"]}), subject().names)
    assert (one.item, one.action, one.reviewer, one.why) == (3, "drop", "reviewer", "chosen")


# -- several people --------------------------------------------------------------------------------------


def word(item: int, action: str, reviewer: str, label: int | None = None) -> Decision:
    return Decision(item, action, label, reviewer, "", "chosen", 0)


@pytest.mark.parametrize(
    ("words", "action", "agreed"),
    [
        ([("r1", "keep")], "keep", True),
        ([("r1", "keep"), ("r1", "drop")], "drop", True),
        ([("r1", "keep"), ("r2", "drop")], "unsure", False),
        ([("r1", "keep"), ("r2", "drop"), ("r3", "drop")], "drop", False),
        ([("r1", "unsure"), ("r2", "drop")], "drop", True),
        ([("r1", "unsure"), ("r2", "unsure")], "unsure", True),
        ([("r1", "drop"), ("r2", "drop"), ("r1", "keep")], "unsure", False),
    ],
)
def test_what_holds_is_what_more_than_half_say(words: list[tuple[str, str]], action: str, agreed: bool) -> None:
    (verdict,) = verdicts([word(7, said, who) for who, said in words]).values()
    assert (verdict.action, verdict.agreed) == (action, agreed)


def test_two_fixes_to_other_classes_differ() -> None:
    (verdict,) = verdicts([word(7, "fix", "r1", 0), word(7, "fix", "r2", 1)]).values()
    assert verdict.action == "unsure"
    assert not verdict.agreed


def test_files_of_several_people_are_joined_once_and_their_differences_listed() -> None:
    own = subject()
    mine = [word(3, "keep", "r1"), word(4, "fix", "r1", 2)]
    yours = [word(3, "drop", "r2"), word(4, "fix", "r2", 2)]  # 4 is given as another class
    first, second = to_table(own, mine), to_table(own, yours)
    whole, differing = merged([first, second, first], ["a", "b", "c"])
    assert whole.num_rows == 4
    assert {(row["index"], row["reviewer"]) for row in differing.to_pylist()} == {(3, "r1"), (3, "r2")}
    assert sorted(from_table(whole, own.names), key=lambda one: (one.reviewer, one.item)) == [
        Decision(one.item, one.action, one.label, one.reviewer, "", "chosen", k)
        for one, k in zip([*mine, *yours], (0, 1, 2, 3), strict=True)
    ]


def test_decisions_of_clicks_and_of_labels_are_not_joined() -> None:
    clicks = pa.table({"user": ["u1"], "item": ["i1"], "decision": ["keep"]})
    labels = pa.table({"index": [1], "decision": ["keep"]})
    with pytest.raises(SettingError, match="another kind"):
        merged([labels, clicks], ["a", "b"])
