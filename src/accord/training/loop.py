"""The one training loop: phases, steps, early stopping, and restoring the best epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from accord.errors import AccordError
from accord.methods.base import Batch, Phase
from accord.training.checkpoints import Checkpoint, Keeper, State, named
from accord.training.optimisers import SGD, Adam, Optimiser, Updates
from accord.training.seeds import OwnRandomness, stream
from accord.training.stepping import Stepper

EpochRecord = dict[str, Any]
"""One line of the history: phase, epoch, loss, validation metrics, seconds."""


class Data(Protocol):
    """A training set that lives on the device and is batched by index."""

    @property
    def device(self) -> torch.device: ...

    def __len__(self) -> int: ...

    @property
    def epoch(self) -> Callable[..., Iterator[Batch]]:
        """(batch_size, generator, **sampling) to the batches of an epoch; the keywords are the set's own."""
        ...

    def finish_phase(self) -> None:
        """A phase is over."""
        ...


Validate = Callable[[nn.Module], Mapping[str, float | Tensor]]
"""Metrics of a network on the noisy validation set; tensors are read when the device has them."""


@dataclass(frozen=True)
class TrainingOptions:
    """How to train, apart from what is trained."""

    epochs: int = 100
    batch_size: int = 2048
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    """Factor of ½‖θ‖² of the target: for recommenders λ divided by the number of users."""
    patience: int = 10
    """Epochs without a better validation metric before a phase stops; 0 never stops early."""
    metric: str = "ndcg@20"
    restore: Literal["best", "last"] = "best"
    updates: Updates = "auto"
    """Whether large tables are updated by the rows a batch touched, or whole."""
    optimiser: Literal["adam", "sgd"] = "adam"
    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the step size stays, or falls to nought over the epochs of a phase."""
    clip: float | None = None
    """SGD: the longest gradient a step takes."""
    capture: bool = False
    """On a GPU, record a step once and replay it."""
    seed: int = 0

    def rate_at(self, epochs_done: float) -> float:
        """The step size after so many epochs of a phase."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, epochs_done / self.epochs)))


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
Run = Generator[Progress, None, list[EpochRecord]]
"""A training in progress: every turn makes one step and says where it stands; it returns the history."""


