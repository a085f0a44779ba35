"""What every optimiser offers to the training loop, and the rates and L2 factors of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_MANY: Any = torch
"""Untyped: torch's operations on many tensors at once, which its own optimisers use, are not public."""


class Optimiser:
    """Steps the parameters of R runs: (R, …) each, or of any shape where there is one run.

    The L2 term, on the parameters that are ``decayed``, is a weight decay. A parameter without a gradient, such as
    that of a network that is not part of a sub-task, is left as it is.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        decayed: Sequence[nn.Parameter],
        rates: Sequence[float],
        decays: Sequence[float],
        capturing: bool = False,
    ) -> None:
        own = set(map(id, decayed))
        self.parameters = list(parameters)
        self.is_decayed = [id(p) in own for p in self.parameters]
        device = self.parameters[0].device
        self.rates = torch.tensor(list(rates), device=device)
        self.decays = torch.tensor(list(decays), device=device)
        self.rate: float | None = rates[0] if len(set(rates)) == 1 else None
        """The rate of all runs, where they have one. Looked at once: a step must not ask the device."""
        self.decay: float | None = decays[0] if len(set(decays)) == 1 else None
        self.capturing = capturing
        self.now = self.rates.clone()
        """The rate by which each run steps now; a captured step reads it where it is."""
        self.share = 1.0

    def clear(self) -> None:
        """Clear the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Update what has a gradient."""
        raise NotImplementedError

    def set_share(self, share: float) -> None:
        """The share of its own rate by which every run steps now."""
        self.share = share
        torch.mul(self.rates, share, out=self.now)

    def step_rate(self) -> float | Tensor:
        """The rates of the next step: a number where that is all that is needed."""
        return self.now if self.capturing or self.rate is None else self.rate * self.share

    def moving(self) -> list[int]:
        return [k for k, parameter in enumerate(self.parameters) if parameter.grad is not None]

    def add_decay(self, moving: Sequence[int]) -> None:
        """Add each run's L2 term to its gradients."""
        own = [self.parameters[k] for k in moving if self.is_decayed[k]]
        if self.decay is not None:
            if own and self.decay:
                _MANY._foreach_add_([p.grad for p in own], own, alpha=self.decay)
            return
        for parameter in own:
            parameter.grad.addcmul_(parameter, along_runs(self.decays, parameter))  # pyright: ignore

    def state_dict(self) -> dict[str, Tensor]:
        """Moments and counters, for a checkpoint."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        own = self.state_dict()
        if set(own) != set(state):
            raise ValueError("some moments are missing")
        with torch.no_grad():
            for name, tensor in own.items():
                if tensor.shape != state[name].shape or tensor.dtype != state[name].dtype:
                    raise ValueError(f"the moment '{name}' does not fit its parameter")
                tensor.copy_(state[name])

    def keep(self, rows: Tensor) -> None:
        """Continue with these runs alone."""
        self.rates, self.decays, self.now = self.rates[rows], self.decays[rows], self.now[rows]

    def release(self) -> None:
        """Let go of gradients and moments."""
        self.clear()


def along_runs(values: Tensor, like: Tensor) -> Tensor:
    """A number of each run, (R,), to go with a tensor (R, …)."""
    return values.view(-1, *[1] * (like.dim() - 1))
