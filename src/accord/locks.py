"""Locks between processes. The system gives a lock back when its process ends, however that ends."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accord.errors import DataError

LOOK = 0.1
"""Seconds between two looks."""
LONGEST_OWNER = 200
"""Bytes of a lock's file that are read."""


@contextmanager
def locked(path: Path, *, wait: float = 0.0, without: bool = True) -> Iterator[bool]:
    """Whether the lock of a file is ours while the block runs; the file is made if it is not there, and stays.

    ``without`` is the answer where the file system knows no locks. A link or a pipe is never opened.
    """
    end = time.monotonic() + wait
    while True:
        file = _opened(path)
        try:
            taken = _take(file, end)
            if taken and not _is_at(file, path):  # whoever had it has removed it meanwhile
                continue
            if taken:
                _sign(file)
            yield without if taken is None else taken
            return
        finally:
            os.close(file)


def owner_of(path: Path) -> str:
    """Who holds a lock, in words; nothing where its file does not say."""
    try:
        file = os.open(path, os.O_RDONLY | _of_system("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
    except OSError:
        return ""
    try:
        words = os.read(file, LONGEST_OWNER).decode(errors="replace").split()
    except OSError:
        return ""
    finally:
        os.close(file)
    sound = len(words) == 2 and words[0].isascii() and words[0].isdigit() and words[1].isprintable()
    return f"process {words[0]} on {words[1]}" if sound else ""


def _of_system(*names: str) -> int:
    """Flags of `open`, where the system has them."""
    return sum(getattr(os, name, 0) for name in names)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | _of_system("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        raise DataError(f"'{path}' cannot be locked: {error.strerror or error}; remove it.") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise DataError(f"'{path}' cannot be locked: it is no plain file; remove it.")
    return file


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _sign(file: int) -> None:
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()} {socket.gethostname() or '-'}\n".encode(), 0)
    except OSError:  # a full disk: the lock holds all the same
        pass


def _take(file: int, end: float) -> bool | None:
    """Whether the lock is ours by then; None where the file system knows no locks."""
    while True:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # another process has it
            if time.monotonic() > end:
                return False
            time.sleep(LOOK)
        except OSError:
            return None
        else:
            return True


def _lock(file: int) -> None:
    """Take the lock of an open file, which closing it gives back."""
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
