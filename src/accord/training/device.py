"""Where to train."""

from __future__ import annotations

import os

import torch

from accord.errors import SettingError


def resolve_device(name: str) -> torch.device:
    """``auto`` takes a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError(
            "Device 'cuda' was asked for, but torch sees no GPU here; use device=cpu or device=auto."
        )
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SettingError(f"Unknown device '{name}': choose auto, cpu or cuda.")
    return device


def has_whole_gpu() -> bool:
    """Whether this process may use all of a GPU's multiprocessors; NVIDIA's MPS can limit it to a share.

    On an H200, with shares of 15 to 75 %, cuBLAS's products of half-precision matrices were wrong and differed
    from time to time; those of single precision were right.
    """
    try:
        return float(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")) >= 100
    except ValueError:
        return True  # CUDA does not read it either
