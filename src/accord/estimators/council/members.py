"""Members of a council, and a prior: estimators that are fitted first, each kept in a file once it is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from accord.errors import AccordError, DataError, InterruptedRunError
from accord.estimators.base import CUSTOM, Cache, Estimator
from accord.estimators.fitting import fit_together
from accord.training import Callback, CheckpointPath, Checkpoints, Progress, clear_checkpoints
from accord.training.checkpoints import Checkpoint, State, checkpoint_of, digest_of

FOLDER = ".members"


@dataclass
class Member:
    """One member: its kind, what is fitted, and on what."""

    kind: str
    """Members of a kind share a weight."""
    estimator: Any
    source: Mapping[str, Any] = field(default_factory=dict)
    fold: int | None = None
    """The fold that it does not see; None for one that sees all."""
    fitted: bool = False
    """Whether it came fitted."""
    error: AccordError | None = None

    @property
    def network(self) -> nn.Module:
        """What answers."""
        return self.estimator._target


class Shelf:
    """Where members that are ready, and the checkpoints of others, are kept while a council is made."""

    def __init__(self, where: CheckpointPath | None) -> None:
        self.checkpoints: Checkpoints | None = None
        if isinstance(where, Checkpoints):
            self.checkpoints = where
        elif where is not None:
            outer = where if isinstance(where, Checkpoint) else None
            folder = shelf_of(outer.path if outer else Path(where))  # pyright: ignore[reportArgumentType]
            self.checkpoints = Checkpoints(folder, follows=outer)

    def put(self, identity: Sequence[Any], metadata: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Keep what a member has learnt, or what it says."""
        file = self._file(identity)
        if file is not None:
            file.write(State(metadata, tensors))

    def get(self, identity: Sequence[Any]) -> State | None:
        file = self._file(identity)
        return None if file is None else file.read()

    def _file(self, identity: Sequence[Any]) -> Checkpoint | None:
        return checkpoint_of(self.checkpoints, "a member that is ready", *identity)


def shelf_of(checkpoint: Path) -> Path:
    """The folder of the members' files next to a checkpoint."""
    return checkpoint.with_name(checkpoint.name + FOLDER)


def clear_shelf(checkpoint: Path) -> None:
    """Remove what was kept: the council is ready."""
    clear_checkpoints(shelf_of(checkpoint))


@dataclass
class Asked:
    """Members that a council wants to have fitted."""

    members: Sequence[Member]
    callback: Callback | None
    before: int = 0
    """Members that were fitted earlier."""
    of: int | None = None
    """All that the council will ask for; by default these."""
    what: str = "member"
    """What each is, in words."""

    def told(self, member: Member, number: int) -> Callback | None:
        """The progress of a member as the council's: one phase for each, and one for the student."""
        if self.callback is None:
            return None
        return _as_part(self.callback, member, self.before + number, self.of or len(self.members), self.what)


def fit_members(each: Sequence[Asked], where: CheckpointPath | None, cache: Cache, device: Any) -> None:
    """Fit the members of several councils that are not fitted; why one could not be is its ``error``.

    Those of one kind are trained as stacks.
    """
    shelf = Shelf(where)
    waiting: list[Member] = []
    told: list[Callback | None] = []
    for asked in each:
        for number, member in enumerate(asked.members):
            if member.estimator.settings.model == CUSTOM:
                member.source = {**member.source, "place": f"member {asked.before + number + 1}"}
            if not member.fitted and not _taken_from(shelf, member, cache, device):
                waiting.append(member)
                told.append(asked.told(member, number))
    if waiting:

        def fitted(number: int) -> None:
            if shelf.checkpoints is not None:
                _put(shelf, waiting[number], _identity(waiting[number], cache, device))

        def failed(number: int, error: AccordError) -> None:
            if isinstance(error, InterruptedRunError):
                raise error
            waiting[number].error = error

        fit_together(
            [member.estimator for member in waiting],
            [member.source for member in waiting],
            callbacks=told,
            fitted=fitted,
            failed=failed,
            checkpoint=shelf.checkpoints,
            judge=False,
            cache=cache,
        )


def refuse_lost(members: Sequence[Member]) -> None:
    """Say why, where no member that sees all, or none of a fold, could be fitted."""
    for fold in dict.fromkeys(member.fold for member in members):
        errors = [member.error for member in members if member.fold == fold]
        if errors[0] is not None and None not in errors:
            raise errors[0]


def _put(shelf: Shelf, member: Member, identity: Sequence[Any]) -> None:
    """Keep what a member has learnt."""
    rec: Estimator = member.estimator
    if any(getattr(one, "stays_in_memory", False) for one in rec.networks_.values()):
        return
    tensors = {f"{r}/{n}": t for r, one in rec.networks_.items() for n, t in one.state_dict().items()}
    architectures = {role: rec.architectures_[role] for role in rec.networks_}
    shelf.put(identity, {"history": rec.history_, "architectures": architectures}, tensors)


def _as_part(callback: Callback, member: Member, number: int, of: int, what: str) -> Callback:
    """The progress of a member as the council's: one phase for each, and one for the student."""

    def told(now: Progress) -> None:
        part = "" if member.fold is None else f", fold {member.fold + 1}"
        one = f"{what} {number + 1} of {of}" if of > 1 or what == "member" else what
        words = f"{one}: {member.kind}{part}"
        callback(replace(now, phase=words, phase_number=number + 1, phases=of + 1))

    return told


def _identity(member: Member, cache: Cache, device: Any) -> list[Any]:
    """What tells a member from others: its settings and its data."""
    from accord.estimators.fitting import once

    prepared = member.estimator._prepare(member.source, device, cache)
    inputs, own = member.source.get("X"), []
    for owner, part in prepared.identity:
        if owner is inputs and isinstance(part, np.ndarray):  # all members have them: they are hashed once
            part = cache.get(("digest",), [owner], lambda part=part: digest_of(part))
        own.append((owner, part))
    return [str(device), repr(member.estimator.settings_to_save()), *once(own)]


def _taken_from(shelf: Shelf, member: Member, cache: Cache, device: Any) -> bool:
    """Whether a member was ready before a training was interrupted; then it is as it was."""
    if shelf.checkpoints is None:
        return False
    rec = member.estimator
    prepared = rec._prepare(member.source, device, cache)
    state = shelf.get(_identity(member, cache, device))
    if state is None:
        return False
    rec.history_, rec.architectures_ = state.metadata["history"], state.metadata["architectures"]
    rec.networks_ = {role: prepared.build(role, name) for role, name in rec.architectures_.items()}
    for role, network in rec.networks_.items():
        try:
            network.load_state_dict(state.under(role))  # a head takes as many members as it finds
        except RuntimeError as error:
            raise DataError("The checkpoint does not fit this run; remove it to begin anew.") from error
        network.requires_grad_(False).eval()
    return True


def told_of(members: Sequence[Member], metric: str) -> list[dict[str, Any]]:
    """What a run says of its members: kind, seed, fold, the noisy validation of what was kept, and seconds."""
    rows = []
    for member in members:
        kept = list(member.estimator.validation_.values())[-1]
        seconds = sum(r["train_seconds"] + r["valid_seconds"] for r in member.estimator.history_)
        row: dict[str, Any] = {"model": member.kind, "seed": member.estimator.settings.seed}
        row |= {} if member.fold is None else {"fold": member.fold}
        row |= {metric: kept[metric]} if metric in kept else {}
        rows.append(row | {"seconds": 0.0 if member.fitted else round(seconds, 3)})
    return rows
