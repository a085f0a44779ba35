"""Settings of members that are quick to solve: found by noisy validation, once, on all training clicks."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from accord.estimators.council.members import Asked, Member
from accord.estimators.recommender import Recommender
from accord.models import space_of, trait
from accord.training import Callback

Found = dict[str, dict[str, Any]]
"""By the name of a model, settings that are better than its default ones."""


def searched(
    members: Sequence[Member], names: Sequence[str], callback: Callback | None
) -> Generator[Asked, list[Member], Found]:
    """Search what a model, given by its name, lists as ``searched``: one setting after the other, each with the
    best values of those before it. The default value is kept unless another one is better."""
    first = {m.kind: m for m in members if m.fold is None and m.kind in names}
    spaces = {kind: {name: space_of(kind)[name] for name in trait(kind, "searched", ())} for kind in first}
    total = sum(len(values) for space in spaces.values() for values in space.values())
    found: Found = {}
    done = 0
    for kind, space in spaces.items():
        best = -inf
        for name, values in space.items():
            usual = getattr(first[kind].estimator.settings, name)
            ordered = sorted(values, key=lambda value, usual=usual: value != usual)  # of equals the first is taken
            trials = [_with(first[kind], found.get(kind, {}) | {name: value}) for value in ordered]
            ready = yield Asked(trials, callback, done, total, "trial")
            done += len(trials)
            for trial, value in zip(trials, ordered, strict=True):
                quality = _validation(trial.estimator) if trial in ready else -inf
                if quality > best:
                    best = quality
                    found[kind] = found.get(kind, {}) | {name: value}
    return found


def _with(member: Member, own: Mapping[str, Any]) -> Member:
    """A member with other settings."""
    return replace(member, estimator=Recommender(**{**member.estimator.changed_settings(), **own}))


def _validation(rec: Recommender) -> float:
    """Noisy validation; where nothing is held out, nothing is better than anything."""
    return float(list(rec.validation_.values())[-1].get(rec.metric, -inf))
