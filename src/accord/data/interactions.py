"""Clicks as tensors on a device, batched by index, with verified uniform negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

BITMAP_LIMIT = 1 << 27
"""Largest users × items for which membership is one look into a table of bytes (128 MiB)."""
REDRAWS = 2
"""Further tries before a draw that hit clicked items is made by search: most logs are sparse."""
CHUNK = 1 << 17
"""Rows whose batches are prepared together: enough to amortise the calls, few enough to stay in the cache."""


@dataclass(frozen=True)
class PairBatch:
    """``users`` (B,), and for each the clicked item and a sampled one: ``items`` (2, B), ``labels`` (2, 1)."""

    users: Tensor
    items: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.users)

    def logits(self, network: nn.Module) -> Tensor:
        return network.logits(self.users, self.items)  # pyright: ignore[reportCallIssue]

    def mean(self, losses: Tensor) -> Tensor:
        """Mean over the positives plus mean over the negatives: there are as many of each."""
        return losses.sum() / len(self)


@dataclass(frozen=True)
class Interactions:
    """Distinct pairs in CSR order: ``items[starts[u]:starts[u+1]]`` are user u's, increasing."""

    users: Tensor
    items: Tensor
    starts: Tensor
    n_users: int
    n_items: int

    @staticmethod
    def from_pairs(
        users: np.ndarray, items: np.ndarray, n_users: int, n_items: int, device: torch.device | str = "cpu"
    ) -> Interactions:
        """Pairs must be distinct and sorted by user, then item."""
        counts = np.bincount(users, minlength=n_users) if len(users) else np.zeros(n_users, np.int64)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return Interactions(
            torch.tensor(users, dtype=torch.int32, device=device),
            torch.tensor(items, dtype=torch.int32, device=device),
            torch.from_numpy(starts).to(device),
            n_users,
            n_items,
        )

    def __len__(self) -> int:
        return len(self.users)

    @property
    def device(self) -> torch.device:
        return self.users.device

    @cached_property
    def degrees(self) -> Tensor:
        """Clicks of each user."""
        return self.starts.diff()

    @cached_property
    def popularity(self) -> Tensor:
        """Clicks of each item."""
        return torch.bincount(self.items, minlength=self.n_items)

    @cached_property
    def full_users(self) -> Tensor:
        """True for users who clicked everything: no negative exists for them."""
        return self.degrees >= self.n_items

    @cached_property
    def _search_rounds(self) -> int:
        return int(self.degrees.max()).bit_length() if len(self) else 0

    @cached_property
    def _bitmap(self) -> Tensor | None:
        # On a GPU the exact draw is one launch per bisection round for any size; a look-up followed by a
        # second draw for the rejected would need their number on the host.
        if self.device.type != "cpu" or self.n_users * self.n_items > BITMAP_LIMIT:
            return None
        table = torch.zeros(self.n_users * self.n_items, dtype=torch.bool)
        table[self.users.long() * self.n_items + self.items] = True
        return table

    def sample_negatives(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """For each user an item drawn uniformly from those the user has not clicked."""
        bitmap = self._bitmap
        if bitmap is None:
            return self._draw_exactly(users, generator)
        base = users.int() * self.n_items
        drawn = torch.randint(self.n_items, users.shape, generator=generator, dtype=torch.int32)
        again = bitmap.index_select(0, base + drawn).nonzero().squeeze(1)
        for _ in range(REDRAWS):
            fresh = torch.randint(self.n_items, again.shape, generator=generator, dtype=torch.int32)
            drawn[again] = fresh
            again = again[bitmap.index_select(0, base[again] + fresh)]
        drawn[again] = self._draw_exactly(users[again], generator).int()
        return drawn.long()

    def _draw_exactly(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """Draw r below the number of unclicked items and find the r-th of them by bisection.

        With c_0 < c_1 < … the user's clicked items, c_j − j items before c_j are unclicked, so the r-th
        unclicked one is r + #{j : c_j − j ≤ r}. No rejection, and no number travels to the host.
        """
        users = users.long()
        first = self.starts[users]
        degree = self.starts[users + 1] - first
        unclicked = self.n_items - degree
        uniform = torch.rand(users.shape, generator=generator, device=self.device, dtype=torch.float64)
        rank = (uniform * unclicked).long().clamp_(max=self.n_items - 1)
        low, high = torch.zeros_like(rank), degree
        last = len(self) - 1
        for _ in range(self._search_rounds):
            middle = (low + high) >> 1
            before = self.items[(first + middle).clamp_(max=last)] - middle <= rank
            open_ = low < high
            low = torch.where(open_ & before, middle + 1, low)
            high = torch.where(open_ & ~before, middle, high)
        return (rank + low).clamp_(max=self.n_items - 1)

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[PairBatch]:
        """Every click once in random order, each with a fresh negative; users without one are left out."""
        labels = torch.tensor([[1.0], [0.0]], device=self.device)
        order = self._order(generator)
        step = max(batch_size, CHUNK // batch_size * batch_size)
        for chunk in order.split(step):
            users = self.users.index_select(0, chunk).long()
            items = torch.stack([self.items.index_select(0, chunk).long(), self.sample_negatives(users, generator)])
            for k in range(0, len(users), batch_size):
                yield PairBatch(users[k : k + batch_size], items[:, k : k + batch_size].contiguous(), labels)

    def sample_pairs(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Non-clicks: users as often as they click, each with an item drawn from those left unclicked."""
        rows = self._usable_rows
        rows = torch.arange(len(self), device=self.device) if rows is None else rows
        chosen = rows[torch.randint(len(rows), (count,), generator=generator, device=self.device)]
        users = self.users[chosen].long()
        return users, self.sample_negatives(users, generator)

    def _order(self, generator: torch.Generator) -> Tensor:
        rows = self._usable_rows
        if rows is None:
            return torch.randperm(len(self), generator=generator, device=self.device, dtype=self._order_type)
        shuffled = torch.randperm(len(rows), generator=generator, device=self.device)
        return rows[shuffled]

    @property
    def _order_type(self) -> torch.dtype:
        return torch.int32 if len(self) < 2**31 else torch.int64

    @cached_property
    def _usable_rows(self) -> Tensor | None:
        """Rows of users who have something left to sample; None for all of them."""
        full = self.full_users
        return (~full[self.users.long()]).nonzero().squeeze(1) if bool(full.any()) else None

    def rows_of(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every pair of some users: position in ``users``, item, and how many each user has."""
        users = users.long()
        first = self.starts[users]
        sizes = self.starts[users + 1] - first
        rows = torch.arange(len(users), device=self.device).repeat_interleave(sizes)
        shift = first - (sizes.cumsum(0) - sizes)
        items = self.items[shift[rows] + torch.arange(len(rows), device=self.device)].long()
        return rows, items, sizes

    def mask_seen(self, scores: Tensor, users: Tensor) -> Tensor:
        """Set the scores (B, items) of these users' own pairs to −inf, in place."""
        rows, items, _ = self.rows_of(users)
        scores.view(-1).index_fill_(0, rows * self.n_items + items, -torch.inf)
        return scores
