"""Plain training: cross-entropy on the observed labels, as if they were true."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Negatives, Phase
from accord.objectives import cross_entropy


def normal_phase(name: str, role: str, network: nn.Module, negatives: Negatives = "uniform") -> Phase:
    """One network trained on the labels as they are: the whole of `normal`, and DeCA(p)'s prior."""

    def loss(batch: Batch, clock: Clock) -> Tensor:
        return batch.mean(cross_entropy(batch.logits(network), batch.labels))

    return Phase(name, {role: network}, target=role, loss=loss, kept=(role,), negatives=negatives)


class Normal:
    """The baseline every method is measured against."""

    def phases(self, build: Build) -> list[Phase]:
        return [normal_phase("training", "target", build("target"))]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return networks["target"]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return torch.sigmoid(batch.logits(networks["target"]))
