"""Scales, ticks, the frame of a plot and its legend: once for all kinds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from accord.report.plots.canvas import Drawing, width_of
from accord.report.plots.palette import TEXT, fill, stroke

LINE = 20.0
"""Pixels from a line of text to the next."""
MARGIN, TICK = 10.0, 6.0
LONGEST, LONGEST_ACROSS = 220.0, 150.0
"""Pixels that a name in a legend or next to an axis may take, and one below it."""


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from low to high.

    >>> ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(float(k * step), 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high; twos and fives between them where these are few.

    >>> log_ticks(0.01, 10.0)
    [0.01, 0.1, 1.0, 10.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5)):
        marks = [float(f"{m}e{p}") for p in powers for m in steps]
        inside = [mark for mark in marks if low * (1 - 1e-9) <= mark <= high * (1 + 1e-9)]
        if len(inside) >= 3:
            return inside
    return inside or [low]


def shown(values: Sequence[float]) -> list[str]:
    """Numbers as words, all with as many places as tell them apart.

    >>> shown([0.0, 0.5, 1.0]), shown([0.0, 2000.0])
    (['0.0', '0.5', '1.0'], ['0', '2,000'])
    """
    for places in range(7):
        words = [f"{value:,.{places}f}" for value in values]
        exact = [float(word.replace(",", "")) for word in words]
        if all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(exact, values, strict=True)):
            return words if max(map(len, words), default=0) < 12 else [f"{value:g}" for value in values]
    return [f"{value:g}" for value in values]


@dataclass(frozen=True)
class Scale:
    """From numbers to shares of a length."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return 0.5 if high == low else (value - low) / (high - low)

    def ticks(self, count: int) -> dict[float, str]:
        """Marks and their words."""
        if self.log:
            return {mark: f"{mark:g}" for mark in log_ticks(self.low, self.high)}
        marks = ticks(self.low, self.high, count)
        return dict(zip(marks, shown(marks), strict=True))


