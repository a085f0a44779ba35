"""Figures of studies: plots in a row, written as one SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from accord.files import write_whole
from accord.report import plots

SIZE = (6.4, 4.0)
INCH = 100.0
"""Pixels of an inch of a figure's size."""


class Axes:
    """One plot in a figure."""

    def __init__(self, size: tuple[float, float]) -> None:
        self.size = size[0] * INCH, size[1] * INCH
        self.drawing = plots.Drawing(*self.size, "")


@contextmanager
def figure(path: Path, size: tuple[float, float] = SIZE, columns: int = 1) -> Iterator[list[Axes]]:
    """Plots to draw on; what was drawn is written as PATH.svg, the same bytes every time."""
    axes = [Axes(size) for _ in range(columns)]
    yield axes
    write_whole(path.with_name(f"{path.name}.svg"), plots.beside([one.drawing for one in axes]).alone())


def draw_lines(
    axes: Axes,
    series: Mapping[str, Sequence[tuple[float, float, float]]],
    labels: tuple[str, str],
    title: str,
    *,
    ticks: Mapping[float, str] | None = None,
    colours: Mapping[str, int] | None = None,
) -> None:
    """(x, mean, std) of each named series, ± one standard deviation shaded; ``ticks`` name values of x."""
    axes.drawing = plots.lines(
        series, labels, title, size=axes.size, ticks=ticks, colours=colours, legend_at="right", heading=True
    )


def draw_heat(
    axes: Axes, values: np.ndarray, down: Sequence[str], across: Sequence[str], words: tuple[str, str, str]
) -> None:
    """A value for each pair of settings, written into its field; the words name rows, columns and the whole."""
    axes.drawing = plots.heat_map(values.tolist(), down, across, words[:2], words[2], size=axes.size, heading=True)


def draw_bars(
    axes: Axes,
    groups: Mapping[str, Mapping[str, tuple[float, float]]],
    labels: tuple[str, str],
    title: str,
    *,
    colours: Mapping[str, int] | None = None,
) -> None:
    """Bars of each group next to one another: {group: {bar: (mean, std)}}."""
    axes.drawing = plots.grouped_bars(groups, labels, title, size=axes.size, colours=colours, heading=True)


def draw_differences(
    axes: Axes,
    rows: Mapping[str, Mapping[str, tuple[float, bool]]],
    colours: Mapping[str, int],
    words: tuple[str, str],
    widest: float,
) -> None:
    """Points along a line for each row: {row: {point: (difference, whether beyond chance)}}; axis and title.

    Differences within chance are hollow; those beyond ``widest`` are drawn at the edge, as arrows.
    """
    axes.drawing = plots.differences(rows, *words, widest=widest, size=axes.size, colours=colours, heading=True)
