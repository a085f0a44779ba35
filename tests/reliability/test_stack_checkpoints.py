"""A stack that dies is resumed where it was: the same bytes as if it had never stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import DataError
from accord.estimators import fit_together
from accord.experiments.compare import compare
from accord.experiments.study import CHECKPOINTS, Study
from accord.experiments.tuning import Tuning, tune
from accord.tasks.clicks import ClickTask
from accord.tasks.labels import LabelTask
from accord.training import checkpoints, phase_trainer
from accord.training.checkpoints import Checkpoint, Checkpoints

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]
QUICK: dict[str, Any] = {"epochs": 5, "patience": 2, "batch_size": 512, "dims": 8}


class Killed(BaseException):
    """As Ctrl-C or the end of a process."""


@pytest.fixture(autouse=True)
def after_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(phase_trainer, "CALLBACK_SECONDS", math.inf)  # callbacks at the end of every epoch alone


def until(calls: int) -> Any:
    """A callback that dies when it was called so many times: after each epoch."""
    left = [calls]

    def callback(progress: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise Killed

    return callback


def noted(seen: list[int]) -> Any:
    return lambda progress: seen.append(progress.epoch)


def weights(fitted: Any) -> torch.Tensor:
    return torch.cat(
        [t.detach().flatten().float() for n in fitted.networks_.values() for t in n.state_dict().values()]
    )


def histories(fitted: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if not k.endswith("_seconds")} for record in fitted.history_]


def assert_same(ones: Sequence[Any], others: Sequence[Any]) -> None:
    for one, other in zip(ones, others, strict=True):
        assert histories(one) == histories(other)
        assert torch.equal(weights(one), weights(other))


def recommenders(model: str, method: str, device: str) -> list[Recommender]:
    """Two that share DeCA(p)'s prior, and two that stop at other epochs."""
    varied = [{"learning_rate": 0.01}, {"learning_rate": 0.01, "c1": 1.0}, {"learning_rate": 0.1}, {"seed": 3}]
    return [Recommender(model=model, method=method, device=device, **QUICK, **own) for own in varied]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("model", "method", "epochs"),
    [
        ("gmf", "deca-p", 1),
        ("gmf", "deca-p", 4),
        ("gmf", "deca-p", 7),
        ("gmf", "ensemble", 6),
        ("gmf", "wbpr", 3),
        ("gmf", "r-ce", 3),
        ("neumf", "normal", 2),
        ("cdae", "deca", 2),
        ("lightgcn", "t-ce", 3),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_a_stack_of_recommenders_is_resumed(
    model: str, method: str, epochs: int, device: str, made: Simulation, tmp_path: Path
) -> None:
    whole = fit_together(recommenders(model, method, device), {"log": made.log()})
    if (model, method) == ("gmf", "deca-p"):
        assert len({len(rec.history_) for rec in whole}) > 1  # some leave before others
    callbacks = [*[None] * 3, until(epochs)]
    with pytest.raises(Killed):
        fit_together(
            recommenders(model, method, device),
            {"log": made.log()},
            callbacks=callbacks,
            checkpoint=Checkpoints(tmp_path),
        )
    assert len(list(tmp_path.iterdir())) == 1
    seen: list[int] = []
    callbacks, where = [*[None] * 3, noted(seen)], Checkpoints(tmp_path)
    again = fit_together(
        recommenders(model, method, device), {"log": made.log()}, callbacks=callbacks, checkpoint=where
    )
    assert len(seen) == len(whole[3].history_) - epochs
    assert_same(whole, again)
    where.forget()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("model", "method"), [("gmf", "deca-p"), ("neumf", "deca"), ("cdae", "normal")])
