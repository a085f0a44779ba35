"""What DeCA and DeCA(p) share in the binary task: the alternation of the two sub-tasks, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from accord.methods.base import Batch, Build, Clock
from accord.objectives.binary import denoising, joint_denoising, label_quality, real_positive_probability

SubTasks = Literal["both", "dp", "dn", "joint"]


class DenoisingTerms(Protocol):
    """The part of DeCA and DeCA(p) that differs between two classes and many: the noise models and their terms."""

    def agreement_weight(self) -> Any:
        """α: a number, or one for each run of a stack."""
        ...

    @property
    def kept(self) -> tuple[str, ...]:
        """Noise models that DeCA(p) keeps, though its target alone answers."""
        ...

    def noise_networks(self, build: Build) -> dict[str, nn.Module]: ...

    def losses(
        self, batch: Batch, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], clock: Clock
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


class PerRun:
    """A setting that differs between the runs of a stack; those that end leave it."""

    def __init__(
        self, values: list[float], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self.all = torch.tensor(values, device=device, dtype=dtype)[:, None]
        self.now = self.all

    def keep(self, which: list[int]) -> None:
        self.now = self.now[which]

    def rejoin(self) -> None:
        self.now = self.all


def now(value: float | PerRun) -> Any:
    """A number, or one for each run that is in the stack."""
    return value.now if isinstance(value, PerRun) else value


@dataclass(frozen=True)
class Denoising:
    """Settings of the binary denoising terms."""

    c0: float | PerRun = 1.0
    c1: float | PerRun = 10.0
    alpha: float | PerRun = 0.5
    sub_tasks: SubTasks = "both"
    noise_model: str = "mf"
    kept: tuple[str, ...] = ()

    def agreement_weight(self) -> Any:
        return now(self.alpha)

    def noise_networks(self, build: Build) -> dict[str, nn.Module]:
        """h (learns in DP) and h′ (learns in DN); only those the chosen sub-tasks train."""
        roles = {"dp": ["noise_dp"], "dn": ["noise_dn"]}.get(self.sub_tasks, ["noise_dp", "noise_dn"])
        return {role: build(role, self.noise_model) for role in roles}

    def losses(
        self, batch: Batch, target: nn.Module, f: Tensor, noise: dict[str, nn.Module], clock: Clock
    ) -> Tensor:
        """The term of this step's sub-task for each example. DP comes first, then they take turns.

        The noise model of the other sub-task is not touched: it gets no gradient, hence no update.
        """
        if self.sub_tasks == "joint":
            h, h_prime = batch.logits(noise["noise_dp"]), batch.logits(noise["noise_dn"])
            return joint_denoising(f, h, h_prime, batch.labels)
        turn = ("dp", "dn")[clock.turn(2)] if self.sub_tasks == "both" else self.sub_tasks
        return denoising(
            f,
            batch.logits(noise[f"noise_{turn}"]),
            batch.labels,
            constant=now(self.c1 if turn == "dp" else self.c0),
            sub_task=turn,
        )

    def stage(self, epoch: int) -> int:
        return 0

    @property
    def turns(self) -> int:
        return 2 if self.sub_tasks == "both" else 1

    def posterior(self, networks: dict[str, nn.Module], batch: Batch) -> Tensor:
        f = batch.logits(networks["target"])
        if "noise_dp" in networks and "noise_dn" in networks:
            h, h_prime = batch.logits(networks["noise_dp"]), batch.logits(networks["noise_dn"])
            return real_positive_probability(f, h, h_prime)
        return label_quality(f, batch.labels)
