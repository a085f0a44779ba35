"""How much each kind of member counts, learnt from noisy labels alone."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

KAPPAS = (0.0, 0.5, 1.0)
"""Prices of disagreement to choose from."""
DRAWS = 200
"""Resamples of the validation users."""
PULL = 0.1
"""How far weights by likelihood are pulled to equal ones: the factor of the squared distance."""
MOST_KINDS = 8
"""With more kinds than this, not every subset is tried."""


class Choice(NamedTuple):
    """A way to answer together."""

    weights: tuple[float, ...]
    """Of each kind; they add up to one."""
    kappa: float


def choices(kinds: int, kappas: tuple[float, ...] = KAPPAS) -> list[Choice]:
    """Every subset of the kinds with equal weights, and every price of disagreement; of many kinds, subsets of one,
    all but one, and all.

    >>> [choice.weights for choice in choices(2, (0.0,))]
    [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)]
    """
    sizes = range(1, kinds + 1) if kinds <= MOST_KINDS else sorted({1, kinds - 1, kinds})
    subsets = [one for size in sizes for one in combinations(range(kinds), size)]
    return [
        Choice(tuple(float(k in one) / len(one) for k in range(kinds)), kappa)
        for one in subsets
        for kappa in (kappas if len(one) > 1 else kappas[:1])
    ]


def bagged(values: np.ndarray, tried: list[Choice], seed: int) -> Choice:
    """The mean of the choices that are best on resampled users.

    ``values`` holds the validation metric of every choice for every user, (choices, users). The best choice on the
    users at hand fits their noise; the mean over resamples says how sure it is: of few users it is nearly equal
    weights, of many the best ones.
    """
    rng = np.random.default_rng([seed, 0xC0C])
    drawn = rng.integers(0, values.shape[1], (DRAWS, values.shape[1]))
    best = np.array([values[:, one].mean(1).argmax() for one in drawn])
    weights = np.array([tried[k].weights for k in best]).mean(0)
    kappa = float(np.mean([tried[k].kappa for k in best])) if len(weights) > 1 else 0.0
    return Choice(tuple(map(float, weights / weights.sum())), kappa)


def likelihood_weights(clicks: Tensor, others: Tensor, pull: float = PULL) -> tuple[Tensor, float]:
    """Weights ≥ 0 and an offset by which kinds' log-odds tell clicks from non-clicks that no member has seen.

    ``clicks`` (n, kinds) and ``others`` (m, kinds) count alike as two halves. Logistic regression, pulled towards
    equal weights, by Newton's method; each step solves its quadratic with weights ≥ 0, coordinate by coordinate.
    """
    x = torch.cat([clicks, others]).double()
    y = torch.cat([torch.ones(len(clicks)), torch.zeros(len(others))]).double()
    mass = torch.cat([torch.full((len(part),), 0.5 / len(part)) for part in (clicks, others)]).double()
    kinds = x.shape[1]
    features = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], 1)
    toward = torch.tensor([1 / kinds] * kinds + [0.0], dtype=torch.float64)
    ridge = 2 * pull * torch.tensor([1.0] * kinds + [0.0], dtype=torch.float64)
    theta = toward.clone()
    for _ in range(50):
        p = torch.sigmoid(features @ theta)
        slope = features.T @ (mass * (p - y)) + ridge * (theta - toward)
        curvature = (features * (mass * p * (1 - p)).clamp(min=1e-12)[:, None]).T @ features + torch.diag(ridge)
        step = _least(curvature, slope, -theta)
        theta = theta + step.clamp(-2, 2)
        if float(step.abs().max()) < 1e-9:
            break
    return theta[:kinds].float(), float(theta[kinds])


def _least(curvature: Tensor, slope: Tensor, low: Tensor) -> Tensor:
    """The step of least quadratic value that takes no weight below zero; the offset, last, is free."""
    a, b, bound = curvature.numpy(), slope.numpy(), low.numpy()
    step = np.zeros(len(b))
    for _ in range(500):
        before = step.copy()
        for k in range(len(b)):
            rest = a[k] @ step - a[k, k] * step[k]
            step[k] = -(b[k] + rest) / a[k, k]
            if k < len(b) - 1:
                step[k] = max(step[k], bound[k])
        if np.abs(step - before).max() < 1e-13:
            break
    return torch.from_numpy(step)
