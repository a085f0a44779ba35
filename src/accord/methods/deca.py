"""DeCA: the target and an auxiliary model are trained together and held to agree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Phase
from accord.methods.denoising import Denoising
from accord.objectives import agreement, real_positive_probability


@dataclass(frozen=True)
class DeCA:
    """The paper's Eq. (DPI-loss) and its first algorithm; the auxiliary model can be any."""

    denoising: Denoising
    auxiliary: str = "mf"

    def phases(self, build: Build) -> list[Phase]:
        target, auxiliary = build("target"), build("auxiliary", self.auxiliary)
        noise = self.denoising.noise_networks(build)

        def loss(batch: Batch, clock: Clock) -> Tensor:
            f, g = batch.logits(target), batch.logits(auxiliary)
            return batch.mean(
                self.denoising.losses(f, noise, batch, clock.step) + agreement(g, f, self.denoising.alpha)
            )

        networks = {"target": target, "auxiliary": auxiliary, **noise}
        return [Phase("training", networks, target="target", loss=loss, kept=("target", *noise))]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return networks["target"]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        f = batch.logits(networks["target"])
        if "noise_dp" in networks and "noise_dn" in networks:
            h, h_prime = batch.logits(networks["noise_dp"]), batch.logits(networks["noise_dn"])
            return real_positive_probability(f, h, h_prime)
        return torch.sigmoid(f)
