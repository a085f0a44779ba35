"""Triton kernels, each beside the plain form that serves where they do not run. They know nothing of accord."""

from accord.kernels._triton import kernels_work

__all__ = ["kernels_work"]
