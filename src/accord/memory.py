"""Free memory and disk, and sizes in words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from accord.errors import DataError

CGROUP, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
FILES = {2: ("memory.max", "memory.current", "inactive_file"),
         1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")}  # fmt: skip
"""Of each version of control groups: the limit, what is used, and what of it only caches files."""
ALWAYS = 1 << 20
"""Bytes that are not worth a look at what is free."""
MOST_GROWTH, HARMLESS = 500, 1 << 29
"""How often what is stored may be in memory, and bytes up to which nobody asks."""


def machine_memory() -> int:
    """Bytes that may still be taken, of this machine, its container and the limits of this process."""
    return max(0, min([_available(), *_left_in_groups(), *_left_to_process()]))


def fits(need: int) -> bool:
    """Whether so many bytes may still be taken."""
    return need <= ALWAYS or need <= machine_memory()


def refuse_too_large(need: int, what: str, advice: str, stored: int | None = None) -> None:
    """Refuse what cannot fit into memory, with the estimate, before anything of it is there.

    Much that would come out of the few bytes that are ``stored`` is refused too: no data of people are like that.
    """
    if need <= ALWAYS:
        return
    if stored is not None and need > max(HARMLESS, MOST_GROWTH * stored):
        raise DataError(
            f"{what} would grow from {in_bytes(stored)} in files to {in_bytes(need)} in memory, which no usual "
            f"data do; {advice}."
        )
    free = machine_memory()
    if need > free:
        raise DataError(
            f"{what} needs up to {in_bytes(need)} of memory, but this machine has {in_bytes(free)} free; {advice}."
        )


def free_disk(path: Path) -> tuple[int, Path]:
    """Bytes that are free where a path lies or will lie, and the folder that was asked."""
    place = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(place).free, place


def _left_in_groups() -> Iterator[int]:
    """What the control groups of this process leave it: those of its container, and those around them."""
    for version, folder in _groups():
        limit_of, used_of, cached = FILES[version]
        try:
            limit = int((folder / limit_of).read_text())
            used = int((folder / used_of).read_text())
        except (OSError, ValueError):  # no limit, or no such thing here
            continue
        yield limit - used + _reclaimable(folder, cached)


def _groups() -> Iterator[tuple[int, Path]]:
    """Folders of the groups that may limit memory, of both versions. A container sees its own at the root."""
    paths = {2: "/", 1: "/"}
    try:
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                paths[1 if controllers else 2] = path
    except (OSError, ValueError):
        pass
    for version, path in paths.items():
        root = CGROUP if version == 2 else CGROUP / "memory"
        group = Path(os.path.normpath(f"{root}/{path}"))
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                yield version, folder


def _reclaimable(folder: Path, name: str) -> int:
    """Bytes of a container that only cache files and are given back when they are needed."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))
    except (OSError, ValueError, IndexError):
        return 0


def _left_to_process() -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave to this process."""
    try:
        import resource

        pages = [int(number) for number in Path("/proc/self/statm").read_text().split()]
    except (ImportError, OSError, ValueError):
        return
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield most - used * resource.getpagesize()


def _available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def in_bytes(number: int) -> str:
    """Bytes in words.

    >>> in_bytes(3_200_000_000)
    '3.2 GB'
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"
