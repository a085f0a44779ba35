"""What the tests of stacks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from torch import Tensor

from accord.batches.clicks import ClickBatch
from accord.batches.label_batches import LabelChunk
from accord.models.stack import as_stack
from accord.training import loop


@pytest.fixture
def phases_seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Will hold the name of each phase, and how many runs go through it."""
    seen: list[tuple[str, int]] = []

    class Seen(loop.PhaseTrainer):
        def __init__(self, phase: Any, number: Any, stacks: Any, values: Any, runs: Sequence[Any]) -> None:
            super().__init__(phase, number, stacks, values, runs)
            seen.append((phase.name, len(self.runs)))

    monkeypatch.setattr(loop, "PhaseTrainer", Seen)
    return seen


@pytest.fixture
def asked_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Will hold how many networks were asked whenever runs of a stack wanted what frozen ones say."""
    seen: list[int] = []
    for kind, name in ((ClickBatch, "frozen_logits"), (LabelChunk, "_said")):
        asks = getattr(kind, name)

        def ask(self: Any, network: Any, asks: Any = asks) -> Tensor:
            seen.append(len(as_stack(network)))
            return asks(self, network)

        monkeypatch.setattr(kind, name, ask)
    return seen