def around(values: Iterable[float], *, zero: bool = False) -> Scale:
    """A scale with some air about all values; it holds zero if asked for, and passes it only where values do."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) or abs(high) or 1.0
    below = low if zero and low == 0 else low - 0.05 * room
    above = high if zero and high == 0 else high + 0.08 * room
    return Scale(max(0.0, below) if low >= 0 else below, min(0.0, above) if high <= 0 else above)


class Names:
    """Names below an axis: side by side, or turned as far as they must be where there is no room."""

    def __init__(self, drawn_at: Mapping[float, str]) -> None:
        self.drawn_at = dict(sorted(drawn_at.items()))
        self.longest = min(LONGEST_ACROSS, max(map(width_of, drawn_at.values()), default=0.0))
        pairs = list(pairwise((x, min(LONGEST_ACROSS, width_of(name))) for x, name in self.drawn_at.items()))
        step = min((b[0] - a[0] for a, b in pairs), default=math.inf)
        tight = any((a[1] + b[1]) / 2 + 6 > b[0] - a[0] for a, b in pairs)
        self.degrees = 0.0 if not tight else 35.0 if step * math.sin(math.radians(35)) > TEXT else 90.0
        turned = math.radians(self.degrees)
        self.height = LINE + self.longest * math.sin(turned)
        self.left = self.longest * math.cos(turned) if tight else self.longest / 2
        """Pixels that the first name reaches to the left of its place."""

    def draw(self, drawing: Drawing, y: float, left: float = 0.0) -> None:
        for x, name in self.drawn_at.items():
            right, down = {0.0: (0.0, 16.0), 35.0: (4.0, 14.0), 90.0: (4.5, 8.0)}[self.degrees]
            anchor = "end" if self.degrees else "middle"
            drawing.name(left + x + right, y + down, name, LONGEST_ACROSS, "soft", anchor, -self.degrees)


@dataclass(frozen=True)
class Entry:
    """A line of a legend: what it names, and the mark that stands before it."""

    name: str
    mark: Literal["line", "area", "dot"]
    colour: int | str
    """A series, or the class of an area."""


def entries(colours: Mapping[str, int], mark: Literal["line", "area", "dot"]) -> list[Entry]:
    """A legend of all series."""
    return [Entry(name, mark, colour) for name, colour in colours.items()]


class Legend:
    """Names and their marks, in a column, or in as many lines as a width needs."""

    def __init__(self, named: Sequence[Entry], width: float | None = None) -> None:
        self.placed: list[tuple[float, float, Entry]] = []
        x, y, self.width = 0.0, 0.0, 0.0
        for entry in named:
            wide = 26 + min(width_of(entry.name), LONGEST) + 16
            if self.placed and (width is None or x + wide > width):
                x, y = 0.0, y + LINE
            self.placed.append((x, y, entry))
            x += wide
            self.width = max(self.width, x)
        self.height = y + LINE if self.placed else 0.0

    def draw(self, drawing: Drawing, x: float, y: float) -> None:
        """The legend with its upper left corner there."""
        for right, down, entry in self.placed:
            left, middle = x + right, y + down + LINE / 2
            kind = entry.colour if isinstance(entry.colour, str) else fill(entry.colour)
            if entry.mark == "line" and isinstance(entry.colour, int):
                drawing.line(left, middle, left + 20, middle, f"line {stroke(entry.colour)}")
            elif entry.mark == "dot":
                drawing.circle(left + 10, middle, 4, f"dot {kind}")
            else:
                drawing.rect(left + 4, middle - 6, 12, 12, f"area {kind}")
            drawing.name(left + 26, middle + 4.5, entry.name, LONGEST)


class Frame:
    """A drawing with axes: the grid, the ticks, the labels and the legend are there, and points have places.

    The label of the vertical axis stands above it, the legend to the right or below, never on the plot.
    """

    def __init__(
        self,
        scales: tuple[Scale, Scale],
        labels: tuple[str, str],
        title: str,
        size: tuple[float, float],
        *,
        legend: Sequence[Entry] = (),
        legend_at: Literal["right", "below"] = "below",
        marks: tuple[Mapping[float, str] | None, Mapping[float, str] | None] = (None, None),
        grid: Literal["x", "y"] = "y",
        heading: bool = False,
    ) -> None:
        self.x, self.y = scales
        width, height = size
        beside = legend_at == "right"
        named = Legend(legend, None if beside else width - 2 * MARGIN)
        self.top = MARGIN + (LINE + 4 if heading else 0) + (LINE + 4 if labels[1] else 0)
        self.right = width - 2 * MARGIN - (named.width if beside else 0)
        down = marks[1] or self.y.ticks(max(3, int(height / 48)))
        self.left = MARGIN + TICK + min(LONGEST, max(map(width_of, down.values()), default=0.0))
        across = marks[0] or self.x.ticks(max(4, int((self.right - self.left) / 70)))
        names = self._names(across)
        first = min(names.drawn_at, default=self.left)
        if names.left + 2 > first:
            self.left += names.left + 2 - first
            names = self._names(across)
        below = names.height + (LINE if labels[0] else 0)
        self.bottom = max(height - MARGIN - below - (0 if beside else named.height), self.top + 60)
        tall = self.bottom + below + MARGIN + (0 if beside else named.height)
        self.drawing = Drawing(width, max(tall, self.top + named.height + MARGIN if beside else 0), title)
        if heading:
            self.drawing.name(MARGIN, MARGIN + 12, title, width - 2 * MARGIN, kind="title")
        self._draw_grid(across if grid == "x" else {}, down, grid)
        names.draw(self.drawing, self.bottom)
        self.drawing.name(MARGIN, self.top - 12, labels[1], width - 2 * MARGIN, kind="soft")
        self.drawing.text((self.left + self.right) / 2, self.bottom + below - 4, labels[0], "soft", "middle")
        x, y = (self.right + MARGIN, self.top) if beside else (MARGIN, self.bottom + below + 4)
        named.draw(self.drawing, x, y)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        return (
            self.left + self.x.share(x) * (self.right - self.left),
            self.bottom - self.y.share(y) * (self.bottom - self.top),
        )

    def _names(self, across: Mapping[float, str]) -> Names:
        long = self.right - self.left
        return Names({self.left + self.x.share(value) * long: name for value, name in across.items()})

    def _draw_grid(self, across: Mapping[float, str], down: Mapping[float, str], grid: Literal["x", "y"]) -> None:
        for value, name in down.items():
            _, y = self.at(self.x.low, value)
            if grid == "y":
                self.drawing.line(self.left, y, self.right, y, "grid")
            self.drawing.name(self.left - TICK, y + 4.5, name, LONGEST, kind="soft", anchor="end")
        for value in across:
            x, _ = self.at(value, self.y.low)
            self.drawing.line(x, self.top, x, self.bottom, "grid")
