"""R-CE: the reweighted loss of adaptive denoising training (Wang, Feng, He, Nie & Chua, 2021)."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from accord.methods.base import Batch, Build, Method, MethodSettings, Phase, StepInfo
from accord.objectives.binary import reweighted_cross_entropy


class ReweightedSettings(MethodSettings):
    beta: float = Field(default=0.25, ge=0)
    """R-CE: how much more an example counts if the model believes it."""


class ReweightedCE(Method):
    """Examples that the model believes count more: the weight of an example is P(ỹ)^β, held constant."""

    name = "r-ce"
    takes_weights = True
    divides = True
    tasks = ("clicks",)
    settings = ReweightedSettings
    space = {"beta": (0.05, 0.1, 0.25, 0.5)}  # noqa: RUF012
    may_differ = frozenset({"beta"})

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def loss(batch: Batch, info: StepInfo) -> Tensor:
            losses = reweighted_cross_entropy(batch.logits(target), batch.labels, self.setting("beta"))
            return batch.mean(losses)

        return [Phase("training", {"target": target}, "target", loss, kept=("target",))]
