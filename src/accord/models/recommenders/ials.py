"""iALS: implicit alternating least squares (Hu, Koren & Volinsky, 2008; Rendle, Krichene, Zhang & Koren, 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from accord.models.recommenders.newcomers import with_users
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.solved import SolvedModel
from accord.models.recommenders.tables import transposed
from accord.ranks.tables import fresh_table, rows_of_others, whole_network
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
    divides = True
    divided_tables = True
    user_tables = ("users",)
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
        self.register_buffer("users", fresh_table(n_users, dims, START / dims**0.5).data)
        self.register_buffer("items", fresh_table(n_items, dims, START / dims**0.5).data)
        self.divided_buffers = {"users": n_users, "items": n_items} if self.ranks.many else {}
        self._of_items: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def memory_need(n_users: int, n_items: int, n_clicks: int, settings: Any) -> int:
        """Bytes: the vectors, those of a sweep and the best ones, and a batch of rows."""
        dims = settings.dims or IALS.usual_dims
        return 12 * (n_users + n_items) * dims + 16 * NUMBERS["cpu"]

    def solve(self, sweep: int) -> Iterator[float]:
        users, items = torch.zeros_like(self.users), torch.zeros_like(self.items)
        for done in self._solve_side(users, self.items, self.starts, self.clicked, self.n_items):
            yield 0.5 * done
        for done in self._solve_side(items, users, *self._by_item(), self.n_users):
            yield 0.5 + 0.5 * done
        self.users.copy_(users)
        self.items.copy_(items)

    def _by_item(self) -> tuple[Tensor, Tensor]:
        """The training clicks item by item; of several ranks each has those of its own items, by all users."""
        if not self.ranks.many:
            return transposed(self.starts, self.clicked, self.n_items)
        if self._of_items is None:
            size, rank = self.ranks.size, self.ranks.rank
            users = torch.arange(len(self.starts) - 1, device=self.starts.device, dtype=torch.int32)
            whose = users.repeat_interleave(self.starts.diff()) * size + rank
            whose, items = self.ranks.dealt([whose, self.clicked.int()], self.clicked.long() % size)
            counts = torch.bincount(items // size, minlength=len(self.items))
            order = torch.argsort(items.long() * self.n_users + whose)  # as one process has them
            self._of_items = torch.cat([counts.new_zeros(1), counts.cumsum(0)]), whose[order]
        return self._of_items

    def calibrate(self, users: Tensor, clicked: Tensor, unclicked: Tensor) -> float:
        if not self.ranks.many:
            return super().calibrate(users, clicked, unclicked)
        near: Any = whole_network(self, users=False)  # all vectors of items; scale and offset are shared
        return SolvedModel.calibrate(near, users, clicked, unclicked)

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
        for _ in self._solve_side(users, self.items, starts, clicked, self.n_items):
            pass
        return with_users(self, users=users, starts=starts, clicked=clicked)

    def _solve_side(
        self, out: Tensor, other: Tensor, starts: Tensor, clicked: Tensor, rows_of_other: int
    ) -> Iterator[float]:
        """Rows of one side, given the vectors of the other; those without a click are zero.

        Rows of like length are solved together: their clicks' vectors are padded to one length with zeros. In the
        directions Q of the common matrix α·HᵀH all that rows share is diagonal. Several ranks solve for their own
        rows of both sides; of the other side they fetch what a batch of rows asks for.
        """
        gram = other.T @ other
        self.ranks.add_up([gram])
        values, directions = torch.linalg.eigh(self.alpha * gram)
        if self.ranks.many:  # the same directions everywhere, to the bit
            values, directions = self.ranks.spread(values, 0), self.ranks.spread(directions.contiguous(), 0)
        other = other @ directions
        sizes = starts.diff()
        batches = self._batches(sizes, other.shape[1])
        rounds = max(self.ranks.numbers(len(batches)))
        for k, (rows, longest) in enumerate(batches + [(sizes.new_zeros(0), 0)] * (rounds - len(batches))):
            place, column = clicks_of(rows, starts, clicked)
            table = other
            if self.ranks.many:
                table, column = rows_of_others(other, column.long(), rows_of_other, self.ranks)
            if len(rows):
                begins = sizes[rows].cumsum(0) - sizes[rows]
                within = torch.arange(len(place), device=place.device) - begins[place]
                vectors = other.new_zeros(len(rows), longest, other.shape[1])
                vectors[place, within] = table[column]
                penalty = self.l2 * (sizes[rows].to(other.dtype) + self.alpha * rows_of_other)
                out[rows] = _solved(vectors, values.clamp(min=0) + penalty[:, None]) @ directions.T
            yield (k + 1) / rounds

    def _batches(self, sizes: Tensor, dims: int) -> list[tuple[Tensor, int]]:
        """Rows with a click, those of like length together; and how many clicks they have at most."""
        warm = (sizes > 0).nonzero().squeeze(1)
        by_size = warm[torch.argsort(sizes[warm], stable=True)]
        lengths = sizes[by_size].tolist()
        bounds = [0]
        while bounds[-1] < len(lengths):
            bounds.append(self._end_of_batch(lengths, bounds[-1], dims))
        return [(by_size[first:last], lengths[last - 1]) for first, last in pairwise(bounds)]

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
