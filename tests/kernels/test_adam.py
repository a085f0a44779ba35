"""Adam in one pass against torch's, run by run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from accord.kernels._triton import triton
from accord.kernels.adam import scales_of
from accord.optim import Adam
from accord.optim import adam as module

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(triton is None, reason="needs Triton")
RATES, DECAYS = [0.01, 0.1, 0.003], [0.0, 0.3, 2.0]
SHAPES = [(3, 700, 5), (3, 4)]  # more than a block, and less


def drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def gradients(step: int) -> list[Tensor | None]:
    """The second parameter is moved every other step alone."""
    return [drawn(SHAPES[0], 10 + step), drawn(SHAPES[1], 50 + step) if step % 2 else None]


def alone(run: int, steps: int, schedule: float = 1.0) -> list[Tensor]:
    """By torch's Adam; the first parameter has the L2 term."""
    parameters = [nn.Parameter(drawn(shape, k)[run].clone()) for k, shape in enumerate(SHAPES)]
    groups = [{"params": [parameters[0]], "weight_decay": DECAYS[run]}, {"params": [parameters[1]]}]
    adam = torch.optim.Adam(groups, lr=RATES[run])
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = RATES[run] * schedule**step
        for parameter, grad in zip(parameters, gradients(step), strict=True):
            parameter.grad = None if grad is None else grad[run].clone()
        adam.step()
    return [parameter.detach() for parameter in parameters]


@pytest.fixture(params=[False, pytest.param(True, marks=needs_triton)], ids=["torch", "one pass"])
def one_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether our kernel makes the steps."""
    monkeypatch.setattr(module, "kernels_work", lambda device: request.param)
    return request.param


def stacked(decays: list[float] = DECAYS) -> tuple[list[nn.Parameter], Adam]:
    parameters = [nn.Parameter(drawn(shape, k)) for k, shape in enumerate(SHAPES)]
    return parameters, Adam(parameters, parameters[:1], RATES, decays)


def moved(optimiser: Adam, parameters: list[nn.Parameter], step: int, rows: Tensor) -> None:
    optimiser.clear()
    for parameter, grad in zip(parameters, gradients(step), strict=True):
        parameter.grad = None if grad is None else grad.index_select(0, rows)
    optimiser.step()


def test_every_run_steps_as_it_would_alone(one_pass: bool) -> None:
    parameters, optimiser = stacked()
    assert optimiser._one_pass == one_pass
    for step in range(6):
        optimiser.set_share(0.9**step)
        moved(optimiser, parameters, step, torch.arange(3, device=DEVICE))
    for run in range(3):
        for ours, theirs in zip(parameters, alone(run, 6, 0.9), strict=True):
            assert torch.allclose(ours[run], theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("one_pass")
def test_those_who_stay_continue_and_a_state_is_loaded() -> None:
    parameters, optimiser = stacked()
    for step in range(3):
        moved(optimiser, parameters, step, torch.arange(3, device=DEVICE))
    rows = torch.tensor([0, 2], device=DEVICE)
    optimiser.clear()
    for parameter in parameters:
        parameter.data = parameter.data.index_select(0, rows)
    optimiser.keep(rows)
    state = {name: tensor.clone() for name, tensor in optimiser.state_dict().items()}
    others, again = stacked()
    for other, parameter in zip(others, parameters, strict=True):
        other.data = parameter.data.clone()
    again.keep(rows)
    again.load_state_dict(state)
    for step in range(3, 6):
        moved(optimiser, parameters, step, rows)
        moved(again, others, step, rows)
    for place, run in enumerate((0, 2)):
        for ours, theirs in zip(parameters, alone(run, 6), strict=True):
            assert torch.allclose(ours[place], theirs, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(one, other) for one, other in zip(parameters, others, strict=True))


@needs_triton
def test_one_l2_factor_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    both = []
    for kernel in (True, False):
        monkeypatch.setattr(module, "kernels_work", lambda device, kernel=kernel: kernel)
        both.append(stacked([0.3] * 3))
    assert [optimiser._one_pass for _, optimiser in both] == [True, False]
    for step in range(4):
        for parameters, optimiser in both:
            moved(optimiser, parameters, step, torch.arange(3, device=DEVICE))
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(both[0][0], both[1][0], strict=True))


def test_scales_undo_the_beginning_at_zero() -> None:
    steps = torch.tensor([1.0, 10.0, 1e6], dtype=torch.float64)
    found = scales_of(steps, torch.tensor((0.9, 0.999), dtype=torch.float64))
    for (mean, root), step in zip(found.tolist(), steps.tolist(), strict=True):
        assert mean == pytest.approx(1 / (1 - 0.9**step), rel=1e-6)
        assert root == pytest.approx((1 - 0.999**step) ** -0.5, rel=1e-6)
