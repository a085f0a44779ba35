"""Lines: means over steps or settings, ± one standard deviation shaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from accord.report.plots.axes import Frame, Scale, around, entries
from accord.report.plots.canvas import Drawing
from accord.report.plots.palette import assigned, fill, stroke

FEW = 12
"""Points up to which each has a dot."""
Point = tuple[float, float] | tuple[float, float, float]
"""x, y, and a standard deviation if there is one."""


def lines(
    series: Mapping[str, Sequence[Point]],
    labels: tuple[str, str],
    title: str,
    *,
    size: tuple[float, float] = (440.0, 290.0),
    rings: Sequence[tuple[float, float]] = (),
    dots: bool | None = None,
    ticks: Mapping[float, str] | None = None,
    log: bool = False,
    colours: Mapping[str, int] | None = None,
    legend_at: Literal["right", "below"] = "below",
    heading: bool = False,
) -> Drawing:
    """One line per named series, broken where a number is missing.

    ``rings`` mark chosen points, ``dots`` every point (by default where they are few), ``ticks`` name places of the
    horizontal axis, which is logarithmic with ``log``.
    """
    colours = assigned(series) if colours is None else colours
    known = {name: [_with_std(p) for p in points] for name, points in series.items()}
    every = [p for points in known.values() for p in points if _is_known(p, log)]
    across = _across([*(x for x, _, _ in every), *(ticks or ())], log)
    scales = across, around([y + s * sign for _, y, s in every for sign in (-1, 1)])
    frame = Frame(
        scales,
        labels,
        title,
        size,
        legend=entries({name: colours[name] for name in series}, "line"),
        legend_at=legend_at,
        marks=(ticks, None),
        heading=heading,
    )
    for name, points in known.items():
        for run in _runs(points, log):
            _draw(frame, run, colours[name], len(points) < FEW if dots is None else dots)
    for ring in rings:
        x, y = frame.at(*ring)
        frame.drawing.circle(x, y, 5.5, "ring ink")
    return frame.drawing


def _across(values: list[float], log: bool) -> Scale:
    if not values:
        return Scale(1.0, 10.0, True) if log else Scale(0.0, 1.0)
    return Scale(min(values), max(values), log)


def _with_std(point: Point) -> tuple[float, float, float]:
    return point if len(point) == 3 else (*point, 0.0)


def _is_known(point: tuple[float, float, float], log: bool) -> bool:
    return all(map(math.isfinite, point)) and (point[0] > 0 or not log)


def _runs(points: list[tuple[float, float, float]], log: bool) -> list[list[tuple[float, float, float]]]:
    """Stretches without a gap."""
    runs: list[list[tuple[float, float, float]]] = [[]]
    for point in points:
        if _is_known(point, log):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _draw(frame: Frame, run: list[tuple[float, float, float]], colour: int, dots: bool) -> None:
    drawing = frame.drawing
    if any(std for _, _, std in run) and len(run) > 1:
        over = [frame.at(x, y + std) for x, y, std in run]
        under = [frame.at(x, y - std) for x, y, std in reversed(run)]
        drawing.polygon([*over, *under], f"band {fill(colour)}")
    middle = [frame.at(x, y) for x, y, _ in run]
    if len(run) > 1:
        drawing.polyline(middle, f"line {stroke(colour)}")
    if dots or len(run) == 1:
        for x, y in middle:
            drawing.circle(x, y, 3.2, f"dot {fill(colour)}")
