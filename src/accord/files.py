"""The one way to write a file or a folder: whole, or not there."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accord.errors import DataError
from accord.plain import open_plain

FILE_DRAFT, FOLDER_DRAFT, NEW, OLD = ".tmp", ".draft", "new", "old"
"""Suffixes of the hidden folder next to a path that is being written, and the names inside that of a folder."""
HIGHEST_PROCESS = 1 << 31
LONGEST_NAME = 150
"""Bytes of a name that its drafts repeat; names of files have 255."""
OWNER = re.compile(r"(\d{1,20})-(\d{1,20})-([0-9a-f]{16})-[0-9a-f]{8}")
"""In the name of a draft: a process, its start, its machine and container, and what nobody can guess."""
DRAFT = re.compile(rf"\.(.+)\.{OWNER.pattern}\{FILE_DRAFT}")


@contextmanager
def whole_file(path: Path, *, flush: bool = False, follow: bool = False) -> Iterator[Path]:
    """A new file that takes the place of ``path`` when the block succeeds, and vanishes if not.

    It is made in a hidden folder next to ``path`` that nobody else may enter, under a name that nobody can guess.
    What killed processes left there of ``path`` is removed first. With ``flush`` the file is on the disk before it
    takes its place. What lies at ``path``, a link, a device or a pipe, is itself replaced, so that a prepared
    folder cannot lead a write out of it. ``follow`` is for a file that the person named: a link stays and what it
    leads to is replaced; a device or a pipe is written to.
    """
    if follow and path.exists() and not path.is_file() and not path.is_dir():
        with TemporaryDirectory() as folder:
            draft = Path(folder, path.name)
            yield draft
            with draft.open("rb") as file, path.open("wb") as target:
                shutil.copyfileobj(file, target)
        return
    path = behind_links(path) if follow else path
    clear_dead(path, FILE_DRAFT)
    work = _made(path, FILE_DRAFT)
    try:
        draft = work / path.name
        yield draft
        if flush:
            _flush(draft)
        draft.replace(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def behind_links(path: Path) -> Path:
    """The place that a link leads to; any other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_whole(path: Path, text: str) -> None:
    """A text that is there whole or not at all."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="")


def copy_whole(source: Path, target: Path) -> None:
    """A copy that is whole or not there; the source is a plain file and no link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as draft, open_plain(source, inside=True) as file, draft.open("xb") as copy:
        shutil.copyfileobj(file, copy)


