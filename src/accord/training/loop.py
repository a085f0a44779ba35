"""The one training loop: phases, steps, early stopping, and restoring the best epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from accord.errors import AccordError
from accord.methods.base import Batch, Clock, Negatives, Phase
from accord.training.optimisers import Adam, Updates
from accord.training.seeds import stream

EpochRecord = dict[str, Any]
"""One line of the history: phase, epoch, loss, validation metrics, seconds."""


class Data(Protocol):
    """A training set that lives on the device and is batched by index."""

    @property
    def device(self) -> torch.device: ...

    def __len__(self) -> int: ...

    def epoch(
        self,
        batch_size: int,
        generator: torch.Generator,
        *,
        negatives: Negatives = "uniform",
        by_rows: bool = False,
    ) -> Iterator[Batch]: ...


Validate = Callable[[nn.Module], dict[str, float]]
"""Metrics of a network on the noisy validation set."""


@dataclass(frozen=True)
class TrainingOptions:
    """How to train, apart from what is trained."""

    epochs: int = 100
    batch_size: int = 2048
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    """Factor of ½‖θ‖² of the target: λ divided by the number of users."""
    patience: int = 10
    """Epochs without a better validation metric before a phase stops; 0 never stops early."""
    metric: str = "ndcg@20"
    restore: Literal["best", "last"] = "best"
    updates: Updates = "auto"
    """Whether large tables are updated by the rows a batch touched, or whole."""
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """Where training stands; handed to the caller's hook a few times a second."""

    phase: str
    phase_number: int
    phases: int
    epoch: int
    epochs: int
    fraction: float
    """Share of the current epoch that is done."""
    metric: str
    value: float | None
    best: float | None


Hook = Callable[[Progress], None]


class Trainer:
    """One phase in training: `train_epoch` and `finalize`, and usable networks after every epoch."""

    def __init__(self, phase: Phase, data: Data, options: TrainingOptions) -> None:
        self.phase, self.data, self.options = phase, data, options
        self.generator = stream(data.device, options.seed, "order", phase.name)
        self.optimiser = make_optimiser(phase, options)
        self._by_rows = any(getattr(net, "reads_rows", False) for net in phase.networks.values())
        self.epoch = 0
        self.steps = 0
        self.best: float | None = None
        self.best_epoch = 0
        self._best_weights: dict[str, list[Tensor]] = {}

    def train_epoch(self, tick: Callable[[float], None] = lambda fraction: None) -> float:
        """One pass over the data; the mean loss of its steps."""
        total = torch.zeros((), device=self.data.device)
        steps_in_epoch = math.ceil(len(self.data) / self.options.batch_size)
        first = self.steps
        batches = self.data.epoch(
            self.options.batch_size, self.generator, negatives=self.phase.negatives, by_rows=self._by_rows
        )
        for batch in batches:
            total += training_step(self.phase, self.optimiser, batch, Clock(self.steps, self.epoch))
            self.steps += 1
            tick((self.steps - first) / steps_in_epoch)
        self.epoch += 1
        if self.steps == first:
            raise AccordError(
                "No training step is possible: every user clicked every item, so there is no negative to draw."
            )
        loss = total.item() / (self.steps - first)
        if not math.isfinite(loss):
            raise AccordError(
                f"Training diverged: the loss is {loss} in epoch {self.epoch} of phase '{self.phase.name}'; "
                f"lower the learning rate (now {self.options.learning_rate:g}) or c0 and c1."
            )
        return loss

    def consider(self, value: float) -> bool:
        """Remember the weights if ``value`` is the best so far."""
        if self.best is not None and not value > self.best:
            return False
        self.best, self.best_epoch = value, self.epoch
        if self.options.restore == "best":
            for role, tensors in self._kept_weights().items():
                saved = self._best_weights.get(role)
                if saved is None:
                    self._best_weights[role] = [tensor.clone() for tensor in tensors]
                else:
                    for old, new in zip(saved, tensors, strict=True):
                        old.copy_(new)
        return True

    @property
    def exhausted(self) -> bool:
        """No better epoch within the patience."""
        return 0 < self.options.patience <= self.epoch - self.best_epoch

    def finalize(self) -> None:
        """Put the best weights back, and let go of gradients and optimiser state."""
        for role, saved in self._best_weights.items():
            for current, best in zip(self._kept_weights()[role], saved, strict=True):
                current.copy_(best)
        self._best_weights.clear()
        self.optimiser.release()
        for network in self.phase.networks.values():
            network.requires_grad_(False).eval()

    def _kept_weights(self) -> dict[str, list[Tensor]]:
        return {role: list(self.phase.networks[role].state_dict().values()) for role in self.phase.kept}


