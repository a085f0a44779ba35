"""The multi-class denoising terms of DeCA and DeCA(p): one class a step, in two stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from accord.methods.base import Build, Clock
from accord.methods.denoising import PerRun, now
from accord.objectives.multiclass import choose_classes, given_label_posterior, stage_one, stage_two

Expectation = Literal["printed", "full"]
Constants = float | tuple[float, ...] | PerRun


@cache
def _numbers(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Made once: a recorded step may not copy from the host."""
    return torch.tensor(values, device=device)


@dataclass(frozen=True)
class TwoStage:
    """Settings of the multi-class terms; hφ reads the target's features."""

    classes: int
    c1: Constants = 1.0
    c2: Constants = 1.0
    alpha: float | PerRun = 1.0
    stage_one_epochs: int = 10
    """T1: epochs before the constants go."""
    expectation: Expectation = "printed"
    """The second stage as printed, without c = ỹ where ỹ ≠ k, or whole."""
    detach_features: bool = False
    """Keep hφ's gradient from the target."""
    some_classes: tuple[int, int] | None = None
    """In the second stage, how many classes an example sums over: its likeliest, and others in turn."""
    kept: tuple[str, ...] = ("noise",)
    turns: int = 1

    def agreement_weight(self) -> Any:
        return now(self.alpha)

    def noise_networks(self, build: Build) -> dict[str, nn.Module]:
        return {"noise": build("noise", "noise")}

    def stage(self, epoch: int) -> int:
        return 1 if epoch < self.stage_one_epochs else 2

    def losses(self, batch: Any, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], clock: Clock) -> Tensor:
        labels, h = batch.labels, noise["noise"]
        features = batch.features(target)
        if self.detach_features:
            features = features.detach()
        k = torch.as_tensor(clock.step % self.classes, device=f.device)
        cost = -h(features, k).gather(-1, labels[..., None]).squeeze(-1)
        if self.stage(clock.epoch) == 1:
            return stage_one(f, cost, labels, k, self._constant(self.c1, k), self._constant(self.c2, k))
        chosen = None if self.some_classes is None else choose_classes(f, clock.step, *self.some_classes)
        costs = h.costs(features, labels, None if chosen is None else chosen.classes)  # pyright: ignore
        return stage_two(f, cost, costs, labels, k, chosen, full=self.expectation == "full")

    def _constant(self, value: Constants, k: Tensor) -> float | Tensor:
        if isinstance(value, tuple):
            return _numbers(value, k.device).index_select(0, k.view(1))
        return now(value)

    def posterior(self, networks: dict[str, nn.Module], batch: Any) -> Tensor:
        f = batch.logits(networks["target"])
        costs = networks["noise"].costs(batch.features(networks["target"]), batch.labels)  # pyright: ignore
        return given_label_posterior(f, costs, batch.labels)
