"""`accord fit` under torchrun on two hosts that share a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from hosts import Host, missing, two_hosts
from spawned import WORKER, ended

from accord import Recommender
from accord.data.simulator import Simulation
from accord.ranks.group import drawing_as

FAST = {"dims": 4, "batch_size": 128, "patience": 0, "model": "mf", "method": "normal"}
TYPED = ["--set", "dims=4", "--set", "batch_size=128", "--set", "patience=0", "--model", "mf", "--method", "normal"]
DYING = str(WORKER.with_name("dying.py"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    if why := missing():
        pytest.skip(why)
    with two_hosts() as made:
        yield made


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "parts"
    folder.mkdir()
    table = made.log()
    for k, (first, last) in enumerate([(0, 3000), (3000, len(table))]):
        parquet.write_table(table.slice(first, last - first), folder / f"{k}.parquet")
    return folder


def test_two_hosts_learn_what_one_learns_though_a_rank_of_the_second_is_killed(
    hosts: tuple[Host, Host], log: Path, tmp_path: Path
) -> None:
    typed = ["fit", str(log), "--out", str(tmp_path / "run"), "--epochs", "4", "--checkpoint", "0", *TYPED]
    started = [one.start([*one.torchrun(hosts[0], 2, 1), DYING, "1", *typed]) for one in hosts]
    said = ended(started, 120)
    assert [code for code, _, _ in said] == [0, 0], said
    assert sum(errors.count("exitcode: -9") for _, _, errors in said) == 1
    assert sum(errors.count("clicks of 300 users") for _, _, errors in said) == 1  # one rank speaks
    assert [one.name for one in tmp_path.iterdir()] == ["run"]
    found = Recommender.load(tmp_path / "run")
    with drawing_as(2):
        alone = Recommender(epochs=4, **FAST).fit(str(log), verbose=False)
    losses = [[one["loss"] for one in rec.history_] for rec in (found, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert found.quality_ == pytest.approx(alone.quality_, abs=1e-4)


def test_a_host_that_goes_away_is_told_in_one_sentence_and_the_training_can_be_resumed(
    hosts: tuple[Host, Host], log: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    typed = ["fit", str(log), "--out", str(run), "--epochs", "4000", "--checkpoint", "0", *TYPED]
    started = [one.start([*one.torchrun(hosts[0], 2, 0), "-m", "accord", *typed]) for one in hosts]
    parts = tmp_path / "run.checkpoint"
    until = time.monotonic() + 60
    while len(list(parts.rglob("*-of-2.*.safetensors"))) < 4 and time.monotonic() < until:
        time.sleep(0.05)
    hosts[1].die()
    before = time.monotonic()
    (code, _, errors), _ = ended(started, 60)
    assert code == 1  # of torchrun
    assert time.monotonic() - before < 30
    assert errors.count("lost its connection to another rank, which has ended or cannot be reached") == 1
    assert not run.exists()
    assert list(parts.rglob("*-of-2.*.safetensors"))
