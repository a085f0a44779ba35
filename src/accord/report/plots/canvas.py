"""Marks on an SVG: shapes and escaped text, at pixels."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from accord.report.plots.palette import TEXT, style

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ELLIPSIS = "…"


def safe(words: str) -> str:
    """Text as it may stand in XML, in an attribute too."""
    return escape(NOT_XML.sub("\ufffd", words))


def width_of(words: str) -> float:
    """Pixels that a text takes at most, roughly: no font is at hand to measure it."""
    return sum(TEXT if unicodedata.east_asian_width(c) in "WF" else 0.62 * TEXT for c in words)


def clipped(words: str, room: float) -> str:
    """The text, or as much of its beginning as there is room for.

    >>> clipped("a rather long name", 60.0)
    'a rath…'
    """
    if width_of(words) <= room:
        return words
    while words and width_of(words + ELLIPSIS) > room:
        words = words[:-1]
    return words.rstrip() + ELLIPSIS


class Drawing:
    """A picture of some size; a template shows it as it is."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, kind: str = "", anchor: str = "start", turn: float = 0.0
    ) -> None:
        """A line of text; ``turn`` is in degrees, about its anchor."""
        how = _attributes(x=x, y=y) + (f' class="{kind}"' if kind else "")
        how += "" if anchor == "start" else f' text-anchor="{anchor}"'
        how += f' transform="rotate({_number(turn)} {_number(x)} {_number(y)})"' if turn else ""
        self.parts.append(f"<text{how}>{safe(words)}</text>")

    def name(
        self, x: float, y: float, words: str, room: float, kind: str = "", anchor: str = "start", turn: float = 0.0
    ) -> None:
        """A text that is cut where there is no room; the whole of it stands in its tip."""
        short = clipped(words, room)
        self.text(x, y, short, kind, anchor, turn)
        if short != words:
            self.parts[-1] = self.parts[-1].replace("</text>", f"<title>{safe(words)}</title></text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._shape("line", kind, "", x1=x1, y1=y1, x2=x2, y2=y2)

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, tip: str = "", **more: float
    ) -> None:
        self._shape("rect", kind, tip, x=x, y=y, width=width, height=height, **more)

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        self._shape("circle", kind, tip, cx=x, cy=y, r=radius)

    def polyline(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        self.parts.append(f'<polyline class="{kind}" points="{_points(points)}"/>')

    def polygon(self, points: Iterable[tuple[float, float]], kind: str, tip: str = "") -> None:
        end = f"><title>{safe(tip)}</title></polygon>" if tip else "/>"
        self.parts.append(f'<polygon class="{kind}" points="{_points(points)}"{end}')

    def place(self, other: Drawing, x: float, y: float) -> None:
        """Another picture in this one."""
        self.parts += [f'<g transform="translate({_number(x)} {_number(y)})">', *other.parts, "</g>"]

    def _shape(self, tag: str, kind: str, tip: str, **at: float) -> None:
        end = f"><title>{safe(tip)}</title></{tag}>" if tip else "/>"
        self.parts.append(f'<{tag} class="{kind}"{_attributes(**at)}{end}')

    def __html__(self) -> str:
        """As part of a page, which has the style."""
        return f"{self._head()}{''.join(self.parts)}</svg>"

    def alone(self) -> str:
        """As a file, with its style and its own ground, since the page it is shown on may be of another theme."""
        ground = Drawing(self.width, self.height, "")
        ground.rect(0, 0, self.width, self.height, "paper")
        shapes = "\n".join([*ground.parts, *self.parts])
        return f"{self._head()}\n<style>\n{style()}</style>\n{shapes}\n</svg>\n"

    def __repr__(self) -> str:
        """In words, for those who do not see it."""
        return self.title

    def _repr_svg_(self) -> str:
        """As a notebook shows it."""
        return self.alone()

    def _head(self) -> str:
        wide, high = _number(self.width), _number(self.height)
        return (
            f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
            f'height="{high}" role="img" aria-label="{safe(self.title)}">'
        )


def beside(drawings: Sequence[Drawing], gap: float = 10.0) -> Drawing:
    """Several pictures in one, from left to right."""
    width = sum(one.width for one in drawings) + gap * (len(drawings) - 1)
    titles = "; ".join(dict.fromkeys(one.title for one in drawings))
    whole = Drawing(max(width, 1.0), max((one.height for one in drawings), default=1.0), titles)
    x = 0.0
    for one in drawings:
        whole.place(one, x, 0)
        x += one.width + gap
    return whole


def _number(value: float) -> str:
    """At most two places, and none that say nothing."""
    words = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if words == "-0" else words


def _attributes(**values: float) -> str:
    return "".join(f' {name.replace("_", "-")}="{_number(value)}"' for name, value in values.items())


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
