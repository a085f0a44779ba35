"""One step, plain or replayed: the same update either way.

On a GPU a small network's step is hundreds of kernels of a few microseconds each, and launching them one by one
takes longer than running them. `Stepper` captures the step of each stage once, as a CUDA graph, and replays it for
every whole batch; what changes from step to step (which batch, which step, which rate) lies in tensors that the
captured step reads. The first steps, batches that are not whole, and steps on a CPU are not captured.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from accord.methods.base import Batch, Phase, StepInfo
from accord.optim import Optimiser
from accord.ranks.group import ALONE, Ranks
from accord.ranks.tables import is_divided

WARM_UP = 3
"""Plain steps of a stage before it is captured, so that every buffer an optimiser or a library makes is there."""


def own_stream(device: torch.device) -> AbstractContextManager[Any]:
    """Everything done inside goes to a stream of its own; steps cannot be captured on the device's default one."""
    if device.type != "cuda":
        return nullcontext()
    own = torch.cuda.Stream(device)
    own.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(own)


class Stepper:
    """Makes the steps of a phase and adds up the losses of its runs on the device."""

    def __init__(
        self, phase: Phase, optimiser: Optimiser, runs: int, device: torch.device, ranks: Ranks = ALONE
    ) -> None:
        self.phase, self.optimiser, self.ranks = phase, optimiser, ranks
        learning = [p for network in phase.networks.values() for p in network.parameters()]
        self._alike = [p for p in learning if not is_divided(p)] if ranks.many else []
        """What every rank has all of: its gradients are added up over the ranks."""
        self.total = torch.zeros(runs, device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device) if optimiser.capturing else None
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._plain_steps: dict[Hashable, int] = {}

    def __call__(self, batch: Any, step: int, epoch: int) -> None:
        kind = self.phase.stage(epoch), step % self.phase.turns
        if self._step is None or not self._capturable(batch) or self._plain_steps.get(kind, 0) < WARM_UP:
            self._plain_steps[kind] = self._plain_steps.get(kind, 0) + 1
            self._update(batch, StepInfo(step, epoch, self.optimiser.step_rate()))
            return
        if kind not in self._graphs:
            self._graphs[kind] = self._captured(batch, StepInfo(self._step, epoch, self.optimiser.now, step))
        self._step.fill_(step)
        batch.chunk.position.fill_(batch.index)
        self._graphs[kind].replay()

    def _capturable(self, batch: Any) -> bool:
        return batch.chunk is not None and len(batch) == batch.chunk.batch_size

    def _captured(self, batch: Any, info: StepInfo) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            self._update(batch.chunk.moving(), info)
        return graph

    def _update(self, batch: Batch, info: StepInfo) -> None:
        """One update; a function of the networks, the optimiser's state and the batch, with no host sync."""
        self.optimiser.clear()
        losses = self.phase.loss(batch, info)
        (losses if len(losses) == 1 else losses.sum()).backward()
        if self._alike:
            self.ranks.add_up([p.grad for p in self._alike if p.grad is not None])
        self.optimiser.step()
        self.total.add_(losses.detach())

    def take_total(self) -> Tensor:
        """The sum of each run's losses since the last time."""
        total = self.total.clone()
        self.total.zero_()
        return total

    def release(self) -> None:
        self._graphs.clear()
