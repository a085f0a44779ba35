"""One pass of Adam over a parameter of a stack, each run with a rate and an L2 factor of its own.

Where tables are large a step is memory traffic: torch's own takes one pass for the L2 term, one for the step, and
two more to give each run its share of it. This Triton kernel reads the parameter, its gradient and its moments
once, and writes them once.
"""

# Triton may be missing, so that its types are variables:
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import torch
from torch import Tensor

from accord.kernels._triton import jit, tl, triton

BLOCK = 1024
"""Numbers that a program updates."""


@jit(do_not_specialize=["which"])
def _adam_kernel(
    parameter, grad, first, second, rates, decays, scales, which, size,
    B1: tl.constexpr, B2: tl.constexpr, EPS: tl.constexpr, DECAYED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = offset < size
    at = run.to(tl.int64) * size + offset
    old = tl.load(parameter + at, mask=live, other=0.0)
    slope = tl.load(grad + at, mask=live, other=0.0)
    if DECAYED:
        slope += tl.load(decays + run) * old
    mean = B1 * tl.load(first + at, mask=live, other=0.0) + (1 - B1) * slope
    square = B2 * tl.load(second + at, mask=live, other=0.0) + (1 - B2) * slope * slope
    rate = tl.load(rates + run) * tl.load(scales + 2 * which)
    new = old - rate * mean / (tl.sqrt(square) * tl.load(scales + 2 * which + 1) + EPS)
    tl.store(parameter + at, new, mask=live)
    tl.store(first + at, mean, mask=live)
    tl.store(second + at, square, mask=live)


def scales_of(steps: Tensor, betas: Tensor) -> Tensor:
    """By what the mean and the root of the mean square are multiplied after so many steps: (…, 2)."""
    undone = 1 - betas ** steps[..., None]  # in double precision: after one step the second is a thousandth
    return torch.stack((undone[..., 0].reciprocal(), undone[..., 1].rsqrt()), -1).float()


def adam_step(
    parameter: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    rates: Tensor,
    decays: Tensor | None,
    scales: Tensor,
    which: int,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """A step of a parameter (R, …) in place, by rates (R,); ``scales[which]`` are its own."""
    runs, size = len(parameter), parameter[0].numel()
    _adam_kernel[triton.cdiv(size, BLOCK), runs](
        parameter, grad.contiguous(), *moments, rates, rates if decays is None else decays, scales, which, size,
        *betas, epsilon, decays is not None, BLOCK, num_warps=4,
    )  # fmt: skip
