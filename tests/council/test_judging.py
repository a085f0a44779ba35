"""What a council of recommenders says of every click, beside loops that say the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.estimators.council.clicks import judging
from accord.estimators.council.clicks.judging import judged, matched_non_clicks, votes
from accord.estimators.log_split import TRAIN

Spoken = Any


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@st.composite
def said(draw: st.DrawFn) -> tuple[dict[str, list[np.ndarray]], dict[str, list[np.ndarray]]]:
    """What members say of clicks and non-clicks; the first of them is never silent, and no two numbers tie."""
    clicks, others = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    own: dict[str, list[np.ndarray]] = {}
    away: dict[str, list[np.ndarray]] = {}
    for kind in "abc"[: draw(st.integers(1, 3))]:
        for _ in range(draw(st.integers(1, 2))):
            value = st.integers(-4, 4).map(lambda n: n + 0.25)
            value = value if not own else st.one_of(value, st.just(math.nan))
            answers = draw(st.lists(value, min_size=clicks, max_size=clicks))
            far = draw(st.lists(st.integers(-4, 4).map(float), min_size=others, max_size=others))
            own.setdefault(kind, []).append(np.array(answers, np.float32))
            away.setdefault(kind, []).append(np.array(far, np.float32))
    return own, away


@settings(max_examples=100, deadline=None)
@given(said())
def test_votes_are_those_of_a_loop(
    both: tuple[dict[str, list[np.ndarray]], dict[str, list[np.ndarray]]],
) -> None:
    own, away = both
    found = votes(own, away)
    voices = [pair for kind in own for pair in zip(own[kind], away[kind], strict=True)]
    for click in range(len(voices[0][0])):
        believed = heard = 0
        chances = []
        for answers, far in voices:
            if math.isnan(answers[click]):
                continue
            heard += 1
            chances.append(sigmoid(float(answers[click])))
            usual = sum(sigmoid(float(x)) for x in far) / len(far)
            believed += chances[-1] >= usual
        mean = sum(chances) / heard
        spread = math.sqrt(sum((c - mean) ** 2 for c in chances) / heard)
        assert found["votes"][click] == believed
        assert found["voters"][click] == heard
        assert found["agreement"][click] == pytest.approx(max(0.0, 1 - 2 * spread), abs=1e-5)


def test_a_chance_as_high_as_of_non_clicks_is_enough() -> None:
    found = votes({"a": [np.array([0.5])]}, {"a": [np.array([0.5])]})
    assert found["votes"].tolist() == [1]
    assert found["agreement"].tolist() == [1.0]


def test_those_who_are_sure_of_either_agree_in_nothing() -> None:
    found = votes({"a": [np.array([60.0])], "b": [np.array([-60.0])]}, {"a": [np.zeros(1)], "b": [np.zeros(1)]})
    assert found["agreement"] == pytest.approx([0.0])


@pytest.mark.parametrize("lost", [None, 4])
def test_clicks_are_judged_by_those_who_never_saw_them(spoken: Callable[..., Spoken], lost: int | None) -> None:
    """Of a fold its own members, of other clicks all; where a kind lost its member of a fold it is silent there."""
    made = spoken(kinds=("a", "b"), folds=3)
    assert [(m.kind, m.fold) for m in made.members][4:6] == [("b", None), ("b", 0)]
    if lost is not None:
        made.voices.ready.remove(made.members[lost + 1])
        del made.tables[lost + 1]
    word = judged(made.voices, made.folds, 0.5)
    fold_of = {int(row): k for k, rows in enumerate(made.folds) for row in rows}
    clicks = made.split.clicks
    for kind in ("a", "b"):
        (found,) = word.said[kind]
        for row in range(len(clicks)):
            each = [
                float(table[clicks.users[row], clicks.items[row]])
                for m, table in zip(made.members, made.tables, strict=True)
                if m.kind == kind and m.fold is not None and fold_of.get(row, m.fold) == m.fold
            ]
            assert found[row] == pytest.approx(np.mean(each) if each else math.nan, abs=1e-4, nan_ok=True)
        assert np.isnan(found).any() == (lost is not None and kind == "b")
    voters = votes(word.said, word.of_others)["voters"]
    assert set(voters) == ({2} if lost is None else {1, 2})
    assert np.isfinite(word.quality()).all()


def test_without_folds_every_member_has_a_vote(spoken: Callable[..., Spoken]) -> None:
    made = spoken(kinds=("a", "b"), seeds=2)
    word = judged(made.voices, [], 0.5)
    assert {kind: len(each) for kind, each in word.said.items()} == {"a": 2, "b": 2}
    assert (votes(word.said, word.of_others)["voters"] == 4).all()
    clicks = made.split.clicks
    second = word.said["a"][1]
    assert second == pytest.approx(made.tables[1][clicks.users, clicks.items], abs=1e-5)


@pytest.mark.parametrize("part", [0.0, 0.5, 4.0])
def test_quality_is_the_mixtures_chance_and_a_part_of_that_of_a_click(
    part: float, spoken: Callable[..., Spoken]
) -> None:
    made = spoken(kinds=("a", "b"))
    word = judged(made.voices, [], part)
    assert word.meant is not None
    assert word.noise_share is not None
    clicks, sure = made.split.clicks, list(word.weights.values())
    weighed = sure[0] * made.tables[0] + sure[1] * made.tables[1]
    warm = made.data.degrees.numpy() > 0
    wanted = []
    slopes, doubts = (one.numpy() for one in word.meant.of_items(made.data.popularity))
    for row in range(0, len(clicks), 7):
        user, item = clicks.users[row], clicks.items[row]
        fits = weighed[warm, item] - weighed[warm, item].mean()
        own = weighed[user, item] - weighed[warm, item].mean()
        slope, noise = float(slopes[item]), sigmoid(float(doubts[item]))
        g = math.exp(slope * own) / np.exp(slope * fits).mean()
        chance = (1 - noise) * g / ((1 - noise) * g + noise)
        apart = float(np.std([table[user, item] for table in made.tables]))  # where kinds disagree, less is sure
        wanted.append(math.log(chance / (1 - chance)) + part * (weighed[user, item] - apart))
    apart = word.clicks[::7] - np.array(wanted)
    assert apart == pytest.approx(np.full(len(apart), apart.mean()), abs=1e-3)  # but for one shift of all
    learnt = word.quality()[made.split.part == TRAIN]
    assert learnt.mean() == pytest.approx(1 - word.noise_share, abs=1e-4)
    assert word.threshold() == pytest.approx(np.mean([sigmoid(float(x)) for x in word.others]), abs=1e-5)
    if part:
        assert word.threshold() < learnt.mean()


def test_how_likely_a_click_is_those_say_that_see_all_clicks(spoken: Callable[..., Spoken]) -> None:
    """Less their deviation; of a kind that lost them, those speak that never saw the click."""
    made = spoken(kinds=("a", "b"), folds=2)
    users, items = np.array([0, 3, 5]), np.array([1, 1, 4])
    one, two = (made.tables[made.members.index(member)][users, items] for member in made.voices.full)
    unseen = np.full((3, 2), 9.0, np.float32)
    found = judging._likely(made.voices, {"a": 0.6, "b": 0.3}, (users, items), unseen, 0.25)
    assert found == pytest.approx(0.6 * one + 0.3 * two + 0.25 - abs(one - two) / 2, abs=1e-4)
    made.voices.full = [member for member in made.voices.full if member.kind == "a"]
    found = judging._likely(made.voices, {"a": 0.6, "b": 0.3}, (users, items), unseen, 0.25)
    assert found == pytest.approx(0.6 * one + 0.3 * 9 + 0.25 - abs(one - 9) / 2, abs=1e-4)


def test_few_unseen_clicks_teach_nothing_of_what_is_meant(
    spoken: Callable[..., Spoken], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spoken(kinds=("a",))
    monkeypatch.setattr(judging, "LEAST", len(made.held))
    assert judged(made.voices, [], 0.5).meant is not None
    monkeypatch.setattr(judging, "LEAST", len(made.held) + 1)
    assert judged(made.voices, [], 0.5).meant is None


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2), st.data())
def test_matched_non_clicks_are_of_the_same_items(pairs: set[tuple[int, int]], data: st.DataObject) -> None:
    users, items = np.array(sorted(pairs)).T
    clicks: Any = SimpleNamespace(users=users, items=items, item_ids=range(5), keys=users * 5 + items)
    unseen = np.array(sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=1))))
    learnt = np.array(sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=1))))
    most, seed = data.draw(st.sampled_from([1, 3, 100])), data.draw(st.integers(0, 99))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "NON_CLICKS", most)
        asked, (of_users, of_items) = matched_non_clicks(clicks, learnt, unseen, seed)
    assert len(asked) == len(set(asked)) == min(most, len(unseen))
    assert set(asked) <= set(unseen)
    assert asked.tolist() == sorted(asked)
    found = list(zip(of_users.tolist(), of_items.tolist(), strict=True))
    assert pairs.isdisjoint(found)
    assert set(of_users) <= set(users[learnt])
    at_most = Counter(items[asked].tolist() * 2)
    assert all(count <= at_most[item] for item, count in Counter(of_items.tolist()).items())


def test_users_are_matched_as_often_as_they_click(spoken: Callable[..., Spoken]) -> None:
    made = spoken(kinds=("a",))
    clicks = made.split.clicks
    _, (users, items) = matched_non_clicks(clicks, made.learnt, made.learnt, 0)
    degrees = np.bincount(clicks.users[made.learnt], minlength=len(clicks.user_ids))
    by_clicks, by_users = degrees[clicks.users[made.learnt]].mean(), degrees[degrees > 0].mean()
    assert abs(degrees[users].mean() - by_clicks) < 0.3 * (by_clicks - by_users)
    drawn = np.bincount(items, minlength=len(clicks.item_ids))
    wanted = np.bincount(clicks.items[made.learnt], minlength=len(clicks.item_ids))
    assert np.corrcoef(drawn, wanted)[0, 1] > 0.9
    assert 1.5 * len(made.learnt) < len(users) < 2 * len(made.learnt)
