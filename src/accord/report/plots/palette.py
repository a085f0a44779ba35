"""The colours of pages and plots: light, dark and print, as one style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

TEXT = 13
"""Pixels of all text in a plot."""


@dataclass(frozen=True)
class Theme:
    """Colours by what they are for; ``series`` tell lines, bars and points apart."""

    ink: str
    soft: str
    page: str
    card: str
    rule: str
    warn: str
    calm: str
    heat: str
    series: tuple[str, ...]


# The series were searched for the largest smallest distance, with normal sight and with each of the three kinds of
# colour blindness; their contrast to the card is at least 2.8.
LIGHT = Theme(
    ink="#1c2430",
    soft="#5b6675",
    page="#fbfbfa",
    card="#ffffff",
    rule="#dfe3e8",
    warn="#d9622b",
    calm="#7ea6cf",
    heat="#1b4f8c",
    series=(
        *("#1f28aa", "#b35003", "#1b8771", "#a03ae4", "#bc9133"),
        *("#27a0e8", "#8f0025", "#674875", "#f734a7", "#49032e"),
    ),
)
DARK = Theme(
    ink="#e8ebef",
    soft="#9aa6b4",
    page="#14181d",
    card="#1b2027",
    rule="#313a45",
    warn="#f2955f",
    calm="#4a6f97",
    heat="#5c9fe6",
    series=(
        *("#567bff", "#d0853e", "#5cbd9a", "#b3b3e9", "#f9b11b"),
        *("#31f8ff", "#db437d", "#a47cc1", "#ffd1b5", "#9a6127"),
    ),
)
PRINT = replace(LIGHT, ink="#000000", soft="#444444", page="#ffffff", rule="#bbbbbb")
COLOURS = len(LIGHT.series)
ON_HEAT = 0.7
"""The share of heat from which a number on it is written in the colour of the card."""

SHAPES = f"""\
.plot {{ display: block; max-width: 100%; height: auto; margin: 0 auto; font: {TEXT}px system-ui, sans-serif; }}
.plot .title {{ font-weight: 600; }} .plot .line {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
.plot .again {{ stroke-dasharray: 5 3; }} .plot .again.area {{ fill-opacity: .5; }}
.plot .band {{ fill-opacity: .16; }} .plot .cut {{ stroke-dasharray: 4 3; }} .plot .halo {{ stroke-width: 3.5; }}
.plot .dot, .plot .ring {{ stroke-width: 1.5; }} .plot .hollow, .plot .ring {{ fill: none; }}
"""


def style() -> str:
    """The style sheet of a plot, or of a page and its plots.

    Colours are written out and not as variables, since many programs that show SVG know no variables.
    """
    dark, light, paper = (_rules(theme) for theme in (DARK, LIGHT, PRINT))
    return (
        f"{SHAPES}{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n@media print {{\n{paper}}}\n"
    )


def variables() -> str:
    """The colours of a page as variables."""
    light, dark, paper = (
        " ".join(f"--{f.name}: {getattr(theme, f.name)};" for f in fields(theme) if f.name != "series")
        for theme in (LIGHT, DARK, PRINT)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ color-scheme: light; {paper} }} }}\n"
    )


def _rules(theme: Theme) -> str:
    fills = {"text": theme.ink, ".soft": theme.soft, ".paper": theme.card, ".stripe": theme.rule}
    fills |= {".warn": theme.warn, ".calm": theme.calm, ".heat": theme.heat, ".onheat": theme.card}
    strokes = {".grid": theme.rule, ".ink": theme.ink, ".halo": theme.card}
    lines = [f".plot {name} {{ fill: {colour}; }}" for name, colour in fills.items()]
    lines += [f".plot {name} {{ stroke: {colour}; }}" for name, colour in strokes.items()]
    for k, colour in enumerate(theme.series):
        lines.append(f".plot .f{k} {{ fill: {colour}; }} .plot .s{k} {{ stroke: {colour}; }}")
    return "\n".join(lines) + "\n"


def stroke(number: int) -> str:
    """The classes of a line of this series; from the eleventh on lines are dashed."""
    return f"s{number % COLOURS}{' again' if number >= COLOURS else ''}"


def fill(number: int) -> str:
    """The classes of an area of this series; from the eleventh on areas are paler."""
    return f"f{number % COLOURS}{' again' if number >= COLOURS else ''}"


def assigned(names: Iterable[str], order: Sequence[str] = ()) -> dict[str, int]:
    """A colour for each name: its place in ``order``, and for names that are not in it the next free one.

    >>> assigned(["deca", "mine", "normal"], order=("normal", "deca"))
    {'deca': 1, 'mine': 2, 'normal': 0}
    """
    known = {name: number for number, name in enumerate(order)}
    colours: dict[str, int] = {}
    for name in names:
        if name not in colours:
            colours[name] = known.setdefault(name, len(known))
    return colours
