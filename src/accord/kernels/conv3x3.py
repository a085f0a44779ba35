"""3×3 convolutions of few channels, as Triton kernels.

ResNet-32 for small images is made of 3×3 convolutions of 16, 32 and 64 channels. They do little arithmetic per
byte, and cuDNN's kernels, made for wide layers, take several times as long as the memory traffic asks for. Here a
convolution is an implicit matrix product over NHWC memory: a program takes a run of pixels, reads the rows of their
neighbours straight from the cache, and multiplies them by the weights. The gradient with respect to the input is
the same kernel with the taps turned round, which with a stride of 2 finds every second row and column. The gradient
with respect to the weights is one product per program over its share of the pixels, with the three columns of taps
side by side on one axis and, without a stride, the three rows of taps on the other; the programs' partial sums are
then added in a fixed order. There are no atomic operations: the same inputs give the same bytes.

Convolution, input gradient and weight gradient are the three derivatives of one trilinear form, so each is an
autograd function whose derivatives are the other two. That gives `torch.func.jvp`, and derivatives of any order.
`vmap` is not supported.

Every input may have a leading dimension of runs, each with weights of its own: one launch serves them all.

Triton compiles a kernel at its first call for a shape, so, before CUDA graph capture, run each shape once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from accord.kernels import conv3x3_kernels as kernels
from accord.kernels._triton import triton


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
# Where so many runs fill the GPU anyway, larger blocks read less twice; of wider numbers they would not fit.
MANY = 4
CONV_TILES_OF_MANY = CONV_TILES | {64: ConvTiles(256, 64, False, 8)}
WEIGHT_TILES_OF_MANY: dict[int, WeightTiles] = {
    16: WeightTiles(64, 50, True, True, 4, 3),
    32: WeightTiles(32, 34, True, True, 4, 3),
    64: WeightTiles(128, 2, False, False, 4, 3),
}


def runs_here(x: Tensor) -> bool:
    """Whether the kernels can take images of this type where they are."""
    return (
        triton is not None
        and x.is_cuda
        and x.dtype == torch.bfloat16
        and x.device.index == torch.cuda.current_device()  # where Triton launches
    )


def supports(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether `conv3x3` can take this convolution: a padding of 1 is taken for granted."""
    return (
        runs_here(x)
        and stride == 1
        and x.dim() == 4
        and tuple(weight.shape[1:]) == (x.shape[1], 3, 3)
        and SUPPORTED.issuperset(weight.shape[:2])
        and x.is_contiguous(memory_format=torch.channels_last)
        and 0 < x.numel() // x.shape[1] * max(weight.shape[:2]) < 2**31  # the kernels count in 32 bits
    )


def conv3x3(x: Tensor, weight: Tensor, stride: int = 1) -> Tensor:
    """The 3×3 convolution of padding 1, without bias, of `x` in channels-last memory.

    `x` is (N, C, H, W) and `weight` (O, C, 3, 3), or, for R runs at once, (R, N, C, H, W) and (R, O, C, 3, 3).
    `weight` may be of a wider type, as under autocast: it is cast here, and its gradient cast back.
    """
    if x.dim() != weight.dim() or x.dim() not in (4, 5) or tuple(weight.shape[-3:]) != (x.shape[-3], 3, 3):
        raise ValueError(f"no 3×3 convolution of {tuple(x.shape)} by {tuple(weight.shape)}")
    if x.shape[:-4] != weight.shape[:-4]:
        raise ValueError(f"{tuple(x.shape)} and {tuple(weight.shape)} are of different runs")
    if stride not in (1, 2):
        raise ValueError(f"the stride must be 1 or 2, got {stride}")
    if not SUPPORTED.issuperset(weight.shape[-4:-2]):
        raise ValueError(f"channels must be among {sorted(SUPPORTED)}, got {tuple(weight.shape[-4:-2])}")
    return _apply(_Conv, x, weight.to(x.dtype), Grid(x.shape[-2], x.shape[-1], stride))


