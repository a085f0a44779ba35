"""iALS: implicit alternating least squares (Hu, Koren & Volinsky, 2008; Rendle, Krichene, Zhang & Koren, 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from accord.models.recommenders.solved import SolvedModel
from accord.models.recommenders.tables import clicks_of, transposed
from accord.registry import OwnSettings

NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Numbers of a batch of rows that is solved at once: their gathered vectors, and their matrices."""
START = 0.1
"""Length of fresh vectors, whatever their dimensions."""


class IALSSettings(OwnSettings):
    ials_alpha: float = Field(default=0.1, gt=0, le=1e3)
    """iALS: the weight of a pair that was not clicked; that of a click is one more."""
    ials_l2: float = Field(default=0.003, gt=0, le=1e6)
    """iALS: λ, the squared vectors' penalty; each row's is multiplied by its clicks and its weighted non-clicks."""


class IALS(SolvedModel):
    """Vectors of users and items that minimise, by solving for one side at a time,

    Σ_clicks (1 − w·h)² + α Σ_all pairs (w·h)² + λ Σ_u (c_u + α·items) |w_u|² + λ Σ_i (c_i + α·users) |h_i|²,

    where c are numbers of clicks. A sweep solves for all users and then for all items. Catalogues may be large:
    rows are solved in batches by Cholesky's method, and nothing of the size users × items or items × items is made.
    """

    users: Tensor
    items: Tensor
    settings = IALSSettings
    sweeps: ClassVar[int | None] = None
    usual_dims = 128
    space: ClassVar = {
        "ials_alpha": (0.03, 0.1, 0.3, 1.0),
        "ials_l2": (0.001, 0.003, 0.01, 0.03, 0.1),
        "dims": (64, 128, 256),
    }

    def __init__(
        self, n_users: int, n_items: int, dims: int = 128, ials_alpha: float = 0.1, ials_l2: float = 0.003
    ) -> None:
        super().__init__(n_users, n_items)
        self.alpha, self.l2 = ials_alpha, ials_l2
        self.register_buffer("users", torch.empty(n_users, dims).normal_(std=START / dims**0.5))
        self.register_buffer("items", torch.empty(n_items, dims).normal_(std=START / dims**0.5))

    def solve(self, sweep: int) -> Iterator[float]:
        users, items = torch.zeros_like(self.users), torch.zeros_like(self.items)
        for done in self._solve_side(users, self.items, self.starts, self.clicked):
            yield 0.5 * done
        starts, whose = transposed(self.starts, self.clicked, self.n_items)
        for done in self._solve_side(items, users, starts, whose):
            yield 0.5 + 0.5 * done
        self.users.copy_(users)
        self.items.copy_(items)

    def _solve_side(self, out: Tensor, other: Tensor, starts: Tensor, clicked: Tensor) -> Iterator[float]:
        """Rows of one side, given the vectors of the other; those without a click are zero.

        Rows of like length are solved together: their clicks' vectors are padded to one length with zeros.
        """
        dims = other.shape[1]
        common = self.alpha * (other.T @ other)
        sizes = starts.diff()
        warm = (sizes > 0).nonzero().squeeze(1)
        by_size = warm[torch.argsort(sizes[warm], stable=True)]
        lengths = sizes[by_size].tolist()
        first = 0
        while first < len(lengths):
            last = self._end_of_batch(lengths, first, dims)
            rows = by_size[first:last]
            place, column = clicks_of(rows, starts, clicked)
            begins = sizes[rows].cumsum(0) - sizes[rows]
            within = torch.arange(len(place), device=place.device) - begins[place]
            vectors = other.new_zeros(len(rows), lengths[last - 1], dims)
            vectors[place, within] = other[column]
            matrices = torch.baddbmm(common, vectors.mT, vectors)
            penalty = self.l2 * (sizes[rows].to(other.dtype) + self.alpha * len(other))
            matrices.diagonal(dim1=1, dim2=2).add_(penalty[:, None])
            factors = torch.linalg.cholesky(matrices)
            out[rows] = torch.cholesky_solve(vectors.sum(1)[:, :, None], factors)[:, :, 0]
            first = last
            yield last / len(lengths)

    def _end_of_batch(self, lengths: list[int], first: int, dims: int) -> int:
        """Where a batch of rows ends that begins at ``first``: as many as there is room for, at least one."""
        room, last = NUMBERS[self.users.device.type], first + 1
        while last < len(lengths) and (last + 1 - first) * dims * (lengths[last] + dims) <= room:
            last += 1
        return last

    def affinity(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.users[users] * self.items[items]).sum(-1)

    def affinities(self, users: Tensor) -> Tensor:
        return self.users[users] @ self.items.T

    def user_vectors(self) -> Tensor:
        return self.users

    def item_vectors(self) -> Tensor:
        return self.items
