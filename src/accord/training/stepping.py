"""One step, plain or replayed: the same update either way.

On a GPU a small network's step is hundreds of kernels of a few microseconds each, and launching them one by one
takes longer than running them. `Stepper` records the step of each stage once, as a CUDA graph, and replays it for
every whole batch; what changes from step to step (which batch, which step, which rate) lies in tensors that the
recorded step reads. The first steps, batches that are not whole, and steps on a CPU are made plainly.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from accord.methods.base import Batch, Clock, Phase
from accord.training.optimisers import Optimiser

WARM_UP = 3
"""Plain steps of a stage before it is recorded, so that every buffer an optimiser or a library makes is there."""


def training_step(phase: Phase, optimiser: Optimiser, batch: Batch, clock: Clock) -> Tensor:
    """One update; a function of the networks, the optimiser's state and the batch, with no host sync."""
    optimiser.clear()
    loss = phase.loss(batch, clock)  # a number, or one for each run of a stack
    (loss.sum() if loss.dim() else loss).backward()
    optimiser.step()
    return loss.detach()


def own_stream(device: torch.device) -> AbstractContextManager[Any]:
    """Everything done inside goes to a stream of its own; steps cannot be recorded on the device's default one."""
    if device.type != "cuda":
        return nullcontext()
    own = torch.cuda.Stream(device)
    own.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(own)


class Stepper:
    """Makes the steps of a phase and adds up their losses on the device."""

    def __init__(
        self,
        phase: Phase,
        optimiser: Optimiser,
        rate: float | Tensor,
        device: torch.device,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.phase, self.optimiser, self.rate = phase, optimiser, rate
        self.total = torch.zeros(shape, device=device)
        self.may_record = isinstance(rate, Tensor) and rate.is_cuda
        self._step = torch.zeros((), dtype=torch.int64, device=device) if self.may_record else None
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._plain_steps: dict[Hashable, int] = {}

    def __call__(self, batch: Any, step: int, epoch: int) -> None:
        kind = self.phase.stage(epoch), step % self.phase.turns
        if self._recordable(batch) and self._plain_steps.get(kind, 0) >= WARM_UP:
            if kind not in self._graphs:
                self._graphs[kind] = self._record(batch, step, epoch)
            self._step.fill_(step)  # pyright: ignore[reportOptionalMemberAccess]
            batch.chunk.position.fill_(batch.index)
            self._graphs[kind].replay()
            return
        self._plain_steps[kind] = self._plain_steps.get(kind, 0) + 1
        self._add(training_step(self.phase, self.optimiser, batch, Clock(step, epoch, self.rate)))

    def _recordable(self, batch: Any) -> bool:
        chunk = getattr(batch, "chunk", None)
        return self.may_record and chunk is not None and len(batch) == chunk.batch_size

    def _record(self, batch: Any, step: int, epoch: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        clock = Clock(self._step, epoch, self.rate, recorded=step)  # pyright: ignore[reportArgumentType]
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            self._add(training_step(self.phase, self.optimiser, batch.chunk.moving(), clock))
        return graph

    def _add(self, loss: Tensor) -> None:
        self.total.add_(loss)

    def take_total(self) -> Tensor:
        """The sum of losses since the last time."""
        total = self.total.clone()
        self.total.zero_()
        return total

    def release(self) -> None:
        self._graphs.clear()
