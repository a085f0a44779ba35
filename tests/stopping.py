"""A training that is stopped, as if by a person."""

from __future__ import annotations

from pathlib import Path

from accord.training import Checkpoint


class StopsAfter(Checkpoint):
    """As if the person had pressed Ctrl-C after so many looks at the clock."""

    def __init__(self, path: Path, looks: int) -> None:
        super().__init__(path, seconds=1e9)
        self.looks = looks

    def due(self) -> bool:
        self.looks -= 1
        self.stop = self.looks <= 0
        return self.stop
