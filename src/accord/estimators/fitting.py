"""Fitting estimators: alone, or many at once, as stacks where they are alike and next to one another elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from accord.errors import AccordError, DataError, InterruptedRunError, SettingError
from accord.estimators.base import Cache, Convening, Estimator, Prepared, Trained
from accord.estimators.limits import free_memory, require_disk
from accord.estimators.settings import of_models, own_settings
from accord.methods import PerRun, Phase
from accord.models import MODELS
from accord.models.stack import Stack, stack, stack_kind
from accord.ranks.group import here
from accord.training import (
    Callback,
    Checkpoint,
    CheckpointPath,
    RanksCheckpoint,
    checkpoint_of,
    drive,
    refuse_other_data,
    refuse_other_ranks,
    resolve_device,
    training,
)

SIDE_BY_SIDE = 8
"""Trainings that share a GPU, each on a stream of its own."""
SHARE = 0.25
"""Share of the free memory that a stack may fill."""
T = TypeVar("T")
E = TypeVar("E", bound=Estimator)
Source = Mapping[str, Any]
"""The keyword arguments of an estimator's `fit`."""


class StackError(SettingError):
    """These runs cannot be one stack, though each can be trained alone."""


def fit_together(
    estimators: Sequence[E],
    sources: Source | Sequence[Source],
    *,
    callbacks: Sequence[Callback | None] | None = None,
    fitted: Callable[[int], None] = lambda k: None,
    failed: Callable[[int, AccordError], None] | None = None,
    checkpoint: CheckpointPath | None = None,
    judge: bool = True,
    cache: Cache | None = None,
) -> Sequence[E]:
    """Fit several estimators of one kind at once; each ends as it would alone.

    ``sources`` are the keyword arguments of `fit`: one mapping for all, or one for each. Estimators that differ in
    their seeds, rates, L2 terms and constants alone are trained as stacks where their architecture can be; others
    run next to one another on a GPU, and take turns elsewhere. Logs and arrays that are the same object are held
    once. ``fitted`` is called with the index of each when it is ready. If one cannot be trained, the others are,
    and ``failed`` is called with its index and error; without ``failed`` the error is raised at the end.
    ``checkpoint`` is a file, or a `Checkpoints` folder for many trainings: what is found there is resumed. Without
    ``judge`` no labels are judged, which is enough for a search.
    """
    each = [sources] * len(estimators) if isinstance(sources, Mapping) else list(sources)
    told = list(callbacks or [None] * len(estimators))
    if not estimators or not len(estimators) == len(each) == len(told):
        raise DataError("Give as many sources (and callbacks) as estimators, and at least one.")
    _refuse_ranks(estimators)
    device = resolve_device(estimators[0].settings.device)
    errors: dict[int, AccordError] = {}
    party = _Party(estimators, each, told, device, cache or Cache(), checkpoint, judge)

    def ended(k: int, error: AccordError | None) -> None:
        if error is None:
            try:
                fitted(k)
            except AccordError as reason:  # what cannot be kept does not take the others with it
                error = reason
        if error is not None:
            errors[k] = error

    alone = []
    for group in party.stacks():
        if len(group) < 2 or not party.fit_stack(group, ended):
            alone += group
    for group in batched(alone, SIDE_BY_SIDE if device.type == "cuda" else 1):
        party.fit_alone(group, ended)
    for k in sorted(errors):
        if failed is None:
            raise errors[k]
        failed(k, errors[k])
    return estimators


def _refuse_ranks(estimators: Sequence[Estimator]) -> None:
    """What several ranks cannot train together."""
    if here().many and (len(estimators) > 1 or estimators[0].task != "clicks"):
        raise SettingError(
            f"{here().size} ranks train one recommender together, and neither several models at once nor "
            "classifiers; fit these in processes of their own."
        )


class _Party:
    """Estimators that are fitted together."""

    def __init__(
        self,
        estimators: Sequence[Estimator],
        sources: Sequence[Source],
        callbacks: Sequence[Callback | None],
        device: torch.device,
        cache: Cache,
        checkpoint: CheckpointPath | None,
        judge: bool,
    ) -> None:
        self.estimators, self.sources, self.callbacks = estimators, sources, callbacks
        self.device, self.cache, self.checkpoint, self.judge = device, cache, checkpoint, judge

    def stacks(self) -> list[list[int]]:
        """Those that may be trained as one, no more than there is memory for; by index."""
        if len(self.estimators) == 1:
            return [[0]]
        alike: dict[Any, list[int]] = {}
        for k, one in enumerate(self.estimators):
            key = stack_key(one)
            alike.setdefault((k,) if key is None else key, []).append(k)
        groups = []
        for group in alike.values():
            first = group[0]
            room = together(self.estimators[first], self.sources[first], self.cache) if len(group) > 1 else 1
            groups += batched(group, room)
        return groups

    def fit_stack(self, group: Sequence[int], ended: Callable[[int, AccordError | None], None]) -> bool:
        """Fit those of a group as one stack; False where they differ in what a stack must share."""
        try:
            one = _Training(self, group)
            one.begin(None)
            drive([one.steps()], self.device, lambda _, error: one.end(error, ended))
        except StackError:
            return False
        return True

    def fit_alone(self, group: Sequence[int], ended: Callable[[int, AccordError | None], None]) -> None:
        """Fit those of a group each by itself, next to one another."""
        trainings: list[_Training] = []

        def tried(k: int, make: Callable[[], None]) -> None:
            try:
                make()
            except AccordError as error:
                if len(self.estimators) == 1:
                    raise
                ended(k, error)

        for k in group:
            tried(k, lambda k=k: trainings.append(_Training(self, [k])))
        convening = {one: made for one in trainings if (made := one.convening()) is not None}
        heard = hear_all(convening, self.checkpoint, self.cache, self.device) if convening else {}
        begun: list[_Training] = []
        for one in trainings:

            def begin(one: _Training = one) -> None:
                one.begin(heard.get(one))
                begun.append(one)

            tried(one.group[0], begin)
        drive([one.steps() for one in begun], self.device, lambda n, error: begun[n].end(error, ended))


