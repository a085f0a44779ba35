"""Adam and SGD over stacks, with a rate and an L2 factor for each run: one set of calls, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from accord.kernels import kernels_work
from accord.kernels.adam import adam_step, scales_of
from accord.methods.base import along_runs, optimiser_tensors, restore_optimiser
from accord.models.stack import rows_of
from accord.training.checkpoints import fill
from accord.training.loop import TrainingOptions
from accord.training.optimisers import BETAS, EPSILON, MOMENTUM

_MANY: Any = torch
"""Whose operations on many tensors at once torch itself uses in its optimisers, but does not export."""
SMALL = 1e-6
"""Added to a gradient's length before it is cut, as torch does."""


def stacked_optimiser(
    stacks: dict[str, Any], target: str, options: Sequence[TrainingOptions], capturable: bool = False
) -> StackedOptimiser:
    """The optimiser of a phase whose runs differ in rate and L2 factor alone."""
    parameters = [p for one in stacks.values() for p in one.parameters()]
    decayed = [p for role, one in stacks.items() if role == target for p in one.parameters()]
    device = parameters[0].device
    rates = torch.tensor([o.learning_rate for o in options], device=device)
    decays = torch.tensor([o.weight_decay for o in options], device=device)
    if options[0].optimiser == "sgd":
        return StackedSGD(parameters, decayed, rates, decays, options[0].clip)
    if kernels_work(device) and all(p.is_contiguous() and p.dtype == torch.float32 for p in parameters):
        return OnePassAdam(parameters, decayed, rates, decays)
    return StackedAdam(parameters, decayed, rates, decays, capturable)


