"""The consensus written out from its equations, one example at a time; `consensus` is tested against it."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]


def pooled(members: Sequence[Row], weights: Row, least: float) -> list[float]:
    """∏ p_m^w_m for one example, scaled to sum to 1."""
    classes = range(len(members[0]))
    product = [math.prod(max(p[c], least) ** w for p, w in zip(members, weights, strict=True)) for c in classes]
    return [value / sum(product) for value in product]


def true_classes(pool: Row, matrix: Sequence[Row], a: float, s: float, least: float) -> list[float]:
    """π(y|x) ∝ ρ_y^a · exp(s · Σ_j ρ_j log T[y, j])."""
    classes = range(len(pool))
    likeness = [sum(pool[j] * math.log(matrix[y][j] + least) for j in classes) for y in classes]
    joint = [(pool[y] + 1e-6) ** a * math.exp(s * likeness[y]) for y in classes]
    return [value / sum(joint) for value in joint]


def target(probabilities: Row, label: int, matrix: Sequence[Row], trust: float, least: float) -> list[float]:
    """q(y) ∝ π(y|x) · T[y, ỹ]^trust."""
    joint = [p * max(row[label], least) ** trust for p, row in zip(probabilities, matrix, strict=True)]
    return [value / sum(joint) for value in joint]


def votes(members: Sequence[Row], label: int) -> tuple[int, float]:
    """Members whose likeliest class is the label, and the share of pairs of them with the same likeliest class."""
    choices = [max(range(len(p)), key=lambda c: p[c]) for p in members]
    pairs = [(m, k) for m in range(len(choices)) for k in range(m)]
    same = sum(choices[m] == choices[k] for m, k in pairs)
    return sum(choice == label for choice in choices), same / len(pairs) if pairs else 1.0


def bounded_loss(members: Sequence[Sequence[Row]], labels: Sequence[int], weights: Row, q: float) -> float:
    """The mean of (1 − ρ^q) / q of the given labels' chances in the pool."""
    chances = [pooled(p, weights, 1e-4)[label] for p, label in zip(members, labels, strict=True)]
    return sum((1 - chance**q) / q for chance in chances) / len(chances)


def quality(targets: Row, label: int) -> float:
    """The chance of the given label against the likeliest other class."""
    other = max(value for c, value in enumerate(targets) if c != label)
    return targets[label] / (targets[label] + other)


def annotated(prior: Row, labels: Sequence[tuple[int, int]], matrices: Sequence[Sequence[Row]]) -> list[float]:
    """q(y) ∝ π(y) · ∏ T_a[y, j] over an example's labels: pairs of annotator a and class j."""
    joint = [prior[y] * math.prod(matrices[a][y][j] for a, j in labels) for y in range(len(prior))]
    return [value / sum(joint) for value in joint]
