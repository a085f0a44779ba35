"""Batch norm, shortcut and ReLU of several runs against PyTorch's; on the CPU, run with TRITON_INTERPRET=1."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from accord.models.vision import norm_relu as module
from accord.models.vision.norm_relu import Averages, norm_relu

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
RUNS = 3
SHAPES = [(4, 16, 8, 8), (3, 32, 5, 4), (2, 64, 4, 4), (37, 16, 9, 9)]  # images, channels, height, width
kernels = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or not (CUDA or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs Triton, and CUDA or TRITON_INTERPRET=1",
)


def given(shape: tuple[int, ...], seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def drawn(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(DEVICE)

    images, channels, height, width = shape
    return {
        "x": drawn(RUNS, images, channels, height, width) * 2 + 30 * drawn(RUNS, 1, channels, 1, 1),
        "added": drawn(RUNS, images, channels, height, width),
        "back": drawn(RUNS, images, channels, height, width),
        "weight": drawn(RUNS, channels),
        "bias": drawn(RUNS, channels),
        "mean": drawn(RUNS, channels),
        "var": drawn(RUNS, channels).square() + 0.1,
    }


def one_by_one(g: dict[str, Tensor], with_added: bool, learning: bool) -> list[Tensor]:
    """Output, gradients and averages, written straight from the layers they replace."""
    found: list[list[Tensor]] = []
    for run in range(RUNS):
        own = {name: value[run].clone() for name, value in g.items()}
        leaves = [own[name].requires_grad_() for name in ("x", "weight", "bias", "added")]
        y = F.batch_norm(own["x"], own["mean"], own["var"], own["weight"], own["bias"], learning, 0.1, 1e-5)
        y = F.relu(y + own["added"] if with_added else y)
        grads = torch.autograd.grad(y, leaves if with_added else leaves[:3], own["back"])
        found.append([y.detach(), *grads, own["mean"], own["var"]])
    return [torch.stack(values) for values in zip(*found, strict=True)]


def _last(x: Tensor | None) -> Any:
    """Channels last."""
    return None if x is None else x.movedim(2, -1)


def _first(y: Tensor) -> Tensor:
    return y.movedim(-1, 2)


def together(g: dict[str, Tensor], with_added: bool, learning: bool) -> list[Tensor]:
    own = {name: value.clone() for name, value in g.items()}
    leaves = [own[name].requires_grad_() for name in ("x", "weight", "bias", "added")]
    averages = Averages(own["mean"], own["var"])
    added = own["added"] if with_added else None
    y = _first(norm_relu(_last(own["x"]), own["weight"], own["bias"], averages, _last(added), learning=learning))
    grads = torch.autograd.grad(y, leaves if with_added else leaves[:3], own["back"])
    return [y.detach(), *grads, own["mean"], own["var"]]


def close(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-4) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= tolerance * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("with_added", [False, True])
@pytest.mark.parametrize("learning", [False, True])
def test_by_pytorch_each_run_is_the_one_alone(with_added: bool, learning: bool) -> None:
    g = given(SHAPES[0])
    close(together(g, with_added, learning), one_by_one(g, with_added, learning))


@kernels
@pytest.mark.parametrize("with_added", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_kernels_agree(shape: tuple[int, ...], with_added: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runs_here", lambda x: True)
    monkeypatch.setattr(module, "PROGRAMS", 5)  # several blocks a program, the last ones not full or empty
    monkeypatch.setattr(module, "TILE", 512)
    g = given(shape)
    ours = together(g, with_added, True)
    close(ours, one_by_one(g, with_added, True))
    for first, second in zip(ours, together(g, with_added, True), strict=True):
        assert torch.equal(first, second)


def tangents(g: dict[str, Tensor], with_added: bool, names: Sequence[str], layers: Any) -> list[Tensor]:
    """What comes out, and how it moves along random directions of these inputs."""
    with torch.no_grad(), forward_ad.dual_level():
        own = {name: value.clone() for name, value in g.items()}
        for k, name in enumerate(names):
            own[name] = forward_ad.make_dual(own[name], given(g["x"].shape[1:], seed=k + 1)[name])
        y, tangent = forward_ad.unpack_dual(layers(own, with_added))
        return [y, tangent]


def _layers(own: dict[str, Tensor], with_added: bool) -> Tensor:
    """The layers it replaces, run by run."""
    each = []
    for run in range(RUNS):
        x, mean, var, weight, bias = (own[name][run] for name in ("x", "mean", "var", "weight", "bias"))
        y = F.batch_norm(x, mean, var, weight, bias, True, 0.1, 1e-5)
        each.append(F.relu(y + own["added"][run] if with_added else y))
    return torch.stack(each)


def _as_one(own: dict[str, Tensor], with_added: bool) -> Tensor:
    averages = Averages(own["mean"], own["var"])
    added = _last(own["added"]) if with_added else None
    return _first(norm_relu(_last(own["x"]), own["weight"], own["bias"], averages, added, learning=True))


@kernels
@pytest.mark.parametrize("with_added", [False, True])
@pytest.mark.parametrize("names", [("x", "weight", "bias", "added"), ("weight",), ("x",)], ids=str)
def test_the_kernels_agree_in_forward_mode(
    names: tuple[str, ...], with_added: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = given(SHAPES[3])
    theirs = tangents(g, with_added, names, _layers)
    monkeypatch.setattr(module, "runs_here", lambda x: True)
    monkeypatch.setattr(module, "PROGRAMS", 5)
    monkeypatch.setattr(module, "TILE", 512)
    close(tangents(g, with_added, names, _as_one), theirs)


@kernels
def test_the_kernels_agree_after_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runs_here", lambda x: True)
    g = given(SHAPES[1])
    with torch.no_grad():
        averages = Averages(g["mean"], g["var"])
        ours = norm_relu(_last(g["x"]), g["weight"], g["bias"], averages, _last(g["added"]), learning=False)
    close([_first(ours)], one_by_one(g, True, False)[:1])


@kernels
def test_half_precision_measures_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runs_here", lambda x: True)
    half = torch.bfloat16 if CUDA else torch.float16
    g = given(SHAPES[0])
    cut = {name: v.to(half).float() if name in ("x", "added", "back") else v for name, v in g.items()}
    own = {name: v.to(half) if name in ("x", "added") else v.clone() for name, v in cut.items()}
    averages = Averages(own["mean"], own["var"])
    ours = norm_relu(_last(own["x"]), own["weight"], own["bias"], averages, _last(own["added"]), learning=True)
    assert ours.dtype == half
    theirs = one_by_one(cut, True, True)
    close([own["mean"], own["var"]], theirs[-2:])
    close([_first(ours).float()], theirs[:1], 2**-8)
