"""What the tests of stacks share."""

from __future__ import annotations

from typing import Any

import pytest
from accord.data.batches import StackedClickBatch
from accord.data.labelled_stack import StackedLabelledBatch

from accord.training import stacking


@pytest.fixture
def phases_seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Will hold the name of each phase of a stack, and how many runs go through it."""
    seen: list[tuple[str, int]] = []

    class Seen(stacking._Phase):
        def __init__(self, phase: Any, *more: Any) -> None:
            super().__init__(phase, *more)
            seen.append((phase.name, len(self.runs)))

    monkeypatch.setattr(stacking, "_Phase", Seen)
    return seen


@pytest.fixture
def asked_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Will hold how many networks were asked whenever runs of a stack wanted what frozen ones say."""
    seen: list[int] = []
    for kind in (StackedClickBatch, StackedLabelledBatch):
        asks = kind.frozen_logits

        def ask(self: Any, network: Any, asks: Any = asks) -> Any:
            seen.append(len(network))
            return asks(self, network)

        monkeypatch.setattr(kind, "frozen_logits", ask)
    return seen
