"""Annotators: against the equation, and on made ones of whom it is known how they err."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from accord.objectives import consensus_reference as slow
from accord.objectives import dawid_skene as fast

CLASSES = 3


def made(matrices: np.ndarray, examples: int, each: float, seed: int = 0) -> tuple[fast.Annotations, np.ndarray]:
    """Labels by annotators with these matrices, each of a share of the examples; and the true classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, examples)
    example, annotator = np.nonzero(rng.random((examples, len(matrices))) < each)
    chances = matrices[annotator, truth[example]].cumsum(1)
    label = (rng.random(len(example))[:, None] > chances).sum(1).clip(max=CLASSES - 1)
    return fast.Annotations(example, annotator, label, (examples, len(matrices), CLASSES)), truth


def of_rate(rates: list[float]) -> np.ndarray:
    return np.stack([r * np.eye(CLASSES) + (1 - r) / (CLASSES - 1) * (1 - np.eye(CLASSES)) for r in rates])


@settings(deadline=None)
@drawn(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_posteriors_are_the_reference(seed: int, own_rate: bool, own_prior: bool) -> None:
    rng = np.random.default_rng(seed)
    matrices = of_rate([0.7, 0.5, 0.9]) if own_rate else rng.dirichlet(np.ones(CLASSES), (3, CLASSES))
    given, _ = made(matrices, 12, 0.6, seed)
    start = rng.dirichlet(np.ones(CLASSES), 12)
    rates = np.array([0.7, 0.5, 0.9])
    fit = fast.Annotators(start, rates, None if own_rate else matrices, 5.0)
    found = fast.posterior_of(given, fit, start if own_prior else None)
    for i in range(12):
        prior = start[i] if own_prior else fast.frequent(fit)
        labels = [
            (int(a), int(j))
            for e, a, j in zip(given.examples, given.annotators, given.labels, strict=True)
            if e == i
        ]
        assert found[i] == pytest.approx(slow.annotated(prior, labels, matrices), abs=1e-3)


def test_rates_are_found_and_the_majority_is_outvoted_by_who_is_right() -> None:
    rates = [0.97, 0.95, 0.4, 0.45, 0.5, 0.42, 0.38]
    given, truth = made(of_rate(rates), 1500, 0.8)
    fit = fast.fit_annotators(given)
    assert fit.quality() == pytest.approx(rates, abs=0.05)
    votes = np.zeros((1500, CLASSES))
    np.add.at(votes, (given.examples, given.labels), 1)
    right, majority = ((p.argmax(1) == truth).mean() for p in (fit.posterior, votes))
    assert right > 0.95 > majority + 0.02


def test_matrices_are_used_where_labels_show_them() -> None:
    swaps = np.array([[1.0, 0, 0], [0, 0.1, 0.9], [0, 0.9, 0.1]]) * 0.94 + 0.02
    given, truth = made(np.stack([*of_rate([0.8, 0.8, 0.75]), swaps, swaps]), 1500, 0.9)
    fit = fast.fit_annotators(given)
    assert fit.matrices is not None
    assert np.abs(fit.matrices[3] - swaps).max() < 0.08
    assert fit.matrices.sum(2) == pytest.approx(1)
    one_rate = fast.expectation_maximisation(given, fast.STRENGTHS[0])
    assert (fit.posterior.argmax(1) == truth).mean() > (one_rate.posterior.argmax(1) == truth).mean() + 0.03


def test_few_labels_are_drawn_to_the_rate_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = made(of_rate([0.9] * 6), 300, 0.5)
    rows = (given.annotators != 5) | (np.cumsum(given.annotators == 5) <= 1)
    few = given.some(np.flatnonzero(rows))
    assert fast.fit_annotators(few).rates[5] == pytest.approx(0.9, abs=0.1)  # one label says next to nothing
    monkeypatch.setattr(fast, "MOST_CELLS", 1)
    assert fast.fit_annotators(given).matrices is None


def test_models_decide_where_nobody_labelled() -> None:
    given, truth = made(of_rate([0.8] * 3), 300, 0.3)
    empty = np.setdiff1d(np.arange(300), given.examples)
    prior = 0.9 * np.eye(CLASSES)[truth] + 0.1 / CLASSES
    fit = fast.fit_annotators(given, prior)
    assert len(empty) > 50
    assert (fit.posterior[empty].argmax(1) == truth[empty]).all()
    alone = fast.fit_annotators(given)
    assert np.ptp(alone.posterior[empty], 0).max() < 1e-9
