"""How a command behaves as a process, before anything heavy is imported."""

from __future__ import annotations

import ctypes
import io
import os
import sys

TURNS_AWAKE = "1000"
"""How long idle threads of torch stay awake: as OpenMP's runtime has it where threads are more than cores."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Names of glibc's `mallopt`."""


def leave_cores_to_others() -> None:
    """By default idle threads stay awake 300 times as long, and two commands at once, on the cores of one, wait for
    threads of their own that cannot run because the other's are waiting too. Read when torch is imported."""
    if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS_AWAKE


def keep_freed_memory() -> None:
    """What a step frees stays with the process for the next one.

    By default large blocks go back to the system at once, and are taken from it anew, page by page, in every step:
    with large tables that takes longer than the arithmetic. Only glibc has this, and settings of one's own stay.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def show_every_letter() -> None:
    """On a terminal or in a file of few letters, such as ASCII, others are shown by their numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, or torch on a GPU or a CPU, has run out of memory; told by its words, without torch."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "can't allocate memory" in str(error)
