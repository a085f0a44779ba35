"""BPR and the sampled softmax against their plain form, and their gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from accord.objectives import binary
from accord.objectives import binary_reference as plain

LOGIT = st.floats(-30, 30)
FAST = {"bpr": binary.bpr, "softmax": binary.sampled_softmax}
PLAIN = {"bpr": plain.bpr, "softmax": plain.sampled_softmax}


@pytest.mark.parametrize("kind", FAST)
@given(click=LOGIT, others=st.lists(LOGIT, min_size=1, max_size=6))
def test_fast_is_the_reference(kind: str, click: float, others: list[float]) -> None:
    f = torch.tensor([click, *others], dtype=torch.float64).view(-1, 1, 1)
    found = binary.RANKING[kind](f)
    assert found.shape == (1, 1, 1)
    assert found.item() == pytest.approx(PLAIN[kind](click, others), rel=1e-9, abs=1e-12)


def test_with_one_non_click_both_are_the_same() -> None:
    f = torch.randn(2, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(binary.bpr(f), binary.sampled_softmax(f), rtol=1e-12)


@pytest.mark.parametrize("kind", FAST)
def test_gradients(kind: str) -> None:
    f = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert torch.autograd.gradcheck(FAST[kind], (f,))


@pytest.mark.parametrize("kind", FAST)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_logits_stay_finite(kind: str, sign: float) -> None:
    f: Tensor = torch.tensor([sign * 1e4, -sign * 1e4, 0.0]).view(3, 1, 1).requires_grad_()
    loss = FAST[kind](f)
    (grad,) = torch.autograd.grad(loss.sum(), f)
    assert loss.isfinite().all()
    assert grad.isfinite().all()
