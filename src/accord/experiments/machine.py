"""Where a training ran, in words that say nothing of whose machine it is."""

from __future__ import annotations

import platform
from typing import Any

import torch

from accord.training import resolve_device


def machine(device: str) -> dict[str, Any]:
    """The device and the versions that matter."""
    used = resolve_device(device)
    name = torch.cuda.get_device_name(used) if used.type == "cuda" else f"CPU, {torch.get_num_threads()} thread(s)"
    return {"device": name, "python": platform.python_version(), "torch": torch.__version__}
