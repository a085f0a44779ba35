"""The plain form of `accord.objectives.binary`: one example at a time, straight from the equations.

Slow and obviously right; the tests compare the fast form with it.
"""

from __future__ import annotations

import math


def probability(logit: float) -> float:
    """sigmoid, without overflow; 1 − f is written as probability(−logit), which rounds less."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def log_probability(logit: float) -> float:
    """log sigmoid, without overflow."""
    return -math.log1p(math.exp(-logit)) if logit >= 0 else logit - math.log1p(math.exp(logit))


def cross_entropy(f: float, label: int) -> float:
    return -log_probability(f) if label == 1 else -log_probability(-f)


def denoise_positives(f: float, h: float, label: int, c1: float) -> float:
    """DP: h = P(ỹ=1 | y=0) learns; P(ỹ=1 | y=1) is held at 1."""
    if label == 1:
        return -log_probability(h) * probability(-f)
    return -log_probability(-h) * probability(-f) + c1 * probability(f)


def denoise_negatives(f: float, h_prime: float, label: int, c0: float) -> float:
    """DN: h′ = P(ỹ=1 | y=1) learns; P(ỹ=0 | y=0) is held at 1."""
    if label == 1:
        return -log_probability(h_prime) * probability(f) + c0 * probability(-f)
    return -log_probability(-h_prime) * probability(f)


def joint_denoising(f: float, h: float, h_prime: float, label: int) -> float:
    """The paper's likelihood with both noise models, Eq. (likelihood)."""
    if label == 1:
        return -(log_probability(h_prime) * probability(f) + log_probability(h) * probability(-f))
    return -(log_probability(-h_prime) * probability(f) + log_probability(-h) * probability(-f))


def stage_two(f: float, h: float, h_prime: float, label: int, k: int, full: bool) -> float:
    """Σ_c −log P(ỹ | y=c) · P_f(y=c) at the step of class k; as printed without c = ỹ where ỹ is not k."""
    total = 0.0
    for c, logit in ((0, h), (1, h_prime)):
        if c != k and c == label and not full:
            continue
        cost = -log_probability(logit) if label == 1 else -log_probability(-logit)
        total += cost * (probability(f) if c == 1 else probability(-f))
    return total


def kl_divergence(p: float, q: float) -> float:
    return probability(p) * (log_probability(p) - log_probability(q)) + probability(-p) * (
        log_probability(-p) - log_probability(-q)
    )


def real_positive_probability(f: float, h: float, h_prime: float) -> float:
    liked = probability(h_prime) * probability(f)
    disliked = probability(h) * probability(-f)
    return liked / (liked + disliked)


def truncated_cross_entropy(positives: list[float], negatives: list[float], drop_rate: float) -> float:
    """T-CE: sort the positives' losses, drop the largest, as many as the rate is of the whole batch but never all,
    and take the two means."""
    losses = sorted(cross_entropy(f, 1) for f in positives)
    dropped = round(drop_rate * (len(positives) + len(negatives)))
    kept = losses[: max(1, len(losses) - dropped)]
    return sum(kept) / len(kept) + sum(cross_entropy(f, 0) for f in negatives) / len(negatives)


def bpr(click: float, others: list[float]) -> float:
    """BPR: the mean of −log σ(click − non-click)."""
    return sum(-log_probability(click - other) for other in others) / len(others)


def sampled_softmax(click: float, others: list[float]) -> float:
    """−log of e^click over the sum of e^logit of the click and its non-clicks."""
    highest = max(click, *others)
    return highest + math.log(sum(math.exp(one - highest) for one in [click, *others])) - click


def reweighted_cross_entropy(f: float, label: int, beta: float) -> float:
    """R-CE: P(ỹ)^β · −log P(ỹ)."""
    believed = probability(f) if label == 1 else probability(-f)
    return believed**beta * cross_entropy(f, label)
