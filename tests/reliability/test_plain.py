"""Only plain files are read: pipes, sockets and devices are refused at once; and what counts as free memory."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accord import Recommender, memory
from accord.cli.main import app
from accord.cli.paths import nothing_left
from accord.data.clicks import load_clicks
from accord.data.datasets.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.data.datasets.label_arrays import read_label_array
from accord.data.labelled_files import read_image_folder, read_labelled_table
from accord.data.parquet_files import read_parquet_file
from accord.errors import DataError
from accord.estimators import run_folder
from accord.experiments.cells import CellFiles
from accord.files import copy_whole
from accord.plain import open_plain, read_plain, refuse_links, size_of
from accord.tasks.base import Cell
from accord.training import Checkpoint

LABELS = {"file": ["x"], "label": ["a"]}
READERS: dict[str, Callable[[Path], Any]] = {
    "log.csv": load_clicks,
    "log.parquet": load_clicks,
    "labels.csv": read_labelled_table,
    "x": lambda path: read_image_folder(path.parent, LABELS),
    "images.gz": read_idx,
    "images-idx3-ubyte": read_idx,
    "data_batch_1.bin": lambda path: read_cifar_binary([path]),
    "sheet.png": lambda path: read_png_sheets([path], 32, path),
    "values.parquet": read_parquet_file,
    "labels.npz": lambda path: read_label_array(path, ["clean"], 10),
    "config.json": run_folder.read_json,
    "lines.txt": read_plain,
    "copied": lambda path: copy_whole(path, path.with_name("copy")),
}


@pytest.fixture(params=["pipe", "socket", "device", "link to a pipe"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    with socket.socket(socket.AF_UNIX) as bound:

        def make(name: str) -> Path:
            path = tmp_path / name
            if request.param == "pipe":
                os.mkfifo(path)
            elif request.param == "socket":
                here = Path.cwd()
                os.chdir(tmp_path)  # names of sockets are short
                bound.bind(name)
                os.chdir(here)
            elif request.param == "device":
                path.symlink_to("/dev/zero")
            else:
                os.mkfifo(tmp_path / "pipe")
                path.symlink_to("pipe")
            return path

        yield make


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_plain_file_is_refused_at_once(name: str, special: Callable[[str], Path]) -> None:
    path = special(name)
    words = "a named pipe|a socket|a device|a link|leads out of"
    with pytest.raises(DataError, match=words):
        READERS[name](path)


def test_optional_files_that_are_none_are_not_waited_for(special: Callable[[str], Path]) -> None:
    path = special("gmf-normal-seed0.json")
    (path.parent / "cells").symlink_to(".")
    assert CellFiles(path.parent).read(Cell("gmf", "normal", 0)) is None
    assert Checkpoint(path).read() is None


def test_a_link_is_read_where_a_person_names_it_and_not_inside_our_folders(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("text")
    (tmp_path / "link").symlink_to("there")
    assert read_plain(tmp_path / "link") == "text"
    assert size_of(tmp_path / "link") == 4
    for read in (size_of, open_plain, read_plain):
        with pytest.raises(DataError, match="is a link"):
            read(tmp_path / "link", inside=True)  # pyright: ignore[reportCallIssue]


def test_what_is_exchanged_between_two_looks_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").write_text("text")
    path = tmp_path / "file"
    path.write_text("text")
    found = os.lstat(path)
    monkeypatch.setattr("accord.plain.os.lstat", lambda _: found)
    path.unlink()
    path.symlink_to("there")
    with pytest.raises(OSError, match="symbolic"):
        open_plain(path, inside=True)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match="a named pipe"):
        open_plain(path, inside=True)


def test_links_are_refused_at_every_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "report.html").symlink_to("/etc/passwd")
    refuse_links(tmp_path, leave=("report.html",))
    (tmp_path / "a" / "b" / "report.html").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match=r"a/b/report.html' is a link"):
        refuse_links(tmp_path, leave=("report.html",))


@pytest.mark.parametrize("words", [["compare"], ["tune"], ["reproduce", "parameters"]])
def test_a_strangers_study_leads_no_command_out_of_it(words: list[str], tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "study"
    victim.mkdir()
    out.mkdir()
    (out / "cells").symlink_to(victim)
    (out / "study.db").symlink_to(victim / "database")
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(35)))
    if words[0] == "reproduce":
        from accord.reproduction.studies import STUDIES

        words = ["reproduce", next(iter(STUDIES))]
    else:
        words = [*words, str(tmp_path / "log.csv"), "--epochs", "1"]
    with pytest.raises(DataError, match="is a link"):
        app([*words, "--out", str(out)], standalone_mode=False)
    assert not list(victim.iterdir())


def test_users_come_from_standard_input_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = {"user": list("aabbccdd"), "item": list("wxyzwyxz")}
    Recommender(method="normal", dims=4, epochs=1).fit(log).save(tmp_path / "run")
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n\nb\n"))
    app(["recommend", str(tmp_path / "run"), "--users-file", "-", "--format", "csv"], standalone_mode=False)
    assert {line.split(",")[0].strip('"') for line in capsys.readouterr().out.splitlines()[1:]} == {"a", "b"}


def test_a_command_that_fails_leaves_what_others_put_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "study"

    def fail(*names: str) -> None:
        with nothing_left(out, lambda: False):
            out.mkdir(parents=True)
            for name in names:
                out.with_name(name).write_text("another's")
            raise DataError("bad")

    with pytest.raises(DataError):
        fail("notes.txt")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["new", "new/notes.txt"]
    (tmp_path / "new" / "notes.txt").unlink()
    (tmp_path / "new").rmdir()
    with pytest.raises(DataError):
        fail()
    assert not list(tmp_path.iterdir())


# -- free memory -------------------------------------------------------------------------------------------


def groups(folder: Path, monkeypatch: pytest.MonkeyPatch, own: str, **files: str) -> int:
    """Free memory where control groups hold these files."""
    monkeypatch.setattr(memory, "CGROUP", folder)
    monkeypatch.setattr(memory, "OWN_GROUPS", folder / "own")
    (folder / "own").write_text(own)
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return memory.machine_memory()


def test_a_limit_of_the_first_version_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "5:cpu,cpuacct:/a\n4:memory:/docker/x\n1:name=systemd:/b\n"
    whole = {"memory__memory_limit_in_bytes": "3000000\n", "memory__memory_usage_in_bytes": "1000000\n"}
    assert groups(tmp_path, monkeypatch, own, **whole) == 2_000_000  # a container sees its own group at the root
    cached = {"memory__memory_stat": "inactive_file 7\ntotal_inactive_file 500000\n"}
    assert groups(tmp_path, monkeypatch, own, **cached) == 2_500_000
    inner = {
        "memory__docker__x__memory_limit_in_bytes": "1000000\n",
        "memory__docker__x__memory_usage_in_bytes": "999000\n",
    }
    assert groups(tmp_path, monkeypatch, own, **inner) == 1000
    none = {name: "9223372036854771712\n" for name in (*whole, *inner) if "limit" in name}
    assert groups(tmp_path, monkeypatch, own, **none) > 3_000_000


def test_a_limit_of_a_group_around_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a__memory_max": "4000000\n", "a__memory_current": "1000000\n"}
    files |= {"a__b__memory_max": "max\n", "a__b__memory_current": "5\n"}
    assert groups(tmp_path, monkeypatch, "0::/a/b\n", **files) == 3_000_000
    assert groups(tmp_path, monkeypatch, "0::/../../a/b\n") > 4_000_000  # of another namespace


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(limit: str) -> None:
    code = (
        "import resource, sys\nfrom accord.memory import machine_memory\n"
        f"used = int(open('/proc/self/statm').read().split()[{0 if limit == 'RLIMIT_AS' else 5}]) * 4096\n"
        f"resource.setrlimit(resource.{limit}, (used + 50_000_000,) * 2)\nprint(machine_memory())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 20_000_000 < int(done.stdout) <= 50_000_000


def test_what_is_too_large_is_said_with_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 2_000_000_000)
    memory.refuse_too_large(2_000_000_000, "It", "give less")
    with pytest.raises(DataError, match=r"It needs up to 2\.1 GB of memory, but .* 2\.0 GB free; give less\."):
        memory.refuse_too_large(2_100_000_000, "It", "give less")
    memory.refuse_too_large(500_000_000, "It", "give less", stored=10)  # nobody is harmed
    memory.refuse_too_large(1_000_000_000, "It", "give less", stored=2_000_000)
    with pytest.raises(DataError, match=r"It would grow from 1\.9 MB in files to 1\.0 GB"):
        memory.refuse_too_large(1_000_000_000, "It", "give less", stored=1_900_000)
