"""Recommenders as programs that torch can export: all that a model knows is tensors, and it asks for nothing else.

A program has ``forward(users, histories)``: row numbers of users (B,), and row numbers of the items that each of
them clicked, (B, H), with −1 behind a shorter history. It gives the scores of all items. Programs of models that
know their users read the first alone; those of models from items to items read the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class FromVectors(nn.Module):
    """Scores as products of a user's and an item's vector."""

    users: Tensor
    items: Tensor

    def __init__(self, users: Tensor, items: Tensor) -> None:
        super().__init__()
        self.register_buffer("users", users.detach().clone())
        self.register_buffer("items", items.detach().clone())

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        return self.users[users] @ self.items.T


class FromItems(nn.Module):
    """Scores as sums of weights from the clicked items to every other, brought to log-odds."""

    weights: Tensor
    indices: Tensor | None
    appeal: Tensor

    def __init__(self, model: Any, weights: Tensor, indices: Tensor | None = None) -> None:
        super().__init__()
        self.scale, self.offset, self.n_items = float(model.scale), float(model.offset), int(model.n_items)
        self.register_buffer("weights", weights.detach().clone())
        self.register_buffer("indices", None if indices is None else indices.long())
        self.register_buffer("appeal", model.appeal.clone())

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        there = (histories >= 0).to(self.weights.dtype)
        clicks = there.sum(1, keepdim=True)
        affinities = self._whole(histories) if self.indices is None else self._kept(histories, there)
        scores = affinities * (self.scale * clicks.clamp(min=1).rsqrt()) + self.offset
        return torch.where(clicks > 0, scores, self.appeal)

    def _whole(self, histories: Tensor) -> Tensor:
        """By the weights of every pair of items."""
        at = torch.where(histories >= 0, histories, self.n_items)
        clicked = self.weights.new_zeros(histories.shape[0], self.n_items + 1)
        clicked = clicked.scatter_add(1, at, torch.ones_like(at, dtype=clicked.dtype))
        return clicked[:, : self.n_items] @ self.weights

    def _kept(self, histories: Tensor, there: Tensor) -> Tensor:
        """By the neighbours that were kept of each item."""
        assert self.indices is not None
        rows, most = histories.shape
        own, width = histories.clamp(min=0), self.weights.shape[1]
        at = self.indices[own].view(rows, most * width)
        weights = (self.weights[own] * there[..., None]).view(rows, most * width)
        return self.weights.new_zeros(rows, self.n_items).scatter_add(1, at, weights)


class Alike(nn.Module):
    """The same scores for everybody."""

    appeal: Tensor

    def __init__(self, appeal: Tensor) -> None:
        super().__init__()
        self.register_buffer("appeal", appeal.clone())

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        return self.appeal[None] + torch.zeros_like(users, dtype=self.appeal.dtype)[:, None]


class Asked(nn.Module):
    """Any function of users as a program; the network that it asks comes with it."""

    def __init__(self, network: nn.Module, scores: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.scores = network, scores

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        return self.scores(users)


class Several(nn.Module):
    """Members whose scores are joined."""

    def __init__(self, members: Sequence[nn.Module], join: Callable[[list[Tensor]], Tensor]) -> None:
        super().__init__()
        self.members, self.join = nn.ModuleList(members), join

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        return self.join([member(users, histories) for member in self.members])
