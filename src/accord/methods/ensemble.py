"""Ensemble: two models of different seeds, trained normally; the mean of their scores recommends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Phase
from accord.methods.normal import normal_phase

MEMBERS = ("first", "second")


class MeanScores(nn.Module):
    """Several models as one."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return torch.stack([m.logits(users, items) for m in self.members]).mean(0)  # pyright: ignore

    def scores(self, users: Tensor) -> Tensor:
        return torch.stack([m.scores(users) for m in self.members]).mean(0)  # pyright: ignore


class Ensemble:
    """The paper's ensemble baseline."""

    def phases(self, build: Build) -> list[Phase]:
        return [normal_phase(role, role, build(role)) for role in MEMBERS]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return MeanScores([networks[role] for role in MEMBERS])

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return torch.sigmoid(batch.logits(self.target(networks)))
