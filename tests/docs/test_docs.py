"""Docs that run: every Python block and every accord line of every page, on a small simulated log."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest

import accord
from accord.cli import main
from accord.data import noise
from accord.data.simulator import Simulation
from accord.estimators import base
from accord.methods import METHODS
from accord.models import MODELS
from accord.reproduction.overview import write_overview

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(set(DOCS.rglob("*.md")) - set((DOCS / "results").rglob("*.md")))]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
NOTEBOOKS = {path.name for path in (DOCS / "tutorials").glob("*.ipynb")}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUICK = {"clicks": {"epochs": 1, "batch_size": 512}, "labels": {"epochs": 2}}


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.fixture
def workplace(tmp_path: Path, made: Simulation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files the pages speak of, and training cut short; what a page registers goes afterwards."""
    known = {registry: set(registry) for registry in (METHODS, MODELS)}
    monkeypatch.setattr(noise, "KINDS", dict(noise.KINDS))
    for name, table in (("clicks", made.log()), ("truth", made.truth()), ("marked", made.clicks())):
        csv.write_csv(table, tmp_path / f"{name}.csv")
    pairs = made.log().select(["user", "item"])
    for name, reviewer, first, decision in (("mine", "r1", 0, "keep"), ("yours", "r2", 3, "drop")):
        told = pairs.slice(first, 6)
        told = told.append_column("decision", pa.array([decision] * 6))
        csv.write_csv(told.append_column("reviewer", pa.array([reviewer] * 6)), tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "accord.review.server.Serving.run", lambda serving, taken: None
    )  # nobody is there to end it
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    make = base.make_settings
    monkeypatch.setattr(base, "make_settings", lambda task, values: make(task, values | QUICK[task]))
    yield tmp_path
    for registry, names in known.items():
        for name in set(registry) - names:
            registry.unregister(name)


README = PAGES[0]


@pytest.mark.parametrize("page", PAGES[1:], ids=IDS[1:])
def test_python_blocks_run(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, object] = {}
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), scope)


def exit_code() -> int:
    try:
        main.run()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_quickstart_runs_as_it_stands(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's blocks in their order, in one folder that is empty."""
    for path in workplace.iterdir():
        path.unlink()
    scope: dict[str, object] = {}
    run = 0
    for kind, code in BLOCK.findall(README.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(code, str(README), "exec"), scope)
        else:
            run_accord_lines(code, monkeypatch)
        run += kind == "python" or "accord " in code
    assert run == 4
    made = {path.name for path in workplace.iterdir()}
    assert {"my-run", "sim", "run", "clean.csv", "digits-run"} <= made


@pytest.mark.parametrize("page", PAGES[1:], ids=IDS[1:])
def test_accord_lines_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in blocks(page, "console"):
        run_accord_lines(code, monkeypatch)


def run_accord_lines(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["accord"] and "DATA" not in words and words[1:2] != ["data"]:
            monkeypatch.setattr(sys, "argv", words)
            assert exit_code() == 0, line


@pytest.mark.parametrize(
    ("made_by", "file"),
    [("settings_page", "docs/reference/settings.md"), ("keywords_module", "src/accord/estimators/keywords.py")],
)
def test_what_is_made_from_the_settings_is_up_to_date(made_by: str, file: str) -> None:
    scope: dict[str, object] = {"__file__": str(ROOT / "docs" / "build.py"), "__name__": "build"}
    exec((ROOT / "docs" / "build.py").read_text(encoding="utf-8"), scope)
    made = scope[made_by]()  # pyright: ignore[reportCallIssue]
    assert (ROOT / file).read_text(encoding="utf-8") == made, "run `make docs`"


def test_the_overview_of_results_is_made_from_their_cells(tmp_path: Path) -> None:
    folder = ROOT / "docs" / "results"
    for outcome in folder.glob("*/study.json"):
        place = tmp_path / "results" / outcome.parent.name
        place.mkdir(parents=True)
        shutil.copy(outcome, place)
    page = write_overview(tmp_path / "results").read_text(encoding="utf-8")
    assert (folder / "overview.md").read_text(encoding="utf-8") == page, "run `make docs`"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and (NOTEBOOKS or not target.endswith(".ipynb")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_every_tutorial_is_listed() -> None:
    """The list gives the site its pages and their order."""
    listed = re.findall(r"\(([\w-]+\.ipynb)\)", (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8"))
    assert set(listed) >= NOTEBOOKS
    assert len(listed) == len(set(listed)) == 9


def test_the_version_is_the_same_everywhere() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert newest is not None
    assert {said, cited[1], newest[1]} == {accord.__version__}
