"""Triton kernels, each with a plain form for where they do not run. They import nothing else of accord."""

from accord.kernels._triton import kernels_work

__all__ = ["kernels_work"]
