"""Members of a council that are ready, brought to one scale: the log-odds of a held-out click."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.data.interactions import Interactions
from accord.estimators.council.members import Member
from accord.estimators.log_split import SEEN, TRAIN, SplitLog, over_pairs
from accord.models.recommenders.solved import logistic_fit
from accord.training import stream

HELD_OUT = 100_000
"""Most clicks by which scales are fitted."""
FITTED_USERS = 1_000
"""Users over whom an item's mean is taken."""
SCORES = 1 << 22
"""Scores computed at a time."""


class Voices:
    """What every member says, as log-odds."""

    def __init__(self, data: Interactions, split: SplitLog, ready: Sequence[Member], seed: int) -> None:
        self.data, self.split, self.seed = data, split, seed
        self.device = data.device
        self.ready = list(ready)
        self.full = [m for m in ready if m.fold is None]
        """Those that see all clicks."""
        self.kinds = list(dict.fromkeys(m.kind for m in self.full))
        self.scales = {id(m): one for m, one in zip(self.ready, self._scales(), strict=True)}
        """Of each member, by its id."""

    def scale(self, member: Member) -> tuple[float, float]:
        """Its scale and offset."""
        return self.scales[id(member)]

    def logits(self, member: Member, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """What a member says of pairs."""
        scale, offset = self.scale(member)
        return over_pairs(self._raw(member), users, items) * np.float32(scale) + np.float32(offset)

    def scores(self, member: Member, users: Tensor) -> Tensor:
        """What a member says of all items: (users, items)."""
        scale, offset = self.scale(member)
        network: Any = member.network
        return network.scores(users) * scale + offset

    def by_kind(self, users: Tensor) -> Tensor:
        """The mean log-odds of each kind's members that see all clicks: (kinds, users, items)."""
        each: dict[str, list[Tensor]] = {kind: [] for kind in self.kinds}
        for member in self.full:
            each[member.kind].append(self.scores(member, users))
        return torch.stack([torch.stack(own).mean(0) for own in each.values()])

    def weighed(self, members: Sequence[Member], weights: Mapping[str, float]) -> Tensor:
        """What members say of a sample of users, their kinds weighed: (users, items)."""
        warm = (self.data.degrees > 0).nonzero().squeeze(1).cpu().numpy()
        if len(warm) > FITTED_USERS:
            warm = np.sort(np.random.default_rng([self.seed, 0xF17]).choice(warm, FITTED_USERS, False))
        counts = Counter(m.kind for m in members)
        total = torch.zeros(len(warm), self.data.n_items, device=self.device)
        step = max(1, SCORES // self.data.n_items)
        for member in members:
            weight = weights.get(member.kind, 0.0) / counts[member.kind]
            for start in range(0, len(warm) if weight else 0, step):
                users = torch.from_numpy(warm[start : start + step]).to(self.device)
                total[start : start + step] += weight * self.scores(member, users)
        return total

    def _scales(self) -> list[tuple[float, float]]:
        """Scale and offset of each member: held-out noisy clicks against non-clicks of the same users."""
        users, items, others = self._held_out()
        made = []
        for member in self.ready:
            clicked, unclicked = (
                torch.from_numpy(over_pairs(self._raw(member), u, i)).double()
                for u, i in ((users, items), (users, others))
            )
            scale, offset, _ = logistic_fit(clicked, unclicked)
            made.append((scale, offset))
        return made

    def _held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of warm users that no member has learnt from, and non-clicks; without validation, training ones."""
        clicks, part = self.split.clicks, self.split.part
        clicked = self.data.degrees.cpu().numpy()
        asked = ((clicked > 0) & (clicked < self.data.n_items))[clicks.users]  # the others have no non-click
        rows = np.flatnonzero((part != TRAIN) & (part != SEEN) & asked)
        rows = rows if len(rows) else np.flatnonzero((part == TRAIN) & asked)
        if len(rows) > HELD_OUT:
            rows = np.sort(np.random.default_rng([self.seed, 0x5CA1]).choice(rows, HELD_OUT, False))
        users, items = clicks.users[rows].astype(np.int64), clicks.items[rows].astype(np.int64)
        generator = stream(self.device, self.seed, "council scales")
        drawn = self.data.sample_negatives(torch.from_numpy(users).to(self.device), generator)
        return users, items, drawn.cpu().numpy()

    def _raw(self, member: Member) -> Callable[[Tensor, Tensor], Tensor]:
        network: Any = member.network
        return lambda users, items: network.logits(users.to(self.device), items.to(self.device)).flatten().cpu()
