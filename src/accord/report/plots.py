"""Small plots as SVG whose colours follow the page: light, dark or print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 56, 14, 14, 42


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


class _Canvas:
    def __init__(self, x: tuple[float, float], y: tuple[float, float], labels: tuple[str, str], title: str) -> None:
        self.x, self.y = x, y
        self.parts = [
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
            'xmlns="http://www.w3.org/2000/svg">'
        ]
        self._axes(labels)

    def at(self, x: float, y: float) -> tuple[float, float]:
        wide = (self.x[1] - self.x[0]) or 1
        tall = (self.y[1] - self.y[0]) or 1
        return (
            LEFT + (x - self.x[0]) / wide * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - self.y[0]) / tall * (HEIGHT - TOP - BOTTOM),
        )

    def text(self, x: float, y: float, words: str, kind: str = "tick", anchor: str = "middle") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def _axes(self, labels: tuple[str, str]) -> None:
        for value in ticks(*self.y):
            x, y = self.at(self.x[0], value)
            self.parts.append(f'<line class="grid" x1="{x:.1f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.text(x - 6, y + 4, f"{value:g}", anchor="end")
        for value in ticks(*self.x):
            x, y = self.at(value, self.y[0])
            self.text(x, y + 16, f"{value:g}")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, labels[0], "axis")
        self.text(LEFT, TOP - 3, labels[1], "axis", "start")

    def done(self) -> str:
        return "".join(self.parts) + "</svg>"


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    labels: tuple[str, str],
    title: str,
    marks: Sequence[tuple[float, float]] = (),
) -> str:
    """One line per named series; ``marks`` are rings on chosen points."""
    points = [p for values in series.values() for p in values]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    spread = (max(ys) - min(ys)) or abs(max(ys)) or 1
    canvas = _Canvas(
        (min(xs), max(xs)), (max(0.0, min(ys) - 0.05 * spread), max(ys) + 0.08 * spread), labels, title
    )
    for number, (name, values) in enumerate(series.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (canvas.at(*p) for p in values))
        canvas.parts.append(f'<polyline class="line c{number % 4}" points="{path}"/>')
        end = canvas.at(*values[-1])
        if len(series) > 1:
            canvas.text(
                min(end[0], WIDTH - RIGHT - 2), end[1] - 7 - 12 * (number % 2), name, f"name t{number % 4}", "end"
            )
    for mark in marks:
        x, y = canvas.at(*mark)
        canvas.parts.append(f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
    return canvas.done()


def histogram(
    counts: Sequence[int], edges: Sequence[float], labels: tuple[str, str], title: str, cut: float | None = None
) -> str:
    """Bars; those below ``cut`` in the warning colour, with a line at the cut."""
    canvas = _Canvas((edges[0], edges[-1]), (0, max([*counts, 1]) * 1.05), labels, title)
    for k, count in enumerate(counts):
        left, top = canvas.at(edges[k], count)
        right, bottom = canvas.at(edges[k + 1], 0)
        kind = "low" if cut is not None and (edges[k] + edges[k + 1]) / 2 < cut else "high"
        canvas.parts.append(
            f'<rect class="bar {kind}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{max(right - left - 1, 0.5):.1f}" height="{bottom - top:.1f}"/>'
        )
    if cut is not None:
        x, top = canvas.at(cut, canvas.y[1])
        canvas.parts.append(f'<line class="cut" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        side = "start" if x < WIDTH / 2 else "end"
        canvas.text(x + (5 if side == "start" else -5), top + 10, f"flagged below {cut:.3g}", "axis", side)
    return canvas.done()


def heat_map(values: Sequence[Sequence[float]], names: Sequence[str], labels: tuple[str, str], title: str) -> str:
    """A square of shares; each row a true class, each column what it is labelled."""
    count = len(names)
    left = 18 + 6.6 * min(12, max(len(name) for name in names))
    cell = max(6.0, min(34.0, (560 - left) / count))
    wide, tall = left + cell * count + 8, cell * count + left + 30
    parts = [
        f'<svg class="plot" viewBox="0 0 {wide:.0f} {tall:.0f}" role="img" aria-label="{escape(title)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    ]
    size = min(11.0, cell * 0.42)
    for r, row in enumerate(values):
        y = 20 + r * cell
        if cell >= 10:
            parts.append(
                f'<text class="tick" x="{left - 5:.1f}" y="{y + cell * 0.65:.1f}" text-anchor="end">'
                f"{escape(names[r][:12])}</text>"
            )
        for c, value in enumerate(row):
            x = left + c * cell
            parts.append(
                f"<g><title>{escape(names[r])} labelled {escape(names[c])}: {value:.3f}</title>"
                f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}" '
                f'fill-opacity="{0.04 + 0.96 * value:.3f}"/></g>'
            )
            if cell >= 20:
                kind = "onheat" if value > 0.5 else "tick"
                shown = "" if value < 0.005 else f"{value:.2f}".lstrip("0")
                parts.append(
                    f'<text class="{kind}" style="font-size:{size:.1f}px" x="{x + cell / 2:.1f}" '
                    f'y="{y + cell * 0.62:.1f}" text-anchor="middle">{shown}</text>'
                )
    if cell >= 10:
        for c, name in enumerate(names):
            x, y = left + (c + 0.6) * cell, 20 + count * cell + 8
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="end" '
                f'transform="rotate(-60 {x:.1f} {y:.1f})">{escape(name[:12])}</text>'
            )
    parts.append(f'<text class="axis" x="0" y="12">{escape(labels[0])}</text>')
    parts.append(f'<text class="axis" x="{wide:.0f}" y="12" text-anchor="end">{escape(labels[1])}</text>')
    return "".join(parts) + "</svg>"


def value_map(
    values: Sequence[Sequence[float]],
    down: Sequence[str],
    across: Sequence[str],
    labels: tuple[str, str],
    title: str,
) -> str:
    """A value for each pair of settings, darker for better; pairs that were not tried stay empty."""
    tried = [v for row in values for v in row if v == v]
    low, high = (min(tried), max(tried)) if tried else (0.0, 1.0)
    left, cell, tall = 70.0, 78.0, 34.0
    parts = [
        f'<svg class="plot" viewBox="0 0 {left + cell * len(across) + 8:.0f} {tall * len(down) + 56:.0f}" '
        f'role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">',
        f'<text class="axis" x="0" y="14">{escape(labels[0])} down, {escape(labels[1])} across</text>',
    ]
    for r, row in enumerate(values):
        y = 24 + r * tall
        parts.append(
            f'<text class="tick" x="{left - 8}" y="{y + 21:.1f}" text-anchor="end">{escape(down[r])}</text>'
        )
        for c, value in enumerate(row):
            if value != value:
                continue
            share, x = (value - low) / ((high - low) or 1), left + c * cell
            parts.append(
                f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{cell - 2:.1f}" height="{tall - 2:.1f}" '
                f'fill-opacity="{0.06 + 0.94 * share:.3f}"/>'
                f'<text class="{"onheat" if share > 0.5 else "tick"}" x="{x + cell / 2:.1f}" y="{y + 21:.1f}" '
                f'text-anchor="middle">{value:.4f}</text>'
            )
    for c, name in enumerate(across):
        x, y = left + (c + 0.5) * cell, 24 + len(down) * tall + 18
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(name)}</text>')
    return "".join(parts) + "</svg>"


PANEL, ROW = 300, 28


def bars(metric: str, values: dict[str, tuple[float, float]]) -> str:
    """One bar for each method: its mean, and ± one standard deviation."""
    top = max(mean + std for mean, std in values.values()) or 1
    start = 22 + 7.2 * max(len(method) for method in values)
    scale = (PANEL - start - 62) / top
    parts = [
        f'<svg class="plot" viewBox="0 0 {PANEL} {len(values) * ROW + 28}" role="img" '
        f'aria-label="{escape(metric)}" xmlns="http://www.w3.org/2000/svg">',
        f'<text class="name" x="0" y="16">{escape(metric)}</text>',
    ]
    for k, (method, (mean, std)) in enumerate(values.items()):
        y = 26 + k * ROW
        middle, ends = y + 10, (start + max(mean - std, 0) * scale, start + (mean + std) * scale)
        parts += [
            f'<text class="tick" x="{start - 6}" y="{y + 15}" text-anchor="end">{escape(method)}</text>',
            f'<rect class="bar b{k % 4}" x="{start}" y="{y}" width="{mean * scale:.1f}" height="20"/>',
            f'<line class="error" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text class="tick" x="{ends[1] + 5:.1f}" y="{y + 15}">{mean:.4f}</text>',
        ]
    return "".join(parts) + "</svg>"


def beside(panels: Sequence[str], rows: int) -> str:
    """Panels of `bars` in one picture."""
    height, gap = rows * ROW + 28, 20
    placed = [
        panel.replace("<svg ", f'<svg x="{k * (PANEL + gap)}" width="{PANEL}" height="{height}" ', 1)
        for k, panel in enumerate(panels)
    ]
    wide = len(panels) * (PANEL + gap) - gap
    return f'<svg viewBox="0 0 {wide} {height}" xmlns="http://www.w3.org/2000/svg">{"".join(placed)}</svg>'