class Grid(NamedTuple):
    """The pixels of a convolution's input, and one in how many of its rows and columns the output has."""

    height: int
    width: int
    stride: int = 1

    @property
    def thinned(self) -> tuple[int, int]:
        """Height and width of the output."""
        return -(-self.height // self.stride), -(-self.width // self.stride)


def _in_memory(x: Tensor) -> Tensor:
    """Images with their channels last, one run after another."""
    return x.movedim(-3, -1).contiguous()


def conv(x: Tensor, weight: Tensor, tiles: ConvTiles, grid: Grid, flip: bool = False) -> Tensor:
    """Launches the convolution; with `flip`, `x` is the output's gradient and the result the input's."""
    pixels = _in_memory(x)
    runs = weight.shape[0] if weight.dim() == 5 else 1
    if weight.dim() == 5 and not weight[0].is_contiguous(memory_format=torch.channels_last):
        weight = _in_memory(weight).movedim(-1, -3)  # a run's weights one after another
    outs, ins, s_out, s_in = *weight.shape[-4:-2], *weight.stride()[-4:-2]
    if flip:
        outs, ins, s_out, s_in = ins, outs, s_in, s_out
    h, w, stride = grid
    y = x.new_empty((*pixels.shape[:-3], *((h, w) if flip else grid.thinned), outs))
    read, total, out = pixels.numel() // (runs * ins), y.numel() // (runs * outs), min(tiles.out, outs)
    kernels.conv_kernel[-(-total // tiles.block), outs // out, runs](
        pixels, weight, y, read, total, h, w, ins, outs, s_in, s_out, *weight.stride()[-2:], flip,
        tiles.block, out, tiles.fuse and stride == 1, stride, num_warps=tiles.warps, num_stages=1,
    )  # fmt: skip
    return y.movedim(-1, -3)


def weight_gradient(grad: Tensor, x: Tensor, tiles: WeightTiles, grid: Grid) -> Tensor:
    """Launches the weight gradient: the programs' shares, then their sum. The result is in channels-last memory."""
    runs = x.shape[0] if x.dim() == 5 else 1
    c, o, rows_at_once = x.shape[-3], grad.shape[-3], tiles.rows and grid.stride == 1
    read, total = x.numel() // (runs * c), grad.numel() // (runs * o)
    blocks = -(-total // tiles.block)
    steps = -(-blocks // tiles.programs)
    programs = -(-blocks // steps)
    part = x.new_empty((runs, programs, o * 9 * c), dtype=torch.float32)
    kernels.weight_kernel[runs * programs, 1 if rows_at_once else 3, 1 if tiles.columns else 3](
        _in_memory(grad), _in_memory(x), part, read, total, programs, *grid[:2], c, o, steps,
        tiles.block, rows_at_once, tiles.columns, tiles.stages == 1, grid.stride,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    out = x.new_empty((*x.shape[:-4], o, 3, 3, c))
    rows = 1 << (programs - 1).bit_length()
    columns = max(8, min(128, 4096 // rows))
    size = o * 9 * c
    kernels.sum_kernel[-(-size // columns), runs](part, out, programs, size, rows, columns, num_warps=4)
    return out.movedim(-1, -3)


def _of_many(x: Tensor) -> bool:
    return x.dim() == 5 and len(x) >= MANY and x.element_size() == 2


def _conv_tiles(weight: Tensor) -> ConvTiles:
    return (CONV_TILES_OF_MANY if _of_many(weight) else CONV_TILES)[max(weight.shape[-4:-2])]


def _apply(function: type[torch.autograd.Function], a: Tensor, b: Tensor, grid: Grid) -> Tensor:
    result: Any = function.apply(a, b, grid)
    return result


class _Bilinear(torch.autograd.Function):
    """What the three functions share: both inputs are kept, for either mode of differentiation."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.grid = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)


def _tangent(function: type[torch.autograd.Function], ctx: Any, a_tangent: Any, b_tangent: Any, _: Any) -> Any:
    """The tangent of a bilinear function."""
    a, b = ctx.saved_tensors
    parts = []
    if a_tangent is not None:
        parts.append(_apply(function, a_tangent.to(a.dtype), b, ctx.grid))  # under autocast a tangent may be wider
    if b_tangent is not None:
        parts.append(_apply(function, a, b_tangent.to(b.dtype), ctx.grid))
    return sum(parts[1:], parts[0]) if parts else None


class _Conv(_Bilinear):
    """(input, weight) to output."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, grid: Grid) -> Tensor:
        return conv(x, weight, _conv_tiles(weight), grid)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        if grad is None:
            return None, None, None
        x, weight = ctx.saved_tensors
        return (
            _apply(_InputGradient, grad, weight, ctx.grid) if ctx.needs_input_grad[0] else None,
            _apply(_WeightGradient, grad, x, ctx.grid) if ctx.needs_input_grad[1] else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_Conv, ctx, *tangents)


class _InputGradient(_Bilinear):
    """(output's gradient, weight) to input's gradient."""

    @staticmethod
    def forward(grad: Tensor, weight: Tensor, grid: Grid) -> Tensor:
        return conv(grad, weight, _conv_tiles(weight), grid, flip=True)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (back,) = grads
        if back is None:
            return None, None, None
        grad, weight = ctx.saved_tensors
        return (
            _apply(_Conv, back, weight, ctx.grid) if ctx.needs_input_grad[0] else None,
            _apply(_WeightGradient, grad, back, ctx.grid) if ctx.needs_input_grad[1] else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_InputGradient, ctx, *tangents)


class _WeightGradient(_Bilinear):
    """(output's gradient, input) to weight's gradient."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor, grid: Grid) -> Tensor:
        tiles = WEIGHT_TILES_OF_MANY if _of_many(x) else WEIGHT_TILES
        return weight_gradient(grad, x, tiles[max(grad.shape[-3], x.shape[-3])], grid)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (back,) = grads
        if back is None:
            return None, None, None
        grad, x = ctx.saved_tensors
        return (
            _apply(_Conv, x, back, ctx.grid) if ctx.needs_input_grad[0] else None,
            _apply(_InputGradient, grad, back, ctx.grid) if ctx.needs_input_grad[1] else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _tangent(_WeightGradient, ctx, *tangents)
