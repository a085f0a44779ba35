"""What people see of a label besides its numbers; texts are cut, and made harmless."""

from __future__ import annotations

from typing import Any

from accord.errors import harmless
from accord.review.pictures import Pictures

CELL, FIELD, WHOLE = 80, 2000, 20_000
"""Letters of a text in a row of the queue, in a field beside it, and of a text that is the example itself."""


class Shown:
    """Names, cells, fields and pictures by position; this one knows nothing but the position."""

    columns: tuple[str, ...] = ()
    """Headings of the cells."""
    grid = False
    """Whether the queue is one of pictures, not of rows."""
    pictures: Pictures | None = None

    def __init__(self) -> None:
        self.notices: list[str] = []
        """What a person should know, in sentences."""

    def title(self, at: int) -> str:
        return f"row {at}"

    def cells(self, at: int) -> list[str]:
        """A few values, in the order of ``columns``."""
        return []

    def details(self, at: int) -> dict[str, Any]:
        """``fields`` (names and values), ``text`` and ``history``, as far as there are any."""
        return {"fields": []}

    def picture(self, at: int, largest: int) -> bytes | None:
        return None if self.pictures is None else self.pictures.png(at, largest)


def worded(value: Any, most: int = CELL, *, lines: bool = False) -> str:
    """A value of a table in words.

    >>> worded(0.123456789), worded(None), worded("two\\n lines")
    ('0.123457', '', 'two lines')
    """
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = text[: 4 * most] if lines else " ".join(text[: 4 * most].split())
    text = harmless(text, lines=lines)
    return text if len(text) <= most else f"{text[: most - 1]}…"
