"""Many runs as one program: R runs of one architecture on one data set, as tensors with a leading run dimension.

The runs differ in seed, learning rate, L2 term, constants and prior. Each draws its order and its negatives from
streams of its own, and a step is one set of operations for all of them. A run that stops early leaves the stack and
frees its place. What a run learns does not depend on who else is in the stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from accord.data.interactions import Interactions, StackedBatch
from accord.methods.base import Clock, Phase
from accord.methods.denoising import PerRun
from accord.models.stacked import Stack
from accord.training.loop import EpochRecord, Hook, Progress, TrainingOptions, refuse_divergence
from accord.training.optimisers import BETAS, EPSILON
from accord.training.seeds import stream

MemberValidate = Callable[[nn.Module], dict[str, float]]


class StackedAdam:
    """Adam over stacks, with a rate and an L2 factor for each run; one fused call, whatever the number of runs."""

    def __init__(self, stacks: dict[str, Stack], target: str, rates: Tensor, decays: Tensor) -> None:
        self.decayed = [p for role, s in stacks.items() if role == target for p in s.parameters()]
        self.parameters = [p for s in stacks.values() for p in s.parameters()]
        self.rates, self.decays = rates, decays
        self.highest = float(rates.max())
        self._same = bool((rates == self.highest).all())  # looked at once: a step must not ask the device
        self.adam = torch.optim.Adam(self.parameters, lr=self.highest, betas=BETAS, eps=EPSILON, fused=True)

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.decayed:
            if parameter.grad is not None:
                parameter.grad.addcmul_(parameter, _like(self.decays, parameter))
        moving = [p for p in self.parameters if p.grad is not None]
        before = None if self._same else [p.clone() for p in moving]
        self.adam.step()
        if before is not None:  # Adam's step is proportional to the rate: take each run's share of the longest
            for parameter, old in zip(moving, before, strict=True):
                torch.lerp(old, parameter, _like(self.rates / self.highest, parameter), out=parameter)

    def keep(self, rows: Tensor) -> None:
        self.rates, self.decays = self.rates[rows], self.decays[rows]
        for state in self.adam.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = state[name].index_select(0, rows)


def _like(values: Tensor, parameter: Tensor) -> Tensor:
    return values.view(-1, *[1] * (parameter.dim() - 1))


@dataclass
class StackedRun:
    """One member's own story."""

    options: TrainingOptions
    data: Interactions
    validate: MemberValidate | None = None
    hook: Hook | None = None
    history: list[EpochRecord] = field(default_factory=list)
    best: float | None = None
    best_epoch: int = 0
    weights: dict[str, list[Tensor]] = field(default_factory=dict)

    def start_phase(self) -> None:
        self.best, self.best_epoch, self.weights = None, 0, {}


def train_stacked(
    phases: Sequence[Phase], stacks: Sequence[Stack], settings: Sequence[PerRun], runs: Sequence[StackedRun]
) -> None:
    """Train all runs through all phases; histories go into the runs, weights into the stacks' members."""
    for number, phase in enumerate(phases, 1):
        for one in (*stacks, *settings):
            one.rejoin()
        _Phase(phase, (number, len(phases)), stacks, settings, list(runs)).run()
    for one in stacks:
        one.dissolve()
        for member in one.everyone:
            member.requires_grad_(False).eval()


