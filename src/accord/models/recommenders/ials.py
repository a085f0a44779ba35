"""iALS: implicit alternating least squares (Hu, Koren & Volinsky, 2008; Rendle, Krichene, Zhang & Koren, 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from accord.models.recommenders.newcomers import with_users
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.solved import SolvedModel
from accord.models.recommenders.tables import transposed
from accord.registry import OwnSettings

NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Numbers of a batch of rows that is solved at once: their gathered vectors, and their matrices."""
START = 0.1
"""Length of fresh vectors, whatever their dimensions."""


class IALSSettings(OwnSettings):
    ials_alpha: float = Field(default=0.3, gt=0, le=1e3)
    """iALS: the weight of a pair that was not clicked; that of a click is one more."""
    ials_l2: float = Field(default=0.01, gt=0, le=1e6)
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
    too_large = "use fewer dims, or a machine with more"
    space: ClassVar = {
        "ials_alpha": (0.03, 0.1, 0.3, 1.0),
        "ials_l2": (0.003, 0.006, 0.01, 0.03, 0.1),
        "dims": (64, 128, 256),
    }

    def __init__(
        self, n_users: int, n_items: int, dims: int = 128, ials_alpha: float = 0.3, ials_l2: float = 0.01
    ) -> None:
        super().__init__(n_users, n_items)
        self.alpha, self.l2 = ials_alpha, ials_l2
        self.register_buffer("users", torch.empty(n_users, dims).normal_(std=START / dims**0.5))
        self.register_buffer("items", torch.empty(n_items, dims).normal_(std=START / dims**0.5))

    @staticmethod
    def memory_need(n_users: int, n_items: int, n_clicks: int, settings: Any) -> int:
        """Bytes: the vectors, those of a sweep and the best ones, and a batch of rows."""
        dims = settings.dims or IALS.usual_dims
        return 12 * (n_users + n_items) * dims + 16 * NUMBERS["cpu"]

    def solve(self, sweep: int) -> Iterator[float]:
        users, items = torch.zeros_like(self.users), torch.zeros_like(self.items)
        for done in self._solve_side(users, self.items, self.starts, self.clicked):
            yield 0.5 * done
        starts, whose = transposed(self.starts, self.clicked, self.n_items)
        for done in self._solve_side(items, users, starts, whose):
            yield 0.5 + 0.5 * done
        self.users.copy_(users)
        self.items.copy_(items)

    @torch.no_grad()
    def score_vectors(self) -> tuple[Tensor, Tensor]:
        """Vectors of users and of items whose products are the scores; users without a click have their appeal."""
        clicks = self.starts.diff()
        warm = (clicks > 0).float()[:, None]
        users = self.users * (self.scale * clicks.clamp(min=1).float().rsqrt())[:, None]
        items = torch.cat([self.items, self.offset.expand(self.n_items, 1), self.appeal[:, None]], 1)
        return torch.cat([warm * users, warm, 1 - warm], 1), items

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> IALS:
        """The same model for users it has never seen: their vectors are solved for, as in a sweep."""
        users = self.users.new_zeros(len(starts) - 1, self.users.shape[1])
        for _ in self._solve_side(users, self.items, starts, clicked):
            pass
        return with_users(self, users=users, starts=starts, clicked=clicked)

    def _solve_side(self, out: Tensor, other: Tensor, starts: Tensor, clicked: Tensor) -> Iterator[float]:
        """Rows of one side, given the vectors of the other; those without a click are zero.

        Rows of like length are solved together: their clicks' vectors are padded to one length with zeros. In the
        directions Q of the common matrix α·HᵀH all that rows share is diagonal.
        """
        values, directions = torch.linalg.eigh(self.alpha * (other.T @ other))
        other = other @ directions
        sizes = starts.diff()
        warm = (sizes > 0).nonzero().squeeze(1)
        by_size = warm[torch.argsort(sizes[warm], stable=True)]
        lengths = sizes[by_size].tolist()
        first = 0
        while first < len(lengths):
            last = self._end_of_batch(lengths, first, other.shape[1])
            rows = by_size[first:last]
            place, column = clicks_of(rows, starts, clicked)
            begins = sizes[rows].cumsum(0) - sizes[rows]
            within = torch.arange(len(place), device=place.device) - begins[place]
            vectors = other.new_zeros(len(rows), lengths[last - 1], other.shape[1])
            vectors[place, within] = other[column]
            penalty = self.l2 * (sizes[rows].to(other.dtype) + self.alpha * len(other))
            out[rows] = _solved(vectors, values.clamp(min=0) + penalty[:, None]) @ directions.T
            first = last
            yield last / len(lengths)

    def _end_of_batch(self, lengths: list[int], first: int, dims: int) -> int:
        """Where a batch of rows ends that begins at ``first``: as many as there is room for, at least one."""
        room, last = NUMBERS[self.users.device.type], first + 1
        short = lengths[first] < dims
        while last < len(lengths) and (lengths[last] < dims) == short:
            if (last + 1 - first) * (2 * lengths[last] * dims + min(lengths[last], dims) ** 2) > room:
                break
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


def _solved(vectors: Tensor, common: Tensor) -> Tensor:
    """(diag(c) + VᵀV)⁻¹ Vᵀ1 of each row, for its clicks' vectors V (clicks, dims) and c (dims).

    Of rows with fewer clicks than dims, by the equal C⁻¹Vᵀ (I + VC⁻¹Vᵀ)⁻¹ 1, which has a smaller matrix.
    """
    if vectors.shape[1] < vectors.shape[2]:
        divided = vectors / common[:, None]
        factors = _factors(divided @ vectors.mT, torch.ones_like(vectors[:, :, 0]))
        weights = torch.cholesky_solve(torch.ones_like(vectors[:, :, :1]), factors)
        return (divided.mT @ weights)[:, :, 0]
    factors = _factors(vectors.mT @ vectors, common)
    return torch.cholesky_solve(vectors.sum(1)[:, :, None], factors)[:, :, 0]


def _factors(matrices: Tensor, diagonal: Tensor) -> Tensor:
    """Cholesky factors of matrices with something added to their diagonals, in place."""
    matrices.diagonal(dim1=1, dim2=2).add_(diagonal)
    return torch.linalg.cholesky(matrices)
