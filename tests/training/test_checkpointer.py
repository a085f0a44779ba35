"""A training that is stopped and resumed is the one that was not; a state tampered with is one sentence."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from accord.batches.clicks import ClickFeed
from accord.data.interactions import Interactions
from accord.errors import DataError, InterruptedRunError
from accord.estimators.settings import make_settings
from accord.methods import Phase, Setup, method_of
from accord.models import recommender_factory
from accord.models.stack import as_stack, stack
from accord.objectives import binary
from accord.training import Checkpoint, Run, TrainingOptions, checkpoints, seeded, training
from accord.training.checkpoints import State

USERS, ITEMS = 30, 20
Tamper = Callable[[dict[str, Any], dict[str, Tensor]], Any]


@pytest.fixture(scope="module")
def data() -> Interactions:
    pairs = np.unique(np.random.default_rng(0).integers(0, USERS * ITEMS, 200))
    return Interactions.from_pairs(pairs // ITEMS, pairs % ITEMS, USERS, ITEMS)


def members(role: str, architecture: str | None, runs: int) -> list[torch.nn.Module]:
    made = []
    for seed in range(runs):
        with seeded(seed, role):
            made.append(recommender_factory(architecture or "mf", dims=4)(USERS, ITEMS))
    return made


def trained(data: Interactions, runs: int, checkpoint: Checkpoint | None = None, steps: int | None = None) -> Any:
    """Train DeCA(p) to the end, or until so many steps are made; gives phases and runs."""
    setup = Setup("clicks", binary, make_settings("clicks", {}))
    method = method_of("deca-p", "clicks")().bound(setup)
    phases = method.phases(lambda role, architecture=None: stack(members(role, architecture, runs)))
    networks = dict.fromkeys(as_stack(one) for phase in phases for one in phase.networks.values())
    options = [TrainingOptions(epochs=3, batch_size=32, seed=k, learning_rate=0.01) for k in range(runs)]
    each = [Run(one, data, ClickFeed) for one in options]
    for count, _ in enumerate(training(phases, list(networks), [], each, checkpoint)):
        if steps is not None and count == steps and checkpoint is not None:
            checkpoint.stop = True
    return phases, each


def weights(phases: list[Phase]) -> Tensor:
    networks = [net for phase in phases for one in phase.networks.values() for net in as_stack(one).networks]
    return torch.cat([p.detach().flatten() for net in networks for p in net.parameters()])


def stopped(data: Interactions, path: Path, runs: int, steps: int) -> None:
    with pytest.raises(InterruptedRunError, match="stopped in epoch"):
        trained(data, runs, Checkpoint(path), steps)


@pytest.mark.parametrize("steps", [0, 4, 12, 30, 40])
@pytest.mark.parametrize("runs", [1, 3])
def test_a_training_that_is_resumed_is_the_one_that_was_not_stopped(
    runs: int, steps: int, data: Interactions, tmp_path: Path
) -> None:
    stopped(data, tmp_path / "state", runs, steps)
    phases, each = trained(data, runs, Checkpoint(tmp_path / "state"))
    whole, of_whole = trained(data, runs)
    assert torch.equal(weights(phases), weights(whole))
    for ours, theirs in zip(each, of_whole, strict=True):
        assert [r["loss"] for r in ours.history] == [r["loss"] for r in theirs.history]


def drop(name: str) -> Tamper:
    return lambda metadata, tensors: metadata.pop(name)


def put(name: str, value: Any) -> Tamper:
    return lambda metadata, tensors: metadata.update({name: value})


def cut(start: str) -> Tamper:
    """Cut the first tensor of a kind."""

    def change(metadata: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        name = next(name for name in sorted(tensors) if name.startswith(start))
        tensors[name] = tensors[name].flatten()[:1].clone()

    return change


def lose(start: str) -> Tamper:
    """Lose the first tensor of a kind."""
    return lambda metadata, tensors: tensors.pop(next(n for n in sorted(tensors) if n.startswith(start)))


def of_runs(name: str, value: Any) -> Tamper:
    return lambda metadata, tensors: metadata["runs"][0].update({name: value})


@pytest.mark.parametrize(
    "tamper",
    [
        *(drop(name) for name in ("phase", "runs", "epoch", "steps", "first", "begun")),
        *(put("phase", value) for value in (0, 3, None, "two")),
        *(put("runs", value) for value in ([], None, [1, 2], {})),
        *(put("begun", value) for value in ([], [1, 0], [0, 0], [0, 7], [-1], None)),
        *(put("epoch", value) for value in (-1, None, "x")),
        put("first", 10**6),
        *(of_runs("history", value) for value in (None, [1], 3)),
        of_runs("best", "much"),
        *(cut(start) for start in ("network/", "optimiser/", "stream/", "total")),
        *(lose(start) for start in ("network/", "optimiser/", "stream/", "total")),
    ],
)
def test_a_state_tampered_with_is_one_sentence(tamper: Tamper, data: Interactions, tmp_path: Path) -> None:
    stopped(data, tmp_path / "state", 2, 30)
    checkpoint = Checkpoint(tmp_path / "state")
    state = checkpoint.read()
    assert state is not None
    metadata, tensors = copy.deepcopy(state.metadata), dict(state.tensors)
    tamper(metadata, tensors)
    checkpoint.write(State(metadata, tensors))
    with pytest.raises(DataError, match="remove it to begin anew") as error:
        trained(data, 2, Checkpoint(tmp_path / "state"))
    assert "\n" not in str(error.value)


def test_another_trainings_file_and_no_file_of_ours_are_refused(data: Interactions, tmp_path: Path) -> None:
    stopped(data, tmp_path / "state", 1, 4)
    other = Checkpoint(tmp_path / "state")
    other.identity = "another"
    with pytest.raises(DataError, match="belongs to another run"):
        trained(data, 1, other)
    (tmp_path / "text").write_text("no checkpoint")
    with pytest.raises(DataError, match="is damaged"):
        trained(data, 1, Checkpoint(tmp_path / "text"))
    phases, _ = trained(data, 1, Checkpoint(tmp_path / "text", optional=True))  # nobody asked for it
    assert torch.equal(weights(phases), weights(trained(data, 1)[0]))


def test_large_tensors_are_written_from_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LARGE_TENSOR", 8)
    table = torch.arange(12.0).view(3, 4)
    state = {"own": table, "again": table, "part": table[1:], "turned": table.T, "small": torch.ones(1)}
    written = checkpoints._plain(state)
    assert written["own"].data_ptr() == table.data_ptr()
    assert not {written[name].data_ptr() for name in state if name != "own"} & {
        t.data_ptr() for t in state.values()
    }
    checkpoint = Checkpoint(tmp_path / "x")
    checkpoint.write(State({}, state))
    saved = checkpoint.read()
    assert saved is not None
    assert all(torch.equal(saved.tensors[name], tensor) for name, tensor in state.items())
