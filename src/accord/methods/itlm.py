"""ITLM: rounds of training on the share of the examples that the model finds easiest.

Shen & Sanghavi, Learning with Bad Training Data via Iterative Trimmed Loss Minimization, ICML 2019. The first round
trains on everything; each later one keeps the examples of lowest loss and continues with the current weights. The
share is a setting like any other: it is never set from a known rate of noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.methods.base import Build, Examples, Method, MethodSettings, Phase, normal_phase


class ITLMSettings(MethodSettings):
    keep_share: float = Field(default=0.7, gt=0, le=1)
    """ITLM: the share of examples kept from the second round on."""
    rounds: int = Field(default=5, ge=1)
    """ITLM: rounds that the epochs are divided into."""


class ITLM(Method):
    """A round's epochs on ``keep_share`` of the examples from the second round on."""

    name = "itlm"
    tasks = ("labels",)
    settings = ITLMSettings
    takes_weights = True
    space = {"keep_share": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)}  # noqa: RUF012

    @classmethod
    def fewest_examples(cls, settings: Any, count: int) -> int:
        return round(settings.keep_share * count)

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")
        chosen = _Chosen(self, target)
        phase = normal_phase("training", "target", target, self.objective, chosen.sampling)
        return [replace(phase, memory=chosen)]

    @property
    def round_epochs(self) -> int:
        return max(1, round(self.setting("epochs") / self.setting("rounds")))


class _Chosen:
    """The positions of the examples that each round kept, (R, n)."""

    def __init__(self, method: ITLM, target: nn.Module) -> None:
        self.method, self.target = method, target
        self.rounds: list[Tensor] = []

    def sampling(self, data: Any, epoch: int) -> dict[str, Tensor]:
        if len(self.rounds) < epoch // self.method.round_epochs:
            self.rounds.append(self._easiest(data))
        return {"positions": self.rounds[-1]} if self.rounds else {}

    @torch.no_grad()
    def _easiest(self, data: Examples) -> Tensor:
        self.target.eval()
        loss = self.method.objective.cross_entropy
        each = [loss(batch.logits(self.target), batch.labels) for batch in data.in_order()]
        self.target.train()
        count = max(1, round(self.method.setting("keep_share") * len(data)))
        return torch.cat(each, -1).topk(count, largest=False).indices.sort().values

    def state_dict(self) -> dict[str, Tensor]:
        return {f"round {k}": positions for k, positions in enumerate(self.rounds)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.rounds[:] = [state[f"round {k}"] for k in range(len(state))]

    def keep(self, runs: Tensor) -> None:
        self.rounds[:] = [positions.index_select(0, runs) for positions in self.rounds]
