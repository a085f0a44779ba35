"""Models of the tests' own, which have no names."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Own(nn.Module):
    """Vectors of users and items."""

    def __init__(self, n_users: int, n_items: int, dims: int = 4, factor: float = 1.0) -> None:
        super().__init__()
        self.users, self.items, self.factor = nn.Embedding(n_users, dims), nn.Embedding(n_items, dims), factor

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.users(users) * self.items(items)).sum(-1) * self.factor

    def scores(self, users: Tensor) -> Tensor:
        return self.users(users) @ self.items.weight.T * self.factor


class Table(nn.Module):
    """Every score by heart."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table, requires_grad=False)

    @staticmethod
    def drawn(users: int, items: int, seed: int, spread: float) -> Table:
        return Table(spread * torch.randn(users, items, generator=torch.Generator().manual_seed(seed)))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.table[users, items]

    def scores(self, users: Tensor) -> Tensor:
        return self.table[users]