class _Training:
    """The training of one stack, of one estimator or several."""

    def __init__(self, party: _Party, group: Sequence[int]) -> None:
        self.party, self.group = party, list(group)
        self.estimators = [party.estimators[k] for k in group]
        self.prepared = [self._prepare(k) for k in group]
        refuse_apart(self.prepared)
        self.stacks: list[Stack] = []
        self.architectures: dict[str, str] = {}
        self.values = self._values()
        self.setup = self.estimators[0]._join(self.prepared)
        self.first: Any = None
        self.identity: list[Any] = []
        self.checkpoint: Checkpoint | None = None

    def begin(self, fitted: Any) -> None:
        """Build the networks; ``fitted`` is what was fitted first, if anything, or why it could not be."""
        if isinstance(fitted, AccordError):
            raise fitted
        here().agreed(lambda: self._begin(fitted))
        refuse_other_data(self.identity, here())
        if self.checkpoint is not None and here().many:
            self.checkpoint = RanksCheckpoint(self.checkpoint, here())
        elif self.checkpoint is not None and not self.checkpoint.optional:
            refuse_other_ranks(self.checkpoint.path, here())

    def _begin(self, fitted: Any) -> None:
        party, first, setup = self.party, self.prepared[0], self.setup
        self.first = fitted
        if fitted is not None:
            setup = {**setup, fitted.role: fitted}
            self.architectures |= fitted.architectures
        method = self.estimators[0]._method(per_run=self.values, **setup)
        self.phases: list[Phase] = method.phases(self._build)
        identity = [party.device.type, *(json.dumps(one.settings_to_save()) for one in self.estimators)]
        identity += list(once(pair for one in self.prepared for pair in one.identity))
        identity += [] if self.first is None else self.first.identity()
        self.identity = identity
        self.checkpoint = checkpoint_of(party.checkpoint, *identity)
        if self.checkpoint is not None and not self.checkpoint.optional:
            require_disk(first.bytes_needed, self.checkpoint.path, "A checkpoint of this training")
        self.removes = isinstance(party.checkpoint, str | Path)

    def _prepare(self, k: int) -> Prepared:
        party, one = self.party, self.party.estimators[k]
        with here().sending("reading"):
            prepared = here().agreed(lambda: one._prepare(party.sources[k], party.device, party.cache))
        prepared.run.callback = self.party.callbacks[k]
        return prepared

    def convening(self) -> Convening | None:
        """Asks for what is fitted first, where the method needs something."""
        settings = self.estimators[0].settings
        if not settings.method_class.fits_first(settings):
            return None
        (k,), (prepared,), party = self.group, self.prepared, self.party
        return self.estimators[0]._convene(
            prepared, party.sources[k], party.cache, party.callbacks[k], party.checkpoint
        )

    def _values(self) -> dict[str, PerRun]:
        """Numbers that differ between the runs."""
        names = self.estimators[0].settings.method_class.may_differ if len(self.group) > 1 else ()
        values = {}
        for name in sorted(names):
            each = [one.settings for one in self.estimators]
            if all(hasattr(one, name) for one in each):
                own = [one.method_class.resolve(one, name) for one in each]
                if len(set(own)) > 1:
                    values[name] = PerRun([float(value) for value in own], self.party.device)
        return values

    def _build(self, role: str, architecture: Any = None) -> nn.Module:
        if architecture is not None:
            architecture = _name_of(role, architecture)
        networks = [one.build(role, architecture) for one in self.prepared]
        if len(networks) > 1:
            if stack_kind(type(networks[0])) is None:
                raise StackError(f"A {type(networks[0]).__name__} cannot be trained in a stack.")
            self.estimators[0]._refuse_stack(type(networks[0]), self.prepared)
        made = stack(networks)
        self.architectures[role] = architecture or self.prepared[0].architecture
        self.stacks.append(made)
        return made

    def steps(self) -> Iterator[None]:
        runs = [one.run for one in self.prepared]
        return training(self.phases, self.stacks, list(self.values.values()), runs, self.checkpoint)

    def end(self, error: AccordError | None, ended: Callable[[int, AccordError | None], None]) -> None:
        """Give every estimator what its run has learnt."""
        failed = error
        for place, (k, estimator, prepared) in enumerate(
            zip(self.group, self.estimators, self.prepared, strict=True)
        ):
            own = error or prepared.run.error
            if own is None:
                try:
                    estimator._finish(self._trained(place), self.party.judge)
                except AccordError as reason:  # the others are kept
                    own = reason
            failed = failed or own
            ended(k, own)
        if failed is None and self.checkpoint is not None and self.removes:
            self.checkpoint.remove()
            if self.first is not None:
                from accord.estimators.council.members import clear_shelf

                clear_shelf(self.checkpoint.path)

    def _trained(self, place: int) -> Trained:
        def own(network: Any) -> nn.Module:
            return network.networks[place]

        kept = {role: own(phase.networks[role]) for phase in self.phases for role in phase.kept}
        last = {role: own(one) for phase in self.phases for role, one in phase.last.items()}
        kept |= {role: network for phase in self.phases for role, network in phase.given.items()}
        run = self.prepared[place].run
        first = {} if self.first is None else {self.first.role: self.first}
        return Trained(run.history, kept, last, self.architectures, run=run, **first)


