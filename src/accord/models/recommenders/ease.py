"""EASE: a linear model from items to items, in closed form (Steck, 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import embedding_bag

from accord.kernels.segment_sum import segment_sum
from accord.models.recommenders.solved import SolvedModel, blocks_of_clicks
from accord.models.recommenders.tables import clicks_of
from accord.registry import OwnSettings

DENSE_ROWS = 1 << 24
"""Numbers of the dense rows of clicks that are held at a time."""
ENTRIES = 1 << 22
"""Entries of the weights that are gathered at a time."""


class EASESettings(OwnSettings):
    ease_l2: float = Field(default=300.0, gt=0, le=1e9)
    """EASE: λ, the squared weights' penalty; clicks are few and noisy where it should be large."""


class EASE(SolvedModel):
    """Steck (2019): every item is predicted from the others by ridge regression, the diagonal held at zero.

    With G = XᵀX + λI and P = G⁻¹, the weight of item j for item i is −P_ji / P_ii. A click never counts for itself.
    The inverse is made in double precision; one matrix items × items is kept.
    """

    weights: Tensor
    settings = EASESettings
    space: ClassVar = {"ease_l2": (10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 3000.0)}
    too_large = "take model='rp3beta' or 'itemknn', which keep some neighbours of each item, or 'ials'"

    def __init__(self, n_users: int, n_items: int, ease_l2: float = 300.0) -> None:
        super().__init__(n_users, n_items)
        self.l2 = ease_l2
        self.register_buffer("weights", torch.zeros(n_items, n_items))

    @staticmethod
    def memory_need(n_users: int, n_items: int, n_clicks: int, settings: object) -> int:
        """Bytes: the weights, and three matrices in double precision while they are made."""
        return (4 + 3 * 8) * n_items**2 + 4 * min(DENSE_ROWS, n_users * n_items)

    def solve(self, sweep: int) -> Iterator[float]:
        matrix = torch.eye(self.n_items, dtype=torch.float64, device=self.clicked.device).mul_(self.l2)
        for share in self._add_gram(matrix):
            yield 0.3 * share
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

    def _add_gram(self, total: Tensor) -> Iterator[float]:
        """Add XᵀX, block by block of users; the counts of a block are exact in single precision."""
        n = self.n_items
        warm = (self.starts.diff() > 0).nonzero().squeeze(1)
        blocks = warm.split(max(1, DENSE_ROWS // n))
        for k, users in enumerate(blocks, 1):
            position, items = clicks_of(users, self.starts, self.clicked)
            rows = torch.zeros(len(users), n, device=total.device)
            rows[position, items] = 1
            total += rows.T @ rows
            yield k / len(blocks)

    def affinity(self, users: Tensor, items: Tensor) -> Tensor:
        """The weights of a user's clicks for an item, gathered pair by pair."""
        parts = []
        for rows in blocks_of_clicks(users, self.starts, ENTRIES):
            position, clicked = clicks_of(users[rows], self.starts, self.clicked)
            own = self.weights[clicked, items[rows][position]]
            parts.append(segment_sum(position, own, rows.stop - rows.start))
        return torch.cat(parts)

    def affinities(self, users: Tensor) -> Tensor:
        _, clicked = clicks_of(users, self.starts, self.clicked)
        ends = (self.starts[users + 1] - self.starts[users]).cumsum(0)
        bounds = torch.cat([ends.new_zeros(1), ends])
        return embedding_bag(clicked, self.weights, bounds, mode="sum", include_last_offset=True)

    def similarities(self, items: Tensor) -> Tensor:
        """How much a click on each of these items speaks for every other: (B, number of items)."""
        return self.weights[items]
