"""Plain training: cross-entropy on the observed labels, as if they were true."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Phase, Sampling
from accord.objectives import Objective, binary


def normal_phase(
    name: str,
    role: str,
    network: nn.Module,
    objective: Objective = binary,
    sampling: Sampling = lambda data, epoch: {},
) -> Phase:
    """One network trained on the labels as they are: the whole of `normal`, and DeCA(p)'s prior."""

    def loss(batch: Batch, clock: Clock) -> Tensor:
        return batch.mean(objective.cross_entropy(batch.logits(network), batch.labels))

    return Phase(name, {role: network}, target=role, loss=loss, kept=(role,), sampling=sampling)


@dataclass(frozen=True)
class OneTarget:
    """What most methods share: the network called target answers, and is asked how much it believes a label."""

    objective: Objective = binary

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return networks["target"]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return self.objective.label_quality(batch.logits(networks["target"]), batch.labels)


class Normal(OneTarget):
    """The baseline every method is measured against."""

    def phases(self, build: Build) -> list[Phase]:
        return [normal_phase("training", "target", build("target"), self.objective)]
