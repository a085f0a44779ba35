"""What the command line shows: messages, progress bars with time left, and tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accord.errors import harmless
from accord.progress import Bars, Trainings, bars_on

__all__ = ["Bars", "Trainings", "bar", "busy", "err", "harmless", "out", "say", "table"]

SHORT, SHORTEST = 10, 8
"""Letters that are left of ids at least, and where headers are broken too."""
err = Console(stderr=True, highlight=False)
out = Console(highlight=False)


@contextmanager
def muted(mute: bool) -> Iterator[None]:
    """Nothing for people on standard output, where a program reads it; messages stay on standard error."""
    before = out.quiet
    out.quiet = mute or before
    try:
        yield
    finally:
        out.quiet = before


@contextmanager
def silent(quiet: bool) -> Iterator[None]:
    """Nothing for people at all: of several ranks, one speaks."""
    before = out.quiet, err.quiet
    out.quiet, err.quiet = quiet or before[0], quiet or before[1]
    try:
        yield
    finally:
        out.quiet, err.quiet = before


def is_muted() -> bool:
    return out.quiet


def say(message: str) -> None:
    """A line for the person, apart from the results on standard output."""
    err.print(harmless(message), markup=False)


@contextmanager
def bar() -> Iterator[Bars]:
    """Progress bars on standard error."""
    with bars_on(err) as progress:
        yield progress


@contextmanager
def busy(words: str) -> Iterator[None]:
    """A sign of life while something without steps runs."""
    with err.status(words):
        yield


def table(rows: Sequence[Sequence[str]], title: str | None = None, ids: Collection[str] = ()) -> None:
    """The first row is the header; the first column is text and the rest are numbers.

    Where the screen is too narrow, means and deviations or intervals stand one below the other, and the columns
    ``ids`` are shortened in the middle, so that all columns are seen.
    """
    rows = [[harmless(cell) for cell in row] for row in rows]
    title = None if title is None else harmless(title)
    names = min(max(len(row[0]) for row in rows), out.width // 2)  # kept whole before others are
    least: list[int | None] = [names] + [None] * (len(rows[0]) - 1)
    if sum(_widths(rows)) + 2 * len(rows[0]) > out.width:
        rows = [[cell.replace("±", "\n±").replace(" [", "\n[") for cell in row] for row in rows]
        if ids:
            rows, least = narrowed(rows, out.width - 2 * len(rows[0]) - 1, [name in ids for name in rows[0]])
    shown = Table(
        title=None if title is None else Text(title, "bold"),
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for k, name in enumerate(rows[0]):
        shown.add_column(Text(name), justify="right" if k else "left", overflow="fold", min_width=least[k])
    for row in rows[1:]:
        shown.add_row(*(Text(cell) for cell in row))  # ids are shown as they are, never read as markup
    out.print(shown)


def narrowed(
    rows: Sequence[Sequence[str]], room: int, may: Sequence[bool]
) -> tuple[list[list[str]], list[int | None]]:
    """Rows that fit into so many letters, and the widths of their columns.

    Columns that ``may`` be are shortened, the widest first, and if that is not enough, headers are broken at a _.
    """
    header, cells = list(rows[0]), _widths(rows[1:] or [[""] * len(rows[0])])
    broken = [_broken(name, width) for name, width in zip(header, cells, strict=True)]
    for names, least in ((header, SHORT), (broken, SHORTEST)):
        floors = _widths([names])
        widths = [max(pair) for pair in zip(cells, floors, strict=True)]
        while sum(widths) > room:
            able = [k for k, width in enumerate(widths) if may[k] and width > max(floors[k], least)]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1
        header = names
        if sum(widths) <= room:
            break
    short = [
        [_shortened(cell, n) if ok else cell for cell, n, ok in zip(row, widths, may, strict=True)]
        for row in rows[1:]
    ]
    return [header, *short], [*widths]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(cell_len(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)
    ]


def _broken(name: str, width: int) -> str:
    """A header in lines of so many letters, as far as it can be broken at a _."""
    lines = [""]
    for part in re.findall(r"[^_]*_+|[^_]+", name):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _shortened(text: str, width: int) -> str:
    """A text whose middle is left out.

    >>> _shortened("user-0001-of-many", 9)
    'user…many'
    """
    if cell_len(text) <= width:
        return text
    end = (width - 1) // 2
    head, tail = set_cell_size(text, width - 1 - end), set_cell_size(text[::-1], end)[::-1]
    return f"{head.rstrip()}…{tail.lstrip()}"  # where half of a wide letter would be there, it is a blank
