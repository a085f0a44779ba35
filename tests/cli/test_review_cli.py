"""`accord review` as it is typed: what it refuses, in one sentence, with nothing changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accord import Classifier


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = np.random.default_rng(0).normal(size=(40, 3))
    place = tmp_path_factory.mktemp("reviewed") / "run"
    Classifier(model="mlp", method="normal", epochs=1, seed=0).fit(X, np.arange(40) % 2).save(place)
    return place


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "0.0.0.0"], "--others-may-connect"),
        (["--listen", "192.0.2.1", "--others-may-connect"], "Nothing can listen at 192.0.2.1"),
        (["--port", "70000"], "no port 70000"),
        (["--items", "items.csv"], "--items is for clicks"),
        (["--images", "photos"], "give it with --data FILE, and leave --images out"),
        (["--data", "nothing.csv"], "nothing.csv"),
        (["--reviewer", "../ana"], "name"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(accord: Callable, run: Path, words: list[str], said: str) -> None:
    pytest.importorskip("uvicorn", reason="the review page needs accord-labels[review]")
    before = sorted(path.name for path in run.rglob("*"))
    code, out, err = accord("review", run, "--no-browser", *words)
    assert code == 2
    assert said in " ".join(err.split())
    assert not out
    assert sorted(path.name for path in run.rglob("*")) == before


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_how_to_install_it(
    accord: Callable, run: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    code, _, err = accord("review", run, "--no-browser")
    assert code == 2
    assert "pip install 'accord-labels[review]'" in err


def test_what_is_no_run_is_refused(accord: Callable, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="the review page needs accord-labels[review]")
    assert accord("review", tmp_path, "--no-browser")[0] == 2
    assert not list(tmp_path.iterdir())
