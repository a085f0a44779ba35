"""The plots of pages: learning curves, label quality, how labels go wrong, and what a search has found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from accord.report import plots
from accord.report.rendering import NARROW, SMALL, WIDE, fitted
from accord.stored import blocks

MOST_CLASSES, BINS, FEW = 40, 50, 5


def noise_map(matrix: np.ndarray, names: list[str]) -> plots.Drawing:
    at = np.sort(np.argsort(np.diag(matrix), kind="stable")[:MOST_CLASSES])
    shown = [names[k] for k in at]
    return plots.heat_map(
        matrix[np.ix_(at, at)].tolist(),
        shown,
        shown,
        ("true class", "given label"),
        "How labels go wrong",
        limits=(0.0, 1.0),
        words=_share,
        square=True,
        size=(440.0, 440.0),
    )


def _share(value: float) -> str:
    """Two places, and nothing for what does not show in them."""
    return "" if value < 0.005 else f"{value:.2f}".removeprefix("0")


def best_so_far(rows: list[dict[str, Any]]) -> Markup:
    values = [row["value"] for row in rows]
    best = np.maximum.accumulate(values)
    series = {
        "best so far": [(k + 1, float(v)) for k, v in enumerate(best)],
        "trial": [(k + 1, v) for k, v in enumerate(values)],
    }
    words = "trial", "noisy validation"
    return fitted(lambda size: plots.lines(series, words, "The search", size=size), (WIDE, SMALL, NARROW))


def constant_maps(found: dict[str, Any]) -> list[plots.Drawing]:
    """Best value of each pair of constants, over all other settings."""
    maps = []
    for down, across in (("c0", "c1"), ("c1", "c2")):
        if not {down, across} <= set(found["space"]):
            continue
        rows, columns = (sorted(found["space"][name]) for name in (down, across))
        best = np.full((len(rows), len(columns)), np.nan)
        for row in found["rows"]:
            if not {down, across} <= set(row["settings"]):
                continue  # the default ones
            at = rows.index(row["settings"][down]), columns.index(row["settings"][across])
            best[at] = np.fmax(best[at], row["value"])
        names = [f"{v:g}" for v in rows], [f"{v:g}" for v in columns]
        maps.append(plots.heat_map(best.tolist(), *names, (down, across), f"Best value by {down} and {across}"))
    return maps


def _phases(history: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    phases: dict[str, list[dict[str, Any]]] = {}
    for record in history:
        phases.setdefault(record["phase"], []).append(record)
    return phases


def learning_curve(
    history: list[dict[str, Any]], kept: dict[str, dict[str, Any]], metric: str, words: str
) -> Markup:
    """A validation metric by epoch; a ring marks the epoch that was kept."""
    phases = {n: [r for r in rs if metric in r.get("valid", ())] for n, rs in _phases(history).items()}
    series = {n: [(r["epoch"], r["valid"][metric]) for r in rs] for n, rs in phases.items() if rs}
    if not series:
        return Markup("")
    rings = [(one["epoch"], one[metric]) for name, one in kept.items() if name in series and metric in one]
    labels = "epoch", f"{words} on noisy validation"
    return fitted(
        lambda size: plots.lines(
            series, labels, "Learning curves", rings=rings, dots=False, size=size, ticks=_whole(history)
        )
    )


def loss_curve(history: list[dict[str, Any]]) -> Markup:
    """Loss as a share of each phase's first, since phases have losses of different sizes."""
    series = {
        name: [(r["epoch"], r["loss"] / (abs(records[0]["loss"]) or 1)) for r in records]
        for name, records in _phases(history).items()
    }
    labels = "epoch", "training loss, first epoch = 1"
    ticks = _whole(history)
    return fitted(lambda size: plots.lines(series, labels, "Training loss", dots=False, size=size, ticks=ticks))


def _whole(history: list[dict[str, Any]]) -> dict[float, str] | None:
    """Every epoch as a mark where they are so few that there would be marks between them."""
    epochs = sorted({record["epoch"] for record in history})
    return {float(one): str(one) for one in epochs} if len(epochs) <= FEW else None


def quality_histogram(
    quality: np.ndarray, flagged: np.ndarray, what: str, threshold: float | None = None
) -> Markup:
    """How many labels have which quality, the flagged ones in a colour of their own."""
    ends = [find(some) for (some,) in blocks(quality) for find in (np.min, np.max)]
    shown = np.array(ends if threshold is None else [*ends, threshold])
    span = _twentieths(shown)
    counts, edges = np.histogram(quality[:0], BINS, span)
    within = np.zeros_like(counts)
    for some, wrong in blocks(quality, flagged):
        counts += np.histogram(some, BINS, span)[0]
        within += np.histogram(some[wrong.astype(bool)], edges)[0]
    labels, bars, below = ("label quality (1 = clean)", what), counts.tolist(), within.tolist()
    return fitted(
        lambda size: plots.histogram(
            bars, edges.tolist(), labels, "Label quality", flagged=below, cut=threshold, size=size
        ),
        (SMALL, NARROW) if threshold is None else (WIDE, SMALL, NARROW),
    )


def _twentieths(values: np.ndarray) -> tuple[float, float]:
    """The range of the values, in steps of 0.05: where all are alike, bars from 0 to 1 would be one bar."""
    low, high = math.floor(20 * values.min(initial=1.0)), math.ceil(20 * values.max(initial=0))
    return min(low / 20, values.min(initial=1.0)), max(high / 20, (low + 1) / 20, values.max(initial=0.0))
