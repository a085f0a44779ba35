"""What DeCA and DeCA(p) share in the binary task: the alternation of the two sub-tasks, and their settings."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.errors import SettingError
from accord.methods.base import Batch, Build, Method, MethodSettings, Space, StepInfo
from accord.objectives.binary import (
    denoising,
    joint_denoising,
    label_quality,
    real_positive_probability,
    stage_two,
)

SubTasks = Literal["both", "dp", "dn", "joint"]
CONSTANTS = (1.0, 10.0, 100.0, 1000.0)
SPACE: Space = {"c0": CONSTANTS, "c1": CONSTANTS, "alpha": (0.0, 0.5, 1.0)}
"""The paper's grid."""


class DenoisingSettings(MethodSettings):
    c0: float | None = Field(default=None, ge=0)
    """How sure a click is a true like (the paper searches 1 to 1000); by default 10 for deca, 1 for deca-p."""
    c1: float | None = Field(default=None, ge=0)
    """How sure a sampled non-click is a true dislike (the paper searches 1 to 1000); by default 10."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of KL(g‖f) in DeCA and of KL(f‖f′) in DeCA(p), against the other direction."""
    sub_tasks: SubTasks = "both"
    """Alternate DP and DN (both), use one alone (dp, dn), or train the noise models together (joint)."""
    stage_one_epochs: int | None = Field(default=None, ge=0)
    """T1, the epochs with the constants c0 and c1; afterwards the constants are dropped, and both noise models
    explain every example, as with many classes. By default all epochs: the paper's recommenders have no second
    stage."""
    expectation: Literal["printed", "full"] = "printed"
    """The sum of the second stage: printed, as in the paper, leaves out the observed class where it is not the
    class of the step; full keeps it."""
    noise_model: str = "mf"
    """Model of the two noise models h and h′; in Python also any callable (users, items) -> module."""


def refuse_stages(settings: Any) -> None:
    """Refuse a second stage that would lack a noise model."""
    if settings.task == "clicks" and settings.stage_one_epochs is not None and settings.sub_tasks != "both":
        raise SettingError(
            f"Setting 'stage_one_epochs' begins a second stage, which needs both sub-tasks in turn: leave "
            f"sub_tasks at both (it was '{settings.sub_tasks}')."
        )


class DenoisingTerms(Protocol):
    """The part of DeCA and DeCA(p) that differs between two classes and many: the noise models and their terms."""

    @property
    def kept(self) -> tuple[str, ...]:
        """Noise models that DeCA(p) keeps, though its target alone answers."""
        ...

    def noise_networks(self, build: Build) -> dict[str, nn.Module]: ...

    def losses(
        self, batch: Batch, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], info: StepInfo
    ) -> Tensor:
        """The denoising term of each example; ``f`` holds the target's logits."""
        ...

    def stage(self, epoch: int) -> int: ...

    @property
    def turns(self) -> int:
        """Sub-tasks that take turns, step by step."""
        ...

    def posterior(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        """P(the given label is right) by the target and the noise models together."""
        ...


class BinaryTerms:
    """The terms of clicks: h learns in DP, h′ in DN."""

    kept: tuple[str, ...] = ()

    def __init__(self, method: Method) -> None:
        self.method = method
        self.sub_tasks: SubTasks = method.setting("sub_tasks")

    def noise_networks(self, build: Build) -> dict[str, nn.Module]:
        """h and h′; only those the chosen sub-tasks train."""
        roles = {"dp": ["noise_dp"], "dn": ["noise_dn"]}.get(self.sub_tasks, ["noise_dp", "noise_dn"])
        return {role: build(role, self.method.setting("noise_model")) for role in roles}

    def losses(
        self, batch: Batch, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], info: StepInfo
    ) -> Tensor:
        """The term of this step's sub-task for each example. DP comes first, then they take turns.

        The noise model of the other sub-task gets no gradient, and so no update.
        """
        if self.sub_tasks == "joint":
            h, h_prime = batch.logits(noise["noise_dp"]), batch.logits(noise["noise_dn"])
            return joint_denoising(f, h, h_prime, batch.labels)
        turn: Any = ("dp", "dn")[info.turn(2)] if self.sub_tasks == "both" else self.sub_tasks
        if self.stage(info.epoch) == 2:
            with torch.no_grad():
                other = batch.logits(noise["noise_dn" if turn == "dp" else "noise_dp"])
            full, h = self.method.setting("expectation") == "full", batch.logits(noise[f"noise_{turn}"])
            return stage_two(f, h, other, batch.labels, sub_task=turn, full=full)
        constant = self.method.setting("c1" if turn == "dp" else "c0")
        return denoising(f, batch.logits(noise[f"noise_{turn}"]), batch.labels, constant=constant, sub_task=turn)

    def stage(self, epoch: int) -> int:
        first = self.method.setting("stage_one_epochs")
        return 1 if first is None or epoch < first else 2

    @property
    def turns(self) -> int:
        return 2 if self.sub_tasks == "both" else 1

    def posterior(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        f = batch.logits(networks["target"])
        if "noise_dp" in networks and "noise_dn" in networks:
            h, h_prime = batch.logits(networks["noise_dp"]), batch.logits(networks["noise_dn"])
            return real_positive_probability(f, h, h_prime)
        return label_quality(f, batch.labels)
