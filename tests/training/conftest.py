"""What the tests of stacks share."""

from __future__ import annotations

from typing import Any

import pytest

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