class Trainer:
    """One phase in training: `train_epoch` and `finalize`, and usable networks after every epoch."""

    def __init__(self, phase: Phase, data: Data, options: TrainingOptions) -> None:
        self.phase, self.data, self.options = phase, data, options
        self.generator = stream(data.device, options.seed, "order", phase.name)
        capture = options.capture and data.device.type == "cuda"
        rate = torch.tensor(options.learning_rate, device=data.device) if capture else options.learning_rate
        self.optimiser = make_optimiser(phase, options, rate)
        self.stepper = Stepper(phase, self.optimiser, rate, data.device)
        draws = any(isinstance(part, _DropoutNd) for net in phase.networks.values() for part in net.modules())
        self._randomness = OwnRandomness(options.seed, "layers", phase.name) if draws else nullcontext()
        self._by_rows = any(getattr(net, "reads_rows", False) for net in phase.networks.values())
        self.epoch = 0
        self.steps = 0
        self._first = 0
        self._to_skip = 0
        self._drawn_from = self.generator.get_state()
        self.best: float | None = None
        self.best_epoch = 0
        self._best_weights: dict[str, list[Tensor]] = {}

    def steps_of_epoch(self) -> Iterator[float]:
        """One pass over the data, a step at a time: gives the share of the epoch that is done."""
        sampling = self.phase.sampling(self.data, self.epoch)
        count = len(sampling["positions"]) if "positions" in sampling else len(self.data)
        if self._by_rows:
            sampling = sampling | {"by_rows": True}
        steps_in_epoch = math.ceil(count / self.options.batch_size)
        skip, self._to_skip = self._to_skip, 0
        self._first = self.steps - skip
        self._drawn_from = self.generator.get_state()
        for number, batch in enumerate(self.data.epoch(self.options.batch_size, self.generator, **sampling)):
            if number < skip:  # done before the run was interrupted
                continue
            done = (self.steps - self._first) / steps_in_epoch
            if self.options.schedule != "constant":
                self._set_rate(self.options.rate_at(self.epoch + done))
            with self._randomness:
                self.stepper(batch, self.steps, self.epoch)
            self.steps += 1
            yield min(1.0, (self.steps - self._first) / steps_in_epoch)
        self.epoch += 1
        if self.steps == self._first:
            raise AccordError(
                "No training step is possible: every user clicked every item, so there is no negative to draw."
            )

    def _set_rate(self, rate: float) -> None:
        self.optimiser.set_rate(rate)
        if not isinstance(self.stepper.rate, Tensor):
            self.stepper.rate = rate

    def mean_loss(self, total: Tensor) -> float:
        """The mean loss of the epoch's steps; waits for the device."""
        sound = torch.stack(
            [torch.isfinite(p).all() for net in self.phase.networks.values() for p in net.parameters()]
        )
        loss = total.item() / (self.steps - self._first)
        reason = diverged(loss, bool(sound.all()), self.epoch, self.phase.name, self.options)
        if reason is not None:
            raise reason
        return loss

    def train_epoch(self) -> float:
        """One pass over the data; the mean loss of its steps."""
        for _ in self.steps_of_epoch():
            pass
        return self.mean_loss(self.stepper.take_total())

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

    def end_epoch(self) -> None:
        """The next epoch begins here, with the stream as it is."""
        self._first, self._drawn_from = self.steps, self.generator.get_state()

    @property
    def exhausted(self) -> bool:
        """No better epoch within the patience."""
        return 0 < self.options.patience <= self.epoch - self.best_epoch

    def finalize(self) -> None:
        """Put the best weights back, and let go of gradients and optimiser state."""
        for role, network in self.phase.last.items():
            network.load_state_dict(self.phase.networks[role].state_dict())
        for role, saved in self._best_weights.items():
            for current, best in zip(self._kept_weights()[role], saved, strict=True):
                current.copy_(best)
        self._best_weights.clear()
        self.stepper.release()
        self.optimiser.release()
        self.data.finish_phase()
        rest(self.phase)

    # -- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything the rest of the phase depends on; taken between two steps."""
        facts = {"epoch": self.epoch, "steps": self.steps, "first": self._first}
        facts |= {"best": self.best, "best_epoch": self.best_epoch}
        tensors = named("optimiser", self.optimiser.state()) | self._streams()
        tensors["total"] = self.stepper.total
        for role, saved in self._best_weights.items():
            tensors |= named(f"best/{role}", {str(k): tensor for k, tensor in enumerate(saved)})
        if self.phase.memory is not None:
            tensors |= named("memory", self.phase.memory.state())
        return State(facts, tensors)

    def _streams(self) -> dict[str, Tensor]:
        states = {"order": self._drawn_from}
        if isinstance(self._randomness, OwnRandomness):
            states["layers"] = self._randomness.state
        return named("stream", states)

    def restore(self, state: State) -> None:
        """Take a phase up where it was written down."""
        facts = state.facts
        self.epoch, self.steps, self._first = (int(facts[name]) for name in ("epoch", "steps", "first"))
        self.best = None if facts["best"] is None else float(facts["best"])
        self.best_epoch = int(facts["best_epoch"])
        if not 0 <= self._first <= self.steps or self.epoch < 0:
            raise ValueError("its place in the epoch")
        self._to_skip = self.steps - self._first
        self.optimiser.restore(state.under("optimiser"))
        streams = state.under("stream")
        self.generator.set_state(streams["order"])
        if isinstance(self._randomness, OwnRandomness):
            self._randomness.state = streams["layers"]
        with torch.no_grad():
            self.stepper.total.copy_(state.tensors["total"])
        for role, tensors in self._kept_weights().items():
            saved = state.under(f"best/{role}")
            if not saved:
                continue
            if [saved[str(k)].shape for k in range(len(saved))] != [t.shape for t in tensors]:
                raise ValueError(f"the best weights of '{role}'")
            self._best_weights[role] = [saved[str(k)].to(t.device, copy=True) for k, t in enumerate(tensors)]
        if self.phase.memory is not None:
            device = self.data.device
            self.phase.memory.restore({name: t.to(device) for name, t in state.under("memory").items()})

    def _kept_weights(self) -> dict[str, list[Tensor]]:
        return {role: list(self.phase.networks[role].state_dict().values()) for role in self.phase.kept}


def rest(phase: Phase) -> None:
    """Its networks learn no more."""
    for network in (*phase.networks.values(), *phase.last.values()):
        network.requires_grad_(False).eval()


