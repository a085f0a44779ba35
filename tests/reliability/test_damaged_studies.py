"""Damaged files of comparisons, searches and interrupted fits: one sentence, or what they held is made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.cli import fit as fitting
from accord.cli.checkpoint_folder import ARGUMENTS, CheckpointFolder
from accord.cli.main import app
from accord.data.simulator import SimulatorSettings, simulate
from accord.errors import AccordError, DataError
from accord.experiments import trials

Spoil = Callable[[Path], Any]
CELL, VALUES = "cells/gmf-normal-seed0.json", "cells/gmf-normal-seed0.parquet"
FINDINGS, DATABASE = "tune/gmf-normal/tune.json", "tune/gmf-normal/study.db"


def accord(*words: object) -> None:
    app([str(word) for word in words], standalone_mode=False)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that cannot be used is not asked four times."""
    monkeypatch.setattr(trials, "OPENING_TRIES", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of tuned rows and a search, both whole, and what they are of."""
    folder = tmp_path_factory.mktemp("studies")
    made = simulate(SimulatorSettings(users=150, items=120, interactions=1000, seed=1))
    parquet.write_table(made.log(), folder / "log.parquet")
    parquet.write_table(made.truth(), folder / "truth.parquet")
    compare(folder, folder / "rows")
    tune(folder, folder / "search")
    return folder


def compare(place: Path, out: Path) -> None:
    words = ["--methods", "normal,t-ce", "--seeds", 2, "--epochs", 1, "--trials", 1, "--set", "dims=4"]
    accord("compare", place / "log.parquet", "--truth", place / "truth.parquet", *words, "--out", out)


def tune(place: Path, out: Path) -> None:
    words = ["--method", "normal", "--trials", 2, "--epochs", 1, "--set", "dims=4"]
    accord("tune", place / "log.parquet", *words, "--out", out)


def found(out: Path) -> list[Any]:
    """What a comparison or a search found, without times."""
    if (out / "tune.json").is_file():
        return json.loads((out / "tune.json").read_text())["best"]
    rows = json.loads((out / "compare.json").read_text())["rows"]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def text(words: str) -> Spoil:
    return lambda path: path.write_text(words)


def changed(name: str, value: Any) -> Spoil:
    """A JSON object with another value, or without it."""

    def spoil(path: Path) -> None:
        held = json.loads(path.read_text())
        held.pop(name, None)
        path.write_text(json.dumps(held if value is None else {**held, name: value}))

    return spoil


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def remove(path: Path) -> None:
    path.unlink()


def other_values(path: Path) -> None:
    parquet.write_table(pa.table({"ndcg@20": [["x"], None]}), path)


MUST = ("metrics", "seconds", "uses_knowledge", "selection", "settings", "method", "model", "identity")
ANYTHING = [text("[]"), text("null"), text("{}"), text(""), text("\udc80".encode("utf8", "replace").decode()), cut]
AGAIN: list[tuple[str, Spoil]] = [
    *((CELL, spoil) for spoil in ANYTHING),
    (CELL, text('{"metrics": ' * 5000)),
    *((CELL, changed(name, None)) for name in MUST),
    (CELL, changed("metrics", {"ndcg@20": "x"})),
    (CELL, changed("metrics", [1])),
    (CELL, changed("search_budget", [1])),
    (CELL, changed("detection", {"by_kind": [1]})),
    (VALUES, text("PAR1")),
    (VALUES, cut),
    *(("compare.json", spoil) for spoil in ANYTHING),
    ("compare.json", text('{"rows": [{"method": "normal", "metrics": {}, "seeds": 2, "against_normal": 5}]}')),
    *((FINDINGS, spoil) for spoil in ANYTHING),
    (FINDINGS, changed("best", [1])),
    (FINDINGS, changed("planned", "x")),
    (DATABASE, text("garbage")),
]
"""Damage that a comparison mends."""


@pytest.mark.parametrize(("name", "spoil"), AGAIN)
def test_a_comparison_makes_again_what_is_damaged(name: str, spoil: Spoil, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "rows", tmp_path / "rows")
    spoil(tmp_path / "rows" / name)
    if name == FINDINGS and spoil is not ANYTHING[0]:
        shutil.rmtree(tmp_path / "rows" / "cells")  # which also say what was found
    compare(place, tmp_path / "rows")
    assert found(tmp_path / "rows") == found(place / "rows")


@pytest.mark.parametrize("spoil", [other_values, remove])
def test_values_that_are_not_those_of_a_cell(spoil: Spoil, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "rows", tmp_path / "rows")
    spoil(tmp_path / "rows" / VALUES)
    if spoil is remove:  # as in a copy without them: compared over seeds
        compare(place, tmp_path / "rows")
    else:
        with pytest.raises(DataError, match=r"normal-seed0\.parquet' (has gaps|does not hold)"):
            compare(place, tmp_path / "rows")


@pytest.mark.parametrize("spoil", ANYTHING)
def test_a_search_finds_again_what_its_findings_said(spoil: Spoil, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "search", tmp_path / "search")
    spoil(tmp_path / "search" / "tune.json")
    tune(place, tmp_path / "search")
    assert found(tmp_path / "search") == found(place / "search")


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])


def zeros(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(len(content) - 8192))


@pytest.mark.parametrize("spoil", [text("garbage" * 1000), text(""), half, zeros, folder_instead])
def test_a_damaged_database_is_one_sentence(spoil: Spoil, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "search", tmp_path / "search")
    spoil(tmp_path / "search" / "study.db")
    words = ""
    try:
        tune(place, tmp_path / "search")
    except AccordError as error:
        words = str(error)
    assert "\n" not in words
    assert "study.db" in words if words else found(tmp_path / "search") == found(place / "search")


GOOD = {
    **{"data": "LOG", "out": "OUT", "user": None, "item": None, "time": None, "valid": None, "label": None},
    **{"labels": None, "size": None, "ignore": None, "noise": 0.0, "noise_kind": "uniform", "clean": None},
    **{"model": None, "method": "normal", "epochs": 1, "seed": 0, "device": "auto", "settings": ["dims=4"]},
    "overwrite": False,
}
ODD = [
    *(("settings", value) for value in ([1], 5, [["a=b"]], {"a": 1}, ["a"])),
    *(("seed", value) for value in ("x", None, [1], 1.5, True)),
    *(("noise", value) for value in ("abc", [1], float("inf"), float("nan"))),
    *(("data", value) for value in (5, None, "", ["x"], "\0", "/nonexistent.csv")),
    *((name, {}) for name in ("method", "label", "labels", "clean", "user", "device", "noise_kind", "out")),
    *(("model", ["gmf"]), ("epochs", "many"), ("size", "x"), ("ignore", "abc"), ("ignore", [5]), ("valid", 7)),
    *(("time", False), ("overwrite", "x"), ("method", "nonsense")),
]


@pytest.mark.parametrize(("name", "value"), ODD)
def test_what_was_asked_for_is_not_believed(name: str, value: object, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = {**GOOD, "data": str(place / "log.parquet"), "out": str(out)}
    with ExitStack() as locks:
        CheckpointFolder(out).take(locks, asked, resume=False, overwrite=False)
    (tmp_path / "run.checkpoint" / ARGUMENTS).write_text(json.dumps(asked | {name: value}))
    with pytest.raises(AccordError) as caught:
        fitting.resume(out, 30.0)
    assert "\n" not in str(caught.value)
    assert json.loads((tmp_path / "run.checkpoint" / ARGUMENTS).read_text()).keys() == asked.keys()  # still there
    assert not out.exists()


def test_what_was_asked_for_is_resumed(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with ExitStack() as locks:
        asked = {**GOOD, "data": str(place / "log.parquet"), "out": str(out)}
        CheckpointFolder(out).take(locks, asked, resume=False, overwrite=False)
    fitting.resume(out, 30.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("words", ["[]", '{"parts": []}', '{"parts": {"movielens-100k": {"rows": 5}}}', "{"])
def test_a_damaged_outcome_of_a_study_is_one_sentence(words: str, tmp_path: Path) -> None:
    (tmp_path / "hyper").mkdir()
    (tmp_path / "hyper" / "study.json").write_text(words)
    with pytest.raises(DataError, match=r"study\.json' (is damaged|cannot be read)"):
        accord("reproduce", "hyper", "--show", "--out", tmp_path / "hyper")
    with pytest.raises(DataError, match=r"study\.json' (is damaged|cannot be read)"):
        accord("reproduce", "--show", "--out", tmp_path)
