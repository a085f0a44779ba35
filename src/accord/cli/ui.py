"""What the command line shows: messages, progress bars with time left, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accord.errors import harmless
from accord.progress import Bars, Trainings, bars_on

__all__ = ["Bars", "Trainings", "bar", "busy", "err", "harmless", "out", "say", "table"]

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


def table(rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """The first row is the header; the first column is text and the rest are numbers.

    Where the screen is too narrow, means and deviations or intervals stand one below the other.
    """
    rows = [[harmless(cell) for cell in row] for row in rows]
    title = None if title is None else harmless(title)
    if sum(max(len(cell) + 2 for cell in column) for column in zip(*rows, strict=True)) > out.width:
        rows = [[cell.replace("±", "\n±").replace(" [", "\n[") for cell in row] for row in rows]
    shown = Table(
        title=None if title is None else Text(title, "bold"),
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    names = min(max(len(row[0]) for row in rows), out.width // 2)  # kept whole before others are
    for k, name in enumerate(rows[0]):
        least = names if k == 0 else None
        shown.add_column(Text(name), justify="left" if k == 0 else "right", overflow="fold", min_width=least)
    for row in rows[1:]:
        shown.add_row(*(Text(cell) for cell in row))  # ids are shown as they are, never read as markup
    out.print(shown)
