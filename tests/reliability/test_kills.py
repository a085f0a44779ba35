"""`accord fit` killed, stopped and resumed, as a person does it; `make soak` kills every method 30 times."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from accord.data.simulator import Simulation

from .kills import finished, in_time, kill_until_done, outcome, start, wait_for


@pytest.fixture
def log(made: Simulation, tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


def test_a_killed_fit_resumes_to_the_same_bytes(log: Path, tmp_path: Path) -> None:
    words = ["fit", log, "--epochs", 20, "--set", "batch_size=256", "--set", "patience=0"]
    assert finished(start(*words, "--out", tmp_path / "whole"))[0] == 0
    kill_until_done([*words, "--out", tmp_path / "run"], tmp_path / "run", kills=3, longest=6.0, seed=1)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_killed_fit_of_labels_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    words = ["fit", "digits", "--noise", 0.4, "--model", "mlp", "--method", "deca-p", "--epochs", 12]
    assert finished(start(*words, "--out", tmp_path / "whole"))[0] == 0
    kill_until_done([*words, "--out", tmp_path / "run"], tmp_path / "run", kills=2, longest=7.0, seed=2)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_within_two_seconds_and_can_be_resumed(number: int, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["fit", log, "--out", out, "--epochs", 3000, "--set", "batch_size=256", "--set", "patience=0"]
    process = start(*words, "--checkpoint", 0.2)
    wait_for(tmp_path / "run.checkpoint" / "checkpoint.safetensors")
    asked = time.monotonic()
    os.kill(process.pid, number)
    code, said = finished(process, 30)
    assert in_time(time.monotonic() - asked, 2.0)
    assert code == 130
    assert f"accord fit --resume {out}" in said
    assert not out.exists()
    code, said = finished(start(*words))  # begun anew by mistake
    assert code == 2
    assert "A run that was interrupted" in said
    assert (tmp_path / "run.checkpoint" / "checkpoint.safetensors").is_file()
    state = tmp_path / "run.checkpoint" / "checkpoint.safetensors"
    written = state.stat().st_mtime_ns
    going = start("fit", "--resume", out, "--checkpoint", 0.2)
    until = time.monotonic() + 60
    while state.stat().st_mtime_ns == written:  # until it trains again
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(going.pid, number)
    assert finished(going, 30)[0] == 130


def test_a_fit_that_is_asked_twice_still_says_how_to_resume(log: Path, tmp_path: Path) -> None:
    """As when a step takes longer than a person is made to wait."""
    out = tmp_path / "run"
    process = start("fit", log, "--out", out, "--epochs", 3000, "--set", "patience=0", "--checkpoint", 0.2)
    wait_for(tmp_path / "run.checkpoint" / "checkpoint.safetensors")
    for number in (signal.SIGTERM, signal.SIGALRM):
        os.kill(process.pid, number)
    code, said = finished(process, 30)
    assert code == 130
    assert f"accord fit --resume {out}" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_stops_within_two_seconds_and_says_how_to_resume(
    number: int, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows"
    words = ["compare", log, "--methods", "normal,deca-p", "--out", out, "--set", "patience=0"]
    process = start(*words, "--set", "epochs=100000")
    wait_for(out)
    time.sleep(1.0)  # it trains
    asked = time.monotonic()
    os.kill(process.pid, number)
    code, said = finished(process, 30)
    assert in_time(time.monotonic() - asked, 2.0)
    assert code == 130
    assert "the same command resumes it" in said


def test_nothing_to_resume(tmp_path: Path) -> None:
    code, said = finished(start("fit", "--resume", tmp_path / "none"))
    assert code == 2
    assert "There is no checkpoint" in said
    place = tmp_path / "odd.checkpoint"
    place.mkdir()
    (place / "fit.json").write_text('{"data": 3}')
    assert finished(start("fit", "--resume", tmp_path / "odd"))[0] == 2


def test_a_bad_input_leaves_nothing(tmp_path: Path) -> None:
    assert finished(start("fit", tmp_path / "none.csv", "--out", tmp_path / "run"))[0] == 2
    assert list(tmp_path.iterdir()) == []
