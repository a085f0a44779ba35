"""One phase in training: its steps and epochs, early stopping, the best weights, and its checkpoint.

Each run draws its order and its negatives from streams of its own, and a step is one set of operations for all
of them. A run that stops early leaves its stack and frees its memory. On a GPU a step is captured once and
replayed, and runs leave when a share of them has stopped, because a smaller stack has to be captured again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from accord.errors import AccordError
from accord.methods.base import PerRun, Phase
from accord.models.stack import Single, Stack, as_stack
from accord.optim import SGD, Adam, Optimiser, updated_by_rows
from accord.training.checkpoints import Checkpointer, State, prefixed
from accord.training.random import OwnRandomness, stream
from accord.training.run import EpochRecord, Progress, Run, diverged
from accord.training.solving import Solver
from accord.training.stepping import Stepper

EMPTY_SHARE = {"cpu": 0.0, "cuda": 0.25}
"""The share of stopped runs at which a stack is made smaller; a captured one has to be captured again."""
CALLBACK_SECONDS = 0.1
NO_STEP = "No training step is possible: every user clicked every item, so there is no negative to draw."


class PhaseTrainer:
    """One phase in training."""

    def __init__(
        self,
        phase: Phase,
        number: tuple[int, int],
        stacks: Sequence[Stack],
        values: Sequence[PerRun],
        runs: Sequence[Run],
    ) -> None:
        self.phase, self.number, self.stacks, self.values = phase, number, stacks, values
        self.runs = list(runs)
        """The runs in the stack; a run that has stopped stays until the stack is made smaller."""
        self.begun = list(range(len(runs)))
        """The index at which each of them began."""
        self.ranks = runs[0].ranks
        self.options = runs[0].options
        """What all runs have in common."""
        self.device = runs[0].data.device
        self.learning: dict[str, Any] = phase.networks
        self.epoch = self.steps = self._first = self._to_skip = 0
        self.best: dict[str, list[Tensor]] = {}
        self.generators = [stream(self.device, run.options.seed, "order", phase.name) for run in runs]
        self._drawn_from = [one.get_state() for one in self.generators]
        self._randomness = self._own_randomness()
        self._called_back = 0.0
        for run in (one for leader in runs for one in leader.everyone):
            run.start_phase()
        self.solver = Solver.of(phase, runs)
        self.most_epochs = self.solver.sweeps if self.solver else self.options.epochs
        self.optimiser: Any = self.solver or make_optimiser(phase, [run.options for run in runs], self.device)
        self._prepare()

    def _own_randomness(self) -> Any:
        """Layers that draw, such as dropout, have a stream of their own; only a run alone may have some."""
        draws = any(isinstance(m, _DropoutNd) for net in self.learning.values() for m in net.modules())
        return OwnRandomness(self.options.seed, "layers", self.phase.name) if draws else nullcontext()

    def _prepare(self) -> None:
        """Batches and steps for the runs that are in the stack by now."""
        if self.solver is not None:
            self.stepper: Any = self.solver
            return
        by_rows = any(_reads_rows(network) for network in self.learning.values())
        data = [run.data for run in self.runs]
        self.feed = self.runs[0].feed(data, self.options.batch_size, by_rows, self.optimiser.capturing)
        self.stepper = Stepper(self.phase, self.optimiser, len(self.runs), self.device, self.ranks)

    # -- epochs ----------------------------------------------------------------------------------------

    def run(self, checkpointer: Checkpointer) -> Iterator[None]:
        """All epochs, a step at a time."""
        learning = set(map(id, self.learning.values()))
        for one in self.stacks:
            one.train(id(one) in learning)
        checkpointer.begin(self.number[0], self)
        while self.runs:
            yield from self._one_epoch(checkpointer)
        self.optimiser.release()

    def _one_epoch(self, checkpointer: Checkpointer) -> Iterator[None]:
        started = time.perf_counter()
        for fraction in self.steps_of_epoch():
            checkpointer.between_steps(self)
            self._call_back(self.epoch + 1, fraction)
            yield
        trained = time.perf_counter()
        totals = self.stepper.take_total()
        measured = {name: self._measured(name) for name in ("valid", "eval_set")}
        yield  # other trainings continue while the device works
        losses = self._mean_losses(totals)
        finite = self._finite()
        metrics = {name: _read(found, len(self.runs)) for name, found in measured.items()}
        going = max(1, sum(len(run.everyone) for run in self.runs if not run.stopped))
        seconds = (trained - started) / going, (time.perf_counter() - trained) / going
        open_ = [k for k, run in enumerate(self.runs) if not run.stopped]
        better = [k for k in open_ if self._close_epoch(k, losses[k], finite[k], metrics, seconds)]
        self._remember(better)
        self._keep_last([k for k in open_ if self.runs[k].stopped])
        self._first, self._drawn_from = self.steps, [one.get_state() for one in self.generators]
        stopped = [k for k, run in enumerate(self.runs) if run.stopped]
        before = list(self.runs)
        if len(stopped) >= max(1, EMPTY_SHARE[self.device.type] * len(self.runs)):
            self._leave(stopped)
        if self.runs:
            checkpointer.between_steps(self)
        self._call_back(self.epoch, 1.0, [run for k, run in enumerate(before) if k in open_])
        yield

    def steps_of_epoch(self) -> Iterator[float]:
        """One pass over the data, a step at a time: gives the share of the epoch that is done."""
        if self.solver is not None:
            self._first = self.steps
            yield from self.solver.sweep(self.epoch)
            self.epoch, self.steps = self.epoch + 1, self.steps + 1
            return
        sampling = self.phase.sampling(self.feed, self.epoch)
        steps = self.feed.steps(sampling)
        skip, self._to_skip = self._to_skip, 0
        self._first = self.steps - skip
        self._drawn_from = [one.get_state() for one in self.generators]
        for number, batch in enumerate(self.feed.epoch(self.generators, **sampling)):
            if number < skip:  # done before the training was interrupted
                continue
            if self.options.schedule != "constant":
                self.optimiser.set_share(self.options.share_at(self.epoch + (self.steps - self._first) / steps))
            with self._randomness:
                self.stepper(batch, self.steps, self.epoch)
            self.steps += 1
            yield min(1.0, (self.steps - self._first) / steps)
        self.epoch += 1
        if self.steps == self._first:
            raise AccordError(NO_STEP)

    def train_epoch(self) -> Tensor:
        """One pass over the data; the mean loss of each run's steps."""
        for _ in self.steps_of_epoch():
            pass
        return self.stepper.take_total() / (self.steps - self._first)

    def _mean_losses(self, totals: Tensor) -> list[float]:
        steps, totals = self.steps - self._first, self.ranks.summed(totals)
        return [totals.item() / steps] if len(totals) == 1 else (totals / steps).tolist()

    @torch.no_grad()
    def _finite(self) -> list[bool]:
        own = torch.stack([as_stack(network).finite() for network in self.learning.values()]).all(0)
        return self.ranks.each(own.byte()).bool().all(0).tolist()

    @torch.no_grad()
    def _measured(self, name: str) -> tuple[list[int], dict[str, Tensor]]:
        """The runs that have a set of this name and have not stopped, and each metric of theirs."""
        target = as_stack(self.learning[self.phase.target])
        sets = {k: getattr(run, name) for k, run in enumerate(self.runs) if not run.stopped}
        which = [k for k, one in sets.items() if one is not None]
        if not which:
            return [], {}
        target.eval()
        found = sets[which[0]].measure(target, which, [sets[k] for k in which])
        target.train()
        return which, found

    def _close_epoch(
        self,
        k: int,
        loss: float,
        finite: bool,
        metrics: dict[str, list[dict[str, float]]],
        seconds: tuple[float, float],
    ) -> bool:
        """Write a run's epoch into its history; True where its weights are to be kept."""
        run = self.runs[k]
        error = diverged(loss, finite, self.epoch, self.phase.name, run.options)
        if error is not None:  # the others continue
            for one in run.everyone:
                one.error, one.stopped = error, True
            return False
        record: EpochRecord = {"phase": self.phase.name, "epoch": self.epoch, "loss": loss}
        record |= {name: found[k] for name, found in metrics.items() if found[k]}
        is_best = False
        if "valid" in record:
            run.value = value = record["valid"][run.options.metric]
            is_best = record["is_best"] = run.best is None or value > run.best
            if is_best:
                run.best, run.best_epoch = value, self.epoch
        record |= {"train_seconds": round(seconds[0], 4), "valid_seconds": round(seconds[1], 4)}
        for one in run.everyone:
            one.history.append({**record})
        steps = self.steps - self._first if self.solver is None else math.inf  # a sweep takes what it takes
        exhausted = "valid" in record and run.exhausted(self.epoch, steps)
        run.stopped = exhausted or self.epoch >= self.most_epochs
        keeps = is_best if run.options.restore == "best" else run.stopped
        run.kept |= keeps
        return keeps

    def _call_back(self, epoch: int, fraction: float, runs: Sequence[Run] | None = None) -> None:
        """Tell every run's callback, a few times a second and at the end of every epoch."""
        if runs is None and time.monotonic() - self._called_back <= CALLBACK_SECONDS:
            return
        self._called_back = time.monotonic()
        for run in self.runs if runs is None else runs:
            if runs is None and run.stopped:
                continue
            options = run.options
            where = (
                self.phase.name,
                *self.number,
                epoch,
                self.most_epochs,
                fraction,
                options.metric,
                run.value,
                run.best,
            )
            for one in run.everyone:
                if one.callback is not None:
                    one.callback(Progress(*where))

    # -- runs that stop --------------------------------------------------------------------------------

    def _tensors(self, role: str) -> list[Tensor]:
        return as_stack(self.learning[role]).tensors()

    @torch.no_grad()
    def _remember(self, which: Sequence[int]) -> None:
        """Keep the weights these runs have now; of a phase of one epoch they are what it ends with."""
        if not which or self.most_epochs == 1:
            return
        rows = torch.tensor(which, device=self.device)
        for role in self.phase.kept:
            current = self._tensors(role)
            saved = self.best.setdefault(role, [])
            if not saved:
                saved.extend(tensor.clone() for tensor in current)
                continue
            for old, new in zip(saved, current, strict=True):
                old.index_copy_(0, rows, new.index_select(0, rows))

    @torch.no_grad()
    def _keep_last(self, which: Sequence[int]) -> None:
        """Copy the weights with which these runs end to the networks that keep them, if there are any."""
        rows = torch.tensor(which, dtype=torch.int64, device=self.device)
        for role, network in self.phase.last.items():
            for kept, current in zip(as_stack(network).tensors(), self._tensors(role), strict=True):
                kept.index_copy_(0, rows, current.index_select(0, rows))

    @torch.no_grad()
    def _leave(self, stopped: Sequence[int]) -> None:
        """Restore the best weights of runs that stop, and continue without them."""
        rows = torch.tensor([k for k in stopped if self.runs[k].kept], device=self.device).long()
        for role, saved in self.best.items():
            for parameter, best in zip(self._tensors(role), saved, strict=True):
                parameter.index_copy_(0, rows, best.index_select(0, rows))
        self._continue_with([k for k in range(len(self.runs)) if k not in stopped])

    def _continue_with(self, going: Sequence[int]) -> None:
        self.optimiser.clear()
        self.stepper.release()
        if len(going) == len(self.runs):
            return
        for one in (*self.stacks, *self.values):
            one.keep(list(going))
        kept = torch.tensor(list(going), dtype=torch.int64, device=self.device)
        self.optimiser.keep(kept)
        if self.phase.memory is not None and len(going):
            self.phase.memory.keep(kept)
        self.best = {role: [t.index_select(0, kept) for t in saved] for role, saved in self.best.items()}
        self.runs = [self.runs[k] for k in going]
        self.begun = [self.begun[k] for k in going]
        self.generators = [self.generators[k] for k in going]
        self._drawn_from = [self._drawn_from[k] for k in going]
        if self.runs:
            self._prepare()

    # -- checkpoints -----------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything the rest of the phase depends on; taken between two steps."""
        metadata = {"epoch": self.epoch, "steps": self.steps, "first": self._first, "begun": self.begun}
        tensors = prefixed("optimiser", self.optimiser.state_dict())
        tensors |= prefixed("stream", {str(k): state for k, state in enumerate(self._drawn_from)})
        if isinstance(self._randomness, OwnRandomness):
            tensors["stream/layers"] = self._randomness.state
        tensors["total"] = self.stepper.total
        for role, saved in self.best.items():
            tensors |= prefixed(f"best/{role}", {str(k): tensor for k, tensor in enumerate(saved)})
        if self.phase.memory is not None:
            tensors |= prefixed("memory", self.phase.memory.state_dict())
        return State(metadata, tensors)

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        """Resume the phase where it was saved, with the runs that had not left by then."""
        metadata = state.metadata
        going = [int(run) for run in metadata["begun"]]
        if not going or going != sorted(set(going)) or not 0 <= going[0] <= going[-1] < len(self.runs):
            raise ValueError("who is in the stack")
        self._continue_with(going)
        self.epoch, self.steps, self._first = (int(metadata[name]) for name in ("epoch", "steps", "first"))
        if not 0 <= self._first <= self.steps or self.epoch < 0:
            raise ValueError("its step in the epoch")
        self._to_skip = self.steps - self._first
        self.optimiser.load_state_dict(state.under("optimiser"))
        streams = state.under("stream")
        for k, generator in enumerate(self.generators):
            generator.set_state(streams[str(k)])
        if isinstance(self._randomness, OwnRandomness):
            self._randomness.state = streams["layers"]
        self._drawn_from = [one.get_state() for one in self.generators]
        if state.tensors["total"].shape != self.stepper.total.shape:
            raise ValueError("the sums of its losses")
        self.stepper.total.copy_(state.tensors["total"])
        for role in self.phase.kept:
            saved, current = state.under(f"best/{role}"), self._tensors(role)
            if saved and [saved[str(k)].shape for k in range(len(saved))] != [t.shape for t in current]:
                raise ValueError(f"the best weights of '{role}'")
            if saved:
                self.best[role] = [saved[str(k)].to(t.device, copy=True) for k, t in enumerate(current)]
        if self.phase.memory is not None:
            memory = {name: t.to(self.device) for name, t in state.under("memory").items()}
            self.phase.memory.load_state_dict(memory)


