"""What is installed with accord itself, and what a person is told where an extra is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accord
from accord.errors import AccordError
from accord.extras import EXTRA_OF, missing, needed

SOURCE = Path(accord.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLED_AS = {"sklearn": "scikit-learn", "PIL": "pillow"}
WITH_OTHERS = {
    "requests": "comes with pooch",
    "typing_extensions": "comes with pydantic, which asks for its TypedDict before Python 3.12",
    "markupsafe": "comes with jinja2",
    "IPython": "is at hand in a notebook, and asked for nowhere else",
    "triton": "comes with torch's builds for a GPU",
    "cleanlab": "a row of comparisons, which says that it is not run",
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;!~ ]", one)[0].lower() for one in requirements}


def imported() -> dict[str, set[str]]:
    """Libraries that are imported anywhere, and the files that do so."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                found.setdefault(module.split(".")[0], set()).add(path.relative_to(SOURCE).as_posix())
    return {name: files for name, files in found.items() if name not in {*sys.stdlib_module_names, "accord"}}


def test_every_library_comes_with_accord_or_with_an_extra_that_is_named() -> None:
    core = names(PROJECT["dependencies"])
    for name, files in imported().items():
        known = INSTALLED_AS.get(name, name) in core or name in EXTRA_OF or name in WITH_OTHERS
        assert known, f"{name}, imported by {sorted(files)}"
    assert core <= {INSTALLED_AS.get(name, name) for name in imported()}, "a dependency that nothing imports"


@pytest.mark.parametrize("module", EXTRA_OF)
def test_an_extra_holds_what_it_is_named_for(module: str) -> None:
    extra = EXTRA_OF[module]
    library = INSTALLED_AS.get(module, module)
    assert library in names(PROJECT["optional-dependencies"][extra])
    assert library not in names(PROJECT["dependencies"])
    assert f"pip install 'accord-labels[{extra}]'" in str(missing(module, "It"))


def test_all_holds_every_extra_that_is_named() -> None:
    (whole,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"[\w-]+", whole.partition("[")[2])) == set(EXTRA_OF.values())


def searching(place: Path) -> None:
    from accord.experiments.trials import Trials

    Trials("sqlite://", "x", {"a": (1,)}, "random", 1, 0, "")


def reading_images(place: Path) -> None:
    from accord.data.labelled_files import read_images

    (place / "a.png").write_bytes(b"")
    read_images(place)


def fetching(place: Path) -> None:
    from accord.data.datasets.downloading import download

    download("https://localhost/none", None, place, place, lambda done, of: None)


def a_kind_of_table(name: str) -> Callable[[Path], Any]:
    return lambda place: accord.Recommender().set_output(name)  # pyright: ignore[reportArgumentType]


def shared_search(place: Path) -> None:
    from accord.experiments.trials import Trials

    pytest.importorskip("optuna", reason="a search needs it too")
    Trials("postgresql+psycopg://localhost/none", "x", {"a": (1,)}, "random", 1, 0, "")


@pytest.mark.parametrize(
    ("module", "do"),
    [
        ("optuna", searching),
        ("PIL", reading_images),
        ("pooch", fetching),
        ("pandas", a_kind_of_table("pandas")),
        ("polars", a_kind_of_table("polars")),
        ("psycopg", shared_search),
    ],
)
def test_where_an_extra_is_missing_one_sentence_says_how_to_install_it(
    module: str, do: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(AccordError) as error:
        do(tmp_path)
    said = str(error.value)
    assert f"pip install 'accord-labels[{EXTRA_OF[module]}]'" in said
    assert len(said.splitlines()) == 1


def test_a_library_that_is_there_is_given() -> None:
    assert needed("numpy.linalg", "It") is np.linalg
    with pytest.raises(AccordError, match="needs no_such_thing, which is not installed: pip install no_such_thing"):
        needed("no_such_thing.part", "It")


CORE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in refused:
            raise ModuleNotFoundError(f"refused: {name}", name=name)

refused = %s
sys.meta_path.insert(0, Refuse())
from accord.cli.main import main
sys.argv = ["accord", *sys.argv[1:]]
main()
"""


def test_labelled_images_need_no_extra(tmp_path: Path) -> None:
    """From the first fit to the page with its pictures."""

    def run(*words: object) -> None:
        program = CORE % sorted(EXTRA_OF)
        done = subprocess.run([sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    out = tmp_path / "run"
    run("fit", "digits", "--noise", 0.4, "--model", "mlp", "--epochs", 1, "--out", out)
    assert "data:image/png;base64," in (out / "report.html").read_text()
    run("audit", out, "--truth", out / "truth.parquet", "--out", tmp_path / "issues.csv")
    run("evaluate", out, "--json")
    run("predict", out, "digits", "--out", tmp_path / "labels.csv")
