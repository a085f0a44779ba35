"""Fetching a data set from its origin: resumed where it broke off, verified, and whole or not there."""

from __future__ import annotations

import contextlib
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from accord.data.catalogue import DataFile, DataSet
from accord.errors import DataError

BLOCK = 1 << 16
LARGEST = 1 << 30
"""Bytes that one file of an archive may unpack to; the largest that is wanted has a fifth of it."""
RAW_HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
Tick = Callable[[int, int | None], None]
"""Told bytes so far and, where it is known, bytes in all."""


def fetch(entry: DataSet, root: Path, tick: Tick = lambda done, total: None) -> list[DataFile]:
    """Bring what is missing into ``root``; returns the files that must be put there by hand."""
    by_hand = []
    for file in entry.missing(root):
        if not file.fetchable:
            by_hand.append(file)
            continue
        target = entry.path(file.name, root)
        made = [folder for folder in (target.parent, root) if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        try:
            download(file, part, tick)
        except DataError:
            for folder in made:  # what could not begin leaves nothing behind
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise
        if file.member is not None:
            part = _extract(part, file.member)
        try:
            file.verify(part)
        except DataError:
            part.unlink()
            raise
        part.replace(target)
    for file in entry.files:
        if entry.path(file.name, root).is_file():
            file.verify(entry.path(file.name, root))
    return by_hand


def download(file: DataFile, part: Path, tick: Tick) -> None:
    """The bytes at a file's origin, going on where an earlier try broke off."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.origin, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            if answer.status != 206:  # the origin begins anew
                done = 0
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else None
            with part.open("ab" if done else "wb") as out:
                while block := answer.read(BLOCK):
                    out.write(block)
                    done += len(block)
                    tick(done, total)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to fetch
            return
        raise DataError(f"{file.origin} answered {error.code}; fetch {file.name} by hand, or try later.") from error
    except OSError as error:
        raise DataError(
            f"{file.origin} cannot be reached ({error}); get it elsewhere and put {file.name} into '{part.parent}'."
        ) from error


def _extract(archive: Path, member: str) -> Path:
    """One text file of a zip archive, as a table with a typed header."""
    out = archive.with_suffix(".raw")
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(member) as source, out.open("wb") as target:
            if packed.getinfo(member).file_size > LARGEST:
                raise zipfile.BadZipFile("it would unpack to more than a gigabyte")
            target.write(RAW_HEADER.encode())
            shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, ValueError, OSError) as error:
        archive.unlink()
        out.unlink(missing_ok=True)
        raise DataError(f"The archive does not hold {member}: {error}; try again.") from error
    archive.unlink()
    return out
