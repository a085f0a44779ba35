"""Differences: points to the left and right of zero, hollow where they are within chance."""

from __future__ import annotations

import math
from collections.abc import Mapping

from accord.report.plots.axes import Frame, Scale, entries
from accord.report.plots.canvas import Drawing
from accord.report.plots.palette import assigned, fill, stroke


def differences(
    rows: Mapping[str, Mapping[str, tuple[float, bool]]],
    label: str,
    title: str,
    *,
    widest: float,
    size: tuple[float, float],
    colours: Mapping[str, int] | None = None,
    heading: bool = False,
) -> Drawing:
    """Points along a line for each row: {row: {point: (difference, whether beyond chance)}}.

    Differences beyond ``widest`` stand at the edge, as arrows.
    """
    names = list(dict.fromkeys(name for one in rows.values() for name in one))
    colours = assigned(names) if colours is None else colours
    frame = Frame(
        (Scale(-1.05 * widest, 1.05 * widest), Scale(max(len(rows), 1) - 0.5, -0.5)),
        (label, ""),
        title,
        size,
        legend=entries({name: colours[name] for name in names}, "dot"),
        legend_at="right",
        marks=(None, {float(k): row for k, row in enumerate(rows)}),
        grid="x",
        heading=heading,
    )
    for k in range(0, len(rows), 2):
        (left, foot), (right, top) = frame.at(frame.x.low, k + 0.5), frame.at(frame.x.high, k - 0.5)
        frame.drawing.rect(left, top, right - left, foot - top, "stripe", fill_opacity=0.35)
    zero, top = frame.at(0.0, frame.y.high)
    frame.drawing.line(zero, top, zero, frame.bottom, "ink")
    for k, (row, one) in enumerate(rows.items()):
        for number, name in enumerate(names):
            if name in one and not math.isnan(one[name][0]):
                high = k + (number - (len(names) - 1) / 2) * 0.76 / len(names)
                _point(frame, high, one[name], widest, colours[name], f"{row}, {name}")
    return frame.drawing


def _point(frame: Frame, high: float, point: tuple[float, bool], widest: float, colour: int, whose: str) -> None:
    value, sure = point
    at = min(widest, max(-widest, value))
    x, y = frame.at(at, high)
    kind = f"dot {stroke(colour)} {fill(colour) if sure else 'hollow'}"
    tip = f"{whose}: {value:+.4g}{'' if sure else ' (within chance, or not tested)'}"
    if at == value:
        frame.drawing.circle(x, y, 3.8, kind, tip)
        return
    way = 1 if value > 0 else -1
    frame.drawing.polygon([(x + 6 * way, y), (x - 3 * way, y - 4.5), (x - 3 * way, y + 4.5)], kind, tip)
