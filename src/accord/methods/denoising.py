"""What DeCA and DeCA(p) share: the alternation of the two sub-tasks, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from accord.methods.base import Batch, Build
from accord.objectives import denoising, joint_denoising

SubTasks = Literal["both", "dp", "dn", "joint"]


@dataclass(frozen=True)
class Denoising:
    """Settings of the binary denoising terms."""

    c0: float = 1.0
    c1: float = 10.0
    alpha: float = 0.5
    sub_tasks: SubTasks = "both"
    noise_model: str = "mf"

    def noise_networks(self, build: Build) -> dict[str, nn.Module]:
        """h (learns in DP) and h′ (learns in DN); only those the chosen sub-tasks train."""
        roles = {"dp": ["noise_dp"], "dn": ["noise_dn"]}.get(self.sub_tasks, ["noise_dp", "noise_dn"])
        return {role: build(role, self.noise_model) for role in roles}

    def losses(self, target: Tensor, noise: dict[str, nn.Module], batch: Batch, step: int) -> Tensor:
        """The term of this step's sub-task for each example. DP comes first, then they take turns.

        The noise model of the other sub-task is not touched: it gets no gradient, hence no update.
        """
        if self.sub_tasks == "joint":
            h, h_prime = batch.logits(noise["noise_dp"]), batch.logits(noise["noise_dn"])
            return joint_denoising(target, h, h_prime, batch.labels)
        turn = ("dp", "dn")[step % 2] if self.sub_tasks == "both" else self.sub_tasks
        return denoising(
            target,
            batch.logits(noise[f"noise_{turn}"]),
            batch.labels,
            constant=self.c1 if turn == "dp" else self.c0,
            sub_task=turn,
        )
