"""T-CE: the truncated loss of adaptive denoising training (Wang, Feng, He, Nie & Chua, 2021)."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from accord.errors import SettingError
from accord.methods.base import Batch, Build, Method, MethodSettings, Phase, StepInfo
from accord.objectives.binary import cross_entropy, kept_positives, truncated_cross_entropy, truncated_share


class TruncatedSettings(MethodSettings):
    drop_rate: float = Field(default=0.1, ge=0, lt=1)
    """T-CE: how many clicks are left out in the end, as a share of all examples of a batch, clicks and non-clicks.
    With one non-click for each click, it is twice that share of the clicks (the paper searches 0.05, 0.1, 0.2)."""
    ramp_epochs: int = Field(default=10, ge=1)
    """T-CE: epochs until that share is reached."""


class TruncatedCE(Method):
    """The clicks with the largest loss of a batch are left out; their share of it grows with the epochs."""

    name = "t-ce"
    tasks = ("clicks",)
    divides = True
    settings = TruncatedSettings
    rules = ("t-ce drops a share of the whole batch",)
    space = {"drop_rate": (0.05, 0.1, 0.2), "ramp_epochs": (5, 10, 20)}  # noqa: RUF012
    may_differ = frozenset({"drop_rate"})

    @classmethod
    def refuse(cls, settings: Any) -> None:
        examples = 1 + settings.negatives
        if settings.drop_rate * examples >= 1:
            raise SettingError(
                f"A drop_rate of {settings.drop_rate:g} of a batch with {settings.negatives} non-click(s) for each "
                f"click leaves no click to learn from: give less than {1 / examples:g}."
            )

    def share(self, epoch: int) -> float | Tensor:
        """Clicks left out in an epoch (counted from 0), as a share of the batch: linear up to the maximum."""
        # Shares of a count are rounded as exactly for many runs as for one.
        return self.setting("drop_rate", torch.float64) * min(1.0, (epoch + 1) / self.setting("ramp_epochs"))

    def stage(self, epoch: int) -> int:
        """The share changes with every epoch until it is reached."""
        return min(epoch, self.setting("ramp_epochs") - 1)

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def loss(batch: Batch, info: StepInfo) -> Tensor:
            keep: Any = kept_positives(batch.count, self.share(info.epoch), len(batch.labels) - 1)
            from_all, count = getattr(batch, "from_all", None), batch.count
            if from_all is not None and isinstance(count, int):
                return truncated_share(cross_entropy(batch.logits(target), batch.labels), keep, count, from_all)
            return truncated_cross_entropy(batch.logits(target), batch.labels, keep, batch.inside)

        return [Phase("training", {"target": target}, "target", loss, kept=("target",), stage=self.stage)]
