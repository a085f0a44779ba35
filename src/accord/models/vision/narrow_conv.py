"""3×3 convolutions of few channels, as Triton kernels.

ResNet-32 for small images is made of 3×3 convolutions of 16, 32 and 64 channels. They do little arithmetic per
byte, and cuDNN's kernels, made for wide layers, take several times as long as the memory traffic asks for. Here
a convolution is an implicit matrix product over NHWC memory: a program takes a run of pixels, reads the rows of
their neighbours straight from the cache, and multiplies them by the weights. The gradient with respect to the
input is the same kernel with the taps turned round. The gradient with respect to the weights is one product per
program over its share of the pixels, with the three columns of taps side by side on one axis and the three rows
of taps on the other; the programs' partial sums are then added in a fixed order. There are no atomic operations:
the same inputs give the same bytes.

Convolution, input gradient and weight gradient are the three derivatives of one trilinear form, so each is an
autograd function whose derivatives are the other two. That gives `torch.func.jvp`, and derivatives of any order.
`vmap` is not supported.

Every input may have a leading dimension of runs, each with weights of its own: one launch serves them all.

Triton compiles a kernel at its first call for a shape, so, before CUDA graph capture, run each shape once.
"""

# Triton may be missing, and what it makes of a function, pyright cannot see:
# pyright: reportPossiblyUnboundVariable=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

try:
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]
except ImportError:  # as on a machine without CUDA
    triton = None


class ConvTiles(NamedTuple):
    """How the convolution and the input gradient are cut up. The loop over taps is unrolled: it has no stages."""

    block: int  # pixels per program
    out: int  # output channels per program, at most
    fuse: bool  # one product for the three taps of a row (a quarter of it is padding), rather than three
    warps: int


class WeightTiles(NamedTuple):
    """How the weight gradient is cut up."""

    block: int  # pixels per step
    programs: int  # parts into which the pixels are split, at most
    rows: bool  # all three rows of taps in one program, rather than a program each
    columns: bool  # the same for the columns of taps
    warps: int
    stages: int  # 1: the next step is read into registers, through L1; more: asynchronous copies, past L1


# Block sizes by the larger of the two channel counts.
CONV_TILES: dict[int, ConvTiles] = {
    16: ConvTiles(256, 16, False, 4),
    32: ConvTiles(128, 32, False, 4),
    64: ConvTiles(64, 64, False, 4),
}
WEIGHT_TILES: dict[int, WeightTiles] = {
    16: WeightTiles(64, 200, True, True, 4, 3),
    32: WeightTiles(64, 67, True, True, 8, 3),
    64: WeightTiles(64, 15, False, False, 4, 3),
}
SUPPORTED = frozenset(CONV_TILES)
# Where so many runs fill the GPU anyway, larger blocks read less twice.
MANY = 4
CONV_TILES_OF_MANY = CONV_TILES | {64: ConvTiles(256, 64, False, 8)}
WEIGHT_TILES_OF_MANY: dict[int, WeightTiles] = {
    16: WeightTiles(64, 50, True, True, 4, 3),
    32: WeightTiles(32, 34, True, True, 4, 3),
    64: WeightTiles(128, 2, False, False, 4, 3),
}

