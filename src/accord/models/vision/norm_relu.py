"""Batch norm, a shortcut and ReLU of several runs at once: one pass to measure, one to write.

In images of few channels the norms take as long as the convolutions, all of it memory traffic. `norm_relu` of
(R, …, C) does for every run what batch norm, addition and ReLU do for one. On a GPU Triton kernels read an
activation once for its moments and once to write the result; in the backward pass and in forward mode once for two
sums and once to write the derivatives. Moments are made a block of rows at a time and put together in a fixed order
(Chan et al., Algorithms for computing the sample variance, 1983), in float32: the same inputs give the same bytes.
Elsewhere, and in other types than bfloat16, PyTorch's own batch norm does it.
"""

# Triton may be missing, and what it makes of a function, pyright cannot see:
# pyright: reportPossiblyUnboundVariable=false, reportIndexIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from accord.models.vision.conv_kernels import runs_here

try:
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]
except ImportError:  # as on a machine without CUDA
    triton = None

TILE = 4096
"""Numbers that a program has in hand at a time."""
PROGRAMS = 256
"""Into how many parts a run is cut for its sums, at most."""
MOMENTUM, EPSILON = 0.1, 1e-5
"""As `nn.BatchNorm2d` has them."""

if triton is not None:

    @triton.jit
    def _place(rows, first, C: tl.constexpr, BLOCK: tl.constexpr):
        """A block of a run's rows: which of them there are, and where they lie from the run's beginning."""
        row = first + tl.arange(0, BLOCK)
        return row < rows, row[:, None] * C + tl.arange(0, C)[None, :]

    @triton.jit
    def _of_run(ptr, C: tl.constexpr):
        """A number of each channel of this program's run."""
        return tl.load(ptr + tl.program_id(1) * C + tl.arange(0, C))[None, :]

    @triton.jit
    def _moments_kernel(x, part, rows, parts, C: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
        """Mean and sum of squares about it, of a part of a run's rows."""
        run, p = tl.program_id(1), tl.program_id(0)
        x += run.to(tl.int64) * rows * C
        count = 0.0
        mean, spread = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32)
        for step in range(STEPS):
            live, at = _place(rows, (p * STEPS + step) * BLOCK, C, BLOCK)
            values = tl.load(x + at, mask=live[:, None], other=0.0).to(tl.float32)
            here = tl.sum(live.to(tl.float32), 0)
            centre = tl.sum(values, 0) / tl.maximum(here, 1.0)
            off = tl.where(live[:, None], values - centre[None, :], 0.0)
            share = here / tl.maximum(count + here, 1.0)
            apart = centre - mean
            spread += tl.sum(off * off, 0) + apart * apart * (count * share)
            mean += apart * share
            count += here
        out = part + (run * parts + p) * 2 * C + tl.arange(0, C)
        tl.store(out, mean)
        tl.store(out + C, spread)

    @triton.jit
    def _finish_kernel(
        part, mean, scale, running_mean, running_var, rows, parts, span, momentum, epsilon,
        C: tl.constexpr, PARTS: tl.constexpr,
    ):  # fmt: skip
        """The moments of a run out of those of its parts, and its moving averages."""
        run = tl.program_id(0)
        p, c = tl.arange(0, PARTS), tl.arange(0, C)
        count = tl.minimum(tl.maximum(rows - p * span, 0), span).to(tl.float32)[:, None]
        at = (run * parts + p)[:, None] * (2 * C) + c[None, :]
        there = (p < parts)[:, None]
        means = tl.load(part + at, mask=there, other=0.0)
        spreads = tl.load(part + at + C, mask=there, other=0.0)
        centre = tl.sum(count * means, 0) / rows
        off = means - centre[None, :]
        spread = tl.sum(tl.where(there, spreads + count * off * off, 0.0), 0)
        own = run * C + c
        tl.store(mean + own, centre)
        tl.store(scale + own, 1.0 / tl.sqrt(spread / rows + epsilon))
        old_mean, old_var = tl.load(running_mean + own), tl.load(running_var + own)
        tl.store(running_mean + own, old_mean + momentum * (centre - old_mean))
        tl.store(running_var + own, old_var + momentum * (spread / (rows - 1) - old_var))

    @triton.jit
    def _write_kernel(
        x, added, y, mean, scale, weight, bias, rows,
        C: tl.constexpr, BLOCK: tl.constexpr, ADDED: tl.constexpr,
    ):  # fmt: skip
        live, at = _place(rows, tl.program_id(0) * BLOCK, C, BLOCK)
        at += tl.program_id(1).to(tl.int64) * rows * C  # all runs together may have more than 2³¹ numbers
        values = tl.load(x + at, mask=live[:, None], other=0.0).to(tl.float32)
        values = (values - _of_run(mean, C)) * (_of_run(scale, C) * _of_run(weight, C)) + _of_run(bias, C)
        if ADDED:
            values += tl.load(added + at, mask=live[:, None], other=0.0).to(tl.float32)
        tl.store(y + at, tl.maximum(values, 0.0).to(y.dtype.element_ty), mask=live[:, None])

    @triton.jit
    def _open(x, y, at, live, mean, scale, weight, bias, ADDED: tl.constexpr):
        """What ReLU lets pass, and the normed values."""
        values = tl.load(x + at, mask=live[:, None], other=0.0).to(tl.float32)
        normed = (values - mean) * scale
        if ADDED:
            out = tl.load(y + at, mask=live[:, None], other=0.0).to(tl.float32)
        else:
            out = (values - mean) * (scale * weight) + bias
        return live[:, None] & (out > 0.0), normed

    @triton.jit
    def _sums_kernel(
        grad, x, y, mean, scale, weight, bias, part, rows, parts,
        C: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, ADDED: tl.constexpr, BACK: tl.constexpr,
    ):  # fmt: skip
        """The sums of the gradient, and of the gradient times the normed values, over a part of a run's rows.

        Back, of the gradient that ReLU lets pass; else of all of it, for a tangent.
        """
        run, p = tl.program_id(1), tl.program_id(0)
        centre, by, w, b = _of_run(mean, C), _of_run(scale, C), _of_run(weight, C), _of_run(bias, C)
        plain, leaning = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32)
        for step in range(STEPS):
            live, at = _place(rows, (p * STEPS + step) * BLOCK, C, BLOCK)
            at += run.to(tl.int64) * rows * C
            passing, normed = _open(x, y, at, live, centre, by, w, b, ADDED)
            back = tl.load(grad + at, mask=live[:, None], other=0.0).to(tl.float32)
            if BACK:
                back = tl.where(passing, back, 0.0)
            plain += tl.sum(back, 0)
            leaning += tl.sum(back * normed, 0)
        out = part + (run * parts + p) * 2 * C + tl.arange(0, C)
        tl.store(out, plain)
        tl.store(out + C, leaning)

    @triton.jit
    def _added_up_kernel(part, plain, leaning, parts, C: tl.constexpr, PARTS: tl.constexpr):
        """The two sums of a run out of those of its parts."""
        run = tl.program_id(0)
        p, c = tl.arange(0, PARTS), tl.arange(0, C)
        at = (run * parts + p)[:, None] * (2 * C) + c[None, :]
        there = (p < parts)[:, None]
        tl.store(plain + run * C + c, tl.sum(tl.load(part + at, mask=there, other=0.0), 0))
        tl.store(leaning + run * C + c, tl.sum(tl.load(part + at + C, mask=there, other=0.0), 0))

    @triton.jit
    def _back_kernel(
        grad, x, y, mean, scale, weight, bias, plain, leaning, to_x, to_added, rows,
        C: tl.constexpr, BLOCK: tl.constexpr, ADDED: tl.constexpr,
    ):  # fmt: skip
        live, at = _place(rows, tl.program_id(0) * BLOCK, C, BLOCK)
        at += tl.program_id(1).to(tl.int64) * rows * C
        by, w = _of_run(scale, C), _of_run(weight, C)
        passing, normed = _open(x, y, at, live, _of_run(mean, C), by, w, _of_run(bias, C), ADDED)
        back = tl.where(passing, tl.load(grad + at, mask=live[:, None], other=0.0).to(tl.float32), 0.0)
        inner = back - (_of_run(plain, C) + normed * _of_run(leaning, C)) / rows
        tl.store(to_x + at, (by * w * inner).to(to_x.dtype.element_ty), mask=live[:, None])
        if ADDED:
            tl.store(to_added + at, back.to(to_added.dtype.element_ty), mask=live[:, None])

    @triton.jit
    def _tangent_kernel(
        moved, x, y, mean, scale, weight, bias, plain, leaning, to_weight, to_bias, to_added, out, rows,
        C: tl.constexpr, BLOCK: tl.constexpr, ADDED: tl.constexpr,
    ):  # fmt: skip
        """How the result moves when the inputs do."""
        live, at = _place(rows, tl.program_id(0) * BLOCK, C, BLOCK)
        at += tl.program_id(1).to(tl.int64) * rows * C
        by, w = _of_run(scale, C), _of_run(weight, C)
        passing, normed = _open(x, y, at, live, _of_run(mean, C), by, w, _of_run(bias, C), ADDED)
        move = tl.load(moved + at, mask=live[:, None], other=0.0).to(tl.float32)
        move = by * w * (move - (_of_run(plain, C) + normed * _of_run(leaning, C)) / rows)
        move += normed * _of_run(to_weight, C) + _of_run(to_bias, C)
        if ADDED:
            move += tl.load(to_added + at, mask=live[:, None], other=0.0).to(tl.float32)
        tl.store(out + at, tl.where(passing, move, 0.0).to(out.dtype.element_ty), mask=live[:, None])


