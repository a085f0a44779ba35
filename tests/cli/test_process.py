"""What a command changes in its process, and that a caller in Python finds all as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.cli import main, process
from accord.cli.checkpointing import stopping
from accord.data.simulator import Simulation
from accord.errors import Stopped
from accord.training import Checkpoint

FAST = ["--epochs", "1", "--set", "batch_size=512", "--set", "dims=4"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


def state() -> dict[str, Any]:
    """What commands change."""
    return {
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "memory": pa.default_memory_pool().backend_name,
        "letters": [sys.stdout.errors, sys.stderr.errors],
        "environment": dict(os.environ),
        "finders": list(sys.meta_path),
    }


@pytest.fixture
def log(made: Simulation, tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


@pytest.fixture(autouse=True)
def as_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a person who has handlers of her own, and has said nothing about threads."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--version", 0),
        ("fit LOG --out OUT", 0),
        ("fit LOG --out OUT --set alfa=1", 2),
        ("recommend NONE --user u1", 2),
        ("data list", 0),
    ],
)
def test_a_caller_finds_its_process_as_it_was(words: str, code: int, accord, log: Path, tmp_path: Path) -> None:
    places = {"LOG": log, "OUT": tmp_path / "run", "NONE": tmp_path / "none"}
    typed = [places.get(word, word) for word in words.split()]
    own = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    try:
        before = state()
        assert accord(*typed, *(FAST if code == 0 and "fit" in words else []))[0] == code
        assert state() == before
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)


def test_a_command_that_is_stopped_or_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def stopped() -> None:
        seen.append(state())
        signal.raise_signal(signal.SIGTERM)

    def fails() -> None:
        raise RuntimeError("a fault of the program")

    before = state()
    monkeypatch.setattr(main, "app", stopped)
    with pytest.raises(SystemExit) as end:
        main.run()
    assert end.value.code == 130
    assert state() == before
    (inside,) = seen
    assert inside["letters"] == ["backslashreplace"] * 2
    assert inside["environment"]["GOMP_SPINCOUNT"] == process.TURNS_AWAKE
    monkeypatch.setattr(main, "app", fails)
    with pytest.raises(RuntimeError, match="a fault"):
        main.run()
    assert state() == before


def test_a_command_runs_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where signals never come, and Python lets nobody set a handler."""
    ran: list[Any] = []
    monkeypatch.setattr(main, "app", lambda: ran.append(signal.getsignal(signal.SIGTERM)))
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=main.run)
    thread.start()
    thread.join()
    assert ran == [before]


def test_signals_that_are_ignored_stay_so() -> None:
    own = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with process.as_a_command(lambda *_: None):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, own)


def test_a_fit_that_was_asked_to_stop_leaves_no_alarm(tmp_path: Path) -> None:
    """The alarm that ends a step that takes too long would end the caller's process."""
    checkpoint = Checkpoint(tmp_path / "state")
    before = state()
    with stopping(checkpoint):
        signal.raise_signal(signal.SIGINT)
        assert checkpoint.stop
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGALRM)
    assert state() == before


def test_arrow_takes_memory_from_the_system_while_a_fit_runs() -> None:
    before = pa.default_memory_pool().backend_name
    seen: list[str] = []

    def fails() -> None:
        with process.system_memory():
            seen.append(pa.default_memory_pool().backend_name)
            raise ValueError("fails")

    with pytest.raises(ValueError, match="fails"):
        fails()
    assert seen == ["system"]
    assert pa.default_memory_pool().backend_name == before


@pytest.mark.parametrize(
    ("given", "then"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")]
)
def test_idle_threads_leave_the_cores_to_other_commands(given: dict[str, str], then: str) -> None:
    """Said before torch reads it, unless the person has said something else; afterwards it is as it was."""
    program = "import os, sys; from accord.cli import main\n"
    program += "said = lambda: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)\n"
    program += "main.app = said; main.run(); said()"
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept | given, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [f"{then} False", f"{given.get('GOMP_SPINCOUNT')} False"]


@pytest.mark.parametrize(
    ("own", "calls"),
    [({}, [(-4, 0), (-1, 2**31 - 1), (-4, 65536), (-1, 128 * 1024)]), ({"MALLOC_TRIM_THRESHOLD_": "1"}, [])],
)
def test_freed_memory_stays_unless_the_person_has_said_something_else(
    own: dict[str, str], calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, ...]] = []

    class Libc:
        def mallopt(self, *given: int) -> int:
            made.append(given)
            return 1

    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: Libc())
    monkeypatch.setattr(process.sys, "platform", "linux")
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    with process.as_a_command(signal.default_int_handler):
        assert made == calls[:2]
    assert made == calls
    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: object())  # another libc
    with process.as_a_command(signal.default_int_handler):
        pass


def test_a_signal_that_is_lost_while_an_object_goes_is_sent_again(capfd: pytest.CaptureFixture[str]) -> None:
    """What a handler raises in `__del__` or in a callback of a weak reference, Python prints and forgets."""

    class Going:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0)  # here the handler runs

    def stop(*_: object) -> None:
        raise Stopped

    def working() -> None:
        with process.as_a_command(stop):
            going = Going()
            del going
            time.sleep(10)

    before = sys.unraisablehook
    with pytest.raises(Stopped):
        working()
    assert sys.unraisablehook is before
    assert "Traceback" not in capfd.readouterr().err


def test_a_signal_while_a_class_is_made_stops_as_anywhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the handler raises in `__set_name__`, Python 3.11 hides in a RuntimeError, and imports do so for it."""

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0)  # here the handler runs

    def importing() -> None:
        type("Made", (), {"one": Named()})

    monkeypatch.setattr(main, "app", importing)
    monkeypatch.setattr(sys, "argv", ["accord", "tune"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == main.STOPPED
    assert capsys.readouterr().err == "accord: stopped; the same command resumes it.\n"


def test_other_errors_are_not_taken_for_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise RuntimeError("b") from error

    monkeypatch.setattr(main, "app", fails)
    with pytest.raises(RuntimeError, match="b"):
        main.run()
