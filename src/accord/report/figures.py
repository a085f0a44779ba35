"""Figures of studies, as SVG and PNG, by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from accord.errors import AccordError
from accord.files import whole_file

COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#ccb974", "#64b5cd", "#8c8c8c", "#e377c2")
SIZE = (6.4, 4.0)
KINDS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "png": {"metadata": {"Software": None}, "dpi": 140},
}


@contextmanager
def figure(path: Path, size: tuple[float, float] = SIZE, columns: int = 1) -> Iterator[Any]:
    """Axes to draw on; what was drawn is written as PATH.svg and PATH.png, the same bytes every time."""
    try:
        import matplotlib
    except ImportError as error:
        raise AccordError("Figures need matplotlib: pip install 'accord[figures]'.") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(
        {"svg.hashsalt": "accord", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    ):
        made, axes = pyplot.subplots(1, columns, figsize=(size[0] * columns, size[1]), squeeze=False)
        yield axes[0]
        made.tight_layout()
        for kind, how in KINDS.items():
            with whole_file(path.with_suffix(f".{kind}")) as draft:
                made.savefig(draft, format=kind, **how)
        pyplot.close(made)


def draw_lines(
    axes: Any,
    series: Mapping[str, Sequence[tuple[float, float, float]]],
    labels: tuple[str, str],
    title: str,
) -> None:
    """(x, mean, std) of each named series, ± one standard deviation shaded."""
    for (name, points), colour in zip(series.items(), _colours(len(series)), strict=True):
        x, mean, std = (np.array(values) for values in zip(*points, strict=True))
        axes.plot(x, mean, label=name, color=colour, marker="o" if len(x) < 12 else None, markersize=3.5)
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_heat(
    axes: Any, values: np.ndarray, down: Sequence[str], across: Sequence[str], words: tuple[str, str, str]
) -> None:
    """A value for each pair of settings, written into its field."""
    shown = np.ma.masked_invalid(values)
    axes.imshow(shown, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    axes.set(ylabel=words[0], xlabel=words[1], title=words[2])
    middle = float(np.nanmean(values)) if np.isfinite(values).any() else 0.0
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            axes.text(column, row, f"{value:.4f}", ha="center", va="center", color=colour, fontsize=8)


def draw_bars(
    axes: Any, groups: Mapping[str, Mapping[str, tuple[float, float]]], labels: tuple[str, str], title: str
) -> None:
    """Bars of each group side by side: {group: {bar: (mean, std)}}."""
    bars = list(dict.fromkeys(bar for one in groups.values() for bar in one))
    width = 0.8 / max(1, len(bars))
    for k, (bar, colour) in enumerate(zip(bars, _colours(len(bars)), strict=True)):
        at = [x + (k - (len(bars) - 1) / 2) * width for x, one in enumerate(groups.values()) if bar in one]
        means, stds = zip(*[one[bar] for one in groups.values() if bar in one], strict=True)
        axes.bar(at, means, width * 0.94, yerr=stds, label=bar, color=colour, error_kw={"linewidth": 0.8})
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title, ylim=(0, axes.get_ylim()[1] * 1.12))
    axes.legend(frameon=False, fontsize=8, ncols=len(bars), loc="upper center")


def draw_differences(
    axes: Any,
    rows: Mapping[str, Mapping[str, tuple[float, bool]]],
    colours: Mapping[str, str],
    words: tuple[str, str],
    widest: float,
) -> None:
    """Points along a line for each row: {row: {point: (difference, whether beyond chance)}}; axis and title.

    Differences within chance are hollow; those beyond ``widest`` stand at the edge, as arrows.
    """
    points = list(dict.fromkeys(point for one in rows.values() for point in one))
    for y in range(0, len(rows), 2):
        axes.axhspan(y - 0.5, y + 0.5, color="black", alpha=0.04, linewidth=0)
    for k, point in enumerate(points):
        colour = colours[point]
        for y, one in enumerate(rows.values()):
            if point not in one:
                continue
            value, sure = one[point]
            at = min(widest, max(-widest, value))
            mark = "o" if at == value else ">" if value > 0 else "<"
            high = y + (k - (len(points) - 1) / 2) * 0.7 / len(points)
            axes.plot(at, high, mark, color=colour, markersize=4.5, markerfacecolor=colour if sure else "none")
        axes.plot([], [], "o", color=colour, markersize=4.5, label=point)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlabel=words[0], title=words[1], xlim=(-1.05 * widest, 1.05 * widest), ylim=(len(rows) - 0.5, -0.5))
    axes.grid(alpha=0.25, axis="x")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _colours(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]