class StackedOptimiser:
    """What all share: the rates and factors of the runs that are in the stack."""

    def __init__(
        self, parameters: list[nn.Parameter], decayed: list[nn.Parameter], rates: Tensor, decays: Tensor
    ) -> None:
        self.parameters, self.decayed = parameters, decayed
        self.rates, self.decays = rates, decays
        self.moments: list[Any] = []
        """Of each parameter, where an optimiser keeps them itself."""
        self.now = rates.clone()
        """The rate by which each run steps now; a recorded step reads it where it is."""
        each = decays.tolist()  # looked at once: a step must not ask the device
        self._same_decay: float | None = each[0] if len(set(each)) == 1 else None

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        raise NotImplementedError

    def set_rate(self, rate: float) -> None:
        """The share of its own rate that every run steps by now."""
        torch.mul(self.rates, rate, out=self.now)

    def _add_decay(self) -> None:
        moving = [(p, p.grad) for p in self.decayed if p.grad is not None]
        if moving and self._same_decay is not None:
            _MANY._foreach_add_([g for _, g in moving], [p for p, _ in moving], alpha=self._same_decay)
            return
        for parameter, grad in moving:
            grad.addcmul_(parameter, along_runs(self.decays, parameter))

    def state(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def restore(self, state: dict[str, Tensor]) -> None:
        fill(self.state(), state)

    def release(self) -> None:
        self.clear()
        self.moments.clear()

    def keep(self, rows: Tensor) -> None:
        """Go on with these runs alone."""
        self.rates, self.decays, self.now = self.rates[rows], self.decays[rows], self.now[rows]


class StackedAdam(StackedOptimiser):
    """One fused call; a run whose rate is not the highest takes its share of the step."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        decayed: list[nn.Parameter],
        rates: Tensor,
        decays: Tensor,
        capturable: bool = False,
    ) -> None:
        super().__init__(parameters, decayed, rates, decays)
        self.highest = float(rates.max())
        self._same = bool((rates == self.highest).all())  # looked at once: a step must not ask the device
        rate = torch.tensor(self.highest, device=rates.device) if capturable else self.highest
        self.adam = torch.optim.Adam(
            self.parameters, lr=rate, betas=BETAS, eps=EPSILON, fused=True, capturable=capturable
        )

    @torch.no_grad()
    def step(self) -> None:
        self._add_decay()
        moving = [p for p in self.parameters if p.grad is not None]
        before = None if self._same else [p.clone() for p in moving]
        self.adam.step()
        if before is not None:  # Adam's step is proportional to the rate: take each run's share of the longest
            for parameter, old in zip(moving, before, strict=True):
                torch.lerp(old, parameter, along_runs(self.rates / self.highest, parameter), out=parameter)

    def set_rate(self, rate: float) -> None:
        super().set_rate(rate)
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):  # a captured step reads it where it is
                group["lr"].fill_(rate * self.highest)
            else:
                group["lr"] = rate * self.highest

    def state(self) -> dict[str, Tensor]:
        return optimiser_tensors(self.adam)

    def restore(self, state: dict[str, Tensor]) -> None:
        restore_optimiser(self.adam, state)

    def release(self) -> None:
        super().release()
        self.adam.state.clear()

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        for state in self.adam.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = rows_of(state[name], rows)


class OnePassAdam(StackedOptimiser):
    """Adam by our own kernel, one pass over a parameter and its moments."""

    def __init__(
        self, parameters: list[nn.Parameter], decayed: list[nn.Parameter], rates: Tensor, decays: Tensor
    ) -> None:
        super().__init__(parameters, decayed, rates, decays)
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
        self.steps = torch.zeros(len(parameters), dtype=torch.float64, device=rates.device)
        """How often each parameter has been moved."""
        self._betas = torch.tensor(BETAS, dtype=torch.float64, device=rates.device)
        self._moved: dict[tuple[int, ...], Tensor] = {}
        own = set(map(id, decayed))
        self._is_decayed = [id(p) in own and self._same_decay != 0.0 for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        moving = tuple(k for k, p in enumerate(self.parameters) if p.grad is not None)
        if moving not in self._moved:  # in a plain step, which comes before any that is recorded
            self._moved[moving] = torch.zeros_like(self.steps)
            self._moved[moving][list(moving)] = 1.0
        self.steps.add_(self._moved[moving])
        scales = scales_of(self.steps, self._betas)
        for k in moving:
            parameter = self.parameters[k]
            grad: Any = parameter.grad
            decays = self.decays if self._is_decayed[k] else None
            adam_step(parameter.data, grad, self.moments[k], self.now, decays, scales, k, BETAS, EPSILON)

    def state(self) -> dict[str, Tensor]:
        pairs = {f"{k} {n}": moment for k, pair in enumerate(self.moments) for n, moment in enumerate(pair)}
        return pairs | {"steps": self.steps}

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self.moments = [(rows_of(first, rows), rows_of(second, rows)) for first, second in self.moments]


class StackedSGD(StackedOptimiser):
    """SGD with momentum; a run's gradient that is longer than ``clip`` is cut to it."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        decayed: list[nn.Parameter],
        rates: Tensor,
        decays: Tensor,
        clip: float | None,
    ) -> None:
        super().__init__(parameters, decayed, rates, decays)
        self.clip = clip
        self.moments = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self) -> None:
        moving = [(p, p.grad, m) for p, m in zip(self.parameters, self.moments, strict=True) if p.grad is not None]
        if not moving:
            return
        parameters, grads, moments = map(list, zip(*moving, strict=True))
        if self.clip is not None:
            lengths = torch.cat([_in_memory(grad) for grad in grads], 1).norm(dim=1)
            cut = (self.clip / (lengths + SMALL)).clamp(max=1.0)
            for grad in grads:
                grad.mul_(along_runs(cut, grad))
        self._add_decay()
        _MANY._foreach_mul_(moments, MOMENTUM)
        _MANY._foreach_add_(moments, grads)
        for parameter, moment in zip(parameters, moments, strict=True):
            parameter.addcmul_(moment, along_runs(self.now, parameter), value=-1)

    def state(self) -> dict[str, Tensor]:
        return {str(k): moment for k, moment in enumerate(self.moments)}

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self.moments = [rows_of(moment, rows) for moment in self.moments]


def _in_memory(values: Tensor) -> Tensor:
    """(R, numbers), in the order they lie in memory."""
    return (values.movedim(2, -1) if values.dim() == 5 else values).flatten(1)
