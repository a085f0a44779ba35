"""A ranking task whose users are divided among ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from accord.evaluation import RankingTask
from accord.evaluation.ranking import METRICS, Scorer, stacked_metrics
from accord.models.stack import as_stack
from accord.ranks.group import Ranks
from accord.ranks.tables import whole_network


@dataclass(frozen=True, eq=False)
class DividedTask:
    """A ranking task whose users are divided; what each rank finds is added up."""

    own: RankingTask
    ranks: Ranks

    def same_as(self, other: DividedTask) -> bool:
        return self is other

    def measure(self, target: Any, which: Sequence[int], tasks: Sequence[DividedTask]) -> dict[str, Tensor]:
        """Metrics of the only member of a stack, each (1,). It scores with whole tables of items."""
        (network,) = as_stack(target).networks
        with self.ranks.sending("validation"):
            near: Any = whole_network(network, users=False)
            return {name: value[None] for name, value in self.means(near.scores).items()}

    def means(self, scorer: Scorer) -> dict[str, Tensor]:
        """The same of a scorer of this rank's users, each a number."""
        ks = self.own.ks
        names = [f"{name}@{k}" for k in ks for name in METRICS]
        with self.ranks.sending("validation"):
            each = stacked_metrics(lambda users: scorer(users)[None], self.own, ks, 1)
            settled = self.own.settled
            sums = [each[name].double().sum() for name in names]
            if settled is not None:
                more = settled.sums(ks)
                sums = [own + more[name].double() for own, name in zip(sums, names, strict=True)]
            users = len(self.own.users) + (0 if settled is None else len(settled))
            total = self.ranks.summed(torch.stack([*sums, sums[0].new_tensor(float(users))]))
        return {name: total[k] / total[-1] for k, name in enumerate(names)}
