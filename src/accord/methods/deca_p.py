"""DeCA(p): a prior of the target's own architecture is trained normally and frozen; a term makes the
target agree with it."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from accord.methods import denoising, two_stage
from accord.methods.base import Batch, Build, Method, Phase, StepInfo, normal_phase
from accord.methods.terms import terms_of


class DeCAp(Method):
    """The paper's Eq. (DVAE-loss) and (multi-class-loss); the prior has its own seed."""

    name = "deca-p"
    settings = {  # noqa: RUF012
        "clicks": denoising.DenoisingSettings,
        "labels": two_stage.TwoStageSettings,
    }
    space = {"clicks": denoising.SPACE, "labels": two_stage.SPACE}  # noqa: RUF012
    defaults = {"c0": 1.0, "c1": 10.0}  # noqa: RUF012
    may_differ = frozenset({"c0", "c1", "c2", "alpha"})
    network_count = 4
    begins_as = "normal"

    def phases(self, build: Build) -> list[Phase]:
        terms = terms_of(self)
        prior, target = build("prior"), build("target")
        noise = terms.noise_networks(build)

        def loss(batch: Batch, info: StepInfo) -> Tensor:
            f = batch.logits(target)
            losses = terms.losses(batch, target, f, noise, info)
            agreement = self.objective.agreement(f, batch.frozen_logits(prior), self.setting("alpha"))
            return batch.mean(losses + agreement)

        networks, kept = {"target": target, **noise}, ("target", *terms.kept)
        return [
            replace(normal_phase("prior", "prior", prior, self.objective), shared=True),
            Phase("denoising", networks, "target", loss, kept, stage=terms.stage, turns=terms.turns),
        ]
