"""DeCA(p): a prior of the target's own architecture is trained normally, frozen, and agreed with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from accord.methods.base import Batch, Build, Clock, Phase
from accord.methods.denoising import Denoising, DenoisingTerms
from accord.methods.normal import OneTarget, normal_phase


@dataclass(frozen=True)
class DeCAp(OneTarget):
    """The paper's Eq. (DVAE-loss) and (multi-class-loss); the prior has its own seed."""

    denoising: DenoisingTerms = field(default_factory=Denoising)

    def phases(self, build: Build) -> list[Phase]:
        prior, target = build("prior"), build("target")
        noise = self.denoising.noise_networks(build)

        def loss(batch: Batch, clock: Clock) -> Tensor:
            f = batch.logits(target)
            terms = self.denoising.losses(batch, target, f, noise, clock)
            return batch.mean(
                terms + self.objective.agreement(f, batch.frozen_logits(prior), self.denoising.agreement_weight())
            )

        networks, kept = {"target": target, **noise}, ("target", *self.denoising.kept)
        stage, turns = self.denoising.stage, self.denoising.turns
        return [
            replace(normal_phase("prior", "prior", prior, self.objective), shared=True),
            Phase("denoising", networks, target="target", loss=loss, kept=kept, stage=stage, turns=turns),
        ]