class Averages(NamedTuple):
    """The moving averages of a norm, (R, C) each; they move on while the network learns."""

    mean: Tensor
    var: Tensor


def norm_relu(
    x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, added: Tensor | None = None, *, learning: bool
) -> Tensor:
    """ReLU of the batch norm of ``x`` (R, …, C), each run with its own moments, and of what is ``added``."""
    if not runs_here(x) or (torch.is_grad_enabled() and not learning):
        return _plain(x, weight, bias, averages, added, learning)
    x = x.contiguous()
    added = None if added is None else added.contiguous()
    if learning:
        result: Any = _NormReLU.apply(x, weight, bias, averages, added)
        return result
    return _write(x, added, averages.mean, torch.rsqrt(averages.var + EPSILON), weight, bias)


def _plain(
    x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, added: Tensor | None, learning: bool
) -> Tensor:
    """The same by PyTorch: the channels of all runs side by side."""
    runs, channels = x.shape[0], x.shape[-1]
    y = F.batch_norm(
        x.reshape(runs, -1, channels).transpose(0, 1).flatten(1),
        averages.mean.view(-1),
        averages.var.view(-1),
        weight.flatten(),
        bias.flatten(),
        learning,
        MOMENTUM,
        EPSILON,
    )
    y = y.view(-1, runs, channels).transpose(0, 1).reshape(x.shape)
    return F.relu(y if added is None else y + added)


