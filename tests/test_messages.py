"""What the library says when something is wrong: words of Python, for Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import accord

SOURCE = Path(accord.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]| --$")
NOT_MESSAGES = {
    "data/datasets/fetching.py": "words of other programs' commands",
    "experiments/tuning.py": "the command line of a search's winner",
    "reproduction/overview.py": "how a page was made",
}


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string of a module that is no documentation."""
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def test_no_error_raised_in_python_names_a_flag_of_the_command_line() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "cli" not in path.relative_to(SOURCE).parts and str(path.relative_to(SOURCE)) not in NOT_MESSAGES
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if FLAG.search(text)
    ]
    assert not found, "\n".join(found)