def training_step(phase: Phase, optimiser: Adam, batch: Batch, clock: Clock) -> Tensor:
    """One update; a function of the networks, the optimiser's state and the batch, with no host sync."""
    optimiser.clear()
    loss = phase.loss(batch, clock)
    loss.backward()
    optimiser.step()
    return loss.detach()


def make_optimiser(phase: Phase, options: TrainingOptions) -> Adam:
    """Adam over all networks of the phase; the L2 term, on the target alone, is its weight decay."""
    decay = {role: options.weight_decay if role == phase.target else 0.0 for role in phase.networks}
    groups = [(network, decay[role]) for role, network in phase.networks.items()]
    return Adam(groups, options.learning_rate, options.batch_size, options.updates)


def train(
    phases: Iterable[Phase],
    data: Data,
    options: TrainingOptions,
    validate: Validate | None = None,
    hook: Hook | None = None,
) -> list[EpochRecord]:
    """Train every phase in turn and return the history."""
    phases = list(phases)
    history: list[EpochRecord] = []
    for number, phase in enumerate(phases, 1):
        history += _train_phase(phase, number, len(phases), data, options, validate, hook)
    return history


def _untrained_record(phase: Phase, target: nn.Module, validate: Validate | None) -> EpochRecord:
    """A phase with nothing to learn, such as counting clicks, is measured once."""
    record: EpochRecord = {"phase": phase.name, "epoch": 0, "loss": 0.0, "train_seconds": 0.0, "valid_seconds": 0.0}
    if validate is not None:
        record |= {"valid": validate(target), "is_best": True}
    return record


def _train_phase(
    phase: Phase,
    number: int,
    phases: int,
    data: Data,
    options: TrainingOptions,
    validate: Validate | None,
    hook: Hook | None,
) -> list[EpochRecord]:
    target = phase.networks[phase.target]
    if not any(True for network in phase.networks.values() for _ in network.parameters()):
        return [_untrained_record(phase, target, validate)]
    trainer = Trainer(phase, data, options)
    records: list[EpochRecord] = []
    value: float | None = None
    last_call = 0.0

    def tick(fraction: float, force: bool = False) -> None:
        nonlocal last_call
        if hook is not None and (force or time.monotonic() - last_call > 0.1):
            last_call = time.monotonic()
            epoch = trainer.epoch if force else trainer.epoch + 1
            hook(
                Progress(
                    phase.name, number, phases, epoch, options.epochs, fraction, options.metric, value, trainer.best
                )
            )

    while trainer.epoch < options.epochs:
        started = time.perf_counter()
        loss = trainer.train_epoch(tick)
        trained = time.perf_counter()
        record: EpochRecord = {"phase": phase.name, "epoch": trainer.epoch, "loss": loss}
        if validate is not None:
            with torch.no_grad():
                metrics = validate(target.eval())
                target.train()
                value = metrics[options.metric]
                record |= {"valid": metrics, "is_best": trainer.consider(value)}
        record["train_seconds"] = round(trained - started, 4)
        record["valid_seconds"] = round(time.perf_counter() - trained, 4)
        records.append(record)
        tick(1.0, force=True)
        if validate is not None and trainer.exhausted:
            break
    with torch.no_grad():
        trainer.finalize()
    return records
