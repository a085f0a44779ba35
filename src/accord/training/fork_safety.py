"""Forking a process that has computed.

A forked process has its parent's memory but not its threads: work shared among them would wait for ever, so a child
uses one thread. And a thread that ends, or one of its helper threads, returns its buffers to MKL after Python has
finished with it. A child that is forked at that moment inherits MKL's lock as taken, and nobody releases it. So a
fork waits until threads that have computed and ended are gone.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import torch

TASKS = Path("/proc/self/task")
LONGEST, QUIET = 2.0, 0.05
"""Seconds that a fork waits at most, and seconds without a change of threads before it."""
_computed: set[int] = set()


def computes_here() -> None:
    """Note that this thread computes matrix products."""
    _computed.add(threading.get_native_id())


def _wait_for_the_ended() -> None:
    ended = _computed - {thread.native_id for thread in threading.enumerate()}
    if not ended or not TASKS.is_dir():
        return
    until = time.monotonic() + LONGEST
    while any((TASKS / str(thread)).exists() for thread in ended) and time.monotonic() < until:
        time.sleep(0.001)
    _computed.difference_update(ended)
    _wait_for_quiet(until)


def _wait_for_quiet(until: float) -> None:
    """Helper threads have no known names: wait until no thread has started or ended for a while."""
    known, since = set(os.listdir(TASKS)), time.monotonic()
    while time.monotonic() < until and time.monotonic() - since < QUIET:
        time.sleep(0.005)
        now = set(os.listdir(TASKS))
        if now != known:
            known, since = now, time.monotonic()


def _begin_child() -> None:
    torch.set_num_threads(1)
    _computed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_the_ended, after_in_child=_begin_child)
