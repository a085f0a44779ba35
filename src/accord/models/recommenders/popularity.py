"""Item popularity: the score of an item is the logarithm of its clicks, the same for every user."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Popularity(nn.Module):
    """Nothing to learn; it must be bound to the training clicks."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 1, item_bias: bool = True, init_std: float = 1.0
    ) -> None:
        super().__init__()
        self.n_items = n_items
        self.register_buffer("appeal", torch.zeros(n_items), persistent=False)

    def bind(self, starts: Tensor, items: Tensor) -> None:
        clicks = torch.bincount(items, minlength=self.n_items).float()
        self.appeal = torch.log1p(clicks) - torch.log1p(clicks.mean())

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.appeal[items]

    def scores(self, users: Tensor) -> Tensor:
        return self.appeal.expand(len(users), -1).clone()
