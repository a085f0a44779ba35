"""From the members of a council of recommenders to its answer and its word on every click."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from accord.data.interactions import Interactions
from accord.estimators.base import CUSTOM, Cache, Prepared
from accord.estimators.council.clicks.answering import chosen, head_of, temper
from accord.estimators.council.clicks.judging import Judged, judged, votes
from accord.estimators.council.clicks.membership import folds_of, members_of
from accord.estimators.council.clicks.searching import searched
from accord.estimators.council.clicks.voices import Voices
from accord.estimators.council.clicks.weights import Choice
from accord.estimators.council.members import Asked, Member, refuse_lost, told_of
from accord.estimators.naming import spelled
from accord.estimators.recommender import Recommender
from accord.estimators.recommender_data import split_of
from accord.methods.assembly import HEAD, Taught, Together
from accord.training import Callback


@dataclass
class Convened:
    """A council that has been fitted."""

    teacher: Together
    networks: dict[str, nn.Module]
    """By role, what answers when the council serves."""
    architectures: dict[str, str]
    notes: dict[str, Any]
    """What the run says of it."""
    data: Interactions
    """The training clicks."""
    quality: np.ndarray
    """P(meant) of every click of the log."""
    threshold: float
    votes: dict[str, np.ndarray]
    """Of every click: members that believe it (``votes``), those asked (``voters``), and ``agreement``."""

    role: ClassVar[str] = "council"

    def identity(self) -> list[Any]:
        """Words by which a checkpoint knows it."""
        return [json.dumps(self.architectures)]

    def taught(self) -> Taught:
        data = self.data
        return Taught(self.teacher, data.n_users, data.n_items, data.device, seen=data)


def convene(
    rec: Recommender, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Callback | None
) -> Generator[Asked, list[Member], Convened]:
    """Have the members fitted, weigh them by noisy validation, and judge every click."""
    settings, split = rec.settings, split_of(rec, source, cache)
    folds = folds_of(settings, split)
    members = members_of(rec, split, source, folds)
    if all(member.fold is None for member in members):  # they came fitted, and have seen all
        folds = []
    if settings.serve == "council":
        for member in members:
            spelled(member.estimator)  # what cannot be saved is refused before it is fitted
    settled = [split.clicks.keys.tobytes(), split.part.tobytes(), len(split.user_ids), len(split.item_ids)]
    key = ("council", *settled, *(repr(m.estimator.settings) + str(m.fold) for m in members))
    named = not any(m.fitted or m.estimator.settings.model == CUSTOM for m in members)
    if named and key in cache.lasting:
        ready = cache.lasting[key]
    else:
        names = [name for name in settings.members if name not in rec.objects()]
        found = yield from searched(members, names, callback)
        members = members_of(rec, split, source, folds, found) if found else members
        ready = yield Asked(members, callback)
        refuse_lost(members)
        if named:
            cache.lasting.clear()  # one council at a time is held for others
            cache.lasting[key] = ready
    data = prepared.run.data
    for member in ready:
        member.network.to(data.device)
    with torch.no_grad():
        voices = Voices(data, split, ready, settings.seed)
        word = judged(voices, folds, settings.clicked)
        choice = chosen(voices, prepared.run.valid, settings.kappa)
        teacher = Together([m.network for m in voices.full], head_of(voices, choice, word, settings.caution))
        temper(teacher, prepared.run.valid, settings.seed)
    if data.n_users * data.n_items > Taught.LARGEST:  # then members are asked in every step of a student
        prepared.run.options = replace(prepared.run.options, capture=False)  # and some do what cannot be captured
    roles = [f"member {k + 1}" for k in range(len(voices.full))]
    networks: dict[str, nn.Module] = {r: m.network for r, m in zip(roles, voices.full, strict=True)}
    architectures: dict[str, str] = {}
    if settings.serve == "council":
        names = [spelled(m.estimator) for m in voices.full]
        architectures = dict(zip(roles, names, strict=True)) | {"head": HEAD}
    notes = {"members": told_of(ready, rec.metric), "lost": len(members) - len(ready)}
    return Convened(
        teacher,
        networks | {"head": teacher.head},
        architectures,
        notes | _told(voices, choice, teacher, word, folds),
        data,
        word.quality(),
        word.threshold(),
        votes(word.said, word.of_others),
    )


def _told(
    voices: Voices, choice: Choice, teacher: Together, word: Judged, folds: Sequence[np.ndarray]
) -> dict[str, Any]:
    """What the run says of how the council answers and judges."""
    told = {
        "weights": {kind: round(w, 4) for kind, w in zip(voices.kinds, choice.weights, strict=True)},
        "kappa": round(choice.kappa, 4),
        "caution": float(teacher.head.caution),
        "judged": "by members that never saw it" if folds else "by members that have seen it",
        "quality_weights": {kind: round(weight, 4) for kind, weight in word.weights.items()},
    }
    return told if word.noise_share is None else told | {"noise_share": round(word.noise_share, 4)}
