"""DeCA: the target and an auxiliary model are trained together and held to agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock, Phase
from accord.methods.denoising import Denoising, DenoisingTerms
from accord.methods.normal import OneTarget


@dataclass(frozen=True)
class DeCA(OneTarget):
    """The paper's Eq. (DPI-loss) and its first algorithm; the auxiliary model can be any."""

    denoising: DenoisingTerms = field(default_factory=Denoising)
    auxiliary: str = "mf"

    def phases(self, build: Build) -> list[Phase]:
        target, auxiliary = build("target"), build("auxiliary", self.auxiliary)
        noise = self.denoising.noise_networks(build)

        def loss(batch: Batch, clock: Clock) -> Tensor:
            f, g = batch.logits(target), batch.logits(auxiliary)
            terms = self.denoising.losses(batch, target, f, noise, clock)
            return batch.mean(terms + self.objective.agreement(g, f, self.denoising.agreement_weight()))

        networks = {"target": target, "auxiliary": auxiliary, **noise}
        kept, stage, turns = ("target", *noise), self.denoising.stage, self.denoising.turns
        return [Phase("training", networks, target="target", loss=loss, kept=kept, stage=stage, turns=turns)]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return self.denoising.posterior(networks, batch)
