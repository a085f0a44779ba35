"""Where to train."""

from __future__ import annotations

import torch

from accord.errors import SettingError


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
