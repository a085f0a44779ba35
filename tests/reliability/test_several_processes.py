"""Several processes on one place: one works there, and others are refused while it lives."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from accord.cli.checkpoint_folder import ARGUMENTS, EARLIER, LOCK, MEMBERS, STATE, CheckpointFolder
from accord.cli.checkpointing import checkpointed
from accord.cli.main import app
from accord.cli.paths import LOCK as COMPARISON_LOCK
from accord.data.simulator import Simulation
from accord.errors import DataError, InterruptedRunError
from accord.locks import locked, owner_of

from .kills import finished, start, wait_for

HOW = {"resume": False, "overwrite": False, "seconds": 30.0}


@pytest.fixture
def log(made: Simulation, tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


def accord(*words: object) -> None:
    app([str(word) for word in words], standalone_mode=False)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def run(out: Path, act: Callable[[Path], None] = lambda folder: None, word: str = "first", **how: Any) -> None:
    """What a training does between its begin and its end, in the folder of its checkpoint."""
    with checkpointed(out, {"data": word}, **HOW | how) as checkpoint:
        act(checkpoint.path.parent)


def fail(folder: Path) -> None:
    raise RuntimeError


def interrupted(out: Path, word: str = "first", **how: Any) -> Path:
    """A run that was stopped after its first checkpoint; its folder."""

    def act(folder: Path) -> None:
        (folder / STATE).write_text(word)
        raise InterruptedRunError("stopped")

    with pytest.raises(InterruptedRunError):
        run(out, act, word, **how)
    return out.with_name(f"{out.name}.checkpoint")


def test_two_fits_on_one_place(log: Path, tmp_path: Path) -> None:
    """The second is refused as long as the first lives; a dead one's lock holds nobody up."""
    out, state = tmp_path / "two", tmp_path / "two.checkpoint" / "checkpoint.safetensors"
    words = ["fit", log, "--out", out, "--checkpoint", 0.1, "--set", "patience=0"]
    first = start(*words, "--epochs", 100000, "--seed", 1)
    wait_for(state)
    for again in (["--overwrite", "--seed", 2], []):
        with pytest.raises(DataError, match=rf"is being trained by process {first.pid} on "):
            accord(*words, *again)
    with pytest.raises(DataError, match="is being trained by process"):
        accord("fit", "--resume", out)
    assert first.poll() is None
    first.kill()
    first.communicate()
    assert state.is_file()
    second = start(*words, "--overwrite", "--epochs", 3, "--seed", 2)
    assert finished(second)[0] == 0
    assert json.loads((out / "config.json").read_text())["settings"]["seed"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet", "two"]  # nothing hidden is left


def hold(path: Path, until: Any, ready: Any) -> None:
    with locked(path) as ours:
        assert ours
        ready.set()
        until.wait(30)


def test_a_lock_is_of_one_process_and_goes_with_it(tmp_path: Path) -> None:
    path, context = tmp_path / "lock", multiprocessing.get_context("fork")
    until, ready = context.Event(), context.Event()
    other = context.Process(target=hold, args=(path, until, ready))
    other.start()
    assert ready.wait(30)
    with locked(path) as ours:
        assert not ours
    assert owner_of(path) == f"process {other.pid} on {os.uname().nodename}"
    os.kill(other.pid, signal.SIGKILL)  # pyright: ignore[reportArgumentType]
    with locked(path, wait=10) as ours:
        assert ours
        with locked(path) as twice:
            assert not twice
    other.join()
    with locked(path) as ours:
        assert ours


def test_a_lock_that_was_removed_while_it_was_waited_for_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with ExitStack() as first:
        assert first.enter_context(locked(path))
        path.unlink()
        with locked(path) as ours:  # of the new file, which a third process can see
            assert ours
            with locked(path) as other:
                assert not other


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_lock_is_a_plain_file(kind: str, tmp_path: Path) -> None:
    path, outside = tmp_path / "lock", tmp_path / "outside"
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    began = time.monotonic()
    with pytest.raises(DataError, match=r"lock' cannot be locked"), locked(path):
        pass
    assert time.monotonic() - began < 5
    assert not outside.exists()


def test_where_there_are_no_locks_the_answer_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(file: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr("accord.locks._lock", none)
    for without in (True, False):
        with locked(tmp_path / "lock", without=without) as ours:
            assert ours is without


def test_a_folder_that_a_full_disk_left_empty_is_free(tmp_path: Path) -> None:
    out = tmp_path / "run"
    (tmp_path / "run.checkpoint").mkdir()
    with pytest.raises(DataError, match="There is no checkpoint"):
        accord("fit", "--resume", out)
    seen = list[bool]()
    run(out, lambda folder: seen.append((folder / ARGUMENTS).is_file()))
    assert seen == [True]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("accord.cli.checkpoint_folder.write_json", full)
    with pytest.raises(DataError, match="No space left"):
        run(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_of_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    out, folder = tmp_path / "run", tmp_path / "run.checkpoint"
    folder.mkdir()
    (folder / "mine.pt").write_text("months of work")
    for overwrite in (True, False):
        with pytest.raises(DataError, match=r"holds 'mine\.pt', which is not of a checkpoint"):
            run(out, overwrite=overwrite)
    with pytest.raises(DataError, match=r"holds 'mine\.pt'"):
        accord("fit", "--resume", out)
    assert names(tmp_path) == ["run.checkpoint", "run.checkpoint/mine.pt"]
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")
    with pytest.raises(DataError, match="is no folder of a checkpoint"):
        run(out)
    assert (tmp_path / "other" / "mine.pt").is_file()


def test_an_earlier_run_comes_back_where_the_new_one_fails_early(tmp_path: Path) -> None:
    out = tmp_path / "run"
    folder = interrupted(out)
    (folder / MEMBERS).mkdir()
    (folder / MEMBERS / "one").write_text("ready")
    (tmp_path / "run.checkpoint.old").mkdir()  # a person's
    before = [*names(tmp_path), folder.joinpath(ARGUMENTS).read_text()]

    def act(folder: Path) -> None:
        assert "second" in folder.joinpath(ARGUMENTS).read_text()
        assert not folder.joinpath(STATE).exists()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(out, act, "second", overwrite=True)
    unlocked = [name for name in before if name != f"run.checkpoint/{LOCK}"]  # which goes with its owner
    assert [*names(tmp_path), folder.joinpath(ARGUMENTS).read_text()] == unlocked
    run(out, word="third", overwrite=True)
    assert names(tmp_path) == ["run.checkpoint.old"]


def test_an_earlier_run_goes_when_the_new_one_has_a_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    interrupted(out)
    folder = interrupted(out, "second", overwrite=True)
    assert folder.joinpath(STATE).read_text() == "second"
    read = list[str]()
    run(out, lambda folder: read.append(folder.joinpath(STATE).read_text()), resume=True)
    assert read == ["second"]
    assert names(tmp_path) == []


def test_killed_before_its_first_checkpoint_the_new_run_is_resumed_and_the_earlier_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    folder = interrupted(out)
    with ExitStack() as locks:  # which its process's end would close
        CheckpointFolder(out).take(locks, {"data": "second"}, resume=False, overwrite=True)
    with pytest.raises(RuntimeError):  # such as data that are not at hand now: what was asked for stays
        run(out, fail, resume=True)
    assert "second" in folder.joinpath(ARGUMENTS).read_text()
    assert folder.joinpath(EARLIER, STATE).read_text() == "first"
    with pytest.raises(RuntimeError):
        run(out, fail, "third", overwrite=True)
    assert "first" in folder.joinpath(ARGUMENTS).read_text()
    assert names(folder) == sorted([ARGUMENTS, STATE])  # the lock went with its owner


def test_members_that_are_ready_are_worth_keeping(tmp_path: Path) -> None:
    def act(folder: Path) -> None:
        (folder / MEMBERS).mkdir()
        (folder / MEMBERS / "one").write_text("ready")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(tmp_path / "run", act)
    assert (tmp_path / "run.checkpoint" / MEMBERS / "one").is_file()


def test_only_one_of_many_that_begin_at_once_gets_the_place(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    go, won = context.Event(), context.Value("i", 0)

    def count(folder: Path) -> None:
        with won.get_lock():
            won.value += 1
        time.sleep(2)

    def begin() -> None:
        go.wait()
        with suppress(DataError):
            run(tmp_path / "run", count)

    many = [context.Process(target=begin) for _ in range(6)]
    for one in many:
        one.start()
    go.set()
    for one in many:
        one.join()
    assert won.value == 1
    assert list(tmp_path.iterdir()) == []


def test_two_comparisons_in_one_folder(log: Path, tmp_path: Path) -> None:
    """They would replace one another's cells; searches and studies are shared on purpose."""
    out = tmp_path / "rows"
    words = ["compare", log, "--out", out, "--methods", "popularity", "--seeds", 1]
    out.mkdir()
    with locked(out / COMPARISON_LOCK), pytest.raises(DataError, match="is being made by process"):
        accord(*words)
    accord(*words)
    assert not any(path.name.startswith(".") for path in out.iterdir())
