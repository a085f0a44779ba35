"""A council of predictions: what several arrays of probabilities say together of given labels, block by block.

The proportions of the members' weights come from a bounded loss, their sum and the noise matrix from the likelihood
of the given labels (`accord.objectives.tolerant`, `accord.objectives.consensus`), all on a sample of the examples.
Then every example is judged by log q(ỹ) − max log q(y) over the other classes y, with q the chance of each class
by the members and the given label. It is the order of 1 − q(ỹ) where only two classes are in question, and does not
depend on how sure the members are where the noise is alike in all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accord.objectives.consensus import (
    LEAST,
    NoiseFit,
    clean_probabilities,
    fit_noise,
    softmax,
    usual_trust,
    votes_of,
)
from accord.objectives.tolerant import fit_uniform, log_chances, tolerant_weights
from accord.predictions.arrays import blocks

WEIGHT_ROWS, NOISE_ROWS = 20_000, 100_000
"""Most examples that weights and the noise matrix are fitted to."""
WEIGHT_CELLS, NOISE_CELLS = 5_000_000, 2_000_000
"""Most probabilities in them."""
FEWEST = 20
"""With fewer examples of a class among them, on average, all classes have one noise rate."""


@dataclass(frozen=True)
class Council:
    """How the members count, and how labels go wrong."""

    weights: np.ndarray
    noise: NoiseFit
    trust: float


@dataclass(frozen=True)
class Verdict:
    """What a council says of every given label."""

    quality: np.ndarray
    """The chance of the given label against the likeliest other class."""
    predicted: np.ndarray
    """The likeliest class, by the members and the given label."""
    believers: np.ndarray
    agreement: np.ndarray


def pooled_logits(members: Sequence[np.ndarray], given: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """log ∏ p_m^w_m of every example and class, with weights by given labels: (n, C)."""
    count, classes = members[0].shape
    weights = _weights(members, given, np.random.default_rng([seed, 0xC0]).permutation(count))
    return np.concatenate([_logits(members, rows, weights) for rows in blocks(count, classes)])


def fit_council(members: Sequence[np.ndarray], given: np.ndarray, *, seed: int = 0) -> Council:
    """Weights, noise and trust from arrays (n, C), without a true label."""
    count, classes = members[0].shape
    order = np.random.default_rng([seed, 0xC0]).permutation(count)
    weights = _weights(members, given, order)
    rows = order[: max(1, min(NOISE_ROWS, NOISE_CELLS // classes))]
    parts = [rows[part] for part in blocks(len(rows), classes * len(members))]
    pool = np.concatenate([softmax(_logits(members, part, weights)) for part in parts])
    few = len(rows) < FEWEST * classes
    noise = fit_uniform(pool, given[rows]) if few else fit_noise(pool, given[rows], seed=seed)
    trust = usual_trust(clean_probabilities(pool, noise), given[rows], noise.matrix)
    return Council(weights, noise, trust)


def judge(council: Council, members: Sequence[np.ndarray], given: np.ndarray) -> Verdict:
    """Every given label, a block at a time."""
    count, classes = members[0].shape
    margin, agreement = np.empty(count), np.empty(count)
    predicted, believers = np.empty(count, np.int32), np.empty(count, np.int16)
    evidence = council.trust * np.log(np.maximum(council.noise.matrix, LEAST)).T  # of a label, for each class
    for rows in blocks(count, classes):
        own = given[rows]
        at = np.arange(len(own)), own
        scores = _of_classes(_logits(members, rows, council.weights), council.noise)
        scores += evidence[own]
        predicted[rows] = scores.argmax(1)
        stays = scores[at].copy()
        scores[at] = -np.inf
        margin[rows] = stays - scores.max(1)
        choices = np.stack([member[rows].argmax(1) for member in members], 1)
        believers[rows], agreement[rows] = votes_of(choices, own)
    with np.errstate(over="ignore"):
        return Verdict(1 / (1 + np.exp(-margin)), predicted, believers, agreement)


def _of_classes(pool: np.ndarray, noise: NoiseFit) -> np.ndarray:
    """log π of each class but for a constant, from the pool's logits."""
    scores = noise.sharpness * pool
    if noise.nearness:
        scores += noise.nearness * (softmax(pool) @ np.log(noise.matrix + LEAST).T)
    return scores


def _logits(members: Sequence[np.ndarray], rows: np.ndarray | slice, weights: np.ndarray) -> np.ndarray:
    total = weights[0] * log_chances(members[0][rows])
    for member, weight in zip(members[1:], weights[1:], strict=True):
        if weight:
            total += weight * log_chances(member[rows])
    return total


def _weights(members: Sequence[np.ndarray], given: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Weights by the first examples of a random order."""
    rows = order[: max(1, min(WEIGHT_ROWS, WEIGHT_CELLS // (members[0].shape[1] * len(members))))]
    return tolerant_weights(np.stack([log_chances(member[rows]) for member in members], 1), given[rows])
