"""A run in a stack is the run alone: the same chosen epoch, and the same weights but for rounding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from accord import Recommender
from accord.data.simulator import Simulation
from accord.estimators import fit_together
from accord.estimators.fitting import stack_key, together
from accord.experiments.compare import compare
from accord.experiments.study import Study
from accord.methods import method_of
from accord.tasks.clicks import ClickTask
from accord.training import phase_trainer, stepping

QUICK: dict[str, Any] = {"epochs": 6, "patience": 2, "batch_size": 512, "dims": 8, "device": "cpu"}
VARIED: list[dict[str, Any]] = [
    {
        "seed": 0,
        "learning_rate": 0.003,
        "l2": 0.06,
        "c0": 1.0,
        "c1": 10.0,
        "alpha": 0.5,
        "drop_rate": 0.3,
        "beta": 0.2,
    },
    {"seed": 1, "learning_rate": 0.01, "l2": 1.0, "c0": 10.0, "c1": 1.0, "alpha": 0.0, "beta": 0.1},
    {"seed": 2, "learning_rate": 0.03, "l2": 0.0, "c0": 100.0, "c1": 100.0, "alpha": 1.0},
]


def weights(rec: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for net in rec.networks_.values() for p in net.parameters()])


def varied(method: str) -> list[dict[str, Any]]:
    """What may differ between the runs of a method."""
    may = {"seed", "learning_rate", "l2", *method_of(method, "clicks").may_differ}
    return [{name: value for name, value in one.items() if name in may} for one in VARIED]


def recommenders(model: str, method: str) -> list[Recommender]:
    return [Recommender(model=model, method=method, **{**QUICK, **one}) for one in varied(method)]


@pytest.fixture
def double() -> Iterator[None]:
    """Networks in double precision, where what rounding and Adam make of a difference stays small."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "lightgcn", "cdae"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p"])
def test_a_run_in_a_stack_is_the_run_alone(
    model: str, method: str, made: Simulation, phases_seen: list[tuple[str, int]]
) -> None:
    stacked = fit_together(recommenders(model, method), {"log": made.log()})
    assert weights(stacked[0]).dtype == torch.float64
    assert [runs for _, runs in phases_seen] == [3] * len({r["phase"] for r in stacked[0].history_})
    lengths = set()
    for rec, alone in zip(stacked, recommenders(model, method), strict=True):
        alone.fit(made.log())
        lengths.add(len(alone.history_))
        assert [(r["phase"], r["epoch"]) for r in rec.history_] == [
            (r["phase"], r["epoch"]) for r in alone.history_
        ]
        assert [r["is_best"] for r in rec.history_] == [r["is_best"] for r in alone.history_]
        assert [r["loss"] for r in rec.history_] == pytest.approx([r["loss"] for r in alone.history_], rel=1e-7)
        assert torch.allclose(weights(rec), weights(alone), rtol=0, atol=1e-6)
        assert rec.find_label_issues().num_rows == alone.find_label_issues().num_rows
    if model == "gmf" and method == "normal":
        assert len(lengths) > 1  # some stopped early and left the stack


def pair_of(model: str = "gmf", **more: Any) -> list[Recommender]:
    return [Recommender(model=model, method="normal", **{**QUICK, "seed": seed, **more}) for seed in (0, 1)]


def fitted_as(pair: list[Recommender], log: Any) -> list[torch.Tensor]:
    """The weights of two that are fitted together and of the same two alone."""
    alone = [Recommender(**rec.settings.model_dump()) for rec in pair]
    fit_together(pair, {"log": log})
    return [weights(rec) for rec in (*pair, *(rec.fit(log) for rec in alone))]


def test_those_who_differ_in_more_than_numbers_are_trained_alone(
    made: Simulation, phases_seen: list[tuple[str, int]]
) -> None:
    pair = [Recommender(method="normal", **QUICK), Recommender(method="normal", **{**QUICK, "dims": 4})]
    assert stack_key(pair[0]) != stack_key(pair[1])
    first, second, *alone = fitted_as(pair, made.log())
    assert torch.equal(first, alone[0])
    assert torch.equal(second, alone[1])
    assert phases_seen == [("training", 1)] * 4


