"""Pages of notebooks: their words, their code, and what the code showed when the notebook was saved."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

IMAGES = {"image/png": "png", "image/svg+xml": "svg", "image/jpeg": "jpg"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by their names."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in cells:
        text = _text(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            parts.append(text)
        elif cell["cell_type"] == "code" and text:
            parts.append(_fenced(text, "python"))
            parts += [_output(output, path.stem, pictures) for output in cell.get("outputs", [])]
    if parts:
        head, _, rest = parts[0].partition("\n")
        download = f'<a class="md-button" href="{path.name}" download>Download this notebook</a>'
        parts[0] = f"{head}\n\n{download}\n{rest}"
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _output(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    if output["output_type"] == "stream":
        return _shown(_text(output["text"]))
    if output["output_type"] == "error":
        return _shown(f"{output['ename']}: {output['evalue']}")
    data = output.get("data", {})
    for kind, suffix in IMAGES.items():
        if kind in data:
            name = f"{stem}-{len(pictures) + 1}.{suffix}"
            content = _text(data[kind])
            pictures[name] = content.encode() if suffix == "svg" else base64.b64decode(content)
            return f"![{_described(data)}](pictures/{name})"
    if "text/markdown" in data:
        return _text(data["text/markdown"])
    if "text/html" in data and "<table" in (html := _text(data["text/html"])):
        return f'<div class="output-table" tabindex="0">\n{_table(html)}\n</div>'
    return _shown(_text(data.get("text/plain", "")))


def _described(data: dict[str, Any]) -> str:
    """What a reader who cannot see the picture is told: the words of the object that drew it, if it has any."""
    plain = _text(data.get("text/plain", "")).strip()
    return "A plot of the results above" if not plain or plain.startswith("<") else plain.replace("\n", " ")


def _table(html: str) -> str:
    """The table alone, on lines without gaps: a blank line would end it for Markdown."""
    found = re.search(r"<table.*</table>", html, re.DOTALL)
    table = found[0] if found else ""
    table = re.sub(r"<table[^>]*>", "<table>", table)
    return "\n".join(line.strip() for line in table.splitlines() if line.strip())


def _shown(text: str) -> str:
    text = COLOURS.sub("", text).rstrip()
    return _fenced(text, "text") if text else ""


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)
