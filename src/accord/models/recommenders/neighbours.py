"""Models of item neighbourhoods, kept sparse: RP3β (Paudel et al., 2017) and the item-based nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from accord.kernels.segment_sum import segment_sum
from accord.models.recommenders.programs import FromItems
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.solved import SolvedModel
from accord.models.recommenders.tables import AT_ONCE, blocks_of_clicks, sums_over_common_users
from accord.registry import OwnSettings

LOOK_UP = 8
"""What it costs to look a neighbour up, in numbers that are added where whole rows are made."""


class NeighbourSettings(OwnSettings):
    neighbours: int = Field(default=200, ge=1, le=100_000)
    """RP3β, itemknn: how many neighbours of each item are kept."""


class RP3BetaSettings(NeighbourSettings):
    rp3_alpha: float = Field(default=0.5, ge=0, le=4)
    """RP3β: the power of a step's probability; below 1, users and items with many clicks count more."""
    rp3_beta: float = Field(default=0.4, ge=0, le=4)
    """RP3β: the power of an item's clicks by which its weights are divided; 0 leaves popular items as they are."""


class ItemKNNSettings(NeighbourSettings):
    shrink: float = Field(default=10.0, ge=0, le=1e9)
    """itemknn: added to the denominator of the cosine, against neighbours with few clicks in common."""


