"""Popularity: no training at all; items by the number of their clicks. A row that every table needs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Method, Phase, StepInfo


class Popularity(Method):
    """The name of the model is ignored: the target counts clicks."""

    name = "popularity"
    tasks = ("clicks",)
    stackable = False
    needs_model = False
    takes_solved = True

    def phases(self, build: Build) -> list[Phase]:
        return [Phase("counting", {"target": build("target", "popularity")}, "target", _no_loss, ("target",))]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return torch.sigmoid(batch.logits(networks["target"]))


def _no_loss(batch: Batch, info: StepInfo) -> Tensor:
    raise NotImplementedError("popularity has nothing to train")
