"""Numbers that can be typed and make no sense: one sentence, at once, and nothing on the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from accord import Classifier, Recommender
from accord.cli import main
from accord.data.simulator import Simulation

HUGE = "99999999999999999999"
FIT = ["fit", "LOG", "--out", "OUT", "--epochs", "1"]
COMPARE = ["compare", "LOG", "--out", "OUT", "--methods", "popularity", "--truth", "TRUTH"]
TUNE = ["tune", "LOG", "--out", "OUT", "--method", "normal", "--epochs", "1"]
WRONG = [
    [*FIT, "--method", "r-ce", "--set", "beta=inf"],
    [*FIT, "--set", "alpha=nan"],
    [*FIT, "--set", "init_std=inf"],
    [*FIT, "--set", "l2=inf"],
    [*FIT, "--set", f"batch_size={HUGE}"],
    [*FIT, "--set", f"valid_users={HUGE}"],
    [*FIT, "--set", f"patience={HUGE}"],
    ["fit", "digits", "--out", "OUT", "--noise", "nan"],
    ["fit", "digits", "--out", "OUT", "--set", "c1=inf"],
    ["simulate", "--out", "OUT", "--users", HUGE],
    ["simulate", "--out", "OUT", "--noise", "nan"],
    ["evaluate", "RUN", "--truth", "TRUTH", "-k", HUGE],
    ["evaluate", "RUN", "--truth", "TRUTH", "-k", "999999999999"],
    ["recommend", "RUN", "--user", "u1", "-k", HUGE],
    [*COMPARE, "--seeds", "99999999999"],
    [*COMPARE, "-k", HUGE],
    [*TUNE, "--trials", HUGE],
    [*TUNE, "--seeds", HUGE],
    ["reproduce", "hyper", "--out", "OUT", "--seeds", HUGE],
]


@pytest.fixture(scope="module")
def place(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("absurd")
    parquet.write_table(made.log(), folder / "LOG.parquet")
    parquet.write_table(made.truth(), folder / "TRUTH.parquet")
    Recommender(method="normal", epochs=1, dims=4, seed=0).fit(made.log()).save(folder / "RUN")
    return folder


def typed(words: list[str], place: Path, tmp_path: Path) -> list[str]:
    own = {
        "LOG": place / "LOG.parquet",
        "TRUTH": place / "TRUTH.parquet",
        "RUN": place / "RUN",
        "OUT": tmp_path / "out",
    }
    return [str(own.get(word, word)) for word in words]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_it_is_one_sentence(
    words: list[str],
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["accord", *typed(words, place, tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main.run()
    said = capfd.readouterr().err
    assert stop.value.code == 2, said
    assert "accord: " in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_more_than_there_is_shows_what_there_is(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["accord", *typed(["audit", "RUN", "--top", HUGE], place, tmp_path)])
    monkeypatch.setattr("accord.cli.output._cell", lambda value: "x")  # thousands of rows are slow to draw
    with pytest.raises(SystemExit) as stop:
        main.run()
    assert stop.value.code == 0
    assert "least believable clicks" in capfd.readouterr().out


def test_numbers_that_are_no_settings_are_refused_in_python_too() -> None:
    for make in (Recommender, Classifier):
        for wrong in ({"alpha": float("nan")}, {"batch_size": 10**20}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                make.check_settings(wrong)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(closed: str, place: Path, tmp_path: Path) -> None:
    """A file that is opened must not take the number of a stream, nor what is printed."""
    command = [sys.executable, "-m", "accord", "recommend", place / "RUN", "--user", "u1", "--format", "csv"]
    words = " ".join(f"'{word}'" for word in command)
    done = subprocess.run(["sh", "-c", f"{words} {closed}"], capture_output=True, text=True, check=False)
    if ">&- 2" in closed or closed == ">&-":
        assert done.returncode == 2
        assert closed != ">&-" or done.stderr.startswith("accord: There is no standard output")
    else:
        assert done.returncode == 0
        assert done.stdout.startswith('"user","rank","item","score"')
