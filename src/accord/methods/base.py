"""The one interface of training methods, shared by every task.

A method turns settings and a way to build networks into phases. A phase says which networks learn, from
which loss, and which of them is the target that validation watches; the training loop does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Batch(Protocol):
    """Examples of any task: what the methods need to know of them."""

    def __len__(self) -> int: ...

    @property
    def count(self) -> int | Tensor:
        """How many examples there are; for runs whose batches differ in size, of each run (R, 1)."""
        ...

    @property
    def inside(self) -> Tensor | None:
        """Where batches of several runs are padded to one width: True where there is an example."""
        ...

    @property
    def labels(self) -> Tensor:
        """The observed, maybe wrong labels; broadcasts with the logits."""
        ...

    def logits(self, network: nn.Module) -> Tensor:
        """A network's logits for these examples."""
        ...

    def frozen_logits(self, network: nn.Module) -> Tensor:
        """The logits of a network that does not learn here, such as DeCA(p)'s prior; no gradient."""
        ...

    def mean(self, losses: Tensor) -> Tensor:
        """The step's loss: for clicks, the mean over positives plus the mean over negatives."""
        ...


class Clock(NamedTuple):
    """When a step happens: steps and whole epochs done so far in its phase, and the step size."""

    step: int | Tensor
    """A tensor where the step is captured once and replayed."""
    epoch: int = 0
    rate: float | Tensor = 0.0
    recorded: int = 0
    """While a step is captured: one of the steps that it stands for."""

    def turn(self, of: int) -> int:
        """Whose turn it is where so many kinds of step alternate."""
        return (self.recorded if isinstance(self.step, Tensor) else self.step) % of


Loss = Callable[[Batch, Clock], Tensor]
"""The loss of a batch; a pure function of the phase's networks, the batch and the clock."""


class Build(Protocol):
    """Builds the network of a role: fresh, seeded for that role alone, on the training device."""

    def __call__(self, role: str, model: str | None = None) -> nn.Module: ...


class Everything(Protocol):
    """A training set, seen from a method that looks at all of it between epochs."""

    def __len__(self) -> int: ...

    def in_order(self) -> Iterator[Batch]:
        """Every example once, as it is, in its own order."""
        ...


Sampling = Callable[[Any, int], dict[str, Any]]
"""What to draw in an epoch, given the training set and the epoch: keywords of the set's ``epoch``."""


class Memory(Protocol):
    """Something with a state of its own."""

    def state(self) -> dict[str, Tensor]: ...

    def restore(self, state: dict[str, Tensor]) -> None: ...

    def keep(self, runs: Tensor) -> None:
        """Of a stack, go on with these runs alone."""
        ...


@dataclass(frozen=True)
class Phase:
    """One stretch of training."""

    name: str
    networks: dict[str, nn.Module]
    """Every network that learns here; ``target`` is one of them."""
    target: str
    """The network that is validated and carries the L2 term."""
    loss: Loss
    kept: tuple[str, ...]
    """Networks whose best weights are restored at the end."""
    sampling: Sampling = lambda data, epoch: {}
    """Asked before every epoch: which negatives or which rows to draw."""
    stage: Callable[[int], Hashable] = lambda epoch: 0
    """Epochs of one stage have the same loss, step by step, so that one captured step serves them all."""
    turns: int = 1
    """Kinds of step that alternate; each is captured by itself."""
    shared: bool = False
    """Whether runs of one seed, rate, L2 factor and data go through it alike, whatever their other settings."""
    memory: Memory | None = None
    """What it remembers from step to step beside its networks, for checkpoints."""
    last: dict[str, nn.Module] = field(default_factory=dict)
    """By role, networks that are given the weights of the last epoch when others are put back."""


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and counters of a torch optimiser, by the number of their parameter."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return {
        f"{k} {name}": torch.as_tensor(value)
        for k, parameter in enumerate(parameters)
        for name, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Moments and counters put back."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    on_device = any(group.get("capturable", False) for group in optimiser.param_groups)
    names: dict[str, set[str]] = {}
    for key in tensors:
        k, _, name = key.partition(" ")
        names.setdefault(k, set()).add(name)
    if len({frozenset(own) for own in names.values()}) > 1:
        raise ValueError("some moments are missing")
    for key, tensor in tensors.items():
        k, _, name = key.partition(" ")
        parameter = parameters[int(k)]
        wanted = () if name == "step" else parameter.shape
        if tensor.shape != wanted or not tensor.is_floating_point():  # a fused step would write beyond it
            raise ValueError(f"the moment '{key}' does not fit its parameter")
        if name == "step":
            where = parameter.device if on_device or parameter.is_cuda else tensor.device
            optimiser.state[parameter][name] = tensor.to(where, copy=True)
        else:  # in memory as the parameter is: a fused step goes through both as they lie
            optimiser.state[parameter][name] = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)


def along_runs(values: Tensor, like: Tensor) -> Tensor:
    """A number of each run of a stack, (R,), to go with a tensor (R, …)."""
    return values.view(-1, *[1] * (like.dim() - 1))


class Method(Protocol):
    """One training method. Adding one is one file and one line of registration."""

    def phases(self, build: Build) -> list[Phase]:
        """What to train, in order."""
        ...

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        """What recommends or classifies, made of the networks that were kept."""
        ...

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        """P(the given label is right); for clicks, of observed positives."""
        ...
