"""Ctrl-C and SIGTERM at moments when Python cannot answer: while a file is read, and in one long call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord.data.clicks import load_clicks
from accord.data.reading import read_table

from .kills import _heed_ctrl_c, finished, in_time, start

LONG_CALL = """
import ctypes
from accord.cli import main
from accord.cli.process import as_a_command

def run(last):
    with as_a_command(lambda *_: None):  # a handler that comes to nothing, as it does in the middle of a call
        print("at work", flush=True)
        while True:
            ctypes.CDLL(None).sleep(60)

main.run = run
main.main()
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of text that takes a second to read."""
    path = tmp_path_factory.mktemp("large") / "log.csv"
    lines = "".join(f"u{k % 99991},i{k % 997},{k}\n" for k in range(400_000))
    path.write_text("user,item,more\n" + lines * 8)
    return path


def at_work(process: subprocess.Popen[str], path: Path) -> None:
    """Wait until a process has opened a file."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if any(os.readlink(one) == str(path) for one in Path(f"/proc/{process.pid}/fd").iterdir()):
                return
        except OSError:
            pass
        time.sleep(0.005)
    pytest.fail("the file was never opened")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing says which files are open")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_log_that_is_being_read_is_not_blamed(number: int, large: Path, tmp_path: Path) -> None:
    process = start("fit", large, "--out", tmp_path / "run", "--method", "normal")
    at_work(process, large)
    time.sleep(0.2)
    asked = time.monotonic()
    os.kill(process.pid, number)
    code, said = finished(process, 60)
    assert in_time(time.monotonic() - asked, 2.0)
    assert code == 130
    assert said.startswith("accord: stopped")
    assert "cannot be read" not in said
    assert "Traceback" not in said


def again_and_again(read: Callable[[Path], Any], path: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        read(path)


def test_ctrl_c_in_python_while_a_file_is_read_is_ctrl_c(large: Path) -> None:
    """Not an error of the file, which a program would take for bad data and skip."""
    for read in (read_table, load_clicks):
        timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                again_and_again(read, large)
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_long_call_is_ended_within_two_seconds(number: int) -> None:
    command = [sys.executable, "-c", LONG_CALL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    asked = time.monotonic()
    os.kill(process.pid, number)
    code, said = finished(process, 60)
    assert in_time(time.monotonic() - asked, 2.0)
    assert (code, said) == (130, "accord: stopped.")


ENDING = """
import atexit, sys, time
from accord.cli import main

def end():
    print("ending", flush=True)
    time.sleep(1)

atexit.register(end)
sys.argv = ["accord", *sys.argv[1:]]
main.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("words", "expected"), [(["--version"], 0), (["data", "show", "nothing-of-that-name"], 2)])
def test_a_command_that_is_done_ends_with_its_own_exit_code(number: int, words: list[str], expected: int) -> None:
    command = [sys.executable, "-c", ENDING, *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, preexec_fn=_heed_ctrl_c)
    assert process.stdout is not None
    while process.stdout.readline() != "ending\n":
        assert process.poll() is None
    os.kill(process.pid, number)
    code, said = finished(process, 60)
    assert code == expected
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
