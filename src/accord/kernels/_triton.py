"""The one place that imports Triton, and whether its kernels can run on a device.

Kernels run on a GPU. Where torch is built without CUDA Triton is not imported: that would take 0.3 seconds and
80 MB. With ``TRITON_INTERPRET=1``, set before accord is imported, Triton's interpreter runs the kernels on a CPU.
Tests use it, and call a kernel by its name; for `kernels_work` the interpreter does not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

triton: Any = None
tl: Any = None
if INTERPRETED or torch.backends.cuda.is_built():
    try:
        import triton  # pyright: ignore[reportMissingImports]
        import triton.language as tl  # pyright: ignore[reportMissingImports]
    except ImportError:
        triton = tl = None


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`triton.jit`. Without Triton the function stays as it is; nobody calls it then."""
    if function is None:
        return lambda function: jit(function, **options)
    return function if triton is None else triton.jit(function, **options)


@jit
def _probe_kernel(out):
    tl.store(out, 1.0)


@cache
def kernels_work(device: torch.device) -> bool:
    """Whether Triton can make kernels here: it is installed with torch, but also needs a C compiler."""
    if triton is None or INTERPRETED or device.type != "cuda":
        return False
    try:
        _probe_kernel[(1,)](torch.zeros(1, device=device))
    except Exception:  # a missing or unsuitable compiler can raise anything
        return False
    return True
