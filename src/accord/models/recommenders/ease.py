"""EASE: a linear model from items to items, in closed form (Steck, 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import embedding_bag

from accord.kernels.segment_sum import segment_sum
from accord.models.recommenders.programs import FromItems
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.solved import SolvedModel
from accord.models.recommenders.tables import AT_ONCE, blocks_of_clicks, sums_over_common_users
from accord.registry import OwnSettings


class EASESettings(OwnSettings):
    ease_l2: float = Field(default=300.0, gt=0, le=1e9)
    """EASE: λ, the squared weights' penalty; large values suit logs of few or noisy clicks."""


class EASE(SolvedModel):
    """Steck (2019): every item is predicted from the others by ridge regression, the diagonal held at zero.

    With G = XᵀX + λI and P = G⁻¹, the weight of item j for item i is −P_ji / P_ii. A click never counts for itself.
    The inverse is made in double precision; one matrix items × items is kept.
    """

    weights: Tensor
    settings = EASESettings
    space: ClassVar = {"ease_l2": (10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 3000.0)}
    divides = True
    too_large = "take model='rp3beta' or 'itemknn', which keep some neighbours of each item, or 'ials'"

    def __init__(self, n_users: int, n_items: int, ease_l2: float = 300.0) -> None:
        super().__init__(n_users, n_items)
        self.l2 = ease_l2
        self.register_buffer("weights", torch.zeros(n_items, n_items))

    @staticmethod
    def memory_need(n_users: int, n_items: int, n_clicks: int, settings: object) -> int:
        """Bytes: the weights, and three matrices in double precision while they are made."""
        return (4 + 3 * 8) * n_items**2

    def solve(self, sweep: int) -> Iterator[float]:
        n = self.n_items
        users = len(self.starts) - 1  # those that it is bound to; sums of ones are exact in single precision
        one = torch.ones(users, device=self.clicked.device)
        matrix = torch.empty(n, n, dtype=torch.float64, device=one.device)
        for items, counts in sums_over_common_users(self.starts, self.clicked, n, one):
            self.ranks.add_up([counts])
            matrix[items] = counts.double()
            yield 0.3 * float(items[-1] + 1) / n
        matrix.diagonal().add_(self.l2)
        factor = torch.linalg.cholesky(matrix)
        del matrix
        yield 0.5
        inverse = torch.cholesky_inverse(factor)
        del factor
        yield 0.9
        inverse.div_(-inverse.diagonal().clone())  # column by column
        inverse.fill_diagonal_(0)
        self.weights.copy_(inverse)
        yield 1.0

    def affinity(self, users: Tensor, items: Tensor) -> Tensor:
        """The weights of a user's clicks for an item, gathered pair by pair."""
        parts = []
        for rows in blocks_of_clicks(users, self.starts, AT_ONCE):
            position, clicked = clicks_of(users[rows], self.starts, self.clicked)
            own = self.weights[clicked, items[rows][position]]
            parts.append(segment_sum(position, own, rows.stop - rows.start))
        return torch.cat(parts)

    def affinities(self, users: Tensor) -> Tensor:
        _, clicked = clicks_of(users, self.starts, self.clicked)
        ends = (self.starts[users + 1] - self.starts[users]).cumsum(0)
        bounds = torch.cat([ends.new_zeros(1), ends])
        return embedding_bag(clicked, self.weights, bounds, mode="sum", include_last_offset=True)

    def program(self) -> FromItems:
        """The model as a program that torch can export."""
        return FromItems(self, self.weights)

    def similarities(self, items: Tensor) -> Tensor:
        """How much a click on each of these items speaks for every other: (B, number of items)."""
        return self.weights[items]
