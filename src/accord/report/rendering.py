"""Pages that stand alone: the style and the script are inside, allowed by their hashes, and nothing else is."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from accord.files import write_whole
from accord.report import plots

Size = tuple[float, float]
SMALL, WIDE, NARROW = (440.0, 290.0), (900.0, 300.0), (300.0, 260.0)
"""Sizes of a plot that has one beside it, of one that has none, and of one on a phone."""


def write_page(path: Path, template: str, scripts: Sequence[str] = (), **values: Any) -> None:
    """A page as one file; ``scripts`` are the names of those that it runs, in their order."""
    style = "\n" + plots.variables() + plots.style() + _text("templates", "page.css")
    script = "".join(_text("scripts", f"{name}.js") for name in scripts)
    text = (
        _environment()
        .get_template(template)
        .render(style=Markup(style), script=Markup(script), policy=Markup(_policy(style, script)), **values)
    )
    write_whole(path, text.encode("utf-8", errors="replace").decode("utf-8"))  # names may hold halves of letters


def _policy(style: str, script: str) -> str:
    """What a page may do: show itself and run its own script. It asks no address for anything."""
    allowed = f"style-src {_hash(style)}" + (f"; script-src {_hash(script)}" if script else "")
    return f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _text(folder: str, name: str) -> str:
    return files("accord.report").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("accord.report"), autoescape=select_autoescape(), trim_blocks=True)


def as_data(value: Any) -> Markup:
    """Values as JSON inside a page: no text in it can end the block that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def fitted(draw: Callable[[Size], plots.Drawing], sizes: Sequence[Size] = (SMALL, NARROW)) -> Markup:
    """A plot in several sizes, of which the page shows the one that fits: text is as large in all of them."""
    return Markup("").join(Markup(f'<div class="at{size[0]:.0f}">{draw(size).__html__()}</div>') for size in sizes)
