"""The fast binary objectives against their plain references, and the properties they must have."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord.objectives import binary
from accord.objectives import binary_reference as plain

LOGIT = st.floats(-40, 40)
LABEL = st.sampled_from([0, 1])
CONSTANT = st.sampled_from([0.0, 1.0, 10.0, 1000.0])


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def agrees(fast: torch.Tensor, reference: float) -> bool:
    return torch.allclose(fast, tensor(reference), rtol=1e-9, atol=1e-12)


@given(LOGIT, LABEL)
def test_cross_entropy_is_the_reference(f: float, label: int) -> None:
    assert agrees(binary.cross_entropy(tensor(f), tensor(label)), plain.cross_entropy(f, label))


@given(LOGIT, LOGIT, LABEL, CONSTANT)
def test_dp_and_dn_are_the_reference(f: float, h: float, label: int, constant: float) -> None:
    args = tensor(f), tensor(h), tensor(label)
    dp = binary.denoising(*args, constant=constant, sub_task="dp")
    dn = binary.denoising(*args, constant=constant, sub_task="dn")
    assert agrees(dp, plain.denoise_positives(f, h, label, constant))
    assert agrees(dn, plain.denoise_negatives(f, h, label, constant))


@given(LOGIT, LOGIT, LOGIT, LABEL)
def test_joint_is_the_reference(f: float, h: float, h_prime: float, label: int) -> None:
    fast = binary.joint_denoising(tensor(f), tensor(h), tensor(h_prime), tensor(label))
    assert agrees(fast, plain.joint_denoising(f, h, h_prime, label))


@given(LOGIT, LOGIT, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_agreement_weighs_both_directions(p: float, q: float, alpha: float) -> None:
    expected = alpha * plain.kl_divergence(p, q) + (1 - alpha) * plain.kl_divergence(q, p)
    assert agrees(binary.agreement(tensor(p), tensor(q), alpha), expected)


@given(LOGIT, LOGIT, LOGIT)
def test_real_positive_probability_is_the_reference(f: float, h: float, h_prime: float) -> None:
    fast = binary.real_positive_probability(tensor(f), tensor(h), tensor(h_prime))
    assert agrees(fast, plain.real_positive_probability(f, h, h_prime))


@given(st.floats(-1e4, 1e4, width=32), st.floats(-1e4, 1e4, width=32))
def test_kl_is_never_negative_and_nought_when_equal(p: float, q: float) -> None:
    left, right = torch.tensor([p]), torch.tensor([q])
    assert binary.kl_divergence(left, right).item() >= -1e-6
    assert binary.kl_divergence(left, left).item() == 0


@pytest.mark.parametrize("sub_task", ["dp", "dn"])
def test_denoising_gradients(sub_task: binary.SubTask) -> None:
    torch.manual_seed(0)
    f, h = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda f, h: binary.denoising(f, h, labels, constant=10.0, sub_task=sub_task), (f, h)
    )


def test_joint_and_agreement_gradients() -> None:
    torch.manual_seed(1)
    f, g, h = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(3))
    labels = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda f, g, h: binary.joint_denoising(f, g, h, labels), (f, g, h))
    for alpha in (0.0, 0.3, 1.0):
        assert torch.autograd.gradcheck(lambda f, g, a=alpha: binary.agreement(g, f, a), (f, g))
    assert torch.autograd.gradcheck(binary.real_positive_probability, (f, g, h))


def test_everything_stays_finite_at_extreme_logits() -> None:
    grid = torch.tensor([-1e4, -100.0, -1.0, 0.0, 1.0, 100.0, 1e4])
    f, g, h, k = (x.flatten().requires_grad_() for x in torch.meshgrid(grid, grid, grid, grid, indexing="ij"))
    for label in (0.0, 1.0):
        labels = torch.full_like(f, label)
        losses = [
            binary.cross_entropy(f, labels),
            binary.denoising(f, h, labels, constant=1000.0, sub_task="dp"),
            binary.denoising(f, h, labels, constant=1000.0, sub_task="dn"),
            binary.joint_denoising(f, h, k, labels),
            binary.agreement(g, f, 0.5),
            binary.real_positive_probability(f, h, k),
        ]
        for loss in losses:
            assert torch.isfinite(loss).all()
            for grad in torch.autograd.grad(loss.sum(), [f, g, h, k], allow_unused=True):
                assert grad is None or torch.isfinite(grad).all()


def _best(loss: torch.Tensor, grid: torch.Tensor) -> float:
    return grid[loss.argmin()].item()


def test_with_ideal_noise_models_the_loss_is_least_at_the_truth() -> None:
    """Where h and h′ know how labels arise, f is pulled to the true class of each kind of example."""
    grid = torch.linspace(-12, 12, 241, dtype=torch.float64)
    sure, never = 12.0, -12.0

    def dp(h: float, label: int) -> torch.Tensor:
        labels = torch.full_like(grid, label)
        return binary.denoising(grid, torch.full_like(grid, h), labels, constant=100.0, sub_task="dp")

    def dn(h: float, label: int) -> torch.Tensor:
        labels = torch.full_like(grid, label)
        return binary.denoising(grid, torch.full_like(grid, h), labels, constant=100.0, sub_task="dn")

    # A click on a pair where dislikes never yield clicks is a like, and so is a kept click in DN.
    assert _best(dp(never, 1), grid) > 5
    assert _best(dn(sure, 1), grid) > 5
    # A non-click is a dislike in DP (C1 says so) and where likes always yield clicks in DN.
    assert _best(dp(never, 0), grid) < -5
    assert _best(dn(sure, 0), grid) < -5
    # A click where dislikes always yield clicks says nothing in DP: the loss is flat, agreement decides.
    free = dp(sure, 1)
    assert (free.max() - free.min()).item() < 1e-4
    assert abs(_best(free + binary.kl_divergence(torch.full_like(grid, -2.0), grid), grid) + 2.0) < 0.11
