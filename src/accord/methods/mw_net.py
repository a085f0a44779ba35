"""MW-Net: a small network learns, from a few clean examples, how much an example of a given loss should count.

Shu et al., Meta-Weight-Net: Learning an Explicit Mapping for Sample Weighting, NeurIPS 2019. The weight network's
gradient is exact for their one-step form: with θ̂ = θ − η·∇θ (1/n)Σ V(lᵢ)·lᵢ, the clean loss at θ̂ changes with Vᵢ by
−(η/n)·⟨∇θ̂ L_clean, ∇θ lᵢ⟩. The inner products of all examples are one forward-mode derivative of the losses along
∇θ̂ L_clean, so that no second-order graph is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from accord.methods.base import Build, Clock, Phase, along_runs, optimiser_tensors, restore_optimiser
from accord.methods.normal import OneTarget

RATE, DECAY = 1e-3, 1e-4
"""The published step size and weight decay of the weight network (Adam)."""


@dataclass(frozen=True)
class _Meta:
    """The weight network's own optimiser, whose moments are remembered, and what it learns from."""

    adam: torch.optim.Adam
    clean: Any

    def state(self) -> dict[str, Tensor]:
        return optimiser_tensors(self.adam)

    def restore(self, state: dict[str, Tensor]) -> None:
        restore_optimiser(self.adam, state)

    def keep(self, runs: Tensor) -> None:
        self.clean.keep(runs)
        for moments in self.adam.state.values():
            for name, value in moments.items():
                moments[name] = value.index_select(0, runs) if value.dim() else value


@dataclass(frozen=True)
class MWNet(OneTarget):
    """``clean`` holds examples whose labels are trusted; rows of this method are marked as using them."""

    clean: Any = None
    weight_rate: float = RATE

    def phases(self, build: Build) -> list[Phase]:
        target, weigh = build("target"), build("weight", "weight")
        meta = torch.optim.Adam(
            weigh.parameters(), lr=self.weight_rate, weight_decay=DECAY, capturable=next(weigh.parameters()).is_cuda
        )

        def loss(batch: Any, clock: Clock) -> Tensor:
            losses = self.objective.cross_entropy(batch.logits(target), batch.labels)
            self._learn_weights(target, weigh, meta, batch, losses, clock)
            with torch.no_grad():
                weights = weigh(losses)
            return batch.mean(weights * losses)

        # The weight network has an optimiser of its own: the loop finds no gradient on it and leaves it alone.
        networks = {"target": target, "weight": weigh}
        memory = _Meta(meta, self.clean)
        return [Phase("training", networks, target="target", loss=loss, kept=("target", "weight"), memory=memory)]

    def _learn_weights(
        self, target: nn.Module, weigh: nn.Module, meta: Any, batch: Any, losses: Tensor, clock: Clock
    ) -> None:
        names, parameters = zip(*target.named_parameters(), strict=True)
        weights = weigh(losses.detach())
        slope = torch.autograd.grad(batch.mean(weights.detach() * losses).sum(), parameters, retain_graph=True)
        with torch.no_grad():
            ahead = [p - _rate_of(clock, p) * g for p, g in zip(parameters, slope, strict=True)]
        ahead = [p.requires_grad_() for p in ahead]
        clean = self.clean.at(clock.step, len(batch))
        there = self.objective.cross_entropy(
            clean.logits_with(target, dict(zip(names, ahead, strict=True))), clean.labels
        )
        direction = torch.autograd.grad(clean.mean(there).sum(), ahead)
        with torch.no_grad(), forward_ad.dual_level():
            moving = [forward_ad.make_dual(p.detach(), v) for p, v in zip(parameters, direction, strict=True)]
            f = batch.logits_with(target, dict(zip(names, moving, strict=True)))
            along = forward_ad.unpack_dual(self.objective.cross_entropy(f, batch.labels)).tangent
        (-clock.rate * batch.mean(along * weights)).sum().backward()
        meta.step()
        meta.zero_grad()


def _rate_of(clock: Clock, parameter: Tensor) -> float | Tensor:
    """The rate at which a parameter steps; of a stack, each run's own."""
    rate = clock.rate
    return along_runs(rate, parameter) if isinstance(rate, Tensor) and rate.dim() else rate
