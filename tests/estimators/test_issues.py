"""The rule that flags labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.estimators.issues import flag_share, two_group_threshold


def brute_force(scores: np.ndarray) -> float:
    """Otsu's objective at every cut between two values; the best value of the objective."""
    ordered = np.sort(scores)
    return max(
        (k * (len(ordered) - k) * (ordered[:k].mean() - ordered[k:].mean()) ** 2 for k in range(1, len(ordered))),
        default=0.0,
    )


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.integers(0, 10))
def test_threshold_is_the_best_cut(values: list[float], seed: int) -> None:
    scores = np.array(values)
    if np.ptp(scores) < 1e-3:
        return
    cut = two_group_threshold(scores, bins=4096)
    low, high = scores[scores < cut], scores[scores >= cut]
    assert len(low)
    assert len(high)
    ours = len(low) * len(high) * (low.mean() - high.mean()) ** 2
    assert ours == pytest.approx(brute_force(scores), rel=0.05, abs=0.02 * len(scores) ** 2 * np.ptp(scores) ** 2 / 100)


def test_two_clear_groups_are_parted() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0.2, 0.05, 300), rng.normal(0.8, 0.05, 700)])
    assert 0.35 < two_group_threshold(scores) < 0.65


def test_share_takes_the_lowest() -> None:
    assert flag_share(np.array([0.3, 0.1, 0.2, 0.9]), 0.5).tolist() == [False, True, True, False]