class NeighbourModel(SolvedModel):
    """The affinity of a user and an item is the sum, over the user's clicks, of each click's weight for the item.

    Each item keeps the K items for which a click on it weighs most, as one row of indices and one of weights. A
    subclass says how much a user counts (`user_weight`), and makes weights of the sums over common users (`weigh`).
    """

    indices: Tensor
    weights: Tensor
    too_large = "use fewer neighbours, or a machine with more"

    def __init__(self, n_users: int, n_items: int, neighbours: int) -> None:
        super().__init__(n_users, n_items)
        width = min(neighbours, n_items)
        self.register_buffer("indices", torch.arange(n_items, dtype=torch.int32)[:, None].repeat(1, width))
        self.register_buffer("weights", torch.zeros(n_items, width))

    @staticmethod
    def memory_need(n_users: int, n_items: int, n_clicks: int, settings: Any) -> int:
        """Bytes: the neighbours, twice while they are made, and blocks of dense rows."""
        return 16 * n_items * min(settings.neighbours, n_items) + 40 * max(n_items, AT_ONCE)

    def user_weight(self, clicks: Tensor) -> Tensor:
        """How much a user with so many clicks counts."""
        raise NotImplementedError

    def weigh(self, common: Tensor, own: Tensor, clicks: Tensor) -> Tensor:
        """Weights (rows, items) of sums over the users in common; ``own`` (rows, 1), ``clicks``: of the items."""
        raise NotImplementedError

    def solve(self, sweep: int) -> Iterator[float]:
        """Block by block of items: the users in common with every other item, and the best neighbours."""
        indices, weights = torch.empty_like(self.indices), torch.empty_like(self.weights)
        clicks = torch.bincount(self.clicked, minlength=self.n_items).float().clamp(min=1)
        of_users = self.user_weight(self.starts.diff().float().clamp(min=1))
        for block, common in sums_over_common_users(self.starts, self.clicked, self.n_items, of_users):
            rows = self.weigh(common, clicks[block, None], clicks)
            rows[torch.arange(len(block), device=rows.device), block] = 0
            best = rows.topk(self.indices.shape[1])
            # What is no neighbour is the item itself, with the weight 0; each row in the order of its items.
            found = torch.where(best.values > 0, best.indices, block[:, None])
            in_order = torch.sort(found, dim=1, stable=True)
            indices[block] = in_order.values.int()
            weights[block] = best.values.gather(1, in_order.indices)
            yield float(block[-1] + 1) / self.n_items
        self.indices.copy_(indices)
        self.weights.copy_(weights)

    def affinity(self, users: Tensor, items: Tensor) -> Tensor:
        """By whole rows of the distinct users where that is less work; else each neighbour is looked up."""
        distinct, row = users.unique(return_inverse=True)
        clicks = self.starts.diff()
        looked_up = LOOK_UP * int(clicks[users].sum())
        if looked_up < self.n_items * len(distinct) + self.weights.shape[1] * int(clicks[distinct].sum()):
            return self._looked_up(users, items)
        found = self.weights.new_empty(len(users))
        step = max(1, AT_ONCE // self.n_items)
        for first in range(0, len(distinct), step):
            own = (row >= first) & (row < first + step)
            found[own] = self.affinities(distinct[first : first + step])[row[own] - first, items[own]]
        return found

    def _looked_up(self, users: Tensor, items: Tensor) -> Tensor:
        """Each click's neighbours are in order, so that the whole table is one increasing row of numbers."""
        width = self.indices.shape[1]
        keys = (torch.arange(self.n_items, device=items.device)[:, None] * self.n_items + self.indices).flatten()
        weights, parts = self.weights.flatten(), []
        for rows in blocks_of_clicks(users, self.starts, AT_ONCE):
            position, clicked = clicks_of(users[rows], self.starts, self.clicked)
            wanted = clicked * self.n_items + items[rows][position]
            at = torch.searchsorted(keys, wanted).clamp_(max=self.n_items * width - 1)
            own = torch.where(keys[at] == wanted, weights[at], 0.0)
            parts.append(segment_sum(position, own, rows.stop - rows.start))
        return torch.cat(parts)

    def affinities(self, users: Tensor) -> Tensor:
        total = self.weights.new_zeros(len(users) * self.n_items)
        for rows in blocks_of_clicks(users, self.starts, max(1, AT_ONCE // self.weights.shape[1])):
            position, clicked = clicks_of(users[rows], self.starts, self.clicked)
            at = (position + rows.start)[:, None] * self.n_items + self.indices[clicked]
            total += segment_sum(at.flatten(), self.weights[clicked].flatten(), len(total))
        return total.view(len(users), self.n_items)

    def program(self) -> FromItems:
        """The model as a program that torch can export."""
        return FromItems(self, self.weights, self.indices)

    def similarities(self, items: Tensor) -> Tensor:
        """How much a click on each of these items speaks for every other, (B, items); −∞ for no neighbour."""
        known = self.weights[items]
        rows = known.new_full((len(items), self.n_items), -torch.inf)
        return rows.scatter_(1, self.indices[items].long(), known.masked_fill(known == 0, -torch.inf))

    def check_loaded(self) -> None:
        super().check_loaded()
        first, last = self.indices[:, 0], self.indices[:, -1]
        if not ((self.indices.diff(dim=1) >= 0).all() and (first >= 0).all() and (last < self.n_items).all()):
            raise ValueError("the neighbours are not items in order")


class RP3Beta(NeighbourModel):
    """Paudel, Christoffel, Newell & Bernstein (2017): three random steps on the graph of clicks.

    From an item to a user, from there to another item, each with the probability of the step to the power α;
    weights are divided by the other item's clicks to the power β.
    """

    settings = RP3BetaSettings
    space: ClassVar = {
        "rp3_alpha": (0.0, 0.25, 0.5, 0.8, 1.1),
        "rp3_beta": (0.0, 0.2, 0.4, 0.6),
        "neighbours": (50, 100, 200, 400),
    }
    searched = ("rp3_alpha", "rp3_beta")
    """What a council searches, in this order: sparse logs want other values than dense ones."""

    def __init__(
        self, n_users: int, n_items: int, neighbours: int = 200, rp3_alpha: float = 0.5, rp3_beta: float = 0.4
    ) -> None:
        super().__init__(n_users, n_items, neighbours)
        self.alpha, self.beta = rp3_alpha, rp3_beta

    def user_weight(self, clicks: Tensor) -> Tensor:
        return clicks**-self.alpha

    def weigh(self, common: Tensor, own: Tensor, clicks: Tensor) -> Tensor:
        return common.mul_(own**-self.alpha).mul_(clicks**-self.beta)


class ItemKNN(NeighbourModel):
    """Item-based nearest neighbours (Sarwar et al., 2001): the cosine of two items' clicks, shrunk towards zero."""

    settings = ItemKNNSettings
    space: ClassVar = {"shrink": (0.0, 3.0, 10.0, 30.0, 100.0), "neighbours": (50, 100, 200, 400)}

    def __init__(self, n_users: int, n_items: int, neighbours: int = 200, shrink: float = 10.0) -> None:
        super().__init__(n_users, n_items, neighbours)
        self.shrink = shrink

    def user_weight(self, clicks: Tensor) -> Tensor:
        return torch.ones_like(clicks)

    def weigh(self, common: Tensor, own: Tensor, clicks: Tensor) -> Tensor:
        return common.div_((own * clicks).sqrt_().add_(self.shrink))
