"""Pure maths on logits, without models or data. Each task has a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # what is made of numpy alone, such as the consensus, loads no torch
    from torch import Tensor

    from accord.objectives import binary, multiclass


class Objective(Protocol):
    """What the methods need of a task's maths; `binary` and `multiclass` both have it."""

    def cross_entropy(self, f: Tensor, labels: Tensor) -> Tensor:
        """The loss of each observed label under the logits f."""
        ...

    def agreement(self, p: Tensor, q: Tensor, alpha: float | Tensor) -> Tensor:
        """How far two networks are apart: alpha · KL(p‖q) + (1 − alpha) · KL(q‖p), both from logits."""
        ...

    def label_quality(self, f: Tensor, labels: Tensor) -> Tensor:
        """The probability of each given label under the logits f."""
        ...

    def average(self, members: list[Tensor]) -> Tensor:
        """The logits of several networks that answer together."""
        ...


__all__ = ["Objective", "binary", "multiclass"]


def __getattr__(name: str) -> Any:
    if name in ("binary", "multiclass"):
        import importlib

        return importlib.import_module(f"accord.objectives.{name}")
    raise AttributeError(f"module 'accord.objectives' has no attribute {name!r}")
