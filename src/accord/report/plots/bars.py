"""Bars with ± one standard deviation: across for one metric, upright side by side for groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from accord.report.plots.axes import LINE, MARGIN, Frame, Scale, around, entries
from accord.report.plots.canvas import Drawing, width_of
from accord.report.plots.palette import assigned, fill

ROW, THICK = 28.0, 20.0


def bar_panel(
    title: str,
    values: Mapping[str, tuple[float, float]],
    *,
    colours: Mapping[str, int] | None = None,
    width: float = 290.0,
) -> Drawing:
    """A bar across for each name: its mean, which is written next to it, ± one standard deviation."""
    colours = assigned(values) if colours is None else colours
    drawing = Drawing(width, MARGIN + LINE + 8 + ROW * len(values), title)
    drawing.name(MARGIN, MARGIN + 12, title, width - 2 * MARGIN, kind="title")
    known = {name: value for name, value in values.items() if math.isfinite(value[0])}
    scale = around([mean + std * sign for mean, std in known.values() for sign in (-1, 1)], zero=True)
    room = width * 0.4
    left = MARGIN + 8 + min(room, max(map(width_of, values), default=0.0))
    long = width - left - MARGIN - 64

    def at(value: float) -> float:
        return left + scale.share(min(max(value, scale.low), scale.high)) * long

    for k, name in enumerate(values):
        y = MARGIN + LINE + 6 + k * ROW
        drawing.name(left - 8, y + 14.5, name, room, kind="soft", anchor="end")
        if name not in known:
            continue
        mean, std = known[name]
        ends = sorted((at(0.0), at(mean)))
        drawing.rect(ends[0], y, ends[1] - ends[0], THICK, f"area {fill(colours[name])}", told(mean, std))
        if std:
            _error(drawing, (at(mean - std), y + THICK / 2), (at(mean + std), y + THICK / 2))
        drawing.text(max(at(0.0), at(mean + std)) + 6, y + 14.5, f"{mean:.4f}", "soft")
    return drawing


def grouped_bars(
    groups: Mapping[str, Mapping[str, tuple[float, float]]],
    labels: tuple[str, str],
    title: str,
    *,
    size: tuple[float, float] = (640.0, 400.0),
    colours: Mapping[str, int] | None = None,
    legend_at: Literal["right", "below"] = "below",
    heading: bool = False,
) -> Drawing:
    """Bars of each group side by side: {group: {bar: (mean, std)}}."""
    names = list(dict.fromkeys(bar for one in groups.values() for bar in one))
    colours = assigned(names) if colours is None else colours
    known = [(k, bar, *value) for k, one in enumerate(groups.values()) for bar, value in one.items()]
    known = [one for one in known if math.isfinite(one[2])]
    frame = Frame(
        (
            Scale(-0.5, max(len(groups), 1) - 0.5),
            around([mean + std * sign for _, _, mean, std in known for sign in (-1, 1)], zero=True),
        ),
        labels,
        title,
        size,
        legend=entries({name: colours[name] for name in names}, "area"),
        legend_at=legend_at,
        marks=({float(k): group for k, group in enumerate(groups)}, None),
        heading=heading,
    )
    thick = 0.8 / max(1, len(names))
    of = list(groups)
    for k, bar, mean, std in known:
        x = k + (names.index(bar) - (len(names) - 1) / 2) * thick
        (left, one), (right, other) = frame.at(x - thick * 0.46, 0.0), frame.at(x + thick * 0.46, mean)
        tip = f"{of[k]}, {bar}: {told(mean, std)}"
        frame.drawing.rect(left, min(one, other), right - left, abs(one - other), f"area {fill(colours[bar])}", tip)
        if std:
            middle = (left + right) / 2
            (_, low), (_, high) = frame.at(x, mean - std), frame.at(x, mean + std)
            _error(frame.drawing, (middle, low), (middle, high))
    _, zero = frame.at(0, 0.0)
    frame.drawing.line(frame.left, zero, frame.right, zero, "ink")
    return frame.drawing


def _error(drawing: Drawing, one: tuple[float, float], other: tuple[float, float]) -> None:
    """A line with a halo, so that it shows on a dark bar too."""
    drawing.line(*one, *other, "halo")
    drawing.line(*one, *other, "ink")


def told(mean: float, std: float) -> str:
    """A bar in words; where nothing is known of its deviation, without one."""
    return f"{mean:.4f} ± {std:.4f}" if std else f"{mean:.4f}"
