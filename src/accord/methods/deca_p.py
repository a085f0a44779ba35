"""DeCA(p): a prior of the target's own architecture is trained normally, frozen, and agreed with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Phase
from accord.methods.denoising import Denoising
from accord.methods.normal import normal_phase
from accord.objectives import agreement


@dataclass(frozen=True)
class DeCAp:
    """The paper's Eq. (DVAE-loss) and its second algorithm; the prior has its own seed."""

    denoising: Denoising

    def phases(self, build: Build) -> list[Phase]:
        prior, target = build("prior"), build("target")
        noise = self.denoising.noise_networks(build)

        def loss(batch: Batch, clock: Clock) -> Tensor:
            f = batch.logits(target)
            with torch.no_grad():
                f_prior = batch.logits(prior)
            return batch.mean(
                self.denoising.losses(f, noise, batch, clock.step) + agreement(f, f_prior, self.denoising.alpha)
            )

        return [
            normal_phase("prior", "prior", prior),
            Phase("denoising", {"target": target, **noise}, target="target", loss=loss, kept=("target",)),
        ]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return networks["target"]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return torch.sigmoid(batch.logits(networks["target"]))