@contextmanager
def whole_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """A fresh folder that takes the place of ``path`` when the block succeeds, and vanishes if not.

    Without ``replace`` only a place that is free, or an empty folder, is taken; else it is an OSError.

    It is made inside a hidden folder next to ``path``, whose name says its process and which takes what ``path``
    held before. A process that is killed between the two renames leaves it there: `standing` reads it, `clear_dead`
    restores it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    work = _made(path, FOLDER_DRAFT)
    try:
        (work / NEW).mkdir()
        yield work / NEW
        if replace and path.exists():
            path.rename(work / OLD)
        (work / NEW).rename(path)
    finally:
        _close(work, path)


def flush_folder(folder: Path) -> None:
    """Wait until the plain files of a folder are on the disk."""
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            _flush(path)


def remove_files(folder: Path, pattern: re.Pattern[str]) -> None:
    """Remove the plain files of a folder whose whole names match, and the folder if nothing else is in it.

    What others put there stays, and a link is not followed.
    """
    if not _is_folder(folder):
        return
    for path in folder.iterdir():
        if pattern.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
        elif match := DRAFT.fullmatch(path.name):
            clear_dead(path.with_name(match[1]), FILE_DRAFT)
    with suppress(OSError):  # others have put something there
        folder.rmdir()


def standing(path: Path) -> Path:
    """Where the folder of ``path`` is to be read: what was there before, if its replacement was killed half way.

    Nothing on the disk is changed.
    """
    place = behind_links(path)
    if os.path.lexists(place):
        return path
    left = [work for work, _ in _drafts(place, FOLDER_DRAFT) if _is_folder(work / OLD)]
    return max(left, key=lambda work: work.stat().st_mtime) / OLD if left else path


def clear_dead(path: Path, kind: str = FOLDER_DRAFT) -> None:
    """Restore or remove what killed processes left of ``path``; only for code that writes there.

    A draft that is not certainly ours, or whose process may live, here or in another container, is left alone.
    """
    here = _this_process()
    for work, owner in _drafts(path, kind):
        if here and _is_dead(owner, here):
            _close(work, path)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _close(work: Path, path: Path) -> None:
    """Remove a hidden folder; what it holds of ``path`` is restored if nothing has taken its place."""
    if work.name.endswith(FOLDER_DRAFT) and _is_folder(work / OLD) and not os.path.lexists(path):
        try:
            (work / OLD).rename(path)
        except OSError:
            return  # better left there than lost
    shutil.rmtree(work, ignore_errors=True)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink()
    except OSError:  # of another person
        return False


# -- whose drafts they are ---------------------------------------------------------------------------------


def _made(path: Path, kind: str) -> Path:
    """A new hidden folder next to a path, which nobody else may enter; it belongs to this process."""
    here = _this_process()
    place = _digest(here) if here else "0" * 16
    owner = f"{here.get('process', 0)}-{here.get('started', 0)}-{place}-{secrets.token_hex(4)}"
    work = path.with_name(f".{_stem(path)}.{owner}{kind}")
    work.mkdir(0o700)
    return work


def _stem(path: Path) -> str:
    """The name of a path in the names of its drafts."""
    try:
        name = os.fsencode(path.name)
    except UnicodeEncodeError as error:
        words = f"has letters that names of files cannot have here, where they are {sys.getfilesystemencoding()}"
        raise DataError(f"{path.name!r} {words}; set PYTHONUTF8=1, or choose another name.") from error
    return path.name if len(name) <= LONGEST_NAME else hashlib.blake2b(name, digest_size=16).hexdigest()


def _drafts(path: Path, kind: str) -> list[tuple[Path, dict[str, Any]]]:
    """Our drafts of a path, and whose they are."""
    begin, found = f".{_stem(path)}.", list[tuple[Path, dict[str, Any]]]()
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(begin) and entry.name.endswith(kind)]
    except OSError:
        return found
    for name in names:
        match = OWNER.fullmatch(name[len(begin) : -len(kind)])
        work = path.with_name(name)
        if match and _is_folder(work) and _is_mine(work):
            process, started, place = match.groups()
            found.append((work, {"process": int(process), "started": int(started), "place": place}))
    return found


def _is_mine(path: Path) -> bool:
    """Whether a path belongs to the person of this process, where the system knows persons."""
    person = getattr(os, "geteuid", None)
    return person is None or path.lstat().st_uid == person()


def _digest(here: dict[str, Any]) -> str:
    """A machine, since it was started, and a container."""
    words = "\0".join(str(here[name]) for name in ("host", "boot", "namespace"))
    return hashlib.blake2b(words.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def _this_process() -> dict[str, Any]:
    """What identifies this process; empty where the system does not say."""
    try:
        process, started = _process("self")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except (OSError, ValueError, IndexError):
        return {}
    if process != os.getpid():  # /proc shows the processes of another container
        return {}
    host = {"host": socket.gethostname(), "boot": boot, "namespace": namespace}
    return {**host, "process": process, "started": started}


def _process(name: str | int) -> tuple[int, int]:
    """Number and start of a process, as /proc has them; its command's name may hold blanks and brackets."""
    number, _, more = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").partition(" ")
    return int(number), int(more.rpartition(")")[2].split()[19])


def _is_dead(owner: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether a process of this boot and this PID namespace has certainly ended."""
    process = owner["process"]
    if owner["place"] != _digest(here) or not 0 < process < HIGHEST_PROCESS:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it lives and is another person's
    try:
        return _process(process)[1] != owner["started"]  # a later process of the same number
    except (OSError, ValueError, IndexError):
        return False
