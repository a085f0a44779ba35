"""The queue against brute force: filters, order and search."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.review.serving import made_items

from accord.errors import SettingError
from accord.review.items import CODES, NOTHING, Items, Query, Words

ACTIONS = [None, *CODES]


def brute(items: Items, query: Query, mine: np.ndarray) -> list[int]:
    """Row by row, in plain Python."""

    def wanted(at: int) -> bool:
        tests = [
            items.own[at],
            query.given is None or items.given[at] == query.given,
            query.predicted is None or items.predicted[at] == query.predicted,
            query.lowest is None or items.quality[at] >= query.lowest,
            query.highest is None or items.quality[at] <= query.highest,
            query.fewest_votes is None or items.votes["votes"][at] >= query.fewest_votes,
            query.most_votes is None or items.votes["votes"][at] <= query.most_votes,
            query.flagged is None or bool(items.flagged[at]) == query.flagged,
            query.decided is None or (mine[at] != NOTHING) == query.decided,
            query.action is None or mine[at] == CODES[query.action],
        ]
        text = query.text.strip().lower()
        shown = f"{items.classes[items.given[at]].lower()}\n{f'file-{at}.png'}"
        return all(tests) and (not text or text in shown or text.removeprefix("#") == str(at))

    keys: dict[str, Any] = {
        "worst": lambda at: (not items.flagged[at], items.quality[at]),
        "quality": lambda at: items.quality[at],
        "given": lambda at: (items.given[at], items.quality[at]),
        "votes": lambda at: (items.votes["votes"][at], items.quality[at]),
        "number": lambda at: at,
    }
    found = sorted((at for at in range(items.size) if wanted(at)), key=keys[query.sort])
    return found[::-1] if query.descending else found


maybe = st.none() | st.integers(0, 4)
queries = st.builds(
    Query,
    given=maybe,
    predicted=maybe,
    lowest=st.none() | st.floats(0, 1),
    highest=st.none() | st.floats(0, 1),
    fewest_votes=maybe,
    most_votes=maybe,
    flagged=st.none() | st.booleans(),
    decided=st.none() | st.booleans(),
    action=st.sampled_from(ACTIONS),
    text=st.sampled_from(["", " ", "file-1", "PLAIN", "#7", "12", "<script>", "%", "nothing has this"]),
    sort=st.sampled_from(["worst", "quality", "given", "votes", "number"]),
    descending=st.booleans(),
)


@given(queries, st.integers(0, 3))
@settings(deadline=None, max_examples=150)
def test_the_queue_is_what_a_look_at_every_label_gives(query: Query, seed: int) -> None:
    items = made_items(40, seed=seed)
    mine = np.random.default_rng(seed).choice(5, 40).astype(np.int8)
    assert items.select(query, mine).tolist() == brute(items, query, mine)


def test_clicks_that_are_not_of_the_log_never_come_up() -> None:
    items = made_items(80, what="clicks")
    found = items.select(Query(), np.zeros(80, np.int8))
    assert sorted(found.tolist()) == np.flatnonzero(items.own).tolist()
    assert len(items) == len(found) < items.size
    assert items.own[items.select(Query(text="u3"), np.zeros(80, np.int8))].all()


def test_what_cannot_be_filtered_or_sorted_by_is_said() -> None:
    clicks, mine = made_items(20, what="clicks"), np.zeros(20, np.int8)
    assert "given" not in clicks.sorts
    for query, words in (
        (Query(given=1), "Clicks have no classes"),
        (Query(fewest_votes=1), "holds no votes"),
        (Query(sort="given"), "cannot be sorted by 'given'"),
        (Query(sort="__class__"), "cannot be sorted by"),
    ):
        with pytest.raises(SettingError, match=words):
            clicks.select(query, mine)


@pytest.mark.parametrize(
    "given", [{"given": -1}, {"lowest": "0"}, {"lowest": float("nan")}, {"text": "x" * 201}, {"other": 1}]
)
def test_a_query_of_other_names_or_types_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Query(**given)


def test_text_is_found_in_any_letters_and_gaps_are_nothing() -> None:
    words = Words.of(["Ärger", None, "(a+b)*", ""])
    assert words.holding("ärg").tolist() == [True, False, False, False]
    assert words.holding("(a+").tolist() == [False, False, True, False]
    assert Words.of(["x", "y"], np.array([1, 0, 1])).holding("Y").tolist() == [True, False, True]


def test_a_million_labels_are_sorted_and_filtered_at_once() -> None:
    """Bounds far above what it takes, so that a busy machine does not fail it: measured 0.02 s a filter."""
    items = made_items(1_000_000, classes=["a", "b"])
    mine = np.zeros(items.size, np.int8)
    assert len(items.select(Query(), mine)) == items.size
    begun = time.perf_counter()
    found = items.select(Query(given=1, highest=0.1, decided=False), mine)
    assert time.perf_counter() - begun < 1.0
    assert 0 < len(found) < items.size