def test_what_may_be_one_stack() -> None:
    assert stack_key(Recommender(method="popularity")) is None
    assert stack_key(Recommender(model=lambda users, items: torch.nn.Linear(1, 1))) is None
    apart = [{"epochs": 7}, {"method": "deca"}, {"model": "mf"}]
    assert all(stack_key(Recommender(**one)) != stack_key(Recommender()) for one in apart)
    assert stack_key(Recommender(method="t-ce", ramp_epochs=3)) != stack_key(Recommender(method="t-ce"))
    assert stack_key(Recommender(method="r-ce", beta=0.3)) == stack_key(Recommender(method="r-ce"))
    alike = [{"seed": 3}, {"learning_rate": 0.5}, {"l2": 9.0}, {"c0": 2.0}, {"alpha": 0.1}]
    alike.append({"ramp_epochs": 3})  # DeCA(p) does not read it
    assert {stack_key(Recommender(**one)) for one in alike} == {stack_key(Recommender())}


def test_rows_longer_than_a_batch_are_not_stacked(made: Simulation, phases_seen: list[tuple[str, int]]) -> None:
    """Such passes have no length that is known before."""
    pair = pair_of("cdae", batch_size=4, updates="dense", epochs=1)
    first, second, *alone = fitted_as(pair, made.log().slice(0, 1000))
    assert torch.equal(first, alone[0])
    assert torch.equal(second, alone[1])
    assert phases_seen == [("training", 1)] * 4


def test_lightgcn_is_not_stacked_over_different_graphs(
    made: Simulation, phases_seen: list[tuple[str, int]]
) -> None:
    """Without times each seed holds out other clicks."""
    log = made.log().select(["user", "item"])
    first, second, *alone = fitted_as(pair_of("lightgcn", epochs=2), log)
    assert torch.equal(first, alone[0])
    assert torch.equal(second, alone[1])
    assert phases_seen == [("training", 1)] * 4
    phases_seen.clear()
    first, second, *alone = fitted_as(pair_of("gmf"), log)
    assert torch.allclose(first, alone[0], rtol=1e-2, atol=1e-4)
    assert torch.allclose(second, alone[1], rtol=1e-2, atol=1e-4)
    assert phases_seen == [("training", 2), ("training", 1), ("training", 1)]
    task = ClickTask(log)
    study = Study(task, ["normal"], ["lightgcn"], settings={**QUICK, "epochs": 1})
    settings = [study.settings_of("lightgcn", "normal", seed) for seed in (0, 1)]
    assert len(study.validate(settings, "normal", [None, None])) == 2


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_runs_of_a_stack_may_have_logs_of_their_own(
    model: str, made: Simulation, phases_seen: list[tuple[str, int]]
) -> None:
    """Noise samples, for example: the same users and items, as many clicks."""
    logs = [made.log(), made.log().slice(1)]
    logs[0] = logs[0].slice(0, len(logs[0]) - 1)
    truth, known = made.truth(), made.log()
    stacked = fit_together(pair_of(model), [{"log": log, "valid": truth, "known": known} for log in logs])
    assert phases_seen == [("training", 2)]
    for seed, rec in enumerate(stacked):
        alone = Recommender(model=model, method="normal", **{**QUICK, "seed": seed})
        alone.fit(logs[seed], valid=made.truth(), known=made.log())
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_runs_that_hold_out_clicks_of_their_own_are_measured_on_them(model: str, made: Simulation) -> None:
    log = made.log().select(["user", "item"])  # without times each seed holds out other clicks
    runs = [Recommender(model=model, method="normal", **{**QUICK, "seed": seed}) for seed in range(3)]
    for seed, rec in enumerate(fit_together(runs, {"log": log})):
        alone = Recommender(model=model, method="normal", **{**QUICK, "seed": seed}).fit(log)
        ours, theirs = ([r["valid"]["ndcg@20"] for r in one.history_] for one in (rec, alone))
        assert ours == pytest.approx(theirs, abs=2e-3)


def test_tables_that_a_run_alone_updates_by_rows_are_not_stacked(
    made: Simulation, phases_seen: list[tuple[str, int]]
) -> None:
    log = made.log()
    first, second, *alone = fitted_as(pair_of(updates="rows", epochs=2), log)
    assert torch.equal(first, alone[0])
    assert torch.equal(second, alone[1])
    assert phases_seen == [("training", 1)] * 4
    for more, several in (
        ({"updates": "rows"}, False),
        ({"batch_size": 10}, False),
        ({"batch_size": 10, "updates": "dense"}, True),
    ):
        assert (together(Recommender(**QUICK | more), {"log": log}) > 1) == several


