"""Our optimisers against torch's: bit for bit for one run, and run by run for several."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from accord.optim import SGD, Adam, MetaAdam, Optimiser

RATES, DECAYS = [0.01, 0.1, 0.003], [0.0, 0.3, 2.0]
SHAPES = [(700, 5), (4,)]
STEPS = 6


def drawn(shape: tuple[int, ...], seed: int, runs: int = 3) -> Tensor:
    """Of ``runs`` runs, the first being the same whatever their number."""
    each = [torch.randn(shape, generator=torch.Generator().manual_seed(100 * seed + r)) for r in range(runs)]
    return torch.stack(each)


def gradients(step: int, runs: int = 3) -> list[Tensor | None]:
    """The second parameter is moved every other step alone."""
    return [drawn(SHAPES[0], 10 + step, runs), drawn(SHAPES[1], 50 + step, runs) if step % 2 else None]


def made(kind: str, rates: list[float], decays: list[float], clip: float | None, first: int = 0) -> Any:
    """Runs from the ``first``: (R, …) where there are several, as they are where there is one."""
    runs = len(rates)
    whole = [drawn(shape, k, first + runs)[first:] for k, shape in enumerate(SHAPES)]
    parameters = [nn.Parameter(one if runs > 1 else one[0]) for one in whole]
    optimiser: Optimiser
    if kind == "adam":
        optimiser = Adam(parameters, parameters[:1], rates, decays)
    else:
        optimiser = SGD(parameters, parameters[:1], rates, decays, clip=clip)
    return parameters, optimiser


def moved(parameters: list[nn.Parameter], optimiser: Optimiser, first: int = 0, schedule: float = 1.0) -> None:
    runs = len(optimiser.rates)
    for step in range(STEPS):
        optimiser.set_share(schedule**step)
        optimiser.clear()
        for parameter, grad in zip(parameters, gradients(step, first + runs), strict=True):
            own = None if grad is None else grad[first:]
            parameter.grad = own if own is None or runs > 1 else own[0].clone()
        optimiser.step()


def by_torch(kind: str, run: int, rate: float, decay: float, clip: float | None, schedule: float) -> list[Tensor]:
    """One run, by torch's optimiser; the first parameter has the L2 term."""
    parameters = [nn.Parameter(drawn(shape, k)[run]) for k, shape in enumerate(SHAPES)]
    groups = [{"params": [parameters[0]], "weight_decay": decay}, {"params": [parameters[1]]}]
    if kind == "adam":
        theirs: torch.optim.Optimizer = torch.optim.Adam(groups, lr=rate, fused=True)
    else:
        theirs = torch.optim.SGD(groups, lr=rate, momentum=0.9, fused=True)
    for step in range(STEPS):
        for group in theirs.param_groups:
            group["lr"] = rate * schedule**step
        for parameter, grad in zip(parameters, gradients(step), strict=True):
            parameter.grad = None if grad is None else grad[run].clone()
        if clip is not None:
            clip_grad_norm_([p for p in parameters if p.grad is not None], clip, foreach=True)
        theirs.step()
    return [parameter.detach() for parameter in parameters]


KINDS = [("adam", None), ("sgd", None), ("sgd", 1.5)]


@pytest.mark.parametrize("schedule", [1.0, 0.9])
@pytest.mark.parametrize(("kind", "clip"), KINDS)
@pytest.mark.parametrize("run", range(3))
def test_one_run_steps_as_torch_does_bit_for_bit(run: int, kind: str, clip: float | None, schedule: float) -> None:
    parameters, optimiser = made(kind, RATES[run : run + 1], DECAYS[run : run + 1], clip, run)
    moved(parameters, optimiser, run, schedule)
    expected = by_torch(kind, run, RATES[run], DECAYS[run], clip, schedule)
    for ours, theirs in zip(parameters, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("schedule", [1.0, 0.9])
@pytest.mark.parametrize(("kind", "clip"), KINDS)
@pytest.mark.parametrize(
    ("rates", "decays"), [(RATES, DECAYS), (RATES, [0.3] * 3), ([0.01] * 3, DECAYS), ([0.01] * 3, [0.3] * 3)]
)
def test_each_of_several_runs_steps_as_torch_does(
    rates: list[float], decays: list[float], kind: str, clip: float | None, schedule: float
) -> None:
    """With a rate and an L2 factor of its own, or with those of all."""
    parameters, optimiser = made(kind, rates, decays, clip)
    moved(parameters, optimiser, 0, schedule)
    for run in range(3):
        expected = by_torch(kind, run, rates[run], decays[run], clip, schedule)
        for ours, theirs in zip(parameters, expected, strict=True):
            torch.testing.assert_close(ours[run], theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "clip"), KINDS)
def test_a_state_that_does_not_fit_is_refused(kind: str, clip: float | None) -> None:
    _, optimiser = made(kind, RATES, DECAYS, clip)
    state = {name: tensor.clone() for name, tensor in optimiser.state_dict().items()}
    name = next(iter(state))
    for wrong in ({}, {**state, "more": state[name]}, {**state, name: state[name][:, 1:]}):
        with pytest.raises(ValueError, match="moment"):
            optimiser.load_state_dict(wrong)
    with pytest.raises(ValueError, match="moment"):
        optimiser.load_state_dict({**state, name: state[name].double()})
    optimiser.load_state_dict(state)


def test_meta_adam_is_torchs() -> None:
    ours, theirs = ([nn.Parameter(drawn(shape, k)[0]) for k, shape in enumerate(SHAPES)] for _ in range(2))
    meta = MetaAdam(ours, 0.01, 0.1)
    adam = torch.optim.Adam(theirs, lr=0.01, weight_decay=0.1, foreach=False, fused=False)
    for step in range(STEPS):
        for parameters in (ours, theirs):
            for k, parameter in enumerate(parameters):
                parameter.grad = drawn(SHAPES[k], 10 * step + k)[0]
        meta.step()
        adam.step()
        assert all(parameter.grad is None for parameter in ours)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    with pytest.raises(ValueError, match="moments"):
        meta.load_state_dict({})
