"""How a command behaves as a process, set before anything heavy is imported and put back when the command ends."""

from __future__ import annotations

import ctypes
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

from accord.errors import Stopped

TURNS_AWAKE = "1000"
"""How long idle threads of torch spin: the value of OpenMP's runtime where there are more threads than cores."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Names of glibc's `mallopt`."""
TRIM_AT, MOST_MAPPED = 128 * 1024, 65536
"""glibc's defaults."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_AFTER = 0.05
"""Seconds until a signal that was lost is sent again."""


@contextmanager
def as_a_command(stop: Any, *, last: bool = False) -> Iterator[None]:
    """Threads, memory, letters and signals as a command wants them; a caller in Python finds all as it was.

    With ``last`` nothing comes after the command but the end of the process. A signal that arrives then stops
    nothing any more, and is ignored: the exit code says what the command did. Else it would be 143 (SIGTERM) or 130
    though all was done, because taking Python and its libraries apart takes a moment.
    """
    before = os.environ.get("GOMP_SPINCOUNT")
    letters = [(s, s.errors) for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    _leave_cores_to_others()
    keeps = _keep_freed_memory()
    for stream, _ in letters:  # a terminal of few letters, such as ASCII, shows other letters by their numbers
        stream.reconfigure(errors="backslashreplace")
    try:
        after = signal.SIG_IGN if last else None
        with signal_handlers(dict.fromkeys(STOP_SIGNALS, stop), after=after), stopping_again():
            yield
    finally:
        for stream, errors in letters:
            if not stream.closed:
                stream.reconfigure(errors=errors)
        if keeps:
            _mallopt(M_MMAP_MAX, MOST_MAPPED)
            _mallopt(M_TRIM_THRESHOLD, TRIM_AT)
        if before is None:
            os.environ.pop("GOMP_SPINCOUNT", None)


@contextmanager
def signal_handlers(handlers: Mapping[int, Any], after: Any = None) -> Iterator[None]:
    """Handlers for signals while the block runs; afterwards those that were there are back, or ``after``.

    Signals that are ignored, as in the background of a script, stay ignored. Python hands signals to its main
    thread alone, so a command in another thread leaves them as they are.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in handlers}
        # None is a handler that was not installed by Python, which cannot be put back.
        before = {number: one for number, one in found.items() if one not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if after is None else after)


@contextmanager
def stopping_again() -> Iterator[None]:
    """A signal that arrives while Python takes an object apart stops nothing: what its handler raises is only
    printed there. It is sent again, and nothing is printed."""
    before = sys.unraisablehook

    def heard(lost: Any) -> None:
        if lost.exc_type is not None and issubclass(lost.exc_type, Stopped):
            threading.Timer(AGAIN_AFTER, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            before(lost)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        sys.unraisablehook = before


def _leave_cores_to_others() -> None:
    """By default idle threads spin 300 times as long. With two commands on the same cores, each then waits for
    threads that cannot run, because the other's threads are spinning. torch reads this when it is imported."""
    if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS_AWAKE


def _keep_freed_memory() -> bool:
    """What a step frees stays with the process for the next one.

    By default large blocks go back to the system at once and come back page by page in every step. With large
    tables that takes longer than the arithmetic. Only glibc has this; a user's own settings stay.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    return _mallopt(M_MMAP_MAX, 0) and _mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def give_memory_back() -> None:
    """What was freed goes to the system, and so it stays: for a command that reads much and serves for hours."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    _mallopt(M_MMAP_MAX, MOST_MAPPED)
    _mallopt(M_TRIM_THRESHOLD, TRIM_AT)
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _mallopt(name: int, value: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(name, value))


@contextmanager
def system_memory() -> Iterator[None]:
    """Arrow takes memory from the system: what reading took is given back before training needs it."""
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def keep_standard_streams() -> None:
    """Where one of them is closed, the next file that is opened would take its number, and what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


class _Hidden(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ImportError("pandas is not needed here")


def leave_pandas_out() -> None:
    """Arrow imports pandas at its first conversion, where it is installed: half a second and 60 MB for nothing.

    For a process of its own alone: Arrow does not look a second time.
    """
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(hidden)


def came_of_stopping(error: BaseException) -> bool:
    """Whether an error took the place of the request to stop, as Python 3.11 puts a RuntimeError in the place of
    whatever `__set_name__` raises while a class is made: in the middle of an import, say."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, Stopped | KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, or torch on a GPU or a CPU, has run out of memory; known by its message, without torch."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "can't allocate memory" in str(error)
