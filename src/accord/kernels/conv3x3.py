"""3×3 convolutions of few channels, as Triton kernels.

ResNet-32 for small images is made of 3×3 convolutions of 16, 32 and 64 channels. They do little arithmetic per
byte, and cuDNN's kernels, made for wide layers, take several times as long as the memory traffic needs. Here a
convolution is an implicit matrix product over NHWC memory: a program takes a block of pixels, reads the rows of
their neighbours straight from the cache, and multiplies them by the weights. The gradient with respect to the input
is the same kernel with the taps in reverse order. The gradient with respect to the weights is one product per
program over its share of the pixels, with the three columns of taps on one axis and the three rows of taps on the
other; the programs' partial sums are then added in a fixed order. There are no atomic operations: the same inputs
give the same bytes.

Convolution, input gradient and weight gradient are the three derivatives of one trilinear form, so each is an
autograd function whose derivatives are the other two. That gives `torch.func.jvp`, and derivatives of any order.
`vmap` is not supported.

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


def supports(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether `conv3x3` can take this convolution: it assumes a padding of 1."""
    return (
        triton is not None
        and x.is_cuda
        and x.dtype == torch.bfloat16
        and x.device.index == torch.cuda.current_device()  # where Triton launches
        and stride == 1
        and x.dim() == 4
        and tuple(weight.shape[1:]) == (x.shape[1], 3, 3)
        and SUPPORTED.issuperset(weight.shape[:2])
        and x.is_contiguous(memory_format=torch.channels_last)
        and 0 < x.numel() // x.shape[1] * max(weight.shape[:2]) < 2**31  # the kernels count in 32 bits
    )


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """The 3×3 convolution of padding 1 and stride 1, without bias, of `x` (N, C, H, W) in channels-last memory.

    `weight` (O, C, 3, 3) may be of a wider type, as under autocast: it is cast here, and its gradient cast back.
    """
    if x.dim() != 4 or tuple(weight.shape[1:]) != (x.shape[1], 3, 3):
        raise ValueError(f"no 3×3 convolution of {tuple(x.shape)} by {tuple(weight.shape)}")
    if not SUPPORTED.issuperset(weight.shape[:2]):
        raise ValueError(f"channels must be among {sorted(SUPPORTED)}, got {tuple(weight.shape[:2])}")
    return _apply(_Conv, x, weight.to(x.dtype))


def _in_memory(x: Tensor) -> Tensor:
    """Images with their channels last: (N, H, W, C)."""
    return x.movedim(1, -1).contiguous()


def conv(x: Tensor, weight: Tensor, tiles: ConvTiles, flip: bool = False) -> Tensor:
    """Launches the convolution; with `flip`, `x` is the output's gradient and the result the input's."""
    pixels = _in_memory(x)
    n, h, w, _ = pixels.shape
    outs, ins, s_out, s_in = *weight.shape[:2], *weight.stride()[:2]
    if flip:
        outs, ins, s_out, s_in = ins, outs, s_in, s_out
    y = x.new_empty((n, h, w, outs))
    total, out = n * h * w, min(tiles.out, outs)
    kernels.conv_kernel[-(-total // tiles.block), outs // out](
        pixels, weight, y, total, h, w, ins, outs, s_in, s_out, *weight.stride()[2:], flip,
        tiles.block, out, tiles.fuse, num_warps=tiles.warps, num_stages=1,
    )  # fmt: skip
    return y.movedim(-1, 1)


def weight_gradient(grad: Tensor, x: Tensor, tiles: WeightTiles) -> Tensor:
    """Launches the weight gradient: the programs' shares, then their sum. The result is in channels-last memory."""
    (n, c, h, w), o = x.shape, grad.shape[1]
    total = n * h * w
    blocks = -(-total // tiles.block)
    steps = -(-blocks // tiles.programs)
    programs = -(-blocks // steps)
    size = o * 9 * c
    part = x.new_empty((programs, size), dtype=torch.float32)
    kernels.weight_kernel[programs, 1 if tiles.rows else 3, 1 if tiles.columns else 3](
        _in_memory(grad), _in_memory(x), part, total, h, w, c, o, steps,
        tiles.block, tiles.rows, tiles.columns, tiles.stages == 1,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    out = x.new_empty((o, 3, 3, c))
    rows = 1 << (programs - 1).bit_length()
    columns = max(8, min(128, 4096 // rows))
    kernels.sum_kernel[(-(-size // columns),)](part, out, programs, size, rows, columns, num_warps=4)
    return out.movedim(-1, 1)


def _conv_tiles(weight: Tensor) -> ConvTiles:
    return CONV_TILES[max(weight.shape[:2])]


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
        return weight_gradient(grad, x, WEIGHT_TILES[max(grad.shape[1], x.shape[1])])

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
