"""Whether a training will fit, checked before it starts."""

from __future__ import annotations

from pathlib import Path

import torch

from accord.errors import LimitError
from accord.memory import free_disk, in_bytes, machine_memory

SLACK = 1.05
"""An estimate is let through if it is this much too large: it leaves out what is reused."""


def free_memory(device: torch.device) -> int:
    """Bytes that a training may take: of the GPU, or of this machine or container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return machine_memory()


def require_memory(need: int, device: torch.device, what: str, advice: str) -> None:
    """Refuse what cannot fit, with the estimate."""
    free = free_memory(device)
    if need > free * SLACK:
        place = "the GPU has" if device.type == "cuda" else "this machine has"
        raise LimitError(
            f"{what} needs about {in_bytes(need)} of memory, but {place} {in_bytes(free)} free; {advice}."
        )


def require_disk(need: int, out: Path, what: str) -> None:
    """Refuse to start what could not be written, with the estimate."""
    free, place = free_disk(out)
    if need > free:
        raise LimitError(
            f"{what} will take about {in_bytes(need)}, but '{place}' has {in_bytes(free)} free; make room."
        )