def _cut(x: Tensor) -> tuple[int, int, int, int, int, int]:
    """Runs, channels, rows of a run; rows of a block, blocks of a part, and parts, for sums over a run."""
    runs, channels = x.shape[0], x.shape[-1]
    rows = x.numel() // (runs * channels)
    block = TILE // channels
    blocks = -(-rows // block)
    steps = -(-blocks // PROGRAMS)
    return runs, channels, rows, block, steps, -(-blocks // steps)


def _write(x: Tensor, added: Tensor | None, mean: Tensor, scale: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    runs, channels, rows, block, _, _ = _cut(x)
    y = torch.empty_like(x)
    _write_kernel[-(-rows // block), runs](
        x, x if added is None else added, y, mean, scale, weight, bias, rows,
        channels, block, added is not None, num_warps=4,
    )  # fmt: skip
    return y


class _NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, added: Tensor | None
    ) -> Tensor:
        runs, channels, rows, block, steps, parts = _cut(x)
        part = x.new_empty((runs, parts, 2, channels), dtype=torch.float32)
        mean, scale = torch.empty_like(weight), torch.empty_like(weight)
        _moments_kernel[parts, runs](x, part, rows, parts, channels, steps, block, num_warps=4)
        _finish_kernel[(runs,)](
            part, mean, scale, *averages, rows, parts, steps * block, MOMENTUM, EPSILON,
            channels, triton.next_power_of_2(parts), num_warps=4,
        )  # fmt: skip
        y = _write(x, added, mean, scale, weight, bias)
        kept = x, y if added is not None else None, mean, scale, weight, bias
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, y, *_ = ctx.saved_tensors
        has_added = y is not None
        runs, channels, rows, block, _, _ = _cut(x)
        given, plain, leaning = _sums(grads[0].contiguous(), ctx.saved_tensors, back=True)
        to_x = torch.empty_like(x)
        to_added = torch.empty_like(x) if has_added else None
        _back_kernel[-(-rows // block), runs](
            *given, plain, leaning, to_x, to_added if has_added else to_x, rows,
            channels, block, has_added, num_warps=4,
        )  # fmt: skip
        return to_x, leaning, plain, None, to_added

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        x, y, _, _, weight, bias = ctx.saved_tensors
        moved, to_weight, to_bias = map(_filled, tangents, (x, weight, bias))
        to_added = moved if y is None else _filled(tangents[-1], x)
        runs, channels, rows, block, _, _ = _cut(x)
        given, plain, leaning = _sums(moved, ctx.saved_tensors, back=False)
        out = torch.empty_like(x)
        _tangent_kernel[-(-rows // block), runs](
            *given, plain, leaning, to_weight, to_bias, to_added, out, rows,
            channels, block, y is not None, num_warps=4,
        )  # fmt: skip
        return out


def _filled(tangent: Tensor | None, like: Tensor) -> Tensor:
    """A tangent as the kernels read it; under autocast it may be wider."""
    return torch.zeros_like(like) if tangent is None else tangent.to(like.dtype).contiguous()


def _sums(values: Tensor, saved: Sequence[Any], *, back: bool) -> tuple[tuple[Any, ...], Tensor, Tensor]:
    """What the derivatives' kernels are given, and the two sums of each run's values."""
    x, y, mean, scale, weight, bias = saved
    given = values, x, x if y is None else y, mean, scale, weight, bias
    runs, channels, rows, block, steps, parts = _cut(x)
    part = x.new_empty((runs, parts, 2, channels), dtype=torch.float32)
    plain, leaning = torch.empty_like(weight), torch.empty_like(weight)
    _sums_kernel[parts, runs](*given, part, rows, parts, channels, steps, block, y is not None, back, num_warps=4)
    _added_up_kernel[(runs,)](part, plain, leaning, parts, channels, triton.next_power_of_2(parts), num_warps=4)
    return given, plain, leaning