def hear_all(
    convening: Mapping[T, Convening], where: CheckpointPath | None, cache: Cache, device: torch.device
) -> dict[T, Any]:
    """Fit what several councils or priors ask for, side by side, until each is ready or failed."""
    from accord.estimators.council.members import fit_members

    heard: dict[T, Any] = {}
    answers: dict[T, Any] = dict.fromkeys(convening)
    while answers:
        asked: dict[T, Any] = {}
        for key, answer in answers.items():
            try:
                asked[key] = convening[key].send(answer)
            except StopIteration as end:
                heard[key] = end.value
            except InterruptedRunError:
                raise
            except AccordError as error:
                heard[key] = error
        if asked:
            fit_members(list(asked.values()), where, cache, device)
        answers = {key: [one for one in each.members if one.error is None] for key, each in asked.items()}
    return heard


def _name_of(role: str, architecture: Any) -> str:
    """What a run folder calls the architecture that a method chose: by its name it is built again."""
    if isinstance(architecture, str):
        return architecture
    for name in MODELS:
        if MODELS.find(name) is architecture:
            return name
    raise SettingError(
        f"The network '{role}' is of a model without a name, so its run could not be loaded; register it: "
        "accord.models.register_model(name, model)."
    )


def refuse_apart(prepared: Sequence[Prepared]) -> None:
    """Runs that differ in what a stack must share."""
    first = prepared[0].same
    for one in prepared[1:]:
        for name, value in one.same.items():
            if value != first[name]:
                raise StackError(f"The runs of a stack must have the same {name}.")


def stack_key(estimator: Estimator) -> str | None:
    """A key that is equal for runs which may be trained as one stack; None where they are not stacked."""
    settings = estimator.settings
    method = settings.method_class
    if not method.stackable or method.fits_first(settings) or not estimator._stackable(settings):
        return None
    differ = {*settings.may_differ, *method.may_differ} & set(type(settings).model_fields)
    if any(isinstance(getattr(settings, name), tuple) for name in differ):
        return None
    # Settings of all models count: networks of other roles may read them.
    read = own_settings(settings, estimator.task) | of_models(estimator.task)
    return json.dumps(settings.model_dump(include=read - differ), sort_keys=True, default=str)


def together(estimator: Estimator, source: Source, cache: Cache | None = None) -> int:
    """How many runs like this one are best trained together: as a stack, or next to one another."""
    device = resolve_device(estimator.settings.device)
    beside = SIDE_BY_SIDE if device.type == "cuda" else 1
    if stack_key(estimator) is None:
        return beside
    room = estimator._room(source, device, cache or Cache())
    return room if room > 1 else beside


def room_for(need: float, most: int, device: torch.device) -> int:
    """How many runs of this need fit into the free memory, at most so many."""
    return int(max(1, min(most, SHARE * free_memory(device) // max(1.0, need))))


def batched(jobs: Sequence[T], most: int) -> list[list[T]]:
    """At most so many at a time, and as evenly as may be: one left over would train alone."""
    count = -(-len(jobs) // most)
    bounds = [k * len(jobs) // count for k in range(count + 1)] if count else []
    return [list(jobs[a:b]) for a, b in pairwise(bounds)]


def once(arrays: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """The arrays of pairs (owner, array); for an owner that came before, its number instead."""
    seen: dict[int, int] = {}
    for owner, array in arrays:
        array = array if isinstance(array, np.ndarray) else str(array)
        yield seen.get(id(owner), array)
        seen.setdefault(id(owner), len(seen))


__all__ = ["StackError", "batched", "fit_together", "stack_key", "together"]
