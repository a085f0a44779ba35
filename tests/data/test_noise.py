"""Labels made wrong on purpose: rates, kinds and matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.noise import KINDS, add_noise, add_noise_by_matrix
from accord.errors import SettingError

LABELS = np.arange(20_000) % 10


@pytest.mark.parametrize(("kind", "wrong"), [("uniform", 0.36), ("others", 0.4), ("pair", 0.4)])
def test_realised_rates(kind: str, wrong: float) -> None:
    noisy = add_noise(LABELS, 10, 0.4, kind=kind)
    assert noisy.realised == pytest.approx(wrong, abs=0.01)
    assert noisy.realised == (noisy.labels != LABELS).mean()
    assert noisy.notes() == {"kind": kind, "rate": 0.4, "realised": noisy.realised}


def test_where_labels_go() -> None:
    flipped = add_noise(LABELS, 10, 0.4, kind="pair")
    assert ((flipped.labels - LABELS)[flipped.is_noise] % 10 == 1).all()
    drawn = add_noise(LABELS, 10, 1.0, kind="others")
    assert drawn.is_noise.all()
    counts = np.bincount(drawn.labels[LABELS == 3], minlength=10)
    assert counts[3] == 0
    assert counts[[0, 1, 9]] == pytest.approx(2000 / 9, rel=0.25)


@given(st.floats(0, 1), st.integers(2, 7), st.sampled_from(sorted(KINDS)), st.integers(0, 5))
def test_noise_never_leaves_the_classes_and_keeps_the_truth(
    rate: float, classes: int, kind: str, seed: int
) -> None:
    truth = np.arange(60) % classes
    noisy = add_noise(truth, classes, rate, kind=kind, seed=seed)
    assert noisy.labels.min() >= 0
    assert noisy.labels.max() < classes
    assert (noisy.truth == truth).all()
    assert noisy.is_noise.sum() <= round(rate * 60)
    assert (add_noise(truth, classes, rate, kind=kind, seed=seed).labels == noisy.labels).all()


def test_a_matrix_is_followed() -> None:
    matrix = [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]
    truth = np.repeat([0, 1, 2], 20_000)
    noisy = add_noise_by_matrix(truth, matrix, seed=1)
    found = [[(noisy.labels[truth == c] == j).mean() for j in range(3)] for c in range(3)]
    assert np.allclose(found, matrix, atol=0.02)
    assert noisy.rate == pytest.approx((0.3 + 0.5) / 3)


@pytest.mark.parametrize("matrix", [[[0.5, 0.4], [0, 1]], [[1.0]], [[1.5, -0.5], [0, 1]], [[1, 0, 0], [0, 1, 0]]])
def test_bad_matrices_are_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(SettingError, match="matrix"):
        add_noise_by_matrix(np.array([0, 1]), matrix)


def test_bad_rates_and_kinds_are_refused() -> None:
    with pytest.raises(SettingError, match="makes no sense"):
        add_noise(LABELS, 10, 1.5)
    with pytest.raises(SettingError, match="did you mean 'uniform'"):
        add_noise(LABELS, 10, 0.1, kind="unifrom")
