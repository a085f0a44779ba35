"""DeCA: the target and an auxiliary model are trained together, with a term that makes them agree."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from accord.methods import denoising, two_stage
from accord.methods.base import Batch, Build, Method, Phase, StepInfo
from accord.methods.terms import terms_of


class ClickSettings(denoising.DenoisingSettings):
    auxiliary: str = "mf"
    """Model of DeCA's auxiliary g; in Python also any callable (users, items) -> module."""


class LabelSettings(two_stage.TwoStageSettings):
    auxiliary: str = "auto"
    """Model of DeCA's auxiliary g; auto takes convnet for images and mlp for tables; in Python also any torch
    module, or a callable (shape, classes) -> module."""


class DeCA(Method):
    """The paper's Eq. (DPI-loss) and its first algorithm; the auxiliary model can be any."""

    name = "deca"
    settings = {"clicks": ClickSettings, "labels": LabelSettings}  # noqa: RUF012
    space = {"clicks": denoising.SPACE, "labels": two_stage.SPACE}  # noqa: RUF012
    defaults = {"c0": 10.0, "c1": 10.0}  # noqa: RUF012
    may_differ = frozenset({"c0", "c1", "c2", "alpha"})
    network_count = 4
    takes_weights = True
    divides = True

    @classmethod
    def refuse(cls, settings: Any) -> None:
        denoising.refuse_stages(settings)

    def phases(self, build: Build) -> list[Phase]:
        terms = terms_of(self)
        target, auxiliary = build("target"), build("auxiliary", self.setting("auxiliary"))
        noise = terms.noise_networks(build)

        def loss(batch: Batch, info: StepInfo) -> Tensor:
            f, g = batch.logits(target), batch.logits(auxiliary)
            losses = terms.losses(batch, target, f, noise, info)
            return batch.mean(losses + self.objective.agreement(g, f, self.setting("alpha")))

        networks = {"target": target, "auxiliary": auxiliary, **noise}
        kept = ("target", *noise)
        return [Phase("training", networks, "target", loss, kept, stage=terms.stage, turns=terms.turns)]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        return terms_of(self).posterior(networks, batch)
