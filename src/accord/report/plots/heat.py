"""A heat map with its numbers: shares of classes, and values of pairs of settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from accord.report.plots.axes import LINE, LONGEST, MARGIN, Names
from accord.report.plots.canvas import Drawing, width_of
from accord.report.plots.palette import ON_HEAT

LEAST = 16.0
"""Pixels of a field's side at which the names next to it do not touch."""
WIDEST = 120.0
"""Pixels of a field's side at which it needs no more."""


def heat_map(
    values: Sequence[Sequence[float]],
    down: Sequence[str],
    across: Sequence[str],
    labels: tuple[str, str],
    title: str,
    *,
    limits: tuple[float, float] | None = None,
    words: Callable[[float], str] = "{:.4f}".format,
    square: bool = False,
    size: tuple[float, float] = (440.0, 360.0),
    heading: bool = False,
) -> Drawing:
    """A field for each row and column, the deeper the higher its value; where none is known it stays empty.

    ``limits`` are the values of the palest and the deepest field, by default the lowest and highest; ``words`` is
    what is written where there is room; the labels name rows and columns.
    """
    known = [value for row in values for value in row if math.isfinite(value)]
    low, high = limits or (min(known, default=0.0), max(known, default=1.0))
    top = MARGIN + (LINE + 4 if heading else 0) + LINE
    left = MARGIN + 6 + min(LONGEST, max(map(width_of, down), default=0.0))
    wide = _side(size[0] - left - MARGIN, len(across))
    high_side = _side(size[1] - top - 2 * LINE - MARGIN, len(down))
    if square:
        wide = high_side = min(wide, high_side)
    names = Names({(c + 0.5) * wide: name for c, name in enumerate(across)})
    left = max(left, MARGIN + names.left - wide / 2)
    foot = top + high_side * len(down)
    least = 2 * MARGIN + max(width_of(title) * 1.1 if heading else 0.0, width_of(labels[0]))
    width = max(left + wide * len(across) + MARGIN, min(least, size[0]))
    drawing = Drawing(width, foot + names.height + LINE + MARGIN, title)
    if heading:
        drawing.name(MARGIN, MARGIN + 12, title, drawing.width - 2 * MARGIN, kind="title")
    drawing.name(MARGIN, top - 8, labels[0], drawing.width - 2 * MARGIN, kind="soft")
    for r, row in enumerate(values):
        y = top + r * high_side
        drawing.name(left - 6, y + high_side / 2 + 4.5, down[r], LONGEST, kind="soft", anchor="end")
        for c, value in enumerate(row):
            if math.isfinite(value):
                share = min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))
                tip = f"{labels[0]} {down[r]}, {labels[1]} {across[c]}: {value:.4g}"
                _field(drawing, (left + c * wide, y, wide, high_side), share, words(value), tip)
    names.draw(drawing, foot, left)
    drawing.text(left + wide * len(across) / 2, foot + names.height + LINE - 4, labels[1], "soft", "middle")
    return drawing


def _side(room: float, count: int) -> float:
    return min(WIDEST, max(LEAST, room / max(1, count)))


def _field(drawing: Drawing, box: tuple[float, float, float, float], share: float, words: str, tip: str) -> None:
    x, y, wide, high = box
    drawing.rect(x, y, wide - 1, high - 1, "heat", tip, fill_opacity=0.05 + 0.95 * share)
    if words and width_of(words) <= wide - 3 and high >= LEAST:
        kind = "onheat" if share > ON_HEAT else ""
        drawing.text(x + (wide - 1) / 2, y + high / 2 + 4, words, kind, "middle")