class _Phase:
    def __init__(
        self,
        phase: Phase,
        number: tuple[int, int],
        stacks: Sequence[Stack],
        settings: Sequence[PerRun],
        runs: list[StackedRun],
    ) -> None:
        self.phase, self.number, self.stacks, self.settings = phase, number, stacks, settings
        self.all, self.alive = runs, list(range(len(runs)))
        self.device = runs[0].data.device
        self.learning: dict[str, Any] = phase.networks
        options = [run.options for run in runs]
        rates = torch.tensor([o.learning_rate for o in options], device=self.device)
        decays = torch.tensor([o.weight_decay for o in options], device=self.device)
        self.optimiser = StackedAdam(self.learning, phase.target, rates, decays)
        self.generators = [stream(self.device, o.seed, "order", phase.name) for o in options]
        self.labels = torch.tensor([1.0, 0.0], device=self.device).view(2, 1, 1)
        self.epoch = self.steps = 0
        for run in runs:
            run.start_phase()

    def run(self) -> None:
        for one in self.stacks:
            one.train()
        while self.alive:
            self._one_epoch()

    def _one_epoch(self) -> None:
        started, first = time.perf_counter(), self.steps
        total = torch.zeros(len(self.alive), device=self.device)
        for batch in self._batches():
            total += self._step(batch)
            self.steps += 1
        self.epoch += 1
        losses = (total / (self.steps - first)).tolist()
        seconds = (time.perf_counter() - started) / len(self.alive)
        stopped = [
            place for place, r in enumerate(self.alive) if self._close_epoch(place, r, losses[place], seconds)
        ]
        if stopped:
            self._leave(stopped)

    def _batches(self) -> Iterator[StackedBatch]:
        """Every run's batches side by side; drawn for many batches at a time, from each run's own stream."""
        negatives = self.phase.sampling(None, self.epoch).get("negatives", "uniform")
        size = self.all[0].options.batch_size
        parts = [self.all[r].data.chunks(size, self.generators[r], negatives) for r in self.alive]
        for drawn in zip(*parts, strict=True):
            users = torch.stack([users for users, _ in drawn])
            items = torch.stack([items for _, items in drawn], 1)
            for k in range(0, users.shape[1], size):
                yield StackedBatch(users[:, k : k + size], items[:, :, k : k + size], self.labels)

    def _step(self, batch: StackedBatch) -> Tensor:
        """One update of every run; no loop over runs, and nothing is asked of the device."""
        self.optimiser.clear()
        losses = self.phase.loss(batch, Clock(self.steps, self.epoch))
        losses.sum().backward()
        self.optimiser.step()
        return losses.detach()

    def _close_epoch(self, place: int, r: int, loss: float, seconds: float) -> bool:
        """Validate a run and keep its best weights; True when it stops here."""
        run = self.all[r]
        options = run.options
        refuse_divergence(loss, self.epoch, self.phase.name, options)
        record: EpochRecord = {"phase": self.phase.name, "epoch": self.epoch, "loss": loss}
        checked = time.perf_counter()
        if run.validate is not None:
            target = self.learning[self.phase.target].members[place]
            with torch.no_grad():
                metrics = run.validate(target.eval())
            target.train()
            value = metrics[options.metric]
            is_best = run.best is None or value > run.best
            record |= {"valid": metrics, "is_best": is_best}
            if is_best:
                run.best, run.best_epoch = value, self.epoch
                if options.restore == "best":
                    run.weights = self._weights(place)
        record |= {"train_seconds": round(seconds, 4), "valid_seconds": round(time.perf_counter() - checked, 4)}
        run.history.append(record)
        if run.hook is not None:
            value = record.get("valid", {}).get(options.metric)
            run.hook(
                Progress(
                    self.phase.name, *self.number, self.epoch, options.epochs, 1.0, options.metric, value, run.best
                )
            )
        exhausted = run.validate is not None and 0 < options.patience <= self.epoch - run.best_epoch
        return exhausted or self.epoch >= options.epochs

    def _weights(self, place: int) -> dict[str, list[Tensor]]:
        return {
            role: [p.detach().clone() for p in self.learning[role].members[place].parameters()]
            for role in self.phase.kept
        }

    @torch.no_grad()
    def _leave(self, stopped: list[int]) -> None:
        """Put the best weights of runs that stop back, and go on without them."""
        for place in stopped:
            for role, saved in self.all[self.alive[place]].weights.items():
                members = self.learning[role].members[place]
                for parameter, best in zip(members.parameters(), saved, strict=True):
                    parameter.copy_(best)
        going = [place for place in range(len(self.alive)) if place not in stopped]
        self.optimiser.clear()
        for one in (*self.stacks, *self.settings):
            one.keep(going)
        self.optimiser.keep(torch.tensor(going, dtype=torch.int64, device=self.device))
        self.alive = [self.alive[place] for place in going]
