"""The fast multi-class objectives against their plain references, and the properties they must have."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord.objectives import binary, multiclass
from accord.objectives import multiclass_reference as plain

LOGIT = st.floats(-30, 30)
CONSTANT = st.sampled_from([0.0, 1.0, 10.0, 100.0])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], list[list[float]], int, int]:
    """f's logits, hφ's logits for every true class, the given label, and the class of the step."""
    n = draw(st.integers(2, 5))
    row = st.lists(LOGIT, min_size=n, max_size=n)
    return draw(row), [draw(row) for _ in range(n)], draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))


def double(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def parts(case: tuple[list[float], list[list[float]], int, int]) -> tuple[torch.Tensor, ...]:
    """f (1, n), costs (1, n), labels (1,), k."""
    f, h, label, k = case
    costs = -torch.log_softmax(double(h), 1)[:, label][None]
    return double([f]), costs, torch.tensor([label]), torch.tensor(k)


def close(fast: torch.Tensor, reference: float) -> bool:
    return torch.allclose(fast, double([reference]), rtol=1e-7, atol=1e-9)


def distribution(logits: list[float]) -> list[float]:
    return plain.softmax(logits)


@given(cases())
def test_cross_entropy_and_quality_are_the_reference(case: tuple) -> None:
    f, _, labels, _ = parts(case)
    assert close(multiclass.cross_entropy(f, labels), plain.cross_entropy(case[0], case[2]))
    assert close(multiclass.label_quality(f, labels), plain.softmax(case[0])[case[2]])


@given(cases(), CONSTANT, CONSTANT)
def test_stage_one_is_the_reference(case: tuple, c1: float, c2: float) -> None:
    f, costs, labels, k = parts(case)
    fast = multiclass.stage_one(f, costs[:, k], labels, k, c1, c2)
    h = [distribution(row) for row in case[1]]
    assert close(fast, plain.stage_one(distribution(case[0]), h, case[2], case[3], c1, c2))


@given(cases(), st.booleans())
def test_stage_two_is_the_reference(case: tuple, full: bool) -> None:
    f, costs, labels, k = parts(case)
    fast = multiclass.stage_two(f, costs[:, k], costs, labels, k, full=full)
    h = [distribution(row) for row in case[1]]
    assert close(fast, plain.stage_two(distribution(case[0]), h, case[2], case[3], full))


@given(cases())
def test_kl_and_posterior_are_the_reference(case: tuple) -> None:
    f, costs, labels, _ = parts(case)
    other = double([case[1][0]])
    assert close(multiclass.kl_divergence(f, other), plain.kl_divergence(case[0], case[1][0]))
    h = [distribution(row) for row in case[1]]
    fast = multiclass.given_label_posterior(f, costs, labels)
    assert close(fast, plain.given_label_posterior(distribution(case[0]), h, case[2]))


@given(LOGIT, LOGIT, st.sampled_from([0, 1]), CONSTANT)
def test_two_classes_are_the_binary_objective_term_by_term(f: float, h: float, label: int, constant: float) -> None:
    """k=0 is DP with C1 of class 0 = the binary C1; k=1 is DN with C1 of class 1 = the binary C0."""
    logits = double([[0.0, f]])  # P(y=1) = sigmoid(f)
    observed = double([[0.0, h]])  # hφ(x, k): P(ỹ=1 | y=k) = sigmoid(h)
    for k, sub_task in ((0, "dp"), (1, "dn")):
        cost = -torch.log_softmax(observed, 1)[:, label]
        # With two classes, nothing is left for C2: 1 − p_k − p_ỹ is nought where ỹ ≠ k.
        many = multiclass.stage_one(logits, cost, torch.tensor([label]), torch.tensor(k), constant, 1e3)
        two = binary.denoising(
            double([f]), double([h]), double([float(label)]), constant=constant, sub_task=sub_task
        )
        assert torch.allclose(many, two, rtol=1e-7, atol=1e-9)


def test_gradients_of_two_classes_are_the_binary_ones() -> None:
    torch.manual_seed(0)
    f, h = (torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([0, 1, 0, 1, 1, 0])
    for k, sub_task in ((0, "dp"), (1, "dn")):
        nought = torch.zeros_like(f)
        cost = -torch.log_softmax(torch.stack([nought, h], 1), 1).gather(1, labels[:, None]).squeeze(1)
        many = multiclass.stage_one(torch.stack([nought, f], 1), cost, labels, torch.tensor(k), 7.0, 3.0)
        two = binary.denoising(f, h, labels.double(), constant=7.0, sub_task=sub_task)
        ours, theirs = (torch.autograd.grad(loss.sum(), (f, h)) for loss in (many, two))
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(a, b)


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("k", [0, 1])
def test_large_logits_stay_finite(size: float, k: int) -> None:
    f = torch.tensor([[size, 0.0, -size], [0.0, size, size]], requires_grad=True)
    h = torch.tensor([[-size, size, 0.0], [size, -size, 0.0]], requires_grad=True)
    labels, prior = torch.tensor([1, 2]), torch.tensor([[-size, size, 0.0], [size, 0.0, size]])
    cost = -torch.log_softmax(h, 1).gather(1, labels[:, None]).squeeze(1)
    costs = cost.detach()[:, None].expand(-1, 3)
    step = torch.tensor(k)
    total = multiclass.stage_one(f, cost, labels, step, 1.0, 1.0)
    total = total + multiclass.stage_two(f, cost, costs, labels, step, full=True)
    total = total + multiclass.agreement(f, prior, 0.5) + multiclass.cross_entropy(f, labels)
    assert torch.isfinite(total).all()
    for grad in torch.autograd.grad(total.sum(), (f, h)):
        assert torch.isfinite(grad).all()


def test_kl_gradients() -> None:
    torch.manual_seed(1)
    p, q = (torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(multiclass.kl_divergence, (p, q))


def test_other_classes_costs_get_no_gradient() -> None:
    torch.manual_seed(2)
    f = torch.randn(5, 4, requires_grad=True)
    costs = torch.rand(5, 4, requires_grad=True)
    labels, k = torch.tensor([0, 1, 2, 3, 0]), torch.tensor(2)
    multiclass.stage_two(f, costs[:, 2], costs, labels, k, full=False).sum().backward()
    assert costs.grad is not None
    assert (costs.grad[:, [0, 1, 3]] == 0).all()
    assert (costs.grad[:, 2] > 0).all()


def test_some_classes_stand_for_all() -> None:
    """Over a round of steps the chosen classes' sums average to the sum over all classes, exactly."""
    torch.manual_seed(3)
    n, likely, in_turn = 30, 4, 5
    f, costs = torch.randn(6, n, dtype=torch.float64), torch.rand(6, n, dtype=torch.float64)
    labels, k = torch.randint(0, n, (6,)), torch.tensor(11)
    for full in (True, False):
        whole = multiclass.stage_two(f, costs[:, k], costs, labels, k, full=full)
        sums = []
        for step in range(n):
            chosen = multiclass.choose_classes(f, step, likely, in_turn)
            some = costs.gather(1, chosen.classes)
            sums.append(multiclass.stage_two(f, costs[:, k], some, labels, k, chosen, full=full))
        assert torch.allclose(torch.stack(sums).mean(0), whole)


def test_mean_of_probabilities() -> None:
    members = [torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0]])]
    mean = torch.softmax(multiclass.average(members), 1)
    assert torch.allclose(mean, torch.tensor([[0.625, 0.375]]))
