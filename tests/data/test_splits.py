"""Splits are whole and disjoint; by time, what is held out is the latest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import Recommender
from accord.data import Clicks, holdout_mask, load_clicks, three_way
from accord.data.splits import clean_apart, fold_numbers, stratified_mask
from accord.errors import DataError, SettingError
from accord.estimators.log_split import VALID

ROW = st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(0, 9))


def clicks_of(rows: list[tuple[int, int, int]]) -> Clicks:
    user, item, ts = zip(*rows, strict=True)
    return load_clicks({"user": list(user), "item": list(item), "ts": list(ts)})


@given(st.lists(ROW, min_size=1, max_size=80), st.floats(0.05, 0.6), st.booleans(), st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_holdout_keeps_every_user_and_takes_the_latest(
    rows: list[tuple[int, int, int]], share: float, by_time: bool, seed: int
) -> None:
    clicks = clicks_of(rows)
    held = holdout_mask(clicks, share, seed=seed, by="time" if by_time else "random")
    for user in np.unique(clicks.users):
        own = clicks.users == user
        kept, gone = own & ~held, own & held
        assert kept.any()
        assert abs(gone.sum() - share * own.sum()) <= 1
        if by_time and gone.any():
            assert clicks.times[kept].max() <= clicks.times[gone].min()


def test_three_parts_are_whole_and_disjoint() -> None:
    rng = np.random.default_rng(0)
    clicks = clicks_of([tuple(row) for row in rng.integers(0, (6, 60, 99), (400, 3)).tolist()])
    for by_time in (True, False):
        parts = three_way(clicks, (0.1, 0.1), seed=1, by="time" if by_time else "random")
        keys = np.concatenate([part.keys for part in parts])
        assert sorted(keys) == sorted(clicks.keys)
        assert 0.05 < len(parts[1]) / len(clicks) < 0.15
        assert 0.05 < len(parts[2]) / len(clicks) < 0.15


def test_random_split_depends_on_its_seed_alone() -> None:
    clicks = clicks_of([(u, i, 0) for u in range(5) for i in range(20)])
    first, again, other = (holdout_mask(clicks, 0.2, seed=s, by="random") for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_split_by_time_needs_times() -> None:
    with pytest.raises(DataError, match="needs a time column"):
        holdout_mask(load_clicks({"user": [1, 2], "item": [1, 2]}), 0.5, seed=0, by="time")


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    share=st.sampled_from([0.0, 0.1, 0.2, 1 / 3, 0.5]),
    seed=st.integers(0, 5),
)
def test_a_share_of_every_class_is_held_out_and_as_many_in_all_as_asked_for(
    counts: list[int], share: float, seed: int
) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    held = stratified_mask(labels, share, seed=seed)
    own = np.bincount(labels[held], minlength=len(counts))
    assert (own < np.array(counts)).all()  # something of every class stays
    assert (np.abs(own - share * np.array(counts)) <= 1).all()
    if min(counts) > 2:
        assert held.sum() == round(share * len(labels))
    assert (held == stratified_mask(labels, share, seed=seed)).all()


def test_no_class_is_held_out_first() -> None:
    labels = np.repeat(np.arange(100), 4)
    each = [set(labels[stratified_mask(labels, 0.1, seed=seed)]) for seed in range(2)]
    assert [len(own) for own in each] == [40, 40]
    assert each[0] != each[1]
    assert max(each[0]) > 60


# -- how many, exactly ------------------------------------------------------------------------------------

HELD = {
    0.1: [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1],
    0.25: [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3],
    0.5: [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6],
    1.0: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
}
"""Clicks held out of users with 1, 2, … 12: the nearest whole number, halves rounded down, and never all."""


def users_of(sizes: list[int]) -> Clicks:
    """Users with so many clicks; a later item is clicked earlier."""
    return clicks_of([(user, item, 99 - item) for user, size in enumerate(sizes) for item in range(size)])


def per_user(clicks: Clicks, users: int) -> list[int]:
    return np.bincount(clicks.users, minlength=users).tolist()


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("share", HELD)
def test_how_many_clicks_of_a_user_are_held_out(share: float, by_time: bool) -> None:
    clicks = users_of(list(range(1, 13)))
    held = holdout_mask(clicks, share, seed=3, by="time" if by_time else "random")
    assert per_user(clicks.subset(held), 12) == HELD[share]
    if by_time:  # the latest, which are each user's first items
        assert all(
            clicks.items[held & (clicks.users == user)].tolist() == list(range(count))
            for user, count in enumerate(HELD[share])
        )


def test_halves_are_rounded_down_whatever_the_share() -> None:
    """The shares of the studies, a tenth and a ninth of the rest, are right for all sizes."""
    held = holdout_mask(users_of([50]), 0.07, seed=0, by="time")
    assert held.sum() == 3


def test_eight_to_one_to_one_exactly() -> None:
    """The validation's tenth of all is a ninth of what the test leaves."""
    sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 20, 30, 45]
    parts = three_way(users_of(sizes), (0.1, 0.1), seed=0, by="time")
    each = list(zip(*(per_user(part, len(sizes)) for part in parts), strict=True))
    assert each == [
        *((1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0)),
        *((4, 1, 0), (4, 1, 1), (5, 1, 1), (6, 1, 1), (7, 1, 1), (8, 1, 1), (9, 1, 1)),
        *((12, 2, 1), (16, 2, 2), (24, 3, 3), (36, 5, 4)),
    ]
    parts = three_way(users_of([20]), (0.25, 0.5), seed=0, by="time")
    assert [len(part) for part in parts] == [5, 5, 10]


