"""An extension of griffe: examples in docstrings become blocks of code, also outside a section "Examples"."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(>>> (?:.|\n(?!\n))*)")


class Doctests(griffe.Extension):
    """Fences doctests, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring and ">>> " in obj.docstring.value and "Examples\n----" not in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
