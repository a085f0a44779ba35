"""Ensemble: two models of different seeds, trained normally; the mean of their answers is the answer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from accord.methods.base import Build, ClickLossSettings, Method, MethodSettings, Phase, normal_phase
from accord.objectives import Objective

MEMBERS = ("first", "second")


class Members(nn.Module):
    """Several models as one: the mean of recommenders' scores, or of classifiers' probabilities."""

    def __init__(self, members: list[nn.Module], objective: Objective) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.average = objective.average

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return self.average([m.logits(users, items) for m in self.members])  # pyright: ignore

    def scores(self, users: Tensor) -> Tensor:
        return self.average([m.scores(users) for m in self.members])  # pyright: ignore

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """All members' features, one after another, and the logits of the mean probabilities."""
        each = [m.outputs(inputs) for m in self.members]  # pyright: ignore
        return torch.cat([features for features, _ in each], 1), self.average([f.float() for _, f in each])


class Ensemble(Method):
    """The paper's ensemble baseline."""

    name = "ensemble"
    settings = {"clicks": ClickLossSettings, "labels": MethodSettings}  # noqa: RUF012
    network_count = 2
    takes_weights = True
    validates_served = False  # noisy validation measures each network, never their mean

    def phases(self, build: Build) -> list[Phase]:
        kind = self.setting("loss") if self.setup.task == "clicks" else "bce"
        phases = [normal_phase(role, role, build(role), self.objective, kind=kind) for role in MEMBERS]
        if not self.setup.keep_last:
            return phases
        return [replace(one, last={one.target: build(one.target)}) for one in phases]

    def target(self, networks: dict[str, nn.Module]) -> nn.Module:
        return Members([networks[role] for role in MEMBERS], self.objective)
