"""A histogram, the flagged part of each bar in a colour of its own."""

from __future__ import annotations

from collections.abc import Sequence

from accord.report.plots.axes import Entry, Frame, Scale
from accord.report.plots.canvas import Drawing


def histogram(
    counts: Sequence[int],
    edges: Sequence[float],
    labels: tuple[str, str],
    title: str,
    *,
    flagged: Sequence[int] | None = None,
    names: tuple[str, str] = ("flagged", "not flagged"),
    cut: float | None = None,
    size: tuple[float, float] = (440.0, 290.0),
    heading: bool = False,
) -> Drawing:
    """Bars over the ranges between edges; ``flagged`` of each count at its foot, and a line at the ``cut``."""
    total = sum(counts)
    marked = [0] * len(counts) if flagged is None else list(flagged)
    legend = [
        Entry(f"{name}: {count:,} ({100 * count / max(1, total):.1f} %)", "area", kind)
        for name, count, kind in zip(names, (sum(marked), total - sum(marked)), ("warn", "calm"), strict=True)
    ]
    words = (labels[0] if cut is None else f"{labels[0]}; dashed: {cut:.3g}", labels[1])
    scales = Scale(edges[0], edges[-1]), Scale(0, max([*counts, 1]) * 1.05)
    frame = Frame(scales, words, title, size, legend=[] if flagged is None else legend, heading=heading)
    for k, (count, part) in enumerate(zip(counts, marked, strict=True)):
        tip = f"{edges[k]:.3g} to {edges[k + 1]:.3g}: {count:,}" + (f", {part:,} {names[0]}" if part else "")
        _bar(frame, edges[k : k + 2], (0, part), "area warn", tip)
        _bar(frame, edges[k : k + 2], (part, count), "area calm", tip)
    if cut is not None and edges[0] <= cut <= edges[-1]:
        x, top = frame.at(cut, frame.y.high)
        frame.drawing.line(x, top, x, frame.bottom, "cut ink")
    return frame.drawing


def _bar(frame: Frame, edges: Sequence[float], rise: tuple[float, float], kind: str, tip: str) -> None:
    if rise[1] > rise[0]:
        left, top = frame.at(edges[0], rise[1])
        right, foot = frame.at(edges[1], rise[0])
        frame.drawing.rect(left, top, max(right - left - 1, 0.5), max(foot - top, 0.5), kind, tip)
