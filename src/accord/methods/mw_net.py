"""MW-Net: a small network learns, from a few clean examples, how much an example of a given loss should count.

Shu et al., Meta-Weight-Net: Learning an Explicit Mapping for Sample Weighting, NeurIPS 2019. The weight network's
gradient is exact for their one-step form: with θ̂ = θ − η·∇θ (1/n)Σ V(lᵢ)·lᵢ, the clean loss at θ̂ changes with Vᵢ by
−(η/n)·⟨∇θ̂ L_clean, ∇θ lᵢ⟩. The inner products of all examples are one forward-mode derivative of the losses along
∇θ̂ L_clean, so that no second-order graph is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd import forward_ad

from accord.methods.base import Build, Method, MethodSettings, Phase, StepInfo
from accord.optim import MetaAdam
from accord.optim.base import along_runs

RATE, DECAY = 1e-3, 1e-4
"""The published step size and weight decay of the weight network (Adam)."""


class MWNetSettings(MethodSettings):
    weight_rate: float = Field(default=RATE, gt=0)
    """MW-Net: the step size of its weight network (the published one by default)."""


class MWNet(Method):
    """It receives some examples with trusted labels; tables mark its rows."""

    name = "mw-net"
    tasks = ("labels",)
    settings = MWNetSettings
    uses_clean_labels = True
    compilable = False  # forward mode goes through no compiled network

    def phases(self, build: Build) -> list[Phase]:
        target, weigh = build("target"), build("weight", "weight-net")
        memory = _Meta(MetaAdam(list(weigh.parameters()), self.setting("weight_rate"), DECAY), self.setup.clean)

        def loss(batch: Any, info: StepInfo) -> Tensor:
            losses = self.objective.cross_entropy(batch.logits(target), batch.labels)
            self._learn_weights(target, weigh, memory, batch, losses, info)
            with torch.no_grad():
                weights = weigh(losses)
            return batch.mean(weights * losses)

        # The weight network has an optimiser of its own: the loop finds no gradient on it and does not step it.
        networks = {"target": target, "weight": weigh}
        return [Phase("training", networks, "target", loss, kept=("target", "weight"), memory=memory)]

    def _learn_weights(
        self, target: nn.Module, weigh: nn.Module, memory: _Meta, batch: Any, losses: Tensor, info: StepInfo
    ) -> None:
        learning = [(name, one) for name, one in target.named_parameters() if one.requires_grad]
        names, parameters = zip(*learning, strict=True)
        weights = weigh(losses.detach())
        slope = torch.autograd.grad(batch.mean(weights.detach() * losses).sum(), parameters, retain_graph=True)
        with torch.no_grad():
            ahead = [p - _rate_of(info, p) * g for p, g in zip(parameters, slope, strict=True)]
        ahead = [p.requires_grad_() for p in ahead]
        clean = memory.clean.at(info.step, len(batch))
        there = self.objective.cross_entropy(
            clean.logits_with(target, dict(zip(names, ahead, strict=True))), clean.labels
        )
        direction = torch.autograd.grad(clean.mean(there).sum(), ahead)
        with torch.no_grad(), forward_ad.dual_level():
            moving = [forward_ad.make_dual(p.detach(), v) for p, v in zip(parameters, direction, strict=True)]
            f = batch.logits_with(target, dict(zip(names, moving, strict=True)))
            along = forward_ad.unpack_dual(self.objective.cross_entropy(f, batch.labels)).tangent
        (-info.rate * batch.mean(along * weights)).sum().backward()
        memory.adam.step()


class _Meta:
    """The weight network's optimiser, whose moments are saved, and the clean examples it learns from."""

    def __init__(self, adam: MetaAdam, clean: Any) -> None:
        self.adam, self.clean = adam, clean

    def state_dict(self) -> dict[str, Tensor]:
        return self.adam.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.adam.load_state_dict(state)

    def keep(self, runs: Tensor) -> None:
        self.clean = self.clean.keep(runs)
        self.adam.keep(runs)


def _rate_of(info: StepInfo, parameter: Tensor) -> float | Tensor:
    """The rate at which a parameter steps; of a stack, each run's own."""
    rate = info.rate
    return along_runs(rate, parameter) if isinstance(rate, Tensor) and rate.dim() else rate
