"""Splits are whole and disjoint; by time, what is held out is the latest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data import Clicks, holdout_mask, load_clicks, three_way
from accord.data.splits import stratified_mask
from accord.errors import DataError

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
    held = holdout_mask(clicks, share, seed=seed, by_time=by_time)
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
        parts = three_way(clicks, (0.1, 0.1), seed=1, by_time=by_time)
        keys = np.concatenate([part.keys for part in parts])
        assert sorted(keys) == sorted(clicks.keys)
        assert 0.05 < len(parts[1]) / len(clicks) < 0.15
        assert 0.05 < len(parts[2]) / len(clicks) < 0.15


def test_random_split_depends_on_its_seed_alone() -> None:
    clicks = clicks_of([(u, i, 0) for u in range(5) for i in range(20)])
    first, again, other = (holdout_mask(clicks, 0.2, seed=s, by_time=False) for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_split_by_time_needs_times() -> None:
    with pytest.raises(DataError, match="needs a time column"):
        holdout_mask(load_clicks({"user": [1, 2], "item": [1, 2]}), 0.5, seed=0, by_time=True)


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
