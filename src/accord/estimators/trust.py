"""Whether a model is any better than what it should beat, on held-out data that are as noisy as the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def doubt(value: float | None, bars: Mapping[str, float], words: str, labels: str) -> str | None:
    """One sentence where a model is no better than something it should beat; None where all is well.

    >>> doubt(0.13, {"item popularity": 0.12, "its prior": 0.14}, "NDCG@20", "clicks")
    'On held-out clicks the model (NDCG@20 0.1300) is no better than its prior (0.1400): do not trust its flags.'
    >>> doubt(0.15, {"item popularity": 0.12}, "NDCG@20", "clicks") is None
    True
    """
    ahead = [f"{name} ({bar:.4f})" for name, bar in bars.items() if value is not None and value <= bar]
    if not ahead:
        return None
    than = ahead[0] if len(ahead) == 1 else f"{', '.join(ahead[:-1])} and {ahead[-1]}"
    return f"On held-out {labels} the model ({words} {value:.4f}) is no better than {than}: do not trust its flags."


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
