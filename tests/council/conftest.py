"""Members that say what a table holds, and a divided log to say it of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from council_models import Table

from accord import Recommender
from accord.data.interactions import Interactions
from accord.data.simulator import Simulation
from accord.estimators.base import Cache
from accord.estimators.council.clicks.membership import folds_of
from accord.estimators.council.clicks.voices import Voices
from accord.estimators.council.members import Member
from accord.estimators.log_split import SEEN, TRAIN, VALID, SplitLog
from accord.estimators.recommender_data import split_of


@dataclass
class Spoken:
    """A log, and members of it that are tables."""

    split: SplitLog
    data: Interactions
    folds: list[np.ndarray]
    voices: Voices
    tables: list[np.ndarray] = field(default_factory=list)
    """Scaled log-odds of every member, in their order."""

    @property
    def members(self) -> list[Member]:
        return self.voices.ready

    @property
    def learnt(self) -> np.ndarray:
        return np.flatnonzero(self.split.part == TRAIN)

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(self.split.part == VALID)


@pytest.fixture(scope="session")
def spoken(made: Simulation) -> Callable[..., Spoken]:
    """Makes members of these kinds: some that see all clicks, and one for each fold of each kind."""

    def make(kinds: Sequence[str] = ("a", "b"), folds: int = 0, seeds: int = 1, seed: int = 0) -> Spoken:
        rec = Recommender(method="council", folds=folds, seed=seed)
        split = split_of(rec, {"log": made.log()}, Cache())
        part = split.part.copy()
        part[np.flatnonzero(part == TRAIN)[::50]] = SEEN  # such as pairs that are never recommended
        split = replace(split, part=part)
        rows = split.part == TRAIN
        sizes = len(split.user_ids), len(split.item_ids)
        data = Interactions.from_pairs(split.clicks.users[rows], split.clicks.items[rows], *sizes)
        rng = np.random.default_rng(seed)
        clicked = torch.zeros(sizes)
        clicked[split.clicks.users, split.clicks.items] = 1.0
        found = folds_of(rec.settings, split)
        members = []
        for kind in kinds:
            for fold in (*[None] * seeds, *range(len(found))):
                table = torch.from_numpy(rng.normal(size=sizes).astype(np.float32)) + clicked
                estimator: Any = type("Spoken", (), {"_target": Table(table)})()
                members.append(Member(kind, estimator, fold=fold))
        voices = Voices(data, split, members, seed)
        scaled = [m.network.table.numpy() * voices.scale(m)[0] + voices.scale(m)[1] for m in members]
        return Spoken(split, data, found, voices, scaled)

    return make
