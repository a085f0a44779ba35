"""T-CE and R-CE: the losses of adaptive denoising training (Wang, Feng, He, Nie & Chua, 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Phase
from accord.methods.denoising import PerRun, now
from accord.methods.normal import Normal
from accord.objectives.binary import kept_positives, reweighted_cross_entropy, truncated_cross_entropy


@dataclass(frozen=True)
class TruncatedCE(Normal):
    """The clicks with the largest loss of each batch are left out; their share grows with the epochs."""

    drop_rate: float | PerRun = 0.1
    ramp_epochs: int = 10

    def share(self, epoch: int) -> float | Tensor:
        """Share of the clicks left out in an epoch (counted from 0): linear up to the maximum."""
        return now(self.drop_rate) * min(1.0, (epoch + 1) / self.ramp_epochs)

    def stage(self, epoch: int) -> int:
        """The share changes with every epoch until it is reached."""
        return min(epoch, self.ramp_epochs - 1)

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def loss(batch: Batch, clock: Clock) -> Tensor:
            keep = kept_positives(batch.count, self.share(clock.epoch))
            return truncated_cross_entropy(batch.logits(target), batch.labels, keep, batch.inside)

        networks: dict[str, nn.Module] = {"target": target}
        return [
            Phase("training", networks, target="target", loss=loss, kept=("target",), stage=self.stage),
        ]


@dataclass(frozen=True)
class ReweightedCE(Normal):
    """Examples the model believes in count more: the weight of an example is P(ỹ)^β, held constant."""

    beta: float | PerRun = 0.25

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def loss(batch: Batch, clock: Clock) -> Tensor:
            return batch.mean(reweighted_cross_entropy(batch.logits(target), batch.labels, now(self.beta)))

        return [Phase("training", {"target": target}, target="target", loss=loss, kept=("target",))]
