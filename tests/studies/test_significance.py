"""The paired bootstrap and Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest

from accord.studies.significance import holm, paired_bootstrap


def test_equal_rows_are_not_different() -> None:
    values = np.random.default_rng(0).random((3, 200))
    assert paired_bootstrap(values, values) == 1.0


def test_a_clear_difference_is_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(1)
    theirs = rng.random((3, 500))
    assert paired_bootstrap(theirs + 0.05 + 0.1 * rng.normal(size=(3, 500)), theirs) < 0.01
    p_values = [
        paired_bootstrap(rng.random((2, 300)), rng.random((2, 300)), seed=s, resamples=400) for s in range(40)
    ]
    assert np.mean(np.array(p_values) < 0.05) < 0.2


def test_pairs_count_by_user() -> None:
    """A constant gain for every user is certain, however much users differ."""
    base = np.random.default_rng(2).normal(scale=100, size=(1, 50))
    assert paired_bootstrap(base + 0.01, base) < 0.001


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.2]) == [pytest.approx(0.2)]
