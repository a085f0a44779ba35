"""Free memory and disk, and sizes in words."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def machine_memory() -> int:
    """Bytes that may still be taken, of this machine or container."""
    free = _available()
    try:
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text()) - _reclaimable()
        return min(free, max(0, limit - used))
    except (OSError, ValueError):  # no limit, or no such thing here
        return free


def free_disk(path: Path) -> tuple[int, Path]:
    """Bytes that are free where a path lies or will lie, and the folder that was asked."""
    place = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(place).free, place


def _reclaimable() -> int:
    """Bytes of a container that only cache files and are given back when they are needed."""
    try:
        lines = (CGROUP / "memory.stat").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError, IndexError):
        return 0


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