if triton is not None:

    @triton.jit
    def _tap(
        ptr, pixel, row, column, live, DOWN: tl.constexpr, RIGHT: tl.constexpr,
        C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    ):  # fmt: skip
        """The channels of each pixel's neighbour, nought outside the image: [pixels, C]."""
        mask = live & (row + DOWN >= 0) & (row + DOWN < H) & (column + RIGHT >= 0) & (column + RIGHT < W)
        offset = (pixel + (DOWN * W + RIGHT))[:, None] * C + tl.arange(0, C)[None, :]
        return tl.load(ptr + offset, mask=mask[:, None], other=0.0)

    @triton.jit
    def _taps(ptr, pixel, row, column, live, DOWN: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
        """The left neighbour, the one between and the right one, in the row `DOWN` below."""
        left = _tap(ptr, pixel, row, column, live, DOWN, -1, C, H, W)
        middle = _tap(ptr, pixel, row, column, live, DOWN, 0, C, H, W)
        right = _tap(ptr, pixel, row, column, live, DOWN, 1, C, H, W)
        return left, middle, right

    @triton.jit
    def _beside(ptr, pixel, column, live, C: tl.constexpr, W: tl.constexpr):
        """Left neighbour, pixel, right neighbour and noughts, side by side: [pixels, 4 C].

        The three lie one after another in memory, so a row of the block is one run of it.
        """
        lane = tl.arange(0, 4 * C)
        at = column[:, None] + (lane // C - 1)[None, :]
        mask = live[:, None] & (at >= 0) & (at < W) & (lane < 3 * C)[None, :]
        return tl.load(ptr + ((pixel - 1)[:, None] * C + lane[None, :]), mask=mask, other=0.0)

    @triton.jit
    def _stacked(ptr, pixel, row, live, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
        """Lower neighbour, pixel, upper neighbour and noughts, side by side: [pixels, 4 C]."""
        lane = tl.arange(0, 4 * C)
        down = 1 - lane // C
        at = row[:, None] + down[None, :]
        mask = live[:, None] & (at >= 0) & (at < H) & (lane < 3 * C)[None, :]
        offset = (pixel[:, None] + (down * W)[None, :]) * C + (lane % C)[None, :]
        return tl.load(ptr + offset, mask=mask, other=0.0)

    @triton.jit
    def _weights(
        ptr, out, KH: tl.constexpr, KW: tl.constexpr, C: tl.constexpr,
        S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
    ):  # fmt: skip
        """The weights of one tap: [C, out]."""
        base = (2 - KH) * S_H + (2 - KW) * S_W if FLIP else KH * S_H + KW * S_W
        return tl.load(ptr + (base + tl.arange(0, C)[:, None] * S_IN + out[None, :] * S_OUT))

    @triton.jit
    def _weights_beside(
        ptr, out, KH: tl.constexpr, C: tl.constexpr,
        S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
    ):  # fmt: skip
        """The weights of a row of taps, and noughts, one below another: [4 C, out]."""
        lane = tl.arange(0, 4 * C)
        kw = 2 - lane // C if FLIP else lane // C
        base = (2 - KH) * S_H if FLIP else KH * S_H
        offset = base + (kw * S_W + (lane % C) * S_IN)[:, None] + out[None, :] * S_OUT
        # The padding must be read as nought: what lies there could be a NaN, and NaN × 0 is no nought.
        return tl.load(ptr + offset, mask=(lane < 3 * C)[:, None], other=0.0)

    @triton.jit
    def _conv_kernel(
        x, w, y, total,
        H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
        S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
        BLOCK: tl.constexpr, OUT: tl.constexpr, FUSE: tl.constexpr,
    ):  # fmt: skip
        """A block of pixels and a block of output channels of a run's convolution."""
        run = tl.program_id(2).to(tl.int64)
        x += run * total * C
        y += run * total * O
        w += run * (9 * C * O)
        pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        live = pixel < total
        row, column = (pixel // W) % H, pixel % W
        out = tl.program_id(1) * OUT + tl.arange(0, OUT)
        acc = tl.zeros((BLOCK, OUT), tl.float32)
        # Reads come before products: the compiler moves no read across the barriers that a product brings.
        if FUSE:
            a0 = _beside(x, pixel - W, column, live & (row > 0), C, W)
            a1 = _beside(x, pixel, column, live, C, W)
            a2 = _beside(x, pixel + W, column, live & (row < H - 1), C, W)
            b0 = _weights_beside(w, out, 0, C, S_IN, S_OUT, S_H, S_W, FLIP)
            b1 = _weights_beside(w, out, 1, C, S_IN, S_OUT, S_H, S_W, FLIP)
            b2 = _weights_beside(w, out, 2, C, S_IN, S_OUT, S_H, S_W, FLIP)
            acc = tl.dot(a0, b0, acc, input_precision="ieee")
            acc = tl.dot(a1, b1, acc, input_precision="ieee")
            acc = tl.dot(a2, b2, acc, input_precision="ieee")
        else:
            a0, a1, a2 = _taps(x, pixel, row, column, live, -1, C, H, W)
            for kh in tl.static_range(3):
                b0 = _weights(w, out, kh, 0, C, S_IN, S_OUT, S_H, S_W, FLIP)
                b1 = _weights(w, out, kh, 1, C, S_IN, S_OUT, S_H, S_W, FLIP)
                b2 = _weights(w, out, kh, 2, C, S_IN, S_OUT, S_H, S_W, FLIP)
                c0, c1, c2 = a0, a1, a2
                if kh < 2:  # the next row is on its way while this one is multiplied
                    a0, a1, a2 = _taps(x, pixel, row, column, live, kh, C, H, W)
                acc = tl.dot(c0, b0, acc, input_precision="ieee")
                acc = tl.dot(c1, b1, acc, input_precision="ieee")
                acc = tl.dot(c2, b2, acc, input_precision="ieee")
        tl.store(y + (pixel[:, None] * O + out[None, :]), acc.to(y.dtype.element_ty), mask=live[:, None])

    @triton.jit
    def _grad_tile(grad, pixel, kh, live, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, ROWS: tl.constexpr):
        """The output's gradient, a row up or down by `kh`: [pixels, C], or [pixels, 4 C] for the three rows."""
        row = (pixel // W) % H
        if ROWS:
            return _stacked(grad, pixel, row, live, C, H, W)
        else:
            at = row + 1 - kh
            offset = (pixel + (1 - kh) * W)[:, None] * C + tl.arange(0, C)[None, :]
            return tl.load(grad + offset, mask=(live & (at >= 0) & (at < H))[:, None], other=0.0)

    @triton.jit
    def _input_tile(x, pixel, kw, live, C: tl.constexpr, W: tl.constexpr, COLUMNS: tl.constexpr):
        """The input, a column left or right by `kw`: [pixels, C], or [pixels, 4 C] for the three columns."""
        column = pixel % W
        if COLUMNS:
            return _beside(x, pixel, column, live, C, W)
        else:
            at = column + kw - 1
            offset = (pixel + kw - 1)[:, None] * C + tl.arange(0, C)[None, :]
            return tl.load(x + offset, mask=(live & (at >= 0) & (at < W))[:, None], other=0.0)

    @triton.jit
    def _weight_kernel(
        grad, x, part, total, programs,
        H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
        STEPS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        """A program's share of a run's weight gradient, laid out as the weights are in channels-last memory.

        The weight at (kh, kw) meets the input at a pixel's column + kw - 1 and the output's gradient at its row
        + 1 - kh: shifting the one along columns and the other along rows takes all nine taps in one product.
        """
        M: tl.constexpr = 4 * O if ROWS else O
        N: tl.constexpr = 4 * C if COLUMNS else C
        kh, kw = tl.program_id(1), tl.program_id(2)
        run = (tl.program_id(0) // programs).to(tl.int64)
        grad += run * total * O
        x += run * total * C
        first = tl.program_id(0) % programs * (STEPS * BLOCK)
        end = tl.minimum(first + STEPS * BLOCK, total)
        pixel = first + tl.arange(0, BLOCK)
        acc = tl.zeros((M, N), tl.float32)
        if AHEAD:
            a = _grad_tile(grad, pixel, kh, pixel < end, O, H, W, ROWS)
            b = _input_tile(x, pixel, kw, pixel < end, C, W, COLUMNS)
            for _ in range(STEPS):
                pixel += BLOCK
                next_a = _grad_tile(grad, pixel, kh, pixel < end, O, H, W, ROWS)
                next_b = _input_tile(x, pixel, kw, pixel < end, C, W, COLUMNS)
                acc = tl.dot(tl.trans(a), b, acc, input_precision="ieee")
                a, b = next_a, next_b
        else:
            for _ in range(STEPS):
                a = _grad_tile(grad, pixel, kh, pixel < end, O, H, W, ROWS)
                b = _input_tile(x, pixel, kw, pixel < end, C, W, COLUMNS)
                acc = tl.dot(tl.trans(a), b, acc, input_precision="ieee")
                pixel += BLOCK
        m, n = tl.arange(0, M), tl.arange(0, N)
        # A row of the product is (kh, o), a column (kw, c); without fusion the program's own tap comes instead.
        m_offset = (m % O) * (9 * C) + (m // O if ROWS else kh) * (3 * C)
        n_offset = n if COLUMNS else kw * C + n
        mask = (m < 3 * O)[:, None] & (n < 3 * C)[None, :]
        base = part + tl.program_id(0) * (9 * C * O)
        tl.store(base + (m_offset[:, None] + n_offset[None, :]), acc, mask=mask)

    @triton.jit
    def _sum_kernel(part, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        """Sums over a run's rows, in an order fixed by the block's shape."""
        part += tl.program_id(1) * rows * columns
        out += tl.program_id(1) * columns
        row = tl.arange(0, ROWS)
        column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        mask = (row < rows)[:, None] & (column < columns)[None, :]
        block = tl.load(part + (row[:, None] * columns + column[None, :]), mask=mask, other=0.0)
        tl.store(out + column, tl.sum(block, 0).to(out.dtype.element_ty), mask=column < columns)


def runs_here(x: Tensor) -> bool:
    """Whether the kernels can take images of this type where they are."""
    return (
        triton is not None
        and x.is_cuda
        and x.dtype == torch.bfloat16
        and x.device.index == torch.cuda.current_device()  # where Triton launches
    )


def available(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether `narrow_conv3x3` can take this convolution: a padding of 1 is taken for granted."""
    return (
        runs_here(x)
        and stride == 1
        and x.dim() == 4
        and tuple(weight.shape[1:]) == (x.shape[1], 3, 3)
        and SUPPORTED.issuperset(weight.shape[:2])
        and x.is_contiguous(memory_format=torch.channels_last)
        and 0 < x.numel() // x.shape[1] * max(weight.shape[:2]) < 2**31  # the kernels count in 32 bits
    )


def narrow_conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """The 3×3 convolution of stride 1 and padding 1, without bias, of `x` in channels-last memory.

    `x` is (N, C, H, W) and `weight` (O, C, 3, 3), or, for R runs at once, (R, N, C, H, W) and (R, O, C, 3, 3).
    `weight` may be of a wider type, as under autocast: it is cast here, and its gradient cast back.
    """
    if x.dim() != weight.dim() or x.dim() not in (4, 5) or tuple(weight.shape[-3:]) != (x.shape[-3], 3, 3):
        raise ValueError(f"no 3×3 convolution of {tuple(x.shape)} by {tuple(weight.shape)}")
    if x.shape[:-4] != weight.shape[:-4]:
        raise ValueError(f"{tuple(x.shape)} and {tuple(weight.shape)} are of different runs")
    if not SUPPORTED.issuperset(weight.shape[-4:-2]):
        raise ValueError(f"channels must be among {sorted(SUPPORTED)}, got {tuple(weight.shape[-4:-2])}")
    return _apply(_Conv, x, weight.to(x.dtype))


def _in_memory(x: Tensor) -> Tensor:
    """Images with their channels last, one run after another."""
    return x.movedim(-3, -1).contiguous()


def conv(x: Tensor, weight: Tensor, tiles: ConvTiles, flip: bool = False) -> Tensor:
    """Launches the convolution; with `flip`, `x` is the output's gradient and the result the input's."""
    pixels = _in_memory(x)
    runs = weight.shape[0] if weight.dim() == 5 else 1
    if weight.dim() == 5 and not weight[0].is_contiguous(memory_format=torch.channels_last):
        weight = _in_memory(weight).movedim(-1, -3)  # a run's weights one after another
    outs, ins, s_out, s_in = *weight.shape[-4:-2], *weight.stride()[-4:-2]
    if flip:
        outs, ins, s_out, s_in = ins, outs, s_in, s_out
    h, w = x.shape[-2:]
    y = x.new_empty((*pixels.shape[:-1], outs))
    total, out = pixels.numel() // (runs * ins), min(tiles.out, outs)
    grid = (-(-total // tiles.block), outs // out, runs)
    _conv_kernel[grid](
        pixels, weight, y, total, h, w, ins, outs, s_in, s_out, *weight.stride()[-2:], flip,
        tiles.block, out, tiles.fuse, num_warps=tiles.warps, num_stages=1,
    )  # fmt: skip
    return y.movedim(-1, -3)


def weight_gradient(grad: Tensor, x: Tensor, tiles: WeightTiles) -> Tensor:
    """Launches the weight gradient: the programs' shares, then their sum. The result is in channels-last memory."""
    runs = x.shape[0] if x.dim() == 5 else 1
    (c, h, w), o = x.shape[-3:], grad.shape[-3]
    total = x.numel() // (runs * c)
    blocks = -(-total // tiles.block)
    steps = -(-blocks // tiles.programs)
    programs = -(-blocks // steps)
    part = x.new_empty((runs, programs, o * 9 * c), dtype=torch.float32)
    _weight_kernel[runs * programs, 1 if tiles.rows else 3, 1 if tiles.columns else 3](
        _in_memory(grad), _in_memory(x), part, total, programs, h, w, c, o, steps,
        tiles.block, tiles.rows, tiles.columns, tiles.stages == 1, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    out = x.new_empty((*x.shape[:-4], o, 3, 3, c))
    rows = 1 << (programs - 1).bit_length()
    columns = max(8, min(128, 4096 // rows))
    size = o * 9 * c
    _sum_kernel[-(-size // columns), runs](part, out, programs, size, rows, columns, num_warps=4)
    return out.movedim(-1, -3)


def _conv_tiles(weight: Tensor) -> ConvTiles:
    tiles = CONV_TILES_OF_MANY if weight.dim() == 5 and len(weight) >= MANY else CONV_TILES
    return tiles[max(weight.shape[-4:-2])]


def _apply(function: type[torch.autograd.Function], a: Tensor, b: Tensor) -> Tensor:
    result: Any = function.apply(a, b)
    return result


class _Bilinear(torch.autograd.Function):
    """What the three functions share: both inputs are kept, for either mode of differentiation."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)


def _tangent(function: type[torch.autograd.Function], ctx: Any, a_tangent: Any, b_tangent: Any) -> Any:
    """The tangent of a bilinear function."""
    a, b = ctx.saved_tensors
    parts = []
    if a_tangent is not None:
        parts.append(_apply(function, a_tangent.to(a.dtype), b))  # under autocast a tangent may be wider
    if b_tangent is not None:
        parts.append(_apply(function, a, b_tangent.to(b.dtype)))
    return sum(parts[1:], parts[0]) if parts else None


class _Conv(_Bilinear):
    """(input, weight) to output."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return conv(x, weight, _conv_tiles(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        if grad is None:
            return None, None
        x, weight = ctx.saved_tensors
        return (
            _apply(_InputGradient, grad, weight) if ctx.needs_input_grad[0] else None,
            _apply(_WeightGradient, grad, x) if ctx.needs_input_grad[1] else None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_Conv, ctx, *tangents)


class _InputGradient(_Bilinear):
    """(output's gradient, weight) to input's gradient."""

    @staticmethod
    def forward(grad: Tensor, weight: Tensor) -> Tensor:
        return conv(grad, weight, _conv_tiles(weight), flip=True)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (back,) = grads
        if back is None:
            return None, None
        grad, weight = ctx.saved_tensors
        return (
            _apply(_Conv, back, weight) if ctx.needs_input_grad[0] else None,
            _apply(_WeightGradient, grad, back) if ctx.needs_input_grad[1] else None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_InputGradient, ctx, *tangents)


class _WeightGradient(_Bilinear):
    """(output's gradient, input) to weight's gradient."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor) -> Tensor:
        tiles = WEIGHT_TILES_OF_MANY if x.dim() == 5 and len(x) >= MANY else WEIGHT_TILES
        return weight_gradient(grad, x, tiles[max(grad.shape[-3], x.shape[-3])])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (back,) = grads
        if back is None:
            return None, None
        grad, x = ctx.saved_tensors
        return (
            _apply(_Conv, x, back) if ctx.needs_input_grad[0] else None,
            _apply(_InputGradient, grad, back) if ctx.needs_input_grad[1] else None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_WeightGradient, ctx, *tangents)
