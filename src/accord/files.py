"""The one way to write a file or a folder: whole, or not there."""

from __future__ import annotations

import glob
import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DRAFT, OWNER, NEW, OLD = ".draft", "owner.json", "new", "old"
"""The suffix of the hidden folder next to a path that is being replaced, and the names inside it."""
HIGHEST_PROCESS = 1 << 31


@contextmanager
def whole_file(path: Path, *, flush: bool = False, follow: bool = False) -> Iterator[Path]:
    """A new file next to ``path`` that takes its place when the block succeeds, and vanishes if not.

    With ``flush`` it is on the disk before it does. What lies at ``path``, a link, a device or a pipe, is itself
    replaced, so that a prepared folder cannot lead a write out of it. ``follow`` is for a file that the
    person named: a link stays and what it leads to is replaced; a device or a pipe is written to.
    """
    if follow and path.exists() and not path.is_file() and not path.is_dir():
        with TemporaryDirectory() as folder:
            draft = Path(folder, path.name)
            yield draft
            with draft.open("rb") as file, path.open("wb") as target:
                shutil.copyfileobj(file, target)
        return
    path = behind_links(path) if follow else path
    # Nobody can guess this name, so no link waits there.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield draft
        if flush:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def behind_links(path: Path) -> Path:
    """The place that a link leads to; any other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_whole(path: Path, text: str) -> None:
    """A text that is there whole or not at all."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="")


def copy_whole(source: Path, target: Path) -> None:
    """A copy that is whole or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as draft:
        shutil.copyfile(source, draft)


@contextmanager
def whole_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """A fresh folder that takes the place of ``path`` when the block succeeds, and vanishes if not.

    Without ``replace`` only a place that is free, or an empty folder, is taken; else it is an OSError.

    It is made inside a hidden folder next to ``path``, which names its process and takes what ``path`` held before.
    A process that is killed between the two renames leaves it there: `standing` reads it, `clear_dead` restores it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    work.mkdir()
    try:
        (work / OWNER).write_text(json.dumps(_this_process()), encoding="utf-8")
        (work / NEW).mkdir()
        yield work / NEW
        if replace and path.exists():
            path.rename(work / OLD)
        (work / NEW).rename(path)
    finally:
        _close(work, path)


def standing(path: Path) -> Path:
    """Where the folder of ``path`` is to be read: what was there before, if its replacement was killed half way.

    Nothing on the disk is changed.
    """
    place = behind_links(path)
    if os.path.lexists(place):
        return path
    left = [work for work in _drafts(place) if _owner(work) is not None and _is_folder(work / OLD)]
    return max(left, key=lambda work: work.stat().st_mtime) / OLD if left else path


def clear_dead(path: Path) -> None:
    """Restore or remove what killed processes left of ``path``; only for code that writes there.

    A folder that is not certainly ours, or whose process may live, here or in another container, is left alone.
    """
    here = _this_process()
    for work in _drafts(path):
        owner = _owner(work)
        if here and owner and _is_dead(owner, here):
            _close(work, path)


def _close(work: Path, path: Path) -> None:
    """Remove a hidden folder; what it holds of ``path`` is restored if nothing has taken its place."""
    if _is_folder(work / OLD) and not os.path.lexists(path):
        try:
            (work / OLD).rename(path)
        except OSError:
            return  # better left there than lost
    for part in (work / OLD, work / NEW, work):  # the owner's name goes last
        shutil.rmtree(part, ignore_errors=True)


def _drafts(path: Path) -> list[Path]:
    found = path.parent.glob(f".{glob.escape(path.name)}.*{DRAFT}") if path.parent.is_dir() else ()
    return [work for work in found if _is_folder(work)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _owner(work: Path) -> dict[str, Any] | None:
    """The process that made a hidden folder; None where it is no folder of ours."""
    path = work / OWNER
    try:
        owner = json.loads(path.read_text(encoding="utf-8")) if path.is_file() and not path.is_symlink() else None
    except (OSError, ValueError, RecursionError):
        return None
    return owner if isinstance(owner, dict) else None


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
    process = owner.get("process")
    if any(owner.get(name) != here[name] for name in ("host", "boot", "namespace")):
        return False
    if type(process) is not int or not 0 < process < HIGHEST_PROCESS or type(owner.get("started")) is not int:
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
