"""One way through: nothing downstream is imported upstream, and nothing is ever unpickled."""

from __future__ import annotations

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import accord

SOURCE = Path(accord.__file__).parent
ORDER = [
    ("errors", "files", "memory", "kernels"),
    ("objectives",),
    ("models", "data"),
    ("methods",),
    ("training", "evaluation"),
    ("estimators",),
    ("studies",),
    ("report",),
    ("reproduction",),
    ("cli",),
    ("__main__",),
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
MAY_NOT = {
    "kernels": {"files", "memory"},
    "objectives": {"models", "data"},
    "models": {"data", "objectives"},
    "data": {"models", "objectives"},
}


def imports(path: Path) -> set[str]:
    """Rooms of accord that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("accord.") and name.split(".")[1] in LEVEL}


def test_every_room_is_known_and_imports_only_upstream() -> None:
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in LEVEL, room
        for other in imports(path):
            assert LEVEL[other] <= LEVEL[room], f"{path} imports {other}"
            assert other not in MAY_NOT.get(room, set()), f"{path} imports {other}"


def test_the_reproduction_is_loaded_by_its_command_alone() -> None:
    """And there inside functions, so that no other command waits for it."""
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "reproduction" in imports(path) and path.relative_to(SOURCE).parts[0] != "reproduction"
    }
    assert users == {"cli/reproducing.py"}
    code = (
        "import sys, accord.cli.reproducing; sys.exit(any('accord.reproduction' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_unpickled() -> None:
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        modules |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not modules & {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}, path
        called = {
            n.func.attr for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
        }
        loads = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute)
            and n.attr == "load"
            and isinstance(n.value, ast.Name)
            and n.value.id in ("torch", "np")
        ]
        assert not loads, path
        assert "unpickle" not in called


def test_examples_in_docstrings_hold() -> None:
    tried = 0
    for path in SOURCE.rglob("*.py"):
        name = "accord." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        result = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
        assert result.failed == 0, name
        tried += result.attempted
    assert tried > 4
