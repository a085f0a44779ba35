"""The checkpoint of a training by several ranks: each writes its own part, and all parts are of the same step.

Each rank has two files and writes them in turn, so that the parts of the step before are there until all ranks have
written those of the next one. What is resumed is the last step of which every rank has its part.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from accord.errors import DataError
from accord.plain import tensor_shapes
from accord.ranks.group import Ranks
from accord.training.checkpoints import Checkpoint, State, digest_of

BETWEEN = 16
"""Steps between two looks at whether it is time to save, or somebody asked to stop: all ranks must know."""
FOLDER = ".ranks"
"""What is added to the name of a checkpoint: the folder with the parts."""


PART = re.compile(r"\d+-of-(\d+)\.[ab]\.safetensors")


class RanksCheckpoint(Checkpoint):
    """One rank's part of a checkpoint."""

    def __init__(self, given: Checkpoint, ranks: Ranks) -> None:
        super().__init__(given.path, given.seconds, given.optional, follows=given)
        self.identity, self.ranks, self._given = given.identity, ranks, given.path
        folder = _folder_of(given.path)
        self._parts = [folder / f"{ranks.rank}-of-{ranks.size}.{slot}.safetensors" for slot in "ab"]
        self._slot = self._asked = 0
        self._due = self._stopping = False

    @property
    def stop(self) -> bool:
        """Whether any rank was asked to stop, and all know it."""
        return self._stopping

    @stop.setter
    def stop(self, value: bool) -> None:
        self._stop = value

    def due(self) -> bool:
        """Whether it is time; asked between the steps, as often on every rank."""
        self._asked += 1
        if self._asked % BETWEEN:
            return False
        wishes = json.dumps([super().stop, super().due()])
        each = [json.loads(one) for one in self.ranks.texts(wishes)]
        self._stopping, self._due = any(stop for stop, _ in each), each[0][1] or any(stop for stop, _ in each)
        return self._due

    def write(self, state: State) -> None:
        self.path = self._parts[self._slot]

        def part() -> None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            Checkpoint.write(self, state)

        with self.ranks.sending("checkpoints"):
            self.ranks.agreed(part)
        self._slot = 1 - self._slot

    def read(self) -> State | None:
        """The last step of which every rank has its part."""
        self.ranks.agreed(lambda: refuse_other_ranks(self._given, self.ranks))
        with self.ranks.sending("checkpoints"):
            own = self.ranks.agreed(lambda: [self._step_of(path) for path in self._parts])
            each = [{tuple(step) for step in json.loads(one) if step} for one in self.ranks.texts(json.dumps(own))]
            common = set.intersection(*each)
            if not common:
                return None
            slot = own.index(list(max(common)))
            self.path, self._slot = self._parts[slot], 1 - slot
            return self.ranks.agreed(super().read)

    def remove(self) -> None:
        for path in self._parts:
            path.unlink(missing_ok=True)

    def _step_of(self, path: Path) -> list[int] | None:
        """Phase and step of a part; None where there is none, or it is damaged."""
        if not path.is_file():
            return None
        try:
            tensor_shapes(path)
            with safe_open(path, "pt") as file:
                notes: Any = json.loads((file.metadata() or {})["metadata"])
            return [int(notes["phase"]), int(notes["epoch"]), int(notes["steps"])]
        except (SafetensorError, OSError, KeyError, ValueError, TypeError):
            return None


def refuse_other_ranks(path: Path, ranks: Ranks) -> None:
    """Refuse the checkpoint of a training by another number of processes, which draws other batches."""
    found = PART.fullmatch(next((one.name for one in _folder_of(path).glob("*-of-*.safetensors")), ""))
    there = int(found[1]) if found else 1 if path.is_file() else None
    if there is not None and there != ranks.size:
        raise DataError(
            f"'{path.parent}' is the checkpoint of a training by {there} process(es), and this is one by "
            f"{ranks.size}; start as many as before, or remove it to begin anew."
        )


def _folder_of(path: Path) -> Path:
    return path.with_name(path.name + FOLDER)


def refuse_other_data(identity: list[Any], ranks: Ranks) -> None:
    """Ranks that read another log, or were given other settings, cannot train one model."""
    if ranks.many:
        ranks.refuse_unlike(digest_of(*identity))
