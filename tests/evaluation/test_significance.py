"""p-values against every resample of tiny samples, closed forms, and Holm's correction by definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.evaluation.significance import OVER, holm, over_seeds, paired_bootstrap

# -- paired bootstrap -------------------------------------------------------------------------------------


def of_every_resample(differences: Sequence[float]) -> float:
    """The two-sided p-value of all n^n resamples: twice the smaller share on one side of zero, zero included."""
    sums = [sum(drawn) for drawn in itertools.product(differences, repeat=len(differences))]
    below, above = (sum(side) / len(sums) for side in ([s <= 0 for s in sums], [s >= 0 for s in sums]))
    return min(1.0, 2 * min(below, above))


@pytest.mark.parametrize(
    ("differences", "exact"),
    [
        ([1, 0], 0.5),  # a mean of zero, one resample of four, speaks against a difference
        ([3, -1], 0.5),
        ([1, -1], 1.0),
        ([0, 0, 0], 1.0),
        ([2, -1, 0], None),
        ([4, 2, -1], None),
        ([5, -1, -1, 3], None),
        ([4, 4, -2, 1, -1], None),
    ],
)
def test_p_is_the_share_of_all_resamples_and_two_sided(differences: list[int], exact: float | None) -> None:
    every = of_every_resample(differences)
    assert exact is None or every == exact
    ours = np.array([differences], float)
    for one, other in ((ours, 0 * ours), (0 * ours, ours)):
        assert paired_bootstrap(one, other, resamples=40_000) == pytest.approx(every, abs=0.015)


@pytest.mark.parametrize(("resamples", "p"), [(9, 0.2), (1, 1.0), (5000, 2 / 5001)])
def test_no_p_is_zero_and_the_sample_itself_counts(resamples: int, p: float) -> None:
    """Where all resamples are on one side, p is 2 (0 + 1) / (resamples + 1), whichever side it is."""
    gain, nothing = np.array([[0.3]]), np.array([[0.0]])
    assert paired_bootstrap(gain, nothing, resamples=resamples) == pytest.approx(p)
    assert paired_bootstrap(nothing, gain, resamples=resamples) == pytest.approx(p)
    assert paired_bootstrap(gain, gain, resamples=resamples) == 1.0
    if resamples == 5000:
        assert paired_bootstrap(gain, nothing) == pytest.approx(p)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=12),
    st.integers(-64, 64),
    st.integers(0, 3),
)
def test_what_p_does_not_depend_on(pairs: list[tuple[int, int]], shift: int, seed: int) -> None:
    """Not on who is called ours, on the unit, on how good a user's lists are, nor on the order of the seeds."""
    ours, theirs = np.array(pairs, float).T[:, None]
    p = paired_bootstrap(ours, theirs, seed, resamples=300)
    assert 0 < p <= 1
    assert paired_bootstrap(theirs, ours, seed, resamples=300) == p
    assert paired_bootstrap(4 * ours, 4 * theirs, seed, resamples=300) == p
    level = shift * np.arange(len(pairs))
    assert paired_bootstrap(ours + level, theirs + level, seed, resamples=300) == p
    two, others = (np.concatenate([values, values + 2]) for values in (ours, theirs))
    assert paired_bootstrap(two, others, seed, resamples=300) == p
    assert paired_bootstrap(two[::-1], others, seed, resamples=300) == p


def test_all_seeds_of_a_user_go_together() -> None:
    """What one seed gains on a user the other loses: no difference, though each seed alone has one."""
    ours, theirs = np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    assert paired_bootstrap(ours, theirs) == 1.0
    assert paired_bootstrap(ours[:1], theirs[:1]) < 0.001


def test_pairs_count_by_user() -> None:
    """A constant gain for every user is certain, however much users differ."""
    base = np.random.default_rng(2).normal(scale=100, size=(1, 50))
    assert paired_bootstrap(base + 0.01, base) < 0.001


def test_five_per_cent_of_no_differences_are_significant_at_five_per_cent() -> None:
    """A one-sided test would call ten."""
    rng = np.random.default_rng(1)
    p_values = [
        paired_bootstrap(rng.normal(size=(1, 100)), rng.normal(size=(1, 100)), seed=s, resamples=300)
        for s in range(1200)
    ]
    assert 0.035 < np.mean(np.array(p_values) < 0.05) < 0.07


def test_the_same_seed_draws_the_same_users_as_ever() -> None:
    """So that a published p-value can be computed again to its last digit."""
    ours = np.sin(np.arange(30.0))[None] + 0.3
    p_values = [paired_bootstrap(ours, 0 * ours, seed, resamples) for seed, resamples in ((0, 5000), (1, 777))]
    assert p_values == [pytest.approx(34 / 5001), pytest.approx(10 / 778)]


# -- over seeds -------------------------------------------------------------------------------------------


def test_over_seeds_is_welchs_test() -> None:
    """Where one of the two does not vary, Welch's degrees of freedom are n - 1: for two, p = 1 - t / √(2 + t²)."""
    one, other = {"mean": 0.85, "std": 0.02}, {"mean": 0.83, "std": 0.0}
    t = 0.02 / (0.02 / math.sqrt(3))
    exact = pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert over_seeds(one, other, 3) == exact
    assert over_seeds(other, one, 3) == exact
    t = 0.02 / (0.02 / math.sqrt(2))  # one degree of freedom: Cauchy's distribution
    assert over_seeds(one, other, 2) == pytest.approx(1 - 2 / math.pi * math.atan(t))


def test_over_seeds_needs_two_seeds_and_something_that_varies() -> None:
    still, moving = {"mean": 0.8, "std": 0.0}, {"mean": 0.9, "std": 0.1}
    assert over_seeds(moving, moving, 1) is None
    assert over_seeds(still, {"mean": 0.9, "std": 0.0}, 3) is None
    assert over_seeds(still, moving, 1) is None
    assert over_seeds(moving, moving, 2) == pytest.approx(1.0)
    assert OVER == "over"  # what summaries that are written down call it


# -- Holm -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.001, 0.02, 0.5, 0.011], [0.004, 0.04, 0.5, 0.033]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.3, 0.4, 0.2], [0.6, 0.6, 0.6]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected, abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.05, 0.3, 1.0]), min_size=1, max_size=5))
def test_holm_is_bonferroni_over_all_sets_of_hypotheses(p_values: list[float]) -> None:
    """A hypothesis falls where each set that holds it falls by Bonferroni: the closure principle."""
    numbers = range(len(p_values))
    sets = [chosen for size in numbers for chosen in itertools.combinations(numbers, size + 1)]

    def by_sets(k: int) -> float:
        return max(min(1.0, len(s) * min(p_values[n] for n in s)) for s in sets if k in s)

    assert holm(p_values) == pytest.approx([by_sets(k) for k in numbers], abs=1e-12)
