"""`accord fit` under torchrun: what a person sees, a rank that dies, and ranks that cannot go on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from spawned import WORKER, ended, environment, free_port, start

from accord import Recommender
from accord.cli.fit import DATA, MORE
from accord.cli.given import given_data
from accord.data.simulator import Simulation
from accord.errors import DataError, SettingError
from accord.ranks import started
from accord.ranks.group import ALONE, Ranks, drawing_as, here
from accord.ranks.joining import joined
from accord.training.ranks_checkpoint import refuse_other_ranks

FAST = {"dims": 4, "batch_size": 128, "patience": 0, "model": "mf", "method": "normal"}
TYPED = ["--set", "dims=4", "--set", "batch_size=128", "--set", "patience=0", "--model", "mf", "--method", "normal"]


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


def test_a_rank_that_is_killed_costs_nothing_but_the_steps_since(log: Path, tmp_path: Path) -> None:
    """The first rank, which holds the lock of the checkpoint."""
    run = tmp_path / "run"
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    torchrun += ["--monitor-interval", "0.1", str(WORKER.with_name("dying.py")), "0"]
    typed = ["fit", str(log), "--out", str(run), "--epochs", "4", "--checkpoint", "0", *TYPED]
    done = subprocess.run([sys.executable, *torchrun, *typed], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr
    assert done.stderr.count("clicks of 300 users") == 1  # one rank speaks
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run"]
    with drawing_as(2):
        alone = Recommender(epochs=4, **FAST).fit(str(log), verbose=False)
    found = Recommender.load(run)
    losses = [[one["loss"] for one in rec.history_] for rec in (found, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert found.quality_ == pytest.approx(alone.quality_, abs=1e-4)
    assert found.notes_["ranks"]["count"] == 2


def test_an_error_of_one_rank_is_one_sentence_and_ends_all(
    log: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path / "other.parquet"
    parquet.write_table(parquet.read_table(log).slice(1), other)
    folder = tmp_path_factory.mktemp("parts")
    for k, part in enumerate((log.read_bytes(), b"no part")):
        (folder / f"{k}.parquet").write_bytes(part)
    pairs = [
        (log, tmp_path / "none.parquet", "cannot be opened"),
        (log, other, "read another log than rank 0"),
        (folder / "0.parquet", folder, "1.parquet' is not a Parquet file"),
    ]
    for ours, theirs, words in pairs:
        each = [["-m", "accord", "fit", one, "--out", tmp_path / "run", *TYPED] for one in (ours, theirs)]
        first, second = ended(start(2, [], each=each))
        assert (first[0], second[0]) == (2, 2), (first, second)
        assert first[2].strip().count("\n") == 0
        assert first[2].strip().startswith("accord: Rank 1 of 2 ")
        assert words in first[2]
        assert second[2] == ""
        assert sorted(one.name for one in tmp_path.iterdir()) == ["other.parquet"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"MASTER_PORT": ""}, "MASTER_PORT is not set; start them with torchrun, or unset WORLD_SIZE."),
        ({"RANK": "2"}, "RANK=2, WORLD_SIZE=2 and"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two"),
    ],
)
def test_an_environment_that_names_no_group_is_refused(
    changes: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (environment(0, 2, free_port()) | changes).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=re.escape(words)), joined():
        pass


@pytest.mark.parametrize("rank", [0, 1])
def test_others_that_never_come_are_one_sentence(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(rank, 2, free_port()).items():
        monkeypatch.setenv(name, value)
    words = (
        rf"^Rank {rank} of 2 could not meet the others at 127\.0\.0\.1:\d+ \(.*\); check that all were started, "
    )
    with pytest.raises(DataError, match=words), joined(patience=0.3):
        pass
    assert here() is ALONE


def test_of_ranks_that_work_together_the_first_one_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "_TOGETHER", [False])
    for rank in ("0", "1"):
        for name, value in environment(int(rank), 2, 1).items():
            monkeypatch.setenv(name, value)
        started.together(False)
        assert started.speaks()  # each has work of its own
        started.together()
        assert started.speaks() == (rank == "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert started.speaks()


def test_one_process_that_torchrun_started_is_a_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined() as ranks:
        assert ranks is ALONE


def test_labelled_data_and_too_few_users_are_refused() -> None:
    with pytest.raises(SettingError, match="Labelled data cannot be divided over 2 ranks"):
        given_data(Path("digits"), **dict.fromkeys(DATA[1:]), ignore=[], more=dict(MORE)).refuse_ranks(2)
    few = {"user": ["u1", "u1", "u2", "u2"], "item": ["i1", "i2", "i1", "i3"]}
    with drawing_as(3), pytest.raises(DataError, match="2 users and 3 items cannot be divided over 3 ranks; start"):
        Recommender(model="mf", method="normal").fit(few)


def test_a_checkpoint_of_another_number_of_ranks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    refuse_other_ranks(path, ALONE)  # there is none
    parts = tmp_path / "checkpoint.safetensors.ranks"
    parts.mkdir()
    (parts / "1-of-2.b.safetensors").touch()
    refuse_other_ranks(path, Ranks(0, 2))
    for ranks in (ALONE, Ranks(0, 3)):
        with pytest.raises(
            DataError, match=r"by 2 process\(es\), and this is one by [13]; start as many as before"
        ):
            refuse_other_ranks(path, ranks)
    (parts / "1-of-2.b.safetensors").unlink()
    path.touch()
    with pytest.raises(DataError, match=r"by 1 process\(es\), and this is one by 2;"):
        refuse_other_ranks(path, Ranks(1, 2))
