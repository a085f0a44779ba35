"""What is written never takes the place of the run's files, nor of what was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from accord.cli.words import as_options
from accord.data.simulator import Simulation


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


@pytest.fixture(scope="module")
def run(log: Path) -> Path:
    from accord import Recommender

    folder = log.with_name("run")
    Recommender(method="normal", epochs=1, dims=4, seed=0).fit(log).save(folder)
    return folder


@pytest.mark.parametrize("place", ["clicks.parquet", "config.json", "new.csv", "../log.parquet"])
@pytest.mark.parametrize("command", ["audit --out", "audit --write-clean", "recommend --user u1 --out"])
def test_files_of_the_run_and_the_log_stay(accord: Any, log: Path, run: Path, command: str, place: str) -> None:
    name, *options = command.split()
    before = {path: path.read_bytes() for path in (log, *run.iterdir())}
    code, _, err = accord(name, run, *options, run / place)
    assert code == 2
    assert "write to another" in err
    assert {path: path.read_bytes() for path in (log, *run.iterdir())} == before


def test_pairs_that_are_scored_stay(accord: Any, log: Path, run: Path) -> None:
    pairs = log.with_name("pairs.csv")
    pairs.write_text("user,item\nu1,i1\n")
    assert accord("predict", run, pairs, "--out", pairs)[0] == 2
    assert pairs.read_text() == "user,item\nu1,i1\n"


@pytest.mark.parametrize("text", ["'logs/user=7/time=2024/x.parquet' is not there", "'db?user=bob&out=x'"])
def test_parts_of_paths_and_addresses_are_no_keywords(text: str) -> None:
    assert as_options(text, {"user": "--user", "time": "--time", "out": "--out"}) == text