@pytest.mark.parametrize("restore", ["best", "last"])
def test_a_run_that_stopped_is_not_changed_while_its_place_is_empty(
    restore: str, made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where a stack is made smaller when a part of its places is empty."""
    monkeypatch.setitem(phase_trainer.EMPTY_SHARE, "cpu", 0.9)
    settings = {**QUICK, "epochs": 12, "patience": 1, "restore": restore, "method": "normal", "model": "mf"}
    rates = (0.001, 0.01, 0.05, 0.1)
    runs = [Recommender(**settings, learning_rate=rate) for rate in rates]
    stacked = fit_together(runs, {"log": made.log()})
    assert len({len(rec.history_) for rec in stacked}) > 1
    for rec, rate in zip(stacked, rates, strict=True):
        alone = Recommender(**settings, learning_rate=rate).fit(made.log())
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("model", ["gmf", "lightgcn", "cdae"])
def test_runs_that_differ_in_their_constants_share_a_prior(
    model: str, made: Simulation, phases_seen: list[tuple[str, int]], asked_together: list[int]
) -> None:
    each = [{"c1": 1.0}, {"c1": 100.0}, {"learning_rate": 0.02}, {"alpha": 1.0}, {"seed": 1}]
    settings = {**QUICK, "model": model, "learning_rate": 0.01}
    seen: list[list[tuple[str, int]]] = [[] for _ in each]
    callbacks: list[Any] = [lambda now, own=own: own.append((now.phase, now.epoch)) for own in seen]
    made_of = [Recommender(**settings | one) for one in each]
    stacked = fit_together(made_of, {"log": made.log()}, callbacks=callbacks)
    assert phases_seen == [("prior", 3), ("denoising", 5)]
    assert asked_together[0] == max(asked_together) == 3
    for rec, own, one in zip(stacked, seen, each, strict=True):
        alone = Recommender(**settings | one).fit(made.log())
        own = list(dict.fromkeys(own))  # a callback is called within epochs too
        assert own == [(r["phase"], r["epoch"]) for r in alone.history_]
        assert own == [(r["phase"], r["epoch"]) for r in rec.history_]
        assert [r["is_best"] for r in rec.history_] == [r["is_best"] for r in alone.history_]
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)


def test_a_prior_that_diverges_ends_all_that_share_it(made: Simulation, phases_seen: list[tuple[str, int]]) -> None:
    settings = {**QUICK, "model": "mf", "init_std": 1e18}  # its scores are no numbers
    runs = [Recommender(**settings, c1=c1) for c1 in (1.0, 10.0)]
    failed: list[int] = []
    fit_together(runs, {"log": made.log()}, failed=lambda run, error: failed.append(run))
    assert phases_seen[0] == ("prior", 1)
    assert failed == [0, 1]


def test_the_seeds_of_a_comparison_are_stacked(made: Simulation, tmp_path: Path) -> None:
    """A table is the same whether its cells are trained together or alone."""

    def study(seeds: int) -> Study:
        task = ClickTask(made.log(), [made.truth()])
        return Study(task, ["normal", "deca-p"], ["gmf"], seeds=seeds, settings=QUICK)

    whole = compare(study(3), tmp_path / "whole")
    compare(study(1), tmp_path / "steps")
    steps = compare(study(3), tmp_path / "steps")
    for ours, theirs in zip(whole["rows"], steps["rows"], strict=True):
        for name, value in ours["metrics"].items():
            assert value["mean"] == pytest.approx(theirs["metrics"][name]["mean"], abs=2e-3)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@needs_gpu
@pytest.mark.parametrize("model", ["gmf", "neumf", "lightgcn", "cdae"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "deca", "deca-p"])
def test_a_captured_stack_is_the_run_alone_and_the_same_bytes_twice(
    model: str, method: str, made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(**more: Any) -> list[Recommender]:
        made_of = [{**QUICK, **one, "batch_size": 256, "device": "cuda", **more} for one in varied(method)]
        return [Recommender(model=model, method=method, **one) for one in made_of]

    stacked, again = (fit_together(runs(), {"log": made.log()}) for _ in range(2))
    short = fit_together(runs(epochs=2), {"log": made.log()})
    monkeypatch.setattr(stepping, "WARM_UP", 10**9)  # no step is ever captured
    plain = fit_together(runs(), {"log": made.log()})
    for rec, other, uncaptured in zip(stacked, again, plain, strict=True):
        assert torch.equal(weights(rec), weights(other))
        assert torch.equal(weights(rec), weights(uncaptured))
    # Alone, other kernels do the products; Adam makes more of rounding with every epoch.
    for rec, alone in zip(short, runs(epochs=2), strict=True):
        alone.fit(made.log())
        assert [r["loss"] for r in rec.history_] == pytest.approx([r["loss"] for r in alone.history_], rel=5e-3)
        apart = 5e-2 if method == "t-ce" else 5e-3  # of two clicks at T-CE's cut, rounding may keep the other
        assert torch.dist(weights(rec), weights(alone)) < apart * weights(alone).norm()
