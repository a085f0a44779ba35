"""The Triton convolutions against PyTorch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, jvp

from accord.kernels import conv3x3 as module
from accord.kernels._triton import triton
from accord.kernels.conv3x3 import ConvTiles, WeightTiles, conv3x3, supports

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
HALF, STEP = (torch.bfloat16, 2**-8) if CUDA else (torch.float16, 2**-11)  # the interpreter multiplies no bfloat16
pytestmark = pytest.mark.skipif(triton is None, reason="needs Triton")
SHAPES = [  # images, channels in and out, height, width
    (2, 16, 16, 8, 8),
    (3, 16, 16, 5, 4),
    (3, 32, 32, 4, 5),
    (2, 64, 64, 4, 4),
    (2, 16, 32, 5, 5),
    (2, 64, 16, 4, 8),
]


@pytest.fixture(autouse=True)
def _full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """In full precision, on both sides."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def drawn(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Standard normal numbers in channels-last memory."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE).contiguous(memory_format=torch.channels_last)


def inputs(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """An input, a weight and an output's gradient."""
    n, c, o, h, w = shape
    return drawn((n, c, h, w), 1), drawn((o, c, 3, 3), 2), drawn((n, o, h, w), 3)


def conv2d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    """Near in proportion to the largest: the sums are of some hundreds of numbers that cancel."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def results(conv, x: Tensor, weight: Tensor, back: Tensor) -> list[Tensor]:
    """Output, input gradient and weight gradient."""
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    y = conv(x, weight)
    return [y.detach(), *torch.autograd.grad(y, (x, weight), back)]


def agree(shape: tuple[int, ...]) -> None:
    for ours, theirs in zip(*(results(one, *inputs(shape)) for one in (conv3x3, conv2d)), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_and_gradients_are_those_of_conv2d(shape: tuple[int, ...]) -> None:
    agree(shape)


@pytest.mark.parametrize("tiles", [ConvTiles(32, 64, True, 4), ConvTiles(32, 16, False, 4)], ids=str)
@pytest.mark.parametrize("shape", [(2, 16, 32, 5, 5), (2, 32, 16, 4, 4)], ids=str)
def test_every_cut_of_the_convolution_agrees(
    shape: tuple[int, ...], tiles: ConvTiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONV_TILES", dict.fromkeys(module.SUPPORTED, tiles))
    agree(shape)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(True, True), (True, False), (False, True), (False, False)])
def test_every_cut_of_the_weight_gradient_agrees(
    rows: bool, columns: bool, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles = WeightTiles(16, 3, rows, columns, 4, stages)  # five blocks of pixels, the last not full, in three parts
    monkeypatch.setattr(module, "WEIGHT_TILES", dict.fromkeys(module.SUPPORTED, tiles))
    agree((3, 16, 32, 5, 5))
    agree((9, 16, 32, 4, 6))


def test_weights_in_any_memory_order() -> None:
    x, weight, back = inputs((2, 16, 32, 5, 5))
    expected = results(conv2d, x, weight, back)
    for other in (weight.contiguous(), weight.transpose(0, 3).contiguous().transpose(0, 3)):
        for ours, theirs in zip(results(conv3x3, x, other, back), expected, strict=True):
            close(ours, theirs)


def test_gradients_in_any_memory_order() -> None:
    x, weight, back = inputs((2, 16, 16, 4, 5))
    expected = results(conv2d, x, weight, back[:, :, :1, :1].expand_as(back))
    for other in (back[:, :, :1, :1].expand_as(back), back[:, :, :1, :1].expand_as(back).contiguous()):
        for ours, theirs in zip(results(conv3x3, x, weight, other), expected, strict=True):
            close(ours, theirs)


def test_results_are_in_channels_last_memory() -> None:
    for result in results(conv3x3, *inputs((2, 16, 32, 5, 4))):
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert not result.is_contiguous()


def test_what_lies_beside_the_weights_is_not_read() -> None:
    """Nor does what lies in one image reach another."""
    x, weight, _ = inputs((3, 16, 16, 4, 4))
    memory = torch.full((weight.numel() + 512,), float("nan"), device=DEVICE)
    memory[: weight.numel()] = weight.permute(0, 2, 3, 1).flatten()
    beside = memory[: weight.numel()].view(16, 3, 3, 16).permute(0, 3, 1, 2)
    close(conv3x3(x, beside), conv2d(x, weight))
    wild = x.clone()
    wild[1] = 1e30
    assert torch.equal(conv3x3(wild, weight)[::2], conv3x3(x, weight)[::2])


@pytest.mark.parametrize("shape", [(2, 16, 16, 8, 8), (2, 32, 64, 4, 5)], ids=str)
def test_half_precision_sums_in_full(shape: tuple[int, ...]) -> None:
    half = [value.to(HALF) for value in inputs(shape)]
    theirs = results(conv2d, *(value.float() for value in half))
    for ours, exact in zip(results(conv3x3, *half), theirs, strict=True):
        assert ours.dtype == HALF
        close(ours.float(), exact, STEP)  # one rounding


def test_a_wider_weight_is_cast_and_its_gradient_cast_back() -> None:
    x, weight, back = inputs((2, 16, 16, 4, 4))
    cast = results(conv3x3, x.to(HALF), weight, back.to(HALF))
    plain = results(conv3x3, x.to(HALF), weight.to(HALF), back.to(HALF))
    assert [value.dtype for value in cast] == [HALF, HALF, torch.float32]
    assert all(torch.equal(a, b.to(a.dtype)) for a, b in zip(cast, plain, strict=True))


def test_the_same_bytes_twice() -> None:
    shape = (3, 16, 16, 8, 8)
    for first, second in zip(results(conv3x3, *inputs(shape)), results(conv3x3, *inputs(shape)), strict=True):
        assert torch.equal(first, second)


def test_directional_derivatives() -> None:
    x, weight, _ = inputs((2, 16, 32, 4, 5))
    along_x, along_weight = drawn(tuple(x.shape), 4), drawn(tuple(weight.shape), 5)
    tangents = along_x, along_weight
    ours, theirs = jvp(conv3x3, (x, weight), tangents), jvp(conv2d, (x, weight), tangents)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])
    close(jvp(lambda w: conv3x3(x, w), (weight,), (along_weight,))[1], conv2d(x, along_weight))
    close(jvp(lambda x: conv3x3(x, weight), (x,), (along_x,))[1], conv2d(along_x, weight))


def test_derivatives_of_derivatives() -> None:
    x, weight, back = inputs((2, 16, 16, 4, 4))
    along = drawn(tuple(weight.shape), 5)

    def slope(conv, x: Tensor, weight: Tensor) -> Tensor:
        """Derivative, with respect to x, of the directional derivative along the weight."""
        return grad(lambda x: (jvp(lambda w: conv(x, w).square(), (weight,), (along,))[1] * back).sum())(x)

    def bend(conv, x: Tensor, weight: Tensor) -> Tensor:
        """Directional derivative of the weight's gradient."""
        return jvp(grad(lambda w: (conv(x, w).square() * back).sum()), (weight,), (along,))[1]

    def twice(conv, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient of a gradient's size, in both."""
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        first = torch.autograd.grad((conv(x, weight).square() * back).sum(), (x, weight), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, weight))
        return torch.cat([g.flatten() for g in second])

    for derivative in (slope, bend, twice):
        close(derivative(conv3x3, x, weight), derivative(conv2d, x, weight))


def test_what_it_cannot_do_is_refused() -> None:
    x, weight, _ = inputs((2, 16, 16, 4, 4))
    with pytest.raises(ValueError, match="no 3×3 convolution"):
        conv3x3(x, weight[:, :, 1:, 1:])
    with pytest.raises(ValueError, match="no 3×3 convolution"):
        conv3x3(x[0], weight)
    with pytest.raises(ValueError, match="channels must be among"):
        conv3x3(x[:, :8], weight[:, :8])


def test_availability() -> None:
    x, weight, _ = inputs((2, 16, 16, 4, 4))
    assert supports(x.bfloat16(), weight, 1) == CUDA
    assert not supports(x, weight, 1)
    assert not supports(x.bfloat16(), weight, 2)
    assert not supports(x.bfloat16().contiguous(), weight, 1)
    assert not supports(x.bfloat16(), weight[:8], 1)
