"""The plain form of `accord.objectives.multiclass`: one example at a time, straight from the equations.

``p`` is f's distribution over true classes, ``h[c][j]`` is P(ỹ = j | y = c). Slow and obviously right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]


def softmax(logits: Row) -> list[float]:
    top = max(logits)
    parts = [math.exp(value - top) for value in logits]
    return [part / sum(parts) for part in parts]


def log_softmax(logits: Row) -> list[float]:
    top = max(logits)
    total = top + math.log(sum(math.exp(value - top) for value in logits))
    return [value - total for value in logits]


def cross_entropy(f: Row, label: int) -> float:
    return -log_softmax(f)[label]


def kl_divergence(p: Row, q: Row) -> float:
    """Σ_c f(c)·log(f(c)/f′(c))."""
    log_p, log_q = log_softmax(p), log_softmax(q)
    return sum(math.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=True))


def stage_one(p: Row, h: Sequence[Row], label: int, k: int, c1: float, c2: float) -> float:
    """ỹ = k: C1·(1−p_k) − log hφ(k)[k]·p_k; ỹ ≠ k: C2·(1−p_k−p_ỹ) − log hφ(k)[ỹ]·p_k."""
    if label == k:
        return c1 * (1 - p[k]) - math.log(h[k][k]) * p[k]
    return c2 * (1 - p[k] - p[label]) - math.log(h[k][label]) * p[k]


def stage_two(p: Row, h: Sequence[Row], label: int, k: int, full: bool) -> float:
    """The expectation; as printed, the term of c = ỹ is missing where ỹ ≠ k."""
    total = -math.log(h[k][label]) * p[k]
    for c in range(len(p)):
        if c == k or (c == label and not full):
            continue
        total += -math.log(h[c][label]) * p[c]
    return total


def given_label_posterior(p: Row, h: Sequence[Row], label: int) -> float:
    joint = [p[c] * h[c][label] for c in range(len(p))]
    return joint[label] / sum(joint)