def test_the_test_is_later_than_the_validation_and_that_later_than_training() -> None:
    train, valid, test = three_way(users_of([30]), (0.1, 0.2), seed=0, by="time")
    assert test.items.tolist() == list(range(6))
    assert valid.items.tolist() == [6, 7, 8]
    assert train.items.tolist() == list(range(9, 30))


def test_three_parts_at_random_are_drawn_apart() -> None:
    """A validation drawn as the test was would hold out what stands beside it."""
    clicks = users_of([20] * 4)
    parts = three_way(clicks, (0.1, 0.1), seed=5, by="random")
    in_test = holdout_mask(clicks, 0.1, seed=5, by="random")
    assert parts[2].keys.tolist() == clicks.subset(in_test).keys.tolist()
    rest = clicks.subset(~in_test)
    assert parts[1].keys.tolist() == rest.subset(holdout_mask(rest, 1 / 9, seed=6, by="random")).keys.tolist()


@pytest.mark.parametrize(
    ("sizes", "share", "held"),
    [
        ([10, 10, 10], 0.1, [1, 1, 1]),
        ([19, 11], 0.1, [2, 1]),
        ([18, 7, 5], 0.1, [2, 1, 0]),
        ([4, 4, 12], 0.25, [1, 1, 3]),
        ([1, 1, 8], 0.5, [0, 0, 4]),
        ([1, 9], 0.4, [0, 4]),
        ([2, 2, 5], 0.5, [1, 1, 2]),
        ([3, 2, 1], 1.0, [2, 1, 0]),
        ([5, 5], 0.0, [0, 0]),
    ],
)
def test_how_many_of_a_class_are_held_out(sizes: list[int], share: float, held: list[int]) -> None:
    """Whole parts first; the rest goes where most is lacking; the only example of a class stays."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    for seed in range(3):
        mask = stratified_mask(labels, share, seed=seed)
        assert np.bincount(labels[mask], minlength=len(sizes)).tolist() == held


def test_of_two_classes_that_lack_as_much_chance_decides() -> None:
    labels = np.repeat([0, 1], 15)
    counts = {tuple(np.bincount(labels[stratified_mask(labels, 0.1, seed=seed)])) for seed in range(12)}
    assert counts == {(1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("count", "taken"), [(0, 0), (9, 0), (10, 1), (25, 2), (9_999, 999), (10_000, 1000), (20_000, 1000)]
)
def test_clean_examples_are_a_tenth_and_a_thousand_at_most(count: int, taken: int) -> None:
    clean, rest = clean_apart(count, seed=0)
    assert len(clean) == taken
    assert np.array_equal(np.sort(np.concatenate([clean, rest])), np.arange(count))
    assert (np.diff(rest) > 0).all()
    assert taken < 10 or clean.max() > count // 2  # from all over


def test_the_same_seed_holds_out_the_same_rows_as_ever() -> None:
    """So that a published number can be computed again; of equal times, chance chooses."""
    clicks = clicks_of([(user, item, 0) for user in range(3) for item in range(8)])
    for by_time in (True, False):
        held = holdout_mask(clicks, 0.25, seed=1, by="time" if by_time else "random")
        assert np.flatnonzero(held).tolist() == [0, 1, 11, 15, 18, 20]
    assert np.flatnonzero(stratified_mask(np.arange(24) % 3, 0.25, seed=1)).tolist() == [1, 5, 6, 7, 14, 21]
    assert clean_apart(30, seed=1)[0].tolist() == [9, 21, 3]


@given(st.lists(ROW, min_size=1, max_size=80), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_leave_one_out_takes_the_latest_click_of_each_user(rows: list[tuple[int, int, int]], seed: int) -> None:
    clicks = clicks_of(rows)
    held = holdout_mask(clicks, 0.0, seed=seed, by="leave-one-out")
    for user in np.unique(clicks.users):
        own = clicks.users == user
        assert (own & held).sum() == min(1, own.sum() - 1)
        if (own & held).any():
            assert clicks.times is not None
            assert clicks.times[own & held] == clicks.times[own].max()


def test_leave_one_out_without_times_draws_one_click() -> None:
    clicks = load_clicks({"user": [0] * 30 + [1], "item": [*range(30), 0]})
    masks = [holdout_mask(clicks, 0.5, seed=seed, by="leave-one-out") for seed in range(3)]
    assert [int(mask.sum()) for mask in masks] == [1, 1, 1]
    assert len({int(mask.argmax()) for mask in masks}) > 1


@given(st.lists(ROW, min_size=1, max_size=80), st.floats(0.01, 0.6))
@settings(max_examples=100, deadline=None)
def test_global_time_cuts_at_one_moment(rows: list[tuple[int, int, int]], share: float) -> None:
    clicks = clicks_of(rows)
    assert clicks.times is not None
    try:
        held = holdout_mask(clicks, share, seed=0, by="global-time")
    except DataError:
        wanted = round(len(clicks) * share)
        assert np.sort(clicks.times)[-max(1, wanted)] == clicks.times.min()
        return
    assert held.sum() >= np.ceil(np.round(len(clicks) * share, 9) - 0.5)  # ties go to the later part
    if held.any():
        assert clicks.times[~held].max() < clicks.times[held].min()
        later = np.sort(clicks.times[held])[1:]
        assert (later > clicks.times[held].min()).sum() < max(1, len(clicks) * share + 0.5)  # no more than the ties


@given(st.lists(ROW, min_size=4, max_size=80), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_folds_test_every_click_once_and_share_each_user_s(rows: list[tuple[int, int, int]], folds: int) -> None:
    clicks = clicks_of(rows)
    if folds > len(clicks):
        return
    numbers = fold_numbers(clicks, folds, seed=1)
    assert numbers.min() >= 0
    assert numbers.max() < folds
    for user in np.unique(clicks.users):
        sizes = np.bincount(numbers[clicks.users == user], minlength=folds)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("folds", [1, 0, -2, 41])
def test_folds_without_a_test_are_refused(folds: int) -> None:
    clicks = load_clicks({"user": [0] * 40, "item": list(range(40))})
    with pytest.raises(SettingError, match="make no test"):
        fold_numbers(clicks, folds, seed=0)


@pytest.mark.parametrize(
    ("split", "words"),
    [("global-time", "the latest clicks of all"), ("leave-one-out", "one click of each user")],
)
def test_a_recommender_holds_out_in_these_ways_too(split: Any, words: str) -> None:
    rng = np.random.default_rng(0)
    drawn = np.column_stack([rng.integers(0, (20, 30), (300, 2)), rng.permutation(300)])
    clicks = clicks_of([tuple(row) for row in drawn.tolist()])
    rec = Recommender("gmf", "normal", split=split, epochs=1, dims=4).fit(clicks.to_table())
    assert rec.notes_["split"] == words
    held = rec.part_ == VALID
    assert np.array_equal(held, holdout_mask(rec.clicks_, 0.1, seed=0, by=split))
