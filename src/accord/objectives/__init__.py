"""Pure maths on logits, without models or data. Each task has a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # what is made of numpy alone, such as the consensus, loads no torch
    from torch import Tensor

    from accord.objectives import binary, multiclass


class Objective(Protocol):
    """What the methods need of a task's maths; `binary` and `multiclass` both have it."""

    def cross_entropy(self, f: Tensor, labels: Tensor) -> Tensor: ...

    def agreement(self, p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor: ...

    def label_quality(self, f: Tensor, labels: Tensor) -> Tensor: ...

    def average(self, members: list[Tensor]) -> Tensor: ...


__all__ = ["Objective", "binary", "multiclass"]


def __getattr__(name: str) -> Any:
    if name in ("binary", "multiclass"):
        import importlib

        return importlib.import_module(f"accord.objectives.{name}")
    raise AttributeError(f"module 'accord.objectives' has no attribute {name!r}")
