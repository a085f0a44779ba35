"""Where to train."""

from __future__ import annotations

import os

import torch

from accord.errors import SettingError

if hasattr(os, "register_at_fork"):
    # A forked process has its parent's memory but not its threads: work shared among them would wait for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def resolve_device(name: str) -> torch.device:
    """``auto`` takes a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError("Device 'cuda' was asked for, but torch sees no GPU here; use --device cpu or auto.")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SettingError(f"Unknown device '{name}': choose auto, cpu or cuda.")
    return device
