"""Weights of several classifiers by a loss that wrong labels hardly move; nothing here sees a true label.

The likelihood of the given labels, by which `consensus` weighs, also rewards a member that foretells which mistakes
people make. To find mistakes, members count by how well they foretell the true class. Losses that are bounded are
least where they would be least on true labels, if labels go wrong at random or by their class (Ghosh, Kumar &
Sastry, 2017): a label that the pool thinks impossible counts as much as any other mistake. The loss here is
(1 − ρ^q) / q of the pool's chance ρ of the given label, with the q = 0.7 of its authors (Zhang & Sabuncu, 2018).

Such a loss says little of how sure the pool should be. So the weights' proportions come from it, and their sum, an
inverse temperature, from the likelihood.
"""

from __future__ import annotations

import numpy as np

from accord.objectives.consensus import (
    IN_ADVANCE,
    LEAST,
    ROUNDS,
    SHARPNESS,
    TINY,
    NoiseFit,
    softmax,
    true_classes,
    uniform_noise,
)

BOUND = 0.7
"""q: 0 is the likelihood, 1 the plain chance of the given label."""
PRIOR = 2.0
"""Examples that equal weights are worth: few examples vote nobody out."""
MOST = 20.0
"""No weight is larger."""
STEPS = 50


def tolerant_weights(logs: np.ndarray, given: np.ndarray) -> np.ndarray:
    """How much each member counts in ∏ p_m^w_m, from log probabilities (n, M, C) and class numbers."""
    members = logs.shape[1]
    weights = np.full(members, 1 / members)
    if not len(given):
        return weights
    if members > 1:
        weights = _by_bounded_loss(logs, given)
    pool = np.einsum("nmc,m->nc", logs, weights)
    return weights * temperature(pool, given)


def bounded_loss(weights: np.ndarray, logs: np.ndarray, given: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss of the pool with a pull towards equal weights, and its gradient."""
    count, members, _ = logs.shape
    p = softmax(np.einsum("nmc,m->nc", logs, weights))
    at = np.arange(count), given
    own = np.maximum(p[at], 1e-12)
    apart = weights - 1 / members
    value = float(((1 - own**BOUND) / BOUND).mean() + PRIOR / count * (apart @ apart))
    p[at] -= 1
    p *= (own**BOUND)[:, None]
    return value, np.einsum("nc,nmc->m", p, logs) / count + 2 * PRIOR / count * apart


def _by_bounded_loss(logs: np.ndarray, given: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    members = logs.shape[1]
    equal = np.full(members, 1 / members)
    found = minimize(bounded_loss, equal, (logs, given), jac=True, bounds=[(0, MOST)] * members)
    return found.x if found.x.sum() > 1e-3 else equal


def temperature(pool: np.ndarray, given: np.ndarray) -> float:
    """The factor of the pool's logits under which the given labels are likeliest, by Newton's method."""
    factor = 1.0
    at = np.arange(len(given)), given
    for _ in range(STEPS):
        p = softmax(factor * pool)
        mean = (p * pool).sum(1)
        slope = float((mean - pool[at]).mean()) + 1e-6 * factor
        curvature = float((p * pool**2).sum(1).mean() - (mean**2).mean()) + 1e-6
        after = float(np.clip(factor - slope / curvature, factor / 2, factor * 2))
        after = min(max(after, 1e-2), MOST)
        if abs(after - factor) < 1e-9:
            break
        factor = after
    return factor


def fit_uniform(pool: np.ndarray, given: np.ndarray) -> NoiseFit:
    """The noise where classes are too many to tell their rows apart: of one rate, whatever the class."""
    classes, half = pool.shape[1], np.arange(len(given)) % 2 == 0

    def chance(a: float) -> np.ndarray:
        return true_classes(pool, np.empty(0), a, 0.0)[np.arange(len(given)), given]

    def right_of(own: np.ndarray) -> float:
        right = 0.9
        for _ in range(ROUNDS):
            wrong = (1 - own) * (1 - right) / (classes - 1)
            stays = (own * right / (own * right + wrong + TINY)).sum()
            right = float(np.clip((stays + 1) / (len(own) + 1 + 1 / classes), 1 / classes, 1 - LEAST))
        return right

    best, sharpness = -np.inf, 1.0
    for a in SHARPNESS:
        own, held_out = chance(a), 0.0
        for part in (half, ~half):
            right = right_of(own[part])
            seen = own[~part]
            held_out += np.log(right * seen + (1 - right) / (classes - 1) * (1 - seen) + TINY).sum() / len(own)
        if held_out > best:
            best, sharpness = held_out, a
    matrix = uniform_noise(classes, right_of(chance(sharpness)))
    return NoiseFit(matrix, sharpness, 0.0, IN_ADVANCE[-1], float(best))


def log_chances(probabilities: np.ndarray) -> np.ndarray:
    """Logarithms, in double precision, of probabilities that count as at least `LEAST`."""
    return np.log(np.maximum(probabilities, LEAST, dtype=np.float64))