def test_a_stack_is_resumed_in_the_middle_of_an_epoch(
    model: str, method: str, made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fit_together(recommenders(model, method, "cpu"), {"log": made.log()})
    monkeypatch.setattr(phase_trainer, "CALLBACK_SECONDS", -1.0)  # and now after every step, too
    runs, kills = [], 0
    for steps in (3, 17, 40, None):
        runs = recommenders(model, method, "cpu")
        callbacks = [*[None] * 3, None if steps is None else until(steps)]
        try:
            fit_together(runs, {"log": made.log()}, callbacks=callbacks, checkpoint=Checkpoints(tmp_path))
        except Killed:
            kills += 1
    assert kills >= 2
    assert_same(whole, runs)


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(260) % 3
    return (rng.normal(size=(260, 7)) + labels[:, None]).astype(np.float32), labels


@pytest.mark.parametrize("method", ["normal", "ensemble", "itlm", "mw-net", "deca-p", "deca"])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_a_stack_of_classifiers_is_resumed(method: str, epochs: int, device: str, tmp_path: Path) -> None:
    X, y = examples()
    clean = (X[:20], y[:20]) if method == "mw-net" else None
    more = {"model": "mlp", "method": method, "epochs": 8, "patience": 3, "rounds": 4}
    more |= {"batch_size": 50, "device": device}

    def fit(last: Any = None, place: Path | None = None) -> list[Classifier]:
        runs = [Classifier(**more, learning_rate=rate, seed=k) for k, rate in enumerate((1e-6, 3e-3, 1e-3))]
        source = {"X": X, "y": y, "clean": clean, "eval_set": (X, y)}
        where = None if place is None else Checkpoints(place)
        fit_together(runs, source, callbacks=[None, None, last], checkpoint=where)
        if where is not None:
            where.forget()
        return runs

    whole = fit()
    with pytest.raises(Killed):
        fit(until(epochs), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    seen: list[int] = []
    assert_same(whole, fit(noted(seen), tmp_path))
    assert len(seen) == len(whole[2].history_) - epochs
    assert not list(tmp_path.iterdir())


def test_classifiers_that_are_no_stack_are_resumed(tmp_path: Path) -> None:
    _, y = examples()
    images = (np.random.default_rng(0).normal(size=(260, 4, 4)) + y[:, None, None]).astype(np.float32)
    more = {"model": "convnet", "method": "normal", "epochs": 3, "batch_size": 50, "device": "cpu"}

    def fit(last: Any = None, place: Path | None = None) -> list[Classifier]:
        runs = [Classifier(**more, seed=k) for k in range(2)]
        where = None if place is None else Checkpoints(place)
        fit_together(runs, {"X": images, "y": y}, callbacks=[None, last], checkpoint=where)
        if where is not None:
            where.forget()
        return runs

    whole = fit()
    with pytest.raises(Killed):
        fit(until(2), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # the first, done or not, is not known to be safe
    assert_same(whole, fit(place=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", ["clicks", "labels"])
@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_a_search_and_a_comparison_are_resumed_inside_a_stack(
    task: str, sampler: str, made: Simulation, tmp_path: Path
) -> None:
    if task == "clicks":
        study: Any = Study(ClickTask(made.log()), ["deca-p"], ["gmf"], settings=QUICK, seeds=2)
    else:
        more = {"epochs": 5, "batch_size": 50, "device": "cpu"}
        study = Study(LabelTask(*examples(), noise=0.3), ["deca-p"], ["mlp"], settings=more, seeds=2)
    tuning = Tuning(study, trials=3, space={"c1": (1.0, 10.0, 100.0)}, alone=True, sampler=sampler)
    values = [row["value"] for row in tune(tuning, tmp_path / "whole")["rows"]]
    with pytest.raises(Killed):
        tune(tuning, tmp_path / "search", callback=lambda trial, seed: until(3))
    assert len(list((tmp_path / "search" / CHECKPOINTS).iterdir())) == 1
    seen: list[int] = []
    found = tune(tuning, tmp_path / "search", callback=lambda trial, seed: noted(seen))
    assert [row["value"] for row in found["rows"]] == values
    assert seen[0] > 1
    assert not (tmp_path / "search" / CHECKPOINTS).exists()

    whole = compare(study, tmp_path / "cells")["rows"][0]["metrics"]
    with pytest.raises(Killed):
        compare(study, tmp_path / "again", lambda *cell: until(4))
    assert len(list((tmp_path / "again" / CHECKPOINTS).iterdir())) == 1
    assert compare(study, tmp_path / "again")["rows"][0]["metrics"] == whole
    assert not (tmp_path / "again" / CHECKPOINTS).exists()


def test_rows_that_are_empty_stay_so(made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where a stack is not made smaller for one that leaves."""
    monkeypatch.setitem(phase_trainer.EMPTY_SHARE, "cpu", 0.75)
    test_a_stack_of_recommenders_is_resumed("gmf", "deca-p", 4, "cpu", made, tmp_path)


def test_runs_alike_that_diverged_together_stay_together(
    made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = phase_trainer.diverged

    def lost(loss: float, fine: bool, epoch: int, phase: str, options: Any) -> Any:
        return sound(loss, fine and not (options.seed == 0 and epoch == 2), epoch, phase, options)

    monkeypatch.setattr(phase_trainer, "diverged", lost)

    def fit(last: Any = None, place: Path | None = None) -> tuple[list[Recommender], list[int]]:
        runs = [Recommender(method="deca-p", **QUICK, seed=s, c1=c1) for s in (0, 3) for c1 in (1.0, 10.0)]
        errors: dict[int, Any] = {}
        where = None if place is None else Checkpoints(place)
        fit_together(
            runs,
            {"log": made.log()},
            callbacks=[None, None, None, last],
            failed=errors.__setitem__,
            checkpoint=where,
        )
        return runs[2:], sorted(errors)

    whole, errors = fit()
    assert errors == [0, 1]
    with pytest.raises(Killed):
        fit(until(4), tmp_path)
    again, errors = fit(place=tmp_path)
    assert errors == [0, 1]
    assert_same(whole, again)


def test_another_stack_begins_anew_and_so_does_one_whose_file_is_damaged(made: Simulation, tmp_path: Path) -> None:
    def fit(seed: int, callback: Any = None) -> None:
        pair = [Recommender(method="normal", **QUICK, seed=seed + k) for k in range(2)]
        where = Checkpoints(tmp_path)
        fit_together(pair, {"log": made.log()}, callbacks=[callback, None], checkpoint=where)
        where.forget()

    with pytest.raises(Killed):
        fit(0, until(2))
    (first,) = tmp_path.iterdir()
    seen: list[int] = []
    fit(5, noted(seen))
    assert seen[0] == 1
    assert list(tmp_path.iterdir()) == [first]
    first.write_bytes(first.read_bytes()[:1000])
    seen.clear()
    fit(0, noted(seen))
    assert seen[0] == 1
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_asked_for_is_refused_where_it_is_damaged(made: Simulation, tmp_path: Path) -> None:
    pair = [Recommender(method="normal", **QUICK, seed=k) for k in range(2)]
    (tmp_path / "stack").write_bytes(b"nothing")
    with pytest.raises(DataError, match="is damaged"):
        fit_together(pair, {"log": made.log()}, checkpoint=tmp_path / "stack")
    (tmp_path / "stack").unlink()
    fit_together(pair, {"log": made.log()}, checkpoint=tmp_path / "stack")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_stops_no_study(
    made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoints, "write_tensors", full)
    study = Study(ClickTask(made.log()), ["normal"], ["gmf"], settings=QUICK, seeds=2)
    assert compare(study, tmp_path)["rows"][0]["seeds"] == 2
    with pytest.raises(DataError, match="No space left"):
        Recommender(method="normal", **QUICK).fit(made.log(), checkpoint=tmp_path / "run")


def test_a_stack_too_large_is_not_saved(made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LARGEST", 1000)
    pair = [Recommender(method="normal", **QUICK, seed=k) for k in range(2)]
    with pytest.raises(Killed):
        fit_together(pair, {"log": made.log()}, callbacks=[until(2), None], checkpoint=Checkpoints(tmp_path))
    assert not list(tmp_path.iterdir())
