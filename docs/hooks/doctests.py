"""An extension of griffe: examples in docstrings become blocks of code, also outside a section "Examples".

It also writes the first paragraph of a docstring in one line: summaries of members show its first line alone.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(>>> (?:.|\n(?!\n))*)")


class Doctests(griffe.Extension):
    """Fences doctests, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if not obj.docstring:
            return
        text = obj.docstring.value
        first, gap, rest = text.partition("\n\n")
        if ">>> " not in first:
            text = " ".join(first.split("\n")) + gap + rest
        if ">>> " in text and "Examples\n----" not in text:
            text = EXAMPLE.sub(r"```pycon\n\1\n```", text)
        obj.docstring.value = text