def diverged(loss: float, sound: bool, epoch: int, phase: str, options: TrainingOptions) -> AccordError | None:
    """What to tell of a run whose loss or weights are no numbers any more; None where all is well."""
    if math.isfinite(loss) and sound:
        return None
    what = "some weights are not finite" if math.isfinite(loss) else f"the loss is {loss}"
    return AccordError(
        f"Training diverged: {what} in epoch {epoch} of phase '{phase}' (learning rate {options.learning_rate:g}, "
        f"batch size {options.batch_size}, seed {options.seed}); lower the learning rate or c0, c1 and c2."
    )


def make_optimiser(phase: Phase, options: TrainingOptions, rate: float | Tensor | None = None) -> Optimiser:
    """One optimiser over all networks of the phase; the L2 term, on the target alone, is its weight decay.

    ``rate`` is a tensor where steps are to be recorded.
    """
    rate = options.learning_rate if rate is None else rate
    decay = {role: options.weight_decay if role == phase.target else 0.0 for role in phase.networks}
    groups = [(network, decay[role]) for role, network in phase.networks.items()]
    if options.optimiser == "sgd":
        return SGD(groups, rate, options.clip)
    return Adam(groups, rate, options.batch_size, options.updates)


def training(
    phases: Iterable[Phase],
    data: Data,
    options: TrainingOptions,
    validate: Validate | None = None,
    watch: Validate | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """A training that goes on by one step whenever it is asked to.

    ``watch`` gives metrics that are written into the history and decide nothing. With ``checkpoint`` the run is
    written down from time to time, and taken up where it was.
    """
    phases = list(phases)
    keeper = Keeper(phases, checkpoint)
    for number, phase in enumerate(phases, 1):
        if number < keeper.phase:
            rest(phase)
            continue
        yield from _phase(phase, (number, len(phases)), data, options, validate, watch, keeper)
    return keeper.history


def _untrained_record(phase: Phase, target: nn.Module, validate: Validate | None) -> EpochRecord:
    """A phase with nothing to learn, such as counting clicks, is measured once."""
    record: EpochRecord = {"phase": phase.name, "epoch": 0, "loss": 0.0, "train_seconds": 0.0, "valid_seconds": 0.0}
    if validate is not None:
        record |= {"valid": _read(validate(target)), "is_best": True}
    return record


def _read(metrics: Mapping[str, float | Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _phase(
    phase: Phase,
    number: tuple[int, int],
    data: Data,
    options: TrainingOptions,
    validate: Validate | None,
    watch: Validate | None,
    keeper: Keeper,
) -> Iterator[Progress]:
    target = phase.networks[phase.target]
    if not any(True for network in phase.networks.values() for _ in network.parameters()):
        keeper.history.append(_untrained_record(phase, target, validate))
        return
    trainer = Trainer(phase, data, options)
    keeper.begin(number[0], trainer)
    value: float | None = None

    def now(epoch: int, fraction: float) -> Progress:
        return Progress(phase.name, *number, epoch, options.epochs, fraction, options.metric, value, trainer.best)

    while trainer.epoch < options.epochs and not (validate is not None and trainer.exhausted):
        started = time.perf_counter()
        for fraction in trainer.steps_of_epoch():
            keeper.between_steps(trainer)
            yield now(trainer.epoch + 1, fraction)
        total = trainer.stepper.take_total()
        trained = time.perf_counter()
        measured: dict[str, Mapping[str, float | Tensor]] = {}
        if validate is not None or watch is not None:
            with torch.no_grad():
                target.eval()
                measured = {n: f(target) for n, f in (("valid", validate), ("watched", watch)) if f is not None}
                target.train()
            yield now(trainer.epoch, 1.0)  # other runs go on while the device works
        record: EpochRecord = {"phase": phase.name, "epoch": trainer.epoch, "loss": trainer.mean_loss(total)}
        if measured:
            record |= {name: _read(metrics) for name, metrics in measured.items()}
        if validate is not None:
            value = chosen = float(record["valid"][options.metric])
            with torch.no_grad():
                record["is_best"] = trainer.consider(chosen)
        record["train_seconds"] = round(trained - started, 4)
        record["valid_seconds"] = round(time.perf_counter() - trained, 4)
        keeper.history.append(record)
        trainer.end_epoch()
        keeper.between_steps(trainer)
        yield now(trainer.epoch, 1.0)
    with torch.no_grad():
        trainer.finalize()
