"""Many runs as one program: R runs of one architecture on one data set, as tensors with a leading run dimension.

The runs differ in seed, learning rate, L2 term, constants and prior. Each draws its order and its negatives from
streams of its own, and a step is one set of operations for all of them. A run that stops early leaves the stack and
frees its place. What a run learns does not depend on who else is in the stack. Where runs would go through a phase
alike, as those that differ in their constants alone do through the training of DeCA(p)'s prior, one goes for all,
and what it has become answers for all.
On a GPU a step is recorded once and replayed, and places are freed when a part of them is empty: a smaller stack
has to be recorded again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from accord.errors import AccordError
from accord.methods.base import Phase
from accord.methods.denoising import PerRun
from accord.models.stack import Stack
from accord.training.checkpoints import Checkpoint, StackKeeper, State, named, sound_history
from accord.training.forks import computes_here
from accord.training.loop import EpochRecord, Hook, Progress, TrainingOptions, diverged
from accord.training.seeds import stream
from accord.training.stacked_optimisers import stacked_optimiser
from accord.training.stepping import Stepper, own_stream


class World(Protocol):
    """What the runs of a stack learn from, and how they are measured."""

    def chunks(
        self, runs: Sequence[StackedRun], generators: Sequence[torch.Generator], phase: Phase, epoch: int
    ) -> Iterator[Any]:
        """The batches of an epoch, many at a time, in buffers that can be filled again."""
        ...

    def measured(self, target: Any, places: Sequence[int], tasks: Sequence[Any]) -> list[dict[str, float]]:
        """The metrics of the members at these places, each on its own task."""
        ...

    def steps(self, run: StackedRun) -> int:
        """Steps of an epoch."""
        ...

    def same(self, one: StackedRun, other: StackedRun) -> bool:
        """Whether two runs learn from the same examples and are measured by the same."""
        ...


EMPTY_SHARE = {"cpu": 0.0, "cuda": 0.25}
"""The share of empty places at which a stack is made smaller; a recorded one has to be recorded again."""


@dataclass
class StackedRun:
    """One member's own story."""

    options: TrainingOptions
    data: Any
    task: Any = None
    """What it is validated on; runs may share it."""
    hook: Hook | None = None
    watched: Any = None
    """A task whose metrics are written into the history and decide nothing."""
    history: list[EpochRecord] = field(default_factory=list)
    best: float | None = None
    best_epoch: int = 0
    stopped: bool = False
    kept: bool = False
    """Whether weights of this phase are put back when it leaves."""
    error: AccordError | None = None
    """Why it could not go on, where it diverged."""
    twins: list[StackedRun] = field(default_factory=list)
    """Runs for which it goes through the phase at hand."""

    def start_phase(self) -> None:
        self.best, self.best_epoch, self.stopped, self.kept = None, 0, self.error is not None, False

    def story(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        error = None if self.error is None else str(self.error)
        own = {name: getattr(self, name) for name in ("history", "best", "best_epoch", "stopped", "kept")}
        return own | {"error": error}

    def take(self, story: dict[str, Any]) -> None:
        self.history = sound_history(story["history"])
        self.best = None if story["best"] is None else float(story["best"])
        self.best_epoch = int(story["best_epoch"])
        self.stopped, self.kept = bool(story["stopped"]), bool(story["kept"])
        self.error = None if story["error"] is None else AccordError(str(story["error"]))


def train_stacked(
    phases: Sequence[Phase],
    stacks: Sequence[Stack],
    settings: Sequence[PerRun],
    runs: Sequence[StackedRun],
    world: World,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Train all runs through all phases; histories go into the runs, weights into the stacks' members.

    With ``checkpoint`` all of it is written down now and then between two epochs, and taken up where it was.
    """
    computes_here()
    device = runs[0].data.device
    keeper = StackKeeper(list(phases), stacks, runs, checkpoint)
    alike: dict[Any, list[list[int]]] = {}
    """Networks that have learnt, and the places at which they are the same."""
    with own_stream(device):
        for number, phase in enumerate(phases, 1):
            groups = _groups(runs, world) if phase.shared else [[place] for place in range(len(runs))]
            if number >= keeper.phase:
                _gather(phase, groups, [*stacks, *settings], alike)
                for place, *others in groups:
                    runs[place].twins = [runs[other] for other in others]
                own = [runs[place] for place, *_ in groups]
                now = _Phase(phase, (number, len(phases)), stacks, settings, own, world)
                keeper.begin(number, now)
                now.run(keeper)
                _hand_on(phase, groups)
            alike |= dict.fromkeys(phase.networks.values(), groups)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    for one in stacks:
        one.dissolve()
        for member in one.everyone:
            member.requires_grad_(False).eval()


def _groups(runs: Sequence[StackedRun], world: World) -> list[list[int]]:
    """The places of runs that go through a shared phase alike."""
    groups: list[list[int]] = []
    for place, run in enumerate(runs):
        for places in groups:
            one = runs[places[0]]
            same_fate = str(one.error) == str(run.error)  # of a stack that goes on, the words are all there is
            if one.options == run.options and same_fate and world.same(one, run):
                places.append(place)
                break
        else:
            groups.append([place])
    return groups


def _gather(
    phase: Phase, groups: Sequence[Sequence[int]], all_: Sequence[Stack | PerRun], alike: dict[Any, list[list[int]]]
) -> None:
    """Who goes through a phase: of each group the first. Of those that learnt alike before, one answers for all."""
    for one in all_:
        one.rejoin()
        if phase.shared:
            one.keep([place for place, *_ in groups])
        elif one in alike and len(alike[one]) < len(groups) and one not in phase.networks.values():
            one.stand_for(alike[one])  # pyright: ignore[reportAttributeAccessIssue]


@torch.no_grad()
def _hand_on(phase: Phase, groups: Sequence[Sequence[int]]) -> None:
    """What one run of each group has learnt goes to the others."""
    networks: Any = (*phase.networks.values(), *phase.last.values())
    for network in networks:
        for place, *others in groups:
            learnt = network.everyone[place].state_dict() if others else {}
            for other in others:
                network.everyone[other].load_state_dict(learnt)


class _Phase:
    def __init__(
        self,
        phase: Phase,
        number: tuple[int, int],
        stacks: Sequence[Stack],
        settings: Sequence[PerRun],
        runs: list[StackedRun],
        world: World,
    ) -> None:
        self.phase, self.number, self.stacks, self.settings, self.world = phase, number, stacks, settings, world
        self.runs = list(runs)
        """Who stands at each place; a run that has stopped stays until the stack is made smaller."""
        self.begun = list(range(len(runs)))
        """At which place each of them began."""
        self.device = runs[0].data.device
        self.recording = self.device.type == "cuda"
        self.learning: dict[str, Any] = phase.networks
        options = [run.options for run in runs]
        self.optimiser = stacked_optimiser(self.learning, phase.target, options, self.recording)
        self.generators = [stream(self.device, o.seed, "order", phase.name) for o in options]
        self.chunk: Any = None
        self.best: dict[str, list[Tensor]] = {}
        self.epoch = self.steps = 0
        for run in runs:
            for one in (run, *run.twins):
                one.start_phase()
        self._new_stepper()

    def _new_stepper(self) -> None:
        self.stepper = Stepper(self.phase, self.optimiser, self.optimiser.now, self.device, (len(self.runs),))
        self.chunk = None

    def run(self, keeper: StackKeeper) -> None:
        learning = set(map(id, self.learning.values()))
        for one in self.stacks:
            one.train(id(one) in learning)
        while self.runs:
            self._one_epoch()
            if self.runs:
                keeper.between_steps(self)
        self.optimiser.release()

    def state(self) -> State:
        """Everything the rest of the phase depends on; taken between two epochs."""
        facts = {"epoch": self.epoch, "steps": self.steps, "begun": self.begun}
        tensors = named("optimiser", self.optimiser.state())
        tensors |= named("stream", {str(k): one.get_state() for k, one in enumerate(self.generators)})
        for role, saved in self.best.items():
            tensors |= named(f"best/{role}", {str(k): tensor for k, tensor in enumerate(saved)})
        if self.phase.memory is not None:
            tensors |= named("memory", self.phase.memory.state())
        return State(facts, tensors)

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Take the phase up where it was written down, with those who had not left by then."""
        going = [int(place) for place in state.facts["begun"]]
        if not going or going != sorted(set(going)) or not 0 <= going[0] <= going[-1] < len(self.runs):
            raise ValueError("who is in the stack")
        self._go_on_with(going)
        self.epoch, self.steps = int(state.facts["epoch"]), int(state.facts["steps"])
        self.optimiser.restore(state.under("optimiser"))
        streams = state.under("stream")
        for k, generator in enumerate(self.generators):
            generator.set_state(streams[str(k)])
        for role in self.phase.kept:
            saved, current = state.under(f"best/{role}"), self._tensors(role)
            if saved and [saved[str(k)].shape for k in range(len(saved))] != [t.shape for t in current]:
                raise ValueError(f"the best weights of '{role}'")
            if saved:
                self.best[role] = [saved[str(k)].to(t.device, copy=True) for k, t in enumerate(current)]
        if self.phase.memory is not None:
            self.phase.memory.restore({name: t.to(self.device) for name, t in state.under("memory").items()})

    def _one_epoch(self) -> None:
        started, first = time.perf_counter(), self.steps
        one = self.runs[0].options  # the schedule is the same for all
        for batch in self._batches():
            if one.schedule != "constant":
                done = self.epoch + (self.steps - first) / self.world.steps(self.runs[0])
                self.optimiser.set_rate(one.rate_at(done) / one.learning_rate)
            self.stepper(batch, self.steps, self.epoch)
            self.steps += 1
        self.epoch += 1
        losses = (self.stepper.take_total() / (self.steps - first)).tolist()
        sound = self._sound()
        going = max(1, sum(1 + len(run.twins) for run in self.runs if not run.stopped))
        trained = time.perf_counter()
        metrics = self._measured("task")
        watched = self._measured("watched")
        seconds = (trained - started) / going, (time.perf_counter() - trained) / going
        open_ = [place for place, run in enumerate(self.runs) if not run.stopped]
        better = [
            place
            for place in open_
            if self._close_epoch(
                self.runs[place], losses[place], sound[place], metrics[place], watched[place], seconds
            )
        ]
        self._remember(better)
        self._keep_last([place for place in open_ if self.runs[place].stopped])
        empty = [place for place, run in enumerate(self.runs) if run.stopped]
        if len(empty) >= max(1, EMPTY_SHARE[self.device.type] * len(self.runs)):
            self._leave(empty)

    def _batches(self) -> Iterator[Any]:
        """Every run's batches side by side; drawn for many batches at a time, from each run's own stream."""
        for chunk in self.world.chunks(self.runs, self.generators, self.phase, self.epoch):
            if self.chunk is None or not self.recording:
                self.chunk = chunk
            else:
                self.chunk.fill(chunk)
            yield from self.chunk.batches()

    @torch.no_grad()
    def _sound(self) -> list[bool]:
        """For each place, whether all weights are finite."""
        each = [torch.isfinite(p).flatten(1).all(1) for net in self.learning.values() for p in net.parameters()]
        return torch.stack(each).all(0).tolist()

    @torch.no_grad()
    def _measured(self, name: str) -> list[dict[str, float]]:
        """The metrics of the run at each place on its task of a name; nothing where it has none or has stopped."""
        target = self.learning[self.phase.target]
        metrics: list[dict[str, float]] = [{} for _ in self.runs]
        tasks = {place: getattr(run, name) for place, run in enumerate(self.runs) if not run.stopped}
        places = [place for place, task in tasks.items() if task is not None]
        if places:
            target.eval()
            for place, found in zip(
                places, self.world.measured(target, places, [tasks[p] for p in places]), strict=True
            ):
                metrics[place] = found
            target.train()
        return metrics

    def _close_epoch(
        self,
        run: StackedRun,
        loss: float,
        sound: bool,
        metrics: dict[str, float],
        watched: dict[str, float],
        seconds: tuple[float, float],
    ) -> bool:
        """Write a run's epoch down; True when it is its best."""
        options = run.options
        run.error = diverged(loss, sound, self.epoch, self.phase.name, options)
        if run.error is not None:  # the others go on
            for one in (run, *run.twins):
                one.error, one.stopped = run.error, True
            return False
        record: EpochRecord = {"phase": self.phase.name, "epoch": self.epoch, "loss": loss}
        is_best, value = False, None
        if metrics:
            value = metrics[options.metric]
            is_best = run.best is None or value > run.best
            record |= {"valid": metrics, "is_best": is_best}
            if is_best:
                run.best, run.best_epoch = value, self.epoch
        if watched:
            record["watched"] = watched
        record |= {"train_seconds": round(seconds[0], 4), "valid_seconds": round(seconds[1], 4)}
        place = (*self.number, self.epoch, options.epochs, 1.0, options.metric, value, run.best)
        for one in (run, *run.twins):
            one.history.append({**record})
            if one.hook is not None:
                one.hook(Progress(self.phase.name, *place))
        exhausted = bool(metrics) and 0 < options.patience <= self.epoch - run.best_epoch
        run.stopped = exhausted or self.epoch >= options.epochs
        keeps = is_best if options.restore == "best" else run.stopped  # a place may be empty for a while
        run.kept |= keeps
        return keeps

    def _tensors(self, role: str) -> list[Tensor]:
        return self.learning[role].tensors()

    @torch.no_grad()
    def _remember(self, places: list[int]) -> None:
        """Keep the weights these runs have now."""
        if not places:
            return
        rows = torch.tensor(places, device=self.device)
        for role in self.phase.kept:
            current = self._tensors(role)
            saved = self.best.setdefault(role, [])
            if not saved:
                saved.extend(tensor.clone() for tensor in current)
                continue
            for old, new in zip(saved, current, strict=True):
                old.index_copy_(0, rows, new.index_select(0, rows))

    @torch.no_grad()
    def _keep_last(self, places: list[int]) -> None:
        """Hand the weights with which these runs end to the networks that keep them, where there are such."""
        rows = torch.tensor(places, dtype=torch.int64, device=self.device)
        last: Any = self.phase.last
        for role, network in last.items():
            for kept, current in zip(network.tensors(), self._tensors(role), strict=True):
                kept.index_copy_(0, rows, current.index_select(0, rows))

    @torch.no_grad()
    def _leave(self, stopped: list[int]) -> None:
        """Put the best weights of runs that stop back, and go on without them."""
        rows = torch.tensor([p for p in stopped if self.runs[p].kept], device=self.device).long()
        for role, saved in self.best.items():
            for parameter, best in zip(self._tensors(role), saved, strict=True):
                parameter.index_copy_(0, rows, best.index_select(0, rows))
        self._go_on_with([place for place in range(len(self.runs)) if place not in stopped])

    def _go_on_with(self, going: list[int]) -> None:
        self.optimiser.clear()
        self.stepper.release()
        for one in (*self.stacks, *self.settings):
            one.keep(going)
        kept = torch.tensor(going, dtype=torch.int64, device=self.device)
        self.optimiser.keep(kept)
        if self.phase.memory is not None and going:
            self.phase.memory.keep(kept)
        self.best = {role: [t.index_select(0, kept) for t in saved] for role, saved in self.best.items()}
        self.runs = [self.runs[place] for place in going]
        self.begun = [self.begun[place] for place in going]
        self.generators = [self.generators[place] for place in going]
        self._new_stepper()
