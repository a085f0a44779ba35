"""Nothing that others put into or beside a run leads a write, a read or a removal astray."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Classifier, Recommender
from accord import files as accord_files
from accord.cli.main import app
from accord.data.simulator import Simulation
from accord.errors import DataError
from accord.files import HIGHEST_PROCESS, standing, whole_file, whole_folder, write_whole
from accord.training import clear_checkpoints

needs_proc = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="nothing says who is dead")


@pytest.fixture
def run(made: Simulation, tmp_path: Path) -> Path:
    path = tmp_path / "here" / "run"
    Recommender(method="normal", epochs=1, dims=4, seed=1).fit(made.log()).save(path)
    return path


def accord(*words: object) -> None:
    """Run a command in this process."""
    app([str(word) for word in words], standalone_mode=False)


def tree(folder: Path) -> dict[str, Any]:
    """All that lies in a folder, with what it holds."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def test_a_link_or_a_pipe_is_replaced_itself(tmp_path: Path) -> None:
    outside, link, pipe = tmp_path / "outside", tmp_path / "link", tmp_path / "pipe"
    outside.write_text("mine")
    link.symlink_to(outside)
    os.mkfifo(pipe)
    for path in (link, pipe):
        write_whole(path, "new")
        assert path.is_file()
        assert not path.is_symlink()
        assert path.read_text() == "new"
    assert outside.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "outside", "pipe"]


def test_no_link_waits_under_the_name_of_a_draft(tmp_path: Path) -> None:
    """A name that is made of the process's number can be guessed, and prepared for all of them."""
    names = set()
    for _ in range(3):
        with whole_file(tmp_path / "page") as draft:
            names.add(draft.parent.name)
            assert draft.parent.stat().st_mode & 0o077 == 0
            draft.write_text("new")
    assert len(names) == 3


