"""Pure maths on logits, without models or data. Each task has a module of its own."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from accord.objectives import binary, multiclass


class Objective(Protocol):
    """What the methods need of a task's maths; `binary` and `multiclass` both have it."""

    def cross_entropy(self, f: Tensor, labels: Tensor) -> Tensor: ...

    def agreement(self, p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor: ...

    def label_quality(self, f: Tensor, labels: Tensor) -> Tensor: ...

    def average(self, members: list[Tensor]) -> Tensor: ...


__all__ = ["Objective", "binary", "multiclass"]
