"""Item popularity: the score of an item is the logarithm of its clicks, the same for every user."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.models.recommenders.programs import Alike


def appeal_of(items: Tensor, n_items: int) -> Tensor:
    """The score of each item by its clicks alone: zero for an item with as many as the mean."""
    return appeal(torch.bincount(items, minlength=n_items))


def appeal(clicks: Tensor) -> Tensor:
    """The same, of how many clicks each item has."""
    clicks = clicks.float()
    return torch.log1p(clicks) - torch.log1p(clicks.mean())


class Popularity(nn.Module):
    """Nothing to learn; it must be bound to the training clicks."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 1, item_bias: bool = True, init_std: float = 1.0
    ) -> None:
        super().__init__()
        self.n_items = n_items
        self.register_buffer("appeal", torch.zeros(n_items), persistent=False)

    def bind(self, starts: Tensor, items: Tensor) -> None:
        self.appeal = appeal_of(items, self.n_items)

    def program(self) -> Alike:
        """The model as a program that torch can export."""
        return Alike(self.appeal)

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> Popularity:
        """It knows no users."""
        return self

    def solve(self, sweep: int) -> None:
        """The clicks were counted when it was bound to them."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.appeal[items]

    def scores(self, users: Tensor) -> Tensor:
        return self.appeal.expand(len(users), -1).clone()