def test_the_report_of_a_strangers_run_stays_in_it(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "authorized_keys"
    outside.write_text("mine")
    (run / "report.html").symlink_to("../../authorized_keys")
    accord("report", run)
    assert outside.read_text() == "mine"
    assert not (run / "report.html").is_symlink()
    assert "<html" in (run / "report.html").read_text()


def test_an_output_file_that_is_a_link_is_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("old")
    (tmp_path / "x.csv").symlink_to(tmp_path / "there.csv")
    accord("audit", run, "--out", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").is_symlink()
    assert (tmp_path / "there.csv").read_text().startswith('"user","item"')


@pytest.mark.parametrize("name", ["config.json", "clicks.parquet", "weights.safetensors", "history.jsonl"])
def test_a_file_that_lies_elsewhere_is_not_read(name: str, run: Path, tmp_path: Path) -> None:
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}' is a link, and"):
        Recommender.load(run)


def test_a_classifiers_file_that_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    X = [[float(k % 3), float(k)] for k in range(30)]
    Classifier(method="normal", epochs=1).fit(X, [k % 3 for k in range(30)]).save(tmp_path / "run")
    (tmp_path / "run" / "noise.safetensors").rename(tmp_path / "noise")
    (tmp_path / "run" / "noise.safetensors").symlink_to("../noise")
    with pytest.raises(DataError, match="is a link"):
        Classifier.load(tmp_path / "run")


def test_a_link_to_the_run_that_a_person_named_is_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert Recommender.load(tmp_path / "link").settings.seed == 1


def test_no_link_in_a_run_is_followed_wherever_it_leads(run: Path) -> None:
    (run / "clicks.parquet").rename(run / "kept")
    (run / "clicks.parquet").symlink_to("kept")
    with pytest.raises(DataError, match="is a link"):
        Recommender.load(run)


def test_pipes_in_a_run_are_not_waited_for(run: Path) -> None:
    for name in ("config.json", "clicks.parquet", "weights.safetensors", "history.jsonl", "other"):
        if name != "other":
            (run / name).rename(run.parent / name)
        os.mkfifo(run / name)
        with pytest.raises(DataError, match=r"named pipe|no run folder"):
            Recommender.load(run)
        (run / name).unlink()
        if name != "other":
            (run.parent / name).rename(run / name)
    Recommender.load(run)


def test_reading_and_saving_leave_what_is_not_ours(run: Path) -> None:
    """A backup under a name like ours, a draft without an owner, and a link to a folder that has one."""
    for name in (".run.20240101.old", ".run.99999999.tmp", ".run.mine.draft"):
        shutil.copytree(run, run.with_name(name))
    dead = left_by_a_dead_process(run.with_name("other"))
    (run.parent / ".run.link.draft").symlink_to(dead)
    before = tree(run.parent)
    rec = Recommender.load(run)
    assert tree(run.parent) == before
    rec.save(run)
    after = tree(run.parent)
    others = {name for name in before if name.split("/")[0] != "run"}
    assert {name for name in after if name.split("/")[0] != "run"} == others
    assert all(before[name] == after[name] for name in others if "/" in name)


LEAVES = """
import os, signal, sys
from pathlib import Path
from accord.files import whole_folder

path, renames, real = Path(sys.argv[1]), [0], Path.rename

def rename(self, target):
    renames[0] += 1
    if renames[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, target)

Path.rename = rename
with whole_folder(path) as draft:
    (draft / "new.txt").write_text("new")
    if not path.exists():
        os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_dead_process(path: Path) -> Path:
    """Kill a process that replaces a folder; what it leaves beside it."""
    done = subprocess.run([sys.executable, "-c", LEAVES, path], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = path.parent.glob(f".{path.name}.*.draft")
    return left


def test_a_run_that_was_being_replaced_is_read_and_nothing_is_moved(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_by_a_dead_process(run)
    (tmp_path / "link").symlink_to(run)
    before = tree(run.parent)
    assert not run.exists()
    for path in (run, tmp_path / "link"):
        assert Recommender.load(path).settings.seed == 1
    accord("audit", run, "--top", 1)
    assert "u" in capsys.readouterr().out
    assert tree(run.parent) == before


def test_a_classifier_that_was_being_replaced_is_read(tmp_path: Path) -> None:
    X = [[float(k % 3), float(k)] for k in range(30)]
    Classifier(method="normal", epochs=1, seed=7).fit(X, [k % 3 for k in range(30)]).save(tmp_path / "run")
    left_by_a_dead_process(tmp_path / "run")
    assert Classifier.load(tmp_path / "run").settings.seed == 7
    accord("audit", tmp_path / "run", "--top", 1)  # the command finds out by itself what it is


@needs_proc
def test_the_next_write_puts_it_back_and_refuses_to_replace_it_unasked(run: Path) -> None:
    rec = Recommender.load(run)
    left_by_a_dead_process(run)
    with pytest.raises(DataError, match="exists already"):
        rec.save(run, overwrite=False)
    rec.save(run)
    assert [path.name for path in run.parent.iterdir()] == ["run"]


@needs_proc
@pytest.mark.parametrize(("name", "value"), [("host", "other"), ("boot", "other"), ("namespace", 1)])
def test_a_draft_of_another_machine_or_container_is_left(
    name: str, value: object, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = left_by_a_dead_process(run)
    rec = Recommender.load(run)
    here = accord_files._this_process()
    monkeypatch.setattr(accord_files, "_this_process", lambda: {**here, name: value})
    rec.save(run)
    assert sorted(path.name for path in run.parent.iterdir()) == sorted([left.name, "run"])
    assert (left / "old" / "config.json").is_file()


@needs_proc
@pytest.mark.parametrize("process", [0, HIGHEST_PROCESS, 10**19])
def test_a_draft_whose_name_says_no_process_is_left(process: int, tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path / "run")
    stem, owner, kind = left.name.rpartition(".")[0].rpartition(".")[0], left.suffixes[-2], left.suffix
    other = left.rename(left.with_name(f"{stem}.{process}-{owner.split('-', 1)[1]}{kind}"))
    accord_files.clear_dead(tmp_path / "run")
    assert other.is_dir()


@needs_proc
def test_a_draft_of_another_person_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_dead_process(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
        accord_files.clear_dead(tmp_path / "run")
        assert left.is_dir()
        assert standing(tmp_path / "run") == tmp_path / "run"
    accord_files.clear_dead(tmp_path / "run")
    assert not left.exists()


@needs_proc
@pytest.mark.parametrize(("make", "kind"), [(whole_folder, ".draft"), (whole_file, ".tmp")])
def test_only_the_process_itself_counts_as_alive(make: Any, kind: str, tmp_path: Path) -> None:
    """A draft that is being written stays; one whose process's number was given to another goes."""
    path = tmp_path / "run"
    with make(path) as draft:
        if kind == ".tmp":
            draft.write_text("new")
        accord_files.clear_dead(path, kind)
        assert draft.exists()
        process, started, place, token = draft.parent.name[len(".run.") : -len(kind)].split("-")
        stale = path.with_name(f".run.{process}-{int(started) - 1}-{place}-{token}{kind}")
        stale.mkdir()
        accord_files.clear_dead(path, kind)
        assert not stale.exists()
        assert draft.exists()


def test_where_the_system_does_not_say_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_dead_process(tmp_path / "run")
    monkeypatch.setattr(accord_files, "_this_process", dict)
    accord_files.clear_dead(tmp_path / "run")
    assert left.is_dir()
    with whole_file(tmp_path / "file") as draft:
        draft.write_text("new")
        nobody = draft.parent.name
    (tmp_path / nobody).mkdir()
    accord_files.clear_dead(tmp_path / "file", ".tmp")
    assert (tmp_path / nobody).is_dir()


KILLED = """
import os, signal, sys
from pathlib import Path
from accord.files import whole_file

with whole_file(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_proc
def test_what_a_kill_leaves_of_a_file_goes_with_the_next_write(tmp_path: Path) -> None:
    for name in ("page", "page.html", "p" * 240):
        for _ in range(2):
            subprocess.run([sys.executable, "-c", KILLED, tmp_path / name], check=False)
    assert len(list(tmp_path.iterdir())) == 6 - 3  # the second cleared what the first had left
    write_whole(tmp_path / "page", "new")
    assert sorted(path.name[:6] for path in tmp_path.iterdir() if path.name.startswith(".page")) == [".page."]
    write_whole(tmp_path / "page.html", "new")
    write_whole(tmp_path / ("p" * 240), "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page", "page.html", "p" * 240]


def test_a_folder_of_checkpoints_goes_but_not_what_others_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    name = "0" * 32 + ".safetensors"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, folder / name], check=False)
    (folder / name).write_bytes(b"state")
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "outside").write_text("mine")
    (folder / ("1" * 32 + ".safetensors")).symlink_to("../outside")
    clear_checkpoints(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1" * 32 + ".safetensors", "notes.txt"]
    for path in folder.iterdir():
        path.unlink()
    clear_checkpoints(folder)
    assert not folder.exists()
    (tmp_path / "link").symlink_to(tmp_path)
    clear_checkpoints(tmp_path / "link")
    assert (tmp_path / "outside").read_text() == "mine"


def test_a_block_that_fails_or_is_stopped_between_renames_puts_all_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, renames = tmp_path / "run", Path.rename, [0]
    path.mkdir()
    (path / "old.txt").write_text("old")

    def rename(self: Path, target: Path) -> Path:
        renames[0] += 1
        if renames[0] == 2:
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt), whole_folder(path) as draft:
        (draft / "new.txt").write_text("new")
    assert standing(path) == path
    assert [str(found.relative_to(tmp_path)) for found in sorted(tmp_path.rglob("*"))] == ["run", "run/old.txt"]
