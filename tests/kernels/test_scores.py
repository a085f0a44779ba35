"""NeuMF's perceptron over all pairs in one kernel, against its layers."""

from __future__ import annotations

import pytest
import torch

from accord.kernels import scores
from accord.kernels._triton import triton
from accord.kernels.scores import can_score_pairs
from accord.models.recommenders import NeuMF

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
needs_triton = pytest.mark.skipif(triton is None, reason="needs Triton")


def made(dims: int, users: int = 11, items: int = 37) -> NeuMF:
    torch.manual_seed(0)
    model = NeuMF(users, items, dims, item_bias=True, init_std=1.0)
    for parameter in (model.first.bias, model.second.bias, model.third.bias, model.item_bias):
        torch.nn.init.normal_(parameter)  # pyright: ignore
    return model.to(DEVICE).requires_grad_(False)


@needs_triton
@pytest.mark.parametrize("dims", sorted(scores.SUPPORTED))
@pytest.mark.parametrize(("users", "items"), [(11, 37), (8, 16), (1, 1)])
def test_the_kernel_gives_what_the_layers_give(
    dims: int, users: int, items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(dims, users, items)
    asked = torch.arange(users, device=DEVICE).flip(0)
    pairs = asked.repeat_interleave(items), torch.arange(items, device=DEVICE).repeat(users)
    with torch.no_grad():
        expected = model.logits(*pairs).view(users, items)
        monkeypatch.setattr(scores, "kernels_work", lambda device: True)
        assert can_score_pairs(model.mlp_users, model.third)
        ours = model.scores(asked)
        again = model.scores(asked)
    assert torch.allclose(ours, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours, again)


@needs_triton
def test_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "kernels_work", lambda device: True)
    with torch.no_grad():
        assert made(16).scores(torch.zeros(0, dtype=torch.int64, device=DEVICE)).shape == (0, 37)


def test_where_it_does_not_serve_the_layers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(16)
    assert not can_score_pairs(model.mlp_users.cpu(), model.third)  # no GPU
    monkeypatch.setattr(scores, "kernels_work", lambda device: True)
    assert not can_score_pairs(model.mlp_users, model.third)  # a gradient may be asked for
    with torch.no_grad():
        assert can_score_pairs(model.mlp_users, model.third)
        assert not can_score_pairs(model.mlp_users.double(), model.third)
        assert not can_score_pairs(model.mlp_users, torch.nn.Linear(24, 12))
