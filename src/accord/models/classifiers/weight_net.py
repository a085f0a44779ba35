"""The weight network of MW-Net: how much an example counts, by its loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.models.stack import DenseStack


class WeightNet(nn.Module):
    """1-100-1: the weight, between 0 and 1, of an example by its loss."""

    stack_class = DenseStack

    def __init__(self, hidden: int = 100) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, losses: Tensor) -> Tensor:
        return torch.sigmoid(self.layers(losses[..., None])).squeeze(-1)
