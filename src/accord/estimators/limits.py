"""Whether a training will fit, asked before it starts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from accord.errors import DataError

CGROUP = Path("/sys/fs/cgroup")
SLACK = 1.05
"""An estimate is let through if it is this much too large: it leaves out what is reused."""


def free_memory(device: torch.device) -> int:
    """Bytes that a training may take: of the GPU, or of this machine or container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = _available()
    try:
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
        return min(free, max(0, limit - used))
    except (OSError, ValueError):  # no limit, or no such thing here
        return free


def _available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(need: int, device: torch.device, what: str, advice: str) -> None:
    """Refuse what cannot fit, with the estimate."""
    free = free_memory(device)
    if need > free * SLACK:
        place = "the GPU has" if device.type == "cuda" else "this machine has"
        raise DataError(f"{what} needs about {_size(need)} of memory, but {place} {_size(free)} free; {advice}.")


def require_disk(need: int, out: Path, what: str) -> None:
    """Refuse to start what could not be written, with the estimate."""
    place = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if need > free:
        raise DataError(f"{what} will take about {_size(need)}, but '{place}' has {_size(free)} free; make room.")


def _size(number: int) -> str:
    """Bytes in words.

    >>> _size(3_200_000_000)
    '3.2 GB'
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"
