"""Every place that opens, creates, renames or removes a path is in the table of the documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import accord

SOURCE = Path(accord.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
ANYWHERE = {
    *(
        "open",
        "write_text",
        "write_bytes",
        "read_text",
        "read_bytes",
        "rename",
        "unlink",
        "rmtree",
        "rmdir",
        "mkdir",
    ),
    *("makedirs", "touch", "symlink_to", "hardlink_to", "chmod", "copyfile", "copytree", "copy2", "TemporaryFile"),
    *("TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp", "load_file", "save_file", "safe_open"),
    *(
        "fromfile",
        "tofile",
        "memmap",
        "ParquetFile",
        "ParquetWriter",
        "read_csv",
        "OSFile",
        "memory_map",
        "ZipFile",
    ),
    *("RDBStorage", "savez", "loadtxt", "savetxt", "open_memmap", "fdopen", "truncate", "extractall"),
}
"""Names of functions that touch a path, whoever has them."""
BY_MODULE = {
    "os": {"remove", "removedirs", "renames", "replace", "link", "symlink", "mkfifo", "mknod"},
    "shutil": {"move", "copy"},
    "parquet": {"read_table", "write_table", "read_schema", "read_metadata"},
    "csv": {"write_csv"},
    "feather": {"read_table", "write_feather"},
}
"""Names that mean a path in these modules alone."""


def touches(call: ast.Call) -> str | None:
    """The function that a call touches a path with."""
    func = call.func
    if isinstance(func, ast.Name):
        return func.id if func.id in ANYWHERE else None
    if not isinstance(func, ast.Attribute):
        return None
    owner = func.value.attr if isinstance(func.value, ast.Attribute) else getattr(func.value, "id", "")
    if func.attr in ANYWHERE or func.attr in BY_MODULE.get(owner, ()):
        return func.attr
    # `Path.replace` takes one path, `str.replace` two texts.
    return "replace" if func.attr == "replace" and len(call.args) == 1 and not call.keywords else None


def found() -> dict[str, set[str]]:
    """The functions by which each module touches paths."""
    places: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {touches(node) for node in ast.walk(tree) if isinstance(node, ast.Call)} - {None}
        if names:
            places[path.relative_to(SOURCE).with_suffix("").as_posix()] = {str(name) for name in names}
    return places


def told() -> dict[str, set[str]]:
    """What the table says: the module in its first column, its functions in the second."""
    section = PAGE.read_text(encoding="utf-8").split("## Every place that touches a path")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    return {re.findall("`([^`]+)`", row[1])[0]: set(re.findall("`([^`]+)`", row[2])) for row in rows}


def test_the_table_names_every_place_and_no_other() -> None:
    ours, theirs = found(), told()
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for module, names in ours.items():
        assert names == theirs[module], module


def test_places_are_found() -> None:
    source = "path.open()\nopen(x)\nos.replace(a, b)\na.replace(b)\nshutil.rmtree(x)\nparquet.read_table(x)\n"
    harmless = "'a'.replace('b', 'c')\nreplace(one, x=1)\nos.path.join(a)\nread_table(x)\nlist.remove(1)\n"
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert all(touches(call) for call in calls)
    calls = [node for node in ast.walk(ast.parse(harmless)) if isinstance(node, ast.Call)]
    assert not any(touches(call) for call in calls)


if __name__ == "__main__":  # what the first two columns should say
    for module, names in sorted(found().items()):
        print(f"| `{module}` | {', '.join(f'`{name}`' for name in sorted(names))} |")
