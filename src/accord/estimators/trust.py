"""Whether a model is any better than what it should beat, on held-out data that are as noisy as the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

LEVEL = 0.95
"""Of the interval of a difference, over validation users or examples."""
ROUNDING = 1e-6
"""By how much two equal values may differ: some are means of single precision."""


def doubt(
    value: float | None,
    bars: Mapping[str, float],
    words: str,
    labels: str,
    by_chance: Mapping[str, float] | None = None,
) -> str | None:
    """One sentence where a model is no better than something it should beat; None where all is well.

    ``by_chance`` says how far ahead of a bar chance alone may bring it.

    >>> doubt(0.13, {"item popularity": 0.12, "its prior": 0.14}, "NDCG@20", "clicks")
    'On held-out clicks the model (NDCG@20 0.1300) is no better than its prior (0.1400): do not trust its flags.'
    >>> doubt(0.13, {"popularity": 0.12}, "NDCG", "clicks", {"popularity": 0.02}).split(" no better than ")[1]
    'popularity (0.1200, where chance alone may make 0.0200): do not trust its flags.'
    >>> doubt(0.15, {"item popularity": 0.12}, "NDCG@20", "clicks", {"item popularity": 0.02}) is None
    True
    """
    reach = by_chance or {}
    ahead = [
        f"{name} ({bar:.4f}{f', where chance alone may make {reach[name]:.4f}' if value > bar + ROUNDING else ''})"
        for name, bar in bars.items()
        if value is not None and value - bar <= reach.get(name, 0.0) + ROUNDING
    ]
    if not ahead:
        return None
    than = ahead[0] if len(ahead) == 1 else f"{', '.join(ahead[:-1])} and {ahead[-1]}"
    return f"On held-out {labels} the model ({words} {value:.4f}) is no better than {than}: do not trust its flags."


def reach_of_chance(differences: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Half the interval of a mean difference, over users or examples that were each measured twice.

    >>> round(reach_of_chance(np.array([0.1, 0.0, 0.3, 0.2])), 4)
    0.1265
    """
    count = len(differences)
    if count < 2:
        return 0.0
    if weights is not None:
        differences = weights / weights.mean() * (differences - np.average(differences, weights=weights))
    return NormalDist().inv_cdf((1 + LEVEL) / 2) * float(differences.std(ddof=1)) / count**0.5


def bars_of(
    notes: Mapping[str, Any], validation: Mapping[str, Mapping[str, Any]], metric: str, lowest: Mapping[str, float]
) -> dict[str, float]:
    """What a model should beat: what needs no training, its prior, the weakest member of its council."""
    bars = dict(lowest)
    prior: Mapping[str, Any] = validation.get("prior", notes.get("prior", {}))
    if metric in prior:
        bars["its prior"] = prior[metric]
    members = voiced(notes, metric)
    if members:
        bars["the weakest of its members"] = min(value for _, value in members)
    return bars


def voiced(notes: Mapping[str, Any], metric: str) -> list[tuple[str, float]]:
    """Members that have seen everything: model, and the metric of noisy validation."""
    rows: Sequence[Mapping[str, Any]] = notes.get("council", {}).get("members", [])
    return [(row["model"], row[metric]) for row in rows if metric in row and "fold" not in row]


def better_member(value: float | None, notes: Mapping[str, Any], metric: str) -> str | None:
    """A word on a member that is better by itself, where there is one."""
    members = voiced(notes, metric)
    if value is None or not members:
        return None
    model, best = max(members, key=lambda one: one[1])
    return None if best <= value else f"member {model} alone has {best:.4f} there"
