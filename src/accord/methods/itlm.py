"""ITLM: rounds of training on the share of the examples that the model finds easiest.

Shen & Sanghavi, Learning with Bad Training Data via Iterative Trimmed Loss Minimization, ICML 2019. The first round
trains on everything; each later one keeps the examples of lowest loss and goes on from the weights it has. The
share is a setting like any other: it is never set from a known rate of noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from accord.methods.base import Build, Everything, Phase
from accord.methods.normal import OneTarget, normal_phase


@dataclass(frozen=True)
class ITLM(OneTarget):
    """``round_epochs`` epochs a round, on ``keep_share`` of the examples from the second round on."""

    keep_share: float = 0.7
    round_epochs: int = 10
    kept: list[Tensor] = field(default_factory=list)
    """Positions of the examples that each round kept."""

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def sampling(data: Any, epoch: int) -> dict[str, Tensor]:
            if len(self.kept) < epoch // self.round_epochs:
                self.kept.append(self._easiest(target, data))
            return {"positions": self.kept[-1]} if self.kept else {}

        phase = normal_phase("training", "target", target, self.objective, sampling)
        return [replace(phase, memory=self)]

    def state(self) -> dict[str, Tensor]:
        return {f"round {k}": positions for k, positions in enumerate(self.kept)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.kept[:] = [state[f"round {k}"] for k in range(len(state))]

    def keep(self, runs: Tensor) -> None:
        self.kept[:] = [positions.index_select(0, runs) for positions in self.kept]

    @torch.no_grad()
    def _easiest(self, target: nn.Module, data: Everything) -> Tensor:
        target.eval()
        each = [self.objective.cross_entropy(b.logits(target), b.labels) for b in data.in_order()]
        target.train()
        count = max(1, round(self.keep_share * len(data)))
        return torch.cat(each, -1).topk(count, largest=False).indices.sort().values  # of each run of a stack
