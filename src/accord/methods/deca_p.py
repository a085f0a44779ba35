"""DeCA(p): a prior is trained and frozen; a term makes the target agree with it.

The prior is of the target's own architecture and trained normally, as in the paper, or whatever was given: another
model, an estimator or a council. Such a prior is fitted before the phases begin (`accord.estimators.prior`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from accord.methods import denoising, two_stage
from accord.methods.base import Batch, Build, Method, Phase, StepInfo, normal_phase
from accord.methods.terms import terms_of
from accord.models.stack import Single


class ClickSettings(denoising.DenoisingSettings):
    prior: str | None = None
    """Model of DeCA(p)'s prior f′, by name, or council; by default the target's own. In Python also a recommender,
    fitted or not, a council among them, or any callable (users, items) -> module."""


class LabelSettings(two_stage.TwoStageSettings):
    prior: str | None = None
    """Model of DeCA(p)'s prior f′, by name, or council; by default the target's own. In Python also a classifier,
    fitted or not, a council among them, or any torch module or callable (shape, classes) -> module."""


class DeCAp(Method):
    """The paper's Eq. (DVAE-loss) and (multi-class-loss); the prior has its own seed."""

    name = "deca-p"
    settings = {"clicks": ClickSettings, "labels": LabelSettings}  # noqa: RUF012
    space = {"clicks": denoising.SPACE, "labels": two_stage.SPACE}  # noqa: RUF012
    defaults = {"c0": 1.0, "c1": 10.0}  # noqa: RUF012
    may_differ = frozenset({"c0", "c1", "c2", "alpha"})
    network_count = 4
    takes_weights = True
    divides = True
    begins_as = "normal"

    @classmethod
    def fits_first(cls, settings: Any) -> bool:
        return settings.prior is not None

    @classmethod
    def refuse(cls, settings: Any) -> None:
        denoising.refuse_stages(settings)

    def phases(self, build: Build) -> list[Phase]:
        terms, given = terms_of(self), self.setup.prior
        prior = build("prior") if given is None else Single(given.network)
        target = build("target")
        noise = terms.noise_networks(build)

        def loss(batch: Batch, info: StepInfo) -> Tensor:
            f = batch.logits(target)
            losses = terms.losses(batch, target, f, noise, info)
            agreement = self.objective.agreement(f, batch.frozen_logits(prior), self.setting("alpha"))
            return batch.mean(losses + agreement)

        networks, kept = {"target": target, **noise}, ("target", *terms.kept)
        begun = replace(normal_phase("prior", "prior", prior, self.objective), shared=True)
        then = Phase("denoising", networks, "target", loss, kept, stage=terms.stage, turns=terms.turns)
        return [begun, then] if given is None else [then]
