"""Clicks as tensors on a device, with non-clicks drawn exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from accord.errors import DataError

NO_NEGATIVE = "Every user of the log clicked every item, so there is no negative to draw; add items or users."
Negatives = Literal["uniform", "popularity"]
"""How non-clicks are drawn from the items a user has not clicked."""
BITMAP_LIMIT = 1 << 27
"""Largest users × items for which membership is one look into a table of bytes (128 MiB)."""
REDRAWS = 2
"""Further tries before a draw that hit clicked items is made by search: most logs are sparse."""


@dataclass(frozen=True)
class Interactions:
    """Distinct pairs in CSR order: ``items[starts[u]:starts[u+1]]`` are user u's, increasing."""

    users: Tensor
    items: Tensor
    starts: Tensor
    n_users: int
    n_items: int
    weights: Tensor | None = None
    """How much the loss of each click counts; of mean 1."""

    @staticmethod
    def from_pairs(
        users: np.ndarray,
        items: np.ndarray,
        n_users: int,
        n_items: int,
        device: torch.device | str = "cpu",
        weights: np.ndarray | None = None,
        mean: float | None = None,
    ) -> Interactions:
        """Pairs must be distinct and sorted by user, then item; weights are divided by their mean, or by that of
        more weights than these."""
        if weights is not None and len(weights) and mean is None:
            mean = weights.mean()
        if mean == 0:
            raise DataError("Every training click has the weight 0, so there is nothing to learn.")
        counts = np.bincount(users, minlength=n_users) if len(users) else np.zeros(n_users, np.int64)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return Interactions(
            torch.tensor(users, dtype=torch.int32, device=device),
            torch.tensor(items, dtype=torch.int32, device=device),
            torch.from_numpy(starts).to(device),
            n_users,
            n_items,
            None if weights is None else torch.tensor(weights / (mean or 1.0), dtype=torch.float32, device=device),
        )

    def __len__(self) -> int:
        return len(self.users)

    def to(self, device: torch.device) -> Interactions:
        """The same pairs on a device."""
        if device == self.device:
            return self
        weights = None if self.weights is None else self.weights.to(device)
        tensors = {name: getattr(self, name).to(device) for name in ("users", "items", "starts")}
        return replace(self, **tensors, weights=weights)

    def with_users(self, count: int) -> Interactions:
        """The same pairs among more users, who have none."""
        if count == self.n_users:
            return self
        starts = torch.cat([self.starts, self.starts[-1:].expand(count - self.n_users)])
        return replace(self, starts=starts, n_users=count)

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

    def sample_negatives(
        self, users: Tensor, generator: torch.Generator, negatives: Negatives = "uniform"
    ) -> Tensor:
        """For each user an item drawn from those the user has not clicked, uniformly or by popularity."""
        bitmap = self._bitmap
        if bitmap is None or self._draws_exactly(negatives):
            return self._draw_exactly(users, generator, negatives)
        base = users.int() * self.n_items
        drawn = torch.randint(self.n_items, users.shape, generator=generator, dtype=torch.int32)
        again = bitmap.index_select(0, base + drawn).nonzero().squeeze(1)
        for _ in range(REDRAWS):
            fresh = torch.randint(self.n_items, again.shape, generator=generator, dtype=torch.int32)
            drawn[again] = fresh
            again = again[bitmap.index_select(0, base[again] + fresh)]
        drawn[again] = self._draw_exactly(users[again], generator).int()
        return drawn.long()

    @cached_property
    def _popularity_sums(self) -> tuple[Tensor, Tensor]:
        """Clicks of all items before each item; and, for each clicked entry, of the user's clicked items before it.

        An item nobody clicked counts as one click, so that there is always something to draw.
        """
        weight = self.popularity.clamp(min=1)
        before = torch.cat([weight.new_zeros(1), weight.cumsum(0)])
        own = weight[self.items.long()]
        running = own.cumsum(0) - own
        first = self.starts[:-1].clamp(max=max(len(self) - 1, 0))
        return before, running - running[first].repeat_interleave(self.degrees)

    def _points(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand(count, generator=generator, device=self.device, dtype=torch.float64)

    def _draw_exactly(self, users: Tensor, generator: torch.Generator, negatives: Negatives = "uniform") -> Tensor:
        """Draw a point on the line of unclicked weight, and find its item."""
        return self._find(users, self._points(len(users), generator), negatives)

    def _find(self, users: Tensor, uniform: Tensor, negatives: Negatives) -> Tensor:
        """The item at a point in [0, 1) of a user's unclicked weight, by bisection in the user's own row.

        Let C(i) be the weight of all items before i, and P_j that of the user's clicked items before c_j, the
        j-th. Then C(c_j) − P_j is the unclicked weight before c_j, so the item at unclicked weight r is the one
        at r + P_m of all weight, where m counts the j with C(c_j) − P_j ≤ r. With equal weights C(i) = i and
        P_j = j. No rejection, and no number travels to the host.
        """
        users = users.long()
        first = self.starts[users]
        degree = self.starts[users + 1] - first
        last = max(len(self) - 1, 0)
        before = after = None
        if negatives == "popularity":
            before, after = self._popularity_sums
            ends = (first + degree - 1).clamp(min=0)
            own = after[ends] + self.popularity.clamp(min=1)[self.items[ends].long()]
            total = before[-1] - torch.where(degree > 0, own, 0)
        else:
            total = self.n_items - degree
        point = torch.minimum((uniform * total).long(), (total - 1).clamp(min=0))
        low, high = torch.zeros_like(point), degree
        for _ in range(self._search_rounds):
            middle = (low + high) >> 1
            at = (first + middle).clamp_(max=last)
            item = self.items[at].long()
            reached = (item - middle if before is None else before[item] - after[at]) <= point  # pyright: ignore
            open_ = low < high
            low = torch.where(open_ & reached, middle + 1, low)
            high = torch.where(open_ & ~reached, middle, high)
        if before is None or after is None:
            return (point + low).clamp_(max=self.n_items - 1)
        at = (first + low - 1).clamp_(min=0)
        skipped = torch.where(
            low > 0, after[at] + before[self.items[at].long() + 1] - before[self.items[at].long()], 0
        )
        return (torch.searchsorted(before, point + skipped, right=True) - 1).clamp_(0, self.n_items - 1)

    def of_users(self, first: int, step: int) -> Interactions:
        """The pairs of every so manieth user from one on, whose numbers are counted anew; popularity stays."""
        kept = self.users % step == first
        starts = self.degrees[first::step].cumsum(0)
        part = Interactions(
            torch.div(self.users[kept], step, rounding_mode="floor"),
            self.items[kept],
            torch.cat([starts.new_zeros(1), starts]),
            len(starts),
            self.n_items,
            None if self.weights is None else self.weights[kept],
        )
        vars(part)["popularity"] = self.popularity
        return part

    def draw_pairs(
        self,
        at_once: int | list[int],
        generators: Sequence[torch.Generator],
        negatives: Negatives = "uniform",
        per_click: int = 1,
    ) -> Iterator[tuple[Tensor, ...]]:
        """A pass of R runs, each with a stream of its own, so many clicks at a time, or of such sizes: users
        (R, m), and for each a clicked item, ``per_click`` unclicked ones (each drawn anew, a tensor of its own),
        and, where there are weights, that of the click."""
        orders = torch.stack([self._order(generator) for generator in generators])
        for rows in orders.split(at_once, 1):
            flat = rows.flatten()
            users = self.users.index_select(0, flat).long().view(rows.shape)
            clicked = self.items.index_select(0, flat).long().view(rows.shape)
            sizes = [rows.shape[1]] * len(generators)
            unclicked = [
                self.negatives_of(users.flatten(), sizes, generators, negatives).view(rows.shape)
                for _ in range(per_click)
            ]
            if self.weights is None:
                yield users, clicked, *unclicked
            else:
                yield users, clicked, *unclicked, self.weights.index_select(0, flat).view(rows.shape)

    def negatives_of(
        self, users: Tensor, sizes: Sequence[int], generators: Sequence[torch.Generator], negatives: Negatives
    ) -> Tensor:
        """Non-clicks of users of several runs, run after run; where nothing is drawn twice, by one bisection."""
        if self._draws_exactly(negatives):
            points = [self._points(m, generator) for m, generator in zip(sizes, generators, strict=True)]
            return self._find(users, torch.cat(points), negatives)
        each = zip(users.split(list(sizes)), generators, strict=True)
        return torch.cat([self.sample_negatives(own, generator, negatives) for own, generator in each])

    def _draws_exactly(self, negatives: Negatives) -> bool:
        return self._bitmap is None or negatives == "popularity"

    @property
    def drawn_in_an_epoch(self) -> int:
        """How many clicks an epoch has: users without a non-click are left out."""
        return len(self) if self._usable_rows is None else len(self._usable_rows)

    @cached_property
    def row_cuts(self) -> dict[int, Any]:
        """How whole rows are cut into batches, by batch size; kept for `click_batches`."""
        return {}

    def same_as(self, other: Interactions) -> bool:
        """Whether both are the same training set."""
        return self is other

    def sample_pairs(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Non-clicks: users as often as they click, each with an item drawn from those left unclicked."""
        rows = self._usable_rows
        usable = len(self) if rows is None else len(rows)
        if not usable:
            raise DataError(NO_NEGATIVE)
        chosen = torch.randint(usable, (count,), generator=generator, device=self.device)
        chosen = chosen if rows is None else rows[chosen]
        users = self._at(chosen, "users")
        return users, self.sample_negatives(users, generator)

    def _at(self, rows: Tensor, column: Literal["users", "items"]) -> Tensor:
        """The users, or the items, of some pairs."""
        return getattr(self, column)[rows].long()

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
        return rows, self._at(shift[rows] + torch.arange(len(rows), device=self.device), "items"), sizes

    def mask_seen(self, scores: Tensor, users: Tensor) -> Tensor:
        """Set the scores (…, B, items) of these users' own pairs to −inf, in place."""
        rows, items, _ = self.rows_of(users)
        flat = scores.view(scores.shape[:-2].numel(), len(users) * self.n_items)
        flat.index_fill_(1, rows * self.n_items + items, -torch.inf)
        return scores
