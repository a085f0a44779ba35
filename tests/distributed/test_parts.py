"""One rank's part of a checkpoint, beside what the other rank says that it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from accord.ranks.group import Ranks
from accord.training.checkpoints import Checkpoint, State
from accord.training.ranks_checkpoint import BETWEEN, RanksCheckpoint


class WithAnother(Ranks):
    """The first of two ranks; the other one says what a test lets it say."""

    def __init__(self, said: Any) -> None:
        super().__init__(0, 2)
        self.said = said

    def texts(self, text: str) -> list[str]:
        return [text, json.dumps(self.said)]

    def agreed(self, work: Callable[[], Any]) -> Any:
        return work()


def part(path: Path, said: Any = None) -> RanksCheckpoint:
    given = Checkpoint(path / "checkpoint.safetensors", seconds=0.0)
    given.identity = "same"
    return RanksCheckpoint(given, WithAnother(said))


def state(step: int) -> State:
    return State({"phase": 1, "epoch": 0, "steps": step}, {"weights": torch.full((2,), float(step))})


def step_of(found: State | None) -> int | None:
    return None if found is None else int(found.metadata["steps"])


def test_the_last_step_that_both_have_is_resumed_and_stays_until_both_have_the_next(tmp_path: Path) -> None:
    first = part(tmp_path)
    for step in (16, 32, 48):
        first.write(state(step))
    own = sorted(one.name for one in (tmp_path / "checkpoint.safetensors.ranks").iterdir())
    assert own == ["0-of-2.a.safetensors", "0-of-2.b.safetensors"]
    behind = [[1, 0, 32], [1, 0, 16]]  # it was killed before it wrote step 48
    second = part(tmp_path, behind)
    assert step_of(second.read()) == 32
    second.write(state(40))  # in place of 48, which is no use
    assert step_of(part(tmp_path, behind).read()) == 32
    assert step_of(part(tmp_path, [[1, 0, 40], [1, 0, 32]]).read()) == 40
    assert part(tmp_path, [None, None]).read() is None
    second.remove()
    assert part(tmp_path, behind).read() is None


def test_a_part_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    one = part(tmp_path, [[1, 0, 16], [1, 0, 32]])
    for step in (16, 32):
        one.write(state(step))
    newest = tmp_path / "checkpoint.safetensors.ranks" / "0-of-2.b.safetensors"
    newest.write_bytes(newest.read_bytes()[:20])
    assert step_of(part(tmp_path, [[1, 0, 16], [1, 0, 32]]).read()) == 16


def test_all_ranks_look_at_the_same_steps_and_stop_if_one_was_asked_to(tmp_path: Path) -> None:
    one = part(tmp_path, [False, False])
    assert [one.due() for _ in range(2 * BETWEEN)].count(True) == 2  # due at once, and asked as often as the other
    assert not one.stop
    other = part(tmp_path, [True, False])
    assert [other.due() for _ in range(BETWEEN)] == [False] * (BETWEEN - 1) + [True]
    assert other.stop
