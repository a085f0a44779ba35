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
    ("errors", "files", "locks", "memory", "plain", "registry", "stored"),
    ("extras",),
    ("kernels",),
    ("ranks",),
    ("objectives",),
    ("models", "data"),
    ("batches", "optim", "decisions"),
    ("methods",),
    ("training", "evaluation"),
    ("progress",),
    ("estimators",),
    ("predictions",),
    ("report",),
    ("tasks",),
    ("review",),
    ("experiments",),
    ("reproduction",),
    ("cli",),
    ("__main__",),
]
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}
MAY = {
    "errors": set(),
    "kernels": set(),
    "ranks": {"errors", "kernels"},
    "objectives": set(),
    "models": {"errors", "registry", "kernels", "ranks"},
    "data": {"errors", "files", "locks", "memory", "plain", "extras", "stored", "ranks"},
    "decisions": {"errors", "files", "locks", "plain", "data"},
    "batches": {"data", "models"},
    "optim": {"kernels", "ranks", "stored"},
    "methods": {"errors", "registry", "objectives", "models", "optim"},
    "evaluation": {"errors", "kernels", "data"},
}
"""Packages of which it is said one by one what they may import; others may import whatever is upstream."""
MODELS_OF_METHODS = {"models.stack", "models.classifiers"}
"""What methods know of models: how they are stacked, and MW-Net's weight network."""


def imported(path: Path) -> set[str]:
    """Modules and names of accord that a file imports, without the leading ``accord.``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            assert not node.level, f"{path} imports relatively"
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix("accord.") for name in names if name.startswith("accord.")}


def imports(path: Path) -> set[str]:
    """Packages of accord that a file imports."""
    return {name.split(".")[0] for name in imported(path)} & set(LEVEL)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_package_is_known_and_imports_only_upstream() -> None:
    for path in SOURCE.rglob("*.py"):
        package = package_of(path)
        if package == "__init__":
            continue
        assert package in LEVEL, package
        for other in imports(path) - {package}:
            assert LEVEL[other] <= LEVEL[package], f"{path} imports {other}"
            if package in MAY:
                assert other in MAY[package], f"{path} imports {other}"


def test_no_two_packages_import_each_other() -> None:
    """Those of one level among them."""
    users: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        users.setdefault(package_of(path), set()).update(imports(path))
    for package, others in users.items():
        for other in others - {package}:
            assert package not in users.get(other, set()), f"{package} and {other}"


def test_methods_know_little_of_models() -> None:
    for path in (SOURCE / "methods").glob("*.py"):
        for name in imported(path):
            if name.split(".")[0] == "models":
                assert ".".join(name.split(".")[:2]) in MODELS_OF_METHODS, f"{path} imports {name}"


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


def test_nothing_is_ordered_or_timed_by_a_clock_that_can_jump_back() -> None:
    """`time.time` and dates go back where a clock is set; `time.monotonic` and `perf_counter` do not.

    A journal of decisions says when each was made, for people to read; its order is that of its lines.
    """
    for path in set(SOURCE.rglob("*.py")) - {SOURCE / "decisions" / "journal.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {
                    ("time", "time"),
                    ("datetime", "now"),
                    ("date", "today"),
                }, path
