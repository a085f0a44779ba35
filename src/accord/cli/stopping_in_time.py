"""A process that is asked to stop ends within two seconds, even if one long call does not let Python answer.

Python runs a signal's handler between two steps of its own. A sort of ten million rows is one step. So the system
also tells a thread of the signal. Where the command has not ended by itself in time, the thread ends the process.
That is as safe as a kill at this moment: what was saved is whole, and the same command resumes it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from accord.cli.process import STOP_SIGNALS

LIMIT = 1.5
"""Seconds that a command has to stop by itself."""
STOPPED = 130
"""The exit code."""
SHOW_CURSOR = "\x1b[?25h"


class _Watch:
    """The thread, and whether it still has to end the process."""

    def __init__(self, words: Callable[[], str]) -> None:
        self.words, self.answered = words, threading.Event()
        self.reads, self.wakes = os.pipe()
        os.set_blocking(self.wakes, False)

    def wait(self) -> None:
        while told := os.read(self.reads, 64):
            if not any(number in told for number in STOP_SIGNALS):
                continue
            self.answered.clear()
            if not self.answered.wait(LIMIT):
                self._end()
        os.close(self.reads)

    def _end(self) -> None:
        try:
            shown = SHOW_CURSOR if os.isatty(2) else ""
            os.write(2, f"{shown}accord: stopped{self.words()}.\n".encode(errors="replace"))
        finally:  # nothing may keep it from ending
            os._exit(STOPPED)


_watches: list[_Watch] = []
_words: list[str] = []


@contextmanager
def ending_in_time(words: Callable[[], str]) -> Iterator[None]:
    """Only for a process that is one command; ``words`` say how to resume it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch(lambda: _words[-1] if _words else words())
    before = signal.set_wakeup_fd(watch.wakes, warn_on_full_buffer=False)
    _watches.append(watch)
    threading.Thread(target=watch.wait, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        answered()
        _watches.remove(watch)
        os.close(watch.wakes)  # which ends the thread


def answered() -> None:
    """The command has stopped, or is done all the same."""
    for watch in _watches:
        watch.answered.set()


def end_at_once() -> None:
    """End a command that has stopped, and has said so: taking large tables apart would take seconds, and threads of
    libraries may still be at work on them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(STOPPED)


@contextmanager
def resumed_by(words: str) -> Iterator[None]:
    """How what is done in the block is resumed, where it has to be ended."""
    _words.append(words)
    try:
        yield
    finally:
        _words.pop()