def _reads_rows(network: Any) -> bool:
    return getattr(network.module if isinstance(network, Single) else network, "reads_rows", False)


def _read(measured: tuple[list[int], dict[str, Tensor]], runs: int) -> list[dict[str, float]]:
    """The metrics of each run as numbers, with one transfer to the host; none where it was not measured."""
    which, found = measured
    metrics: list[dict[str, float]] = [{} for _ in range(runs)]
    if which:
        for k, row in zip(which, torch.stack(list(found.values()), 1).tolist(), strict=True):
            metrics[k] = dict(zip(found, row, strict=True))
    return metrics


def make_optimiser(phase: Phase, options: Sequence[Any], device: torch.device) -> Optimiser:
    """The optimiser of a phase whose runs differ in rate and L2 factor alone; the L2 term is on the target."""
    first = options[0]
    parameters = [p for network in phase.networks.values() for p in network.parameters() if p.requires_grad]
    decayed = list(phase.networks[phase.target].parameters())
    rates = [one.learning_rate for one in options]
    decays = [one.weight_decay for one in options]
    capturing = first.capture and device.type == "cuda"
    if first.optimiser == "sgd":
        return SGD(parameters, decayed, rates, decays, capturing, first.clip)
    singles = [one.module for one in phase.networks.values() if isinstance(one, Single)]
    by_rows = [t for one in singles for t in updated_by_rows(one, first.batch_size, first.updates)]
    return Adam(parameters, decayed, rates, decays, capturing, by_rows, first.in_files)
