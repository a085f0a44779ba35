"""Weights by a bounded loss: against its equation, and on made members of whom it is known who is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from accord.objectives import consensus_reference as slow
from accord.objectives import tolerant
from accord.objectives.consensus import LEAST, member_weights

CLASSES = 4


@settings(deadline=None)
@drawn(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))
def test_the_loss_and_its_gradient(seed: int, members: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    p, labels = rng.dirichlet(np.full(classes, 0.4), (9, members)), rng.integers(0, classes, 9)
    weights, logs = rng.uniform(0, 2, members), tolerant.log_chances(p)
    value, slope = tolerant.bounded_loss(weights, logs, labels)
    pull = tolerant.PRIOR / 9 * ((weights - 1 / members) ** 2).sum()
    assert value == pytest.approx(slow.bounded_loss(p, labels, weights, tolerant.BOUND) + pull)
    for k, step in enumerate(np.eye(members) * 1e-5):
        there, back = (tolerant.bounded_loss(weights + sign * step, logs, labels)[0] for sign in (1, -1))
        assert slope[k] == pytest.approx((there - back) / 2e-5, abs=1e-6)


def test_the_temperature_is_the_likeliest() -> None:
    rng = np.random.default_rng(1)
    pool = rng.normal(0, 2, (4000, CLASSES))
    for factor in (0.3, 1.0, 2.5):
        p = tolerant.softmax(factor * pool)
        labels = (rng.random(4000)[:, None] > p.cumsum(1)).sum(1).clip(max=CLASSES - 1)
        found = tolerant.temperature(pool, labels)
        assert found == pytest.approx(factor, rel=0.1)

        def loss(value: float, labels: np.ndarray = labels) -> float:
            return -float(np.log(tolerant.softmax(value * pool)[np.arange(4000), labels]).mean())

        assert loss(found) <= min(loss(found * 0.98), loss(found * 1.02)) + 1e-7


def crowd(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One member that knows the true class and one that foretells how people err, and the labels that people give.

    A third of the examples look like another class to people, who then err in 45 % of them. The first member is
    sure of the true class there. The second doubts as people do, and takes the other class half of the time.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, n)
    alike, other = rng.random(n) < 1 / 3, (truth + 1) % CLASSES
    labels = np.where(alike & (rng.random(n) < 0.45), other, truth)
    eye = np.eye(CLASSES)
    slips = rng.random(n) < 0.03
    sees = 0.88 * eye[np.where(slips, rng.integers(0, CLASSES, n), truth)] + 0.12 / CLASSES
    doubt = rng.normal(0, 0.03, (n, 1))
    people = np.where(
        alike[:, None], (0.485 + doubt) * eye[truth] + (0.485 - doubt) * eye[other], 0.97 * eye[truth]
    )
    return np.stack([sees, people + 0.03 / CLASSES], 1), labels


def test_who_is_right_counts_more_than_who_foretells_mistakes() -> None:
    p, labels = crowd()
    bounded, likely = tolerant.tolerant_weights(tolerant.log_chances(p), labels), member_weights(p, labels)
    assert bounded[0] / bounded.sum() > 2 * likely[0] / likely.sum()


def test_useless_members_are_voted_down_equal_ones_stay_equal_and_few_examples_vote_nobody_out() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, 3000)
    good = np.where(rng.random(3000)[:, None] < 0.8, np.eye(CLASSES)[labels], 1 / CLASSES) * 0.9 + 0.1 / CLASSES
    p = np.stack([good, rng.dirichlet(np.ones(CLASSES), 3000), good], 1)
    weights = tolerant.tolerant_weights(tolerant.log_chances(p), labels)
    assert weights[1] < 0.2 * weights[0]
    assert weights[0] == pytest.approx(weights[2], rel=1e-3)
    assert tolerant.tolerant_weights(tolerant.log_chances(p[:6]), labels[:6]).min() > 0
    nobody = tolerant.tolerant_weights(np.zeros((0, 2, 3)), np.zeros(0, int))
    assert nobody.tolist() == [0.5, 0.5]


def test_noise_of_one_rate() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 50, 3000)
    labels = np.where(rng.random(3000) < 0.2, (truth + rng.integers(1, 50, 3000)) % 50, truth)
    pool = 0.98 * np.eye(50)[truth] + 0.02 / 50
    found = tolerant.fit_uniform(pool, labels)
    assert found.matrix.shape == (50, 50)
    assert found.matrix.sum(1) == pytest.approx(1)
    assert np.diag(found.matrix) == pytest.approx(0.8, abs=0.03)
    calibrated = tolerant.fit_uniform(0.8 * np.eye(50)[truth] + 0.2 / 50, labels)
    assert np.diag(calibrated.matrix).min() > 0.95  # the pool's own doubt says it all


def test_chances_of_zero_count_as_the_least() -> None:
    assert np.exp(tolerant.log_chances(np.array([0, 1], np.float16))) == pytest.approx([LEAST, 1])
