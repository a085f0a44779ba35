"""Runs the tutorials: `python tests/docs/notebooks.py run [NAME …]` stores what cells show, `try` shortens them.

A cell is Python, with two things that Jupyter adds: lines that begin with `!` go to the shell, and
`%%writefile NAME` writes the cell into a file. So no kernel is needed: all cells of a notebook run in one
namespace, as in a kernel, and nine kernels would each spend seconds on importing torch. The file needs accord
alone, and runs in any environment.

The metadata of a notebook hold, under `accord`, what its reader does not see:

- `short`: for a quick try, values that take the place of those that the first code cell gives to these names.
- `claims`: what must be true at the end, shortened or not.
- `run`: a hash of the code that made the outputs which are stored.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import hashlib
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
WRITES = re.compile(r"%%writefile (\S+)\n")
Output = dict[str, Any]


def notebooks() -> list[Path]:
    return sorted(TUTORIALS.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def hash_of(notebook: dict[str, Any]) -> str:
    """What tells the code of a notebook from any other."""
    code = "\0".join(map(source_of, code_cells(notebook)))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def shortened(code: str, values: dict[str, Any]) -> str:
    """The first code cell with other values for its constants."""
    for name, value in values.items():
        code, found = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value!r}  ", code, count=1, flags=re.MULTILINE)
        if not found:
            raise ValueError(f"the first code cell gives no value to {name}")
    return code


class Session:
    """One namespace, in which the cells of a notebook run one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scope: dict[str, Any] = {"__name__": "__main__", "display": self._display, "_shell": self._shell}
        self.outputs: list[Output] = []
        self.printed = io.StringIO()

    def run(self, code: str, number: int) -> list[Output]:
        """What a cell shows; a cell that warns is an error, since a reader would see the warning."""
        self.outputs, self.printed = [], io.StringIO()
        file = f"{self.name}, cell {number}"
        written = WRITES.match(code)
        if written:
            Path(written[1]).write_text(code[written.end() :] + "\n", encoding="utf-8")
            return [_stream(f"Writing {written[1]}\n")]
        code = re.sub(r"^!((?:.*\\\n)*.*)", lambda line: f"_shell({line[1]!r})", code, flags=re.MULTILINE)
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        tree = ast.parse(code, file)
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        tree.body = tree.body[:-1] if last else tree.body
        complaints = io.StringIO()
        with contextlib.redirect_stdout(self.printed), contextlib.redirect_stderr(complaints):
            exec(compile(tree, file, "exec"), self.scope)
            value = None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), self.scope)
        if complaints.getvalue():
            raise RuntimeError(f"{file} complained:\n{complaints.getvalue()}")
        self._flush()
        if value is not None and not code.rstrip().endswith(";"):
            self.outputs.append(
                {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown(value)}
            )
        return self.outputs

    def _flush(self) -> None:
        """What was printed so far, before what is shown next."""
        if self.printed.getvalue():
            self.outputs.append(_stream(self.printed.getvalue()))
            self.printed.seek(0)
            self.printed.truncate()

    def _display(self, *values: Any) -> None:
        self._flush()
        self.outputs += [{"output_type": "display_data", "metadata": {}, "data": shown(value)} for value in values]

    def _shell(self, command: str) -> None:
        """A line of the shell; {name} in it is a variable of the notebook. Its first words are this Python's."""
        beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        there = {**os.environ, "PATH": beside, "COLUMNS": "100"}
        done = subprocess.run(
            command.format_map(self.scope), shell=True, env=there, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command!r} ended with {done.returncode}:\n{done.stdout}")
        print(done.stdout, end="")


def _stream(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


def shown(value: Any) -> dict[str, Any]:
    """A value in the forms that it has for Jupyter."""
    forms: dict[str, Any] = {}
    for kind, method in (
        ("image/svg+xml", "_repr_svg_"),
        ("image/png", "_repr_png_"),
        ("text/html", "_repr_html_"),
    ):
        made = getattr(value, method, lambda: None)()
        if isinstance(made, bytes):
            made = base64.b64encode(made).decode()
        if made is not None:
            forms[kind] = made if kind == "image/png" else made.splitlines(keepends=True)
    plain = re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))
    return forms | {"text/plain": plain.splitlines(keepends=True)}


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """Modules of the present folder can be imported, as in Jupyter; they are forgotten afterwards."""
    folder, before, paths = Path.cwd(), set(sys.modules), list(sys.path)
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path[:] = paths
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def run(path: Path, short: bool = False) -> dict[str, Any]:
    """The notebook with its outputs, run in the present folder; its claims hold."""
    notebook = read(path)
    own = notebook["metadata"]["accord"]
    session = Session(path.name)
    with own_modules():
        for number, cell in enumerate(code_cells(notebook), 1):
            code = source_of(cell)
            code = shortened(code, own["short"]) if short and number == 1 else code
            cell |= {"outputs": session.run(code, number), "execution_count": number}
    for claim in own["claims"]:
        if not eval(claim, session.scope):
            raise AssertionError(f"{path.name} claims that {claim}, and it is not so")
    own["run"] = hash_of(notebook)
    return notebook


def written(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the tutorials.")
    words = "run: whole, and store what cells show; check: whole, and store nothing; try: shortened"
    parser.add_argument("what", choices=("run", "check", "try"), help=words)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    for path in notebooks():
        if asked.names and path.stem not in asked.names:
            continue
        began, used = time.perf_counter(), sum(os.times()[:4])
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            notebook = run(path, short=asked.what == "try")
        if asked.what == "run":
            path.write_text(written(notebook), encoding="utf-8")
        seconds, busy = time.perf_counter() - began, sum(os.times()[:4]) - used
        print(f"{path.stem}: {seconds:.1f} s, {busy:.1f} CPU s, {path.stat().st_size >> 10} KiB", flush=True)


if __name__ == "__main__":
    main()
