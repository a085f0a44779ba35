"""A run in a stack is the run alone: the same chosen epoch, and the same weights but for rounding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accord.estimators.stacking import Source, can_stack, fit_stacked, stack_size

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import SettingError
from accord.experiments import Comparison, compare
from accord.training import stacking, stepping

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
        "beta": 0.1,
    },
    {"seed": 1, "learning_rate": 0.01, "l2": 1.0, "c0": 10.0, "c1": 1.0, "alpha": 0.0, "beta": 0.1},
    {"seed": 2, "learning_rate": 0.03, "l2": 0.0, "c0": 100.0, "c1": 100.0, "alpha": 1.0},
]


def weights(rec: Recommender) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for net in rec.networks_.values() for p in net.parameters()])


def recommenders(model: str, method: str) -> list[Recommender]:
    return [Recommender(model=model, method=method, **{**QUICK, **one}) for one in VARIED]


@pytest.fixture
def double() -> Iterator[None]:
    """Networks in double precision, where what rounding and Adam make of a difference stays small."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "lightgcn", "cdae"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p"])
def test_a_run_in_a_stack_is_the_run_alone(model: str, method: str, made: Simulation) -> None:
    stacked = fit_stacked(recommenders(model, method), Source(made.log()))
    assert weights(stacked[0]).dtype == torch.float64
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


def test_what_cannot_be_stacked_is_refused(made: Simulation) -> None:
    pair = [Recommender(method="normal", **QUICK), Recommender(method="normal", **{**QUICK, "dims": 4})]
    assert not can_stack(pair)
    with pytest.raises(SettingError, match="cannot be stacked"):
        fit_stacked(pair, Source(made.log()))
    short = [
        Recommender(model="cdae", **{**QUICK, "seed": seed, "batch_size": 4, "updates": "dense"}) for seed in (0, 1)
    ]
    with pytest.raises(SettingError, match="more clicks than a batch"):
        fit_stacked(short, Source(made.log()))


def test_lightgcn_is_not_stacked_over_different_graphs(made: Simulation) -> None:
    """Without times each seed holds out other clicks."""
    log = made.log().select(["user", "item"])
    pair = [Recommender(model="lightgcn", method="normal", **{**QUICK, "seed": seed}) for seed in (0, 1)]
    with pytest.raises(SettingError, match="shares one graph"):
        fit_stacked(pair, Source(log))
    factors = [Recommender(model="gmf", method="normal", **{**QUICK, "seed": seed}) for seed in (0, 1)]
    alone = Recommender(model="gmf", method="normal", **{**QUICK, "seed": 1}).fit(log)
    assert torch.allclose(weights(fit_stacked(factors, Source(log))[1]), weights(alone), rtol=1e-2, atol=1e-4)
    study = Comparison(log, ["normal"], models=["lightgcn"], settings={**QUICK, "epochs": 1})
    settings = [study.settings_of("lightgcn", "normal", seed) for seed in (0, 1)]
    assert len(study.validate(settings, "normal", [None, None])) == 2


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_runs_of_a_stack_may_have_logs_of_their_own(model: str, made: Simulation) -> None:
    """Noise samples, for example: the same users and items, as many clicks."""
    logs = [made.log(), made.log().slice(1)]
    logs[0] = logs[0].slice(0, len(logs[0]) - 1)
    each = [Source(log, valid=made.truth(), known=made.log()) for log in logs]
    pair = [Recommender(model=model, method="normal", **{**QUICK, "seed": seed}) for seed in (0, 1)]
    stacked = fit_stacked(pair, each)
    for seed, rec in enumerate(stacked):
        alone = Recommender(model=model, method="normal", **{**QUICK, "seed": seed})
        alone.fit(logs[seed], valid=made.truth(), known=made.log())
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_runs_that_hold_out_clicks_of_their_own_are_measured_on_them(model: str, made: Simulation) -> None:
    log = made.log().select(["user", "item"])  # without times each seed holds out other clicks
    runs = [Recommender(model=model, method="normal", **{**QUICK, "seed": seed}) for seed in range(3)]
    for seed, rec in enumerate(fit_stacked(runs, Source(log))):
        alone = Recommender(model=model, method="normal", **{**QUICK, "seed": seed}).fit(log)
        ours, theirs = ([r["valid"]["ndcg@20"] for r in one.history_] for one in (rec, alone))
        assert ours == pytest.approx(theirs, abs=2e-3)


def test_tables_that_a_run_alone_updates_by_rows_are_not_stacked(made: Simulation) -> None:
    pair = [Recommender(**{**QUICK, "seed": seed, "updates": "rows"}) for seed in (0, 1)]
    with pytest.raises(SettingError, match="updated by rows"):
        fit_stacked(pair, Source(made.log()))
    settings = pair[0].settings.model_copy(update={"updates": "auto", "batch_size": 10})
    assert stack_size(settings, 300, 250) == 1
    assert stack_size(settings.model_copy(update={"updates": "dense"}), 300, 250) > 1


@pytest.mark.parametrize("restore", ["best", "last"])
def test_a_run_that_stopped_is_not_changed_while_its_place_is_empty(
    restore: str, made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where a stack is made smaller when a part of its places is empty."""
    monkeypatch.setitem(stacking.EMPTY_SHARE, "cpu", 0.9)
    settings = {**QUICK, "epochs": 12, "patience": 1, "restore": restore, "method": "normal", "model": "mf"}
    rates = (0.001, 0.01, 0.05, 0.1)
    runs = [Recommender(**settings, learning_rate=rate) for rate in rates]
    stacked = fit_stacked(runs, Source(made.log()))
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
    told: list[list[tuple[str, int]]] = [[] for _ in each]
    hooks: list[Any] = [lambda now, own=own: own.append((now.phase, now.epoch)) for own in told]
    stacked = fit_stacked([Recommender(**settings | one) for one in each], Source(made.log()), hooks=hooks)
    assert phases_seen == [("prior", 3), ("denoising", 5)]
    assert asked_together[0] == max(asked_together) == 3
    for rec, own, one in zip(stacked, told, each, strict=True):
        alone = Recommender(**settings | one).fit(made.log())
        assert own == [(r["phase"], r["epoch"]) for r in alone.history_]
        assert own == [(r["phase"], r["epoch"]) for r in rec.history_]
        assert [r["is_best"] for r in rec.history_] == [r["is_best"] for r in alone.history_]
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)


def test_a_prior_that_diverges_ends_all_that_share_it(made: Simulation, phases_seen: list[tuple[str, int]]) -> None:
    settings = {**QUICK, "model": "mf", "spread": 1e18}  # its scores are no numbers
    runs = [Recommender(**settings, c1=c1) for c1 in (1.0, 10.0)]
    failed: list[int] = []
    fit_stacked(runs, Source(made.log()), failed=lambda run, error: failed.append(run))
    assert phases_seen[0] == ("prior", 1)
    assert failed == [0, 1]


def test_the_seeds_of_a_comparison_are_stacked(made: Simulation, tmp_path: Path) -> None:
    """A table is the same whether its cells are trained together or alone."""
    choices: dict[str, Any] = {"methods": ["normal", "deca-p"], "settings": QUICK, "truths": [made.truth()]}
    whole = compare(Comparison(made.log(), seeds=3, **choices), tmp_path / "whole")
    compare(Comparison(made.log(), seeds=1, **choices), tmp_path / "steps")
    steps = compare(Comparison(made.log(), seeds=3, **choices), tmp_path / "steps")
    for ours, theirs in zip(whole["rows"], steps["rows"], strict=True):
        for name, value in ours["metrics"].items():
            assert value["mean"] == pytest.approx(theirs["metrics"][name]["mean"], abs=2e-3)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@needs_gpu
@pytest.mark.parametrize("model", ["gmf", "neumf", "lightgcn", "cdae"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "deca", "deca-p"])
def test_a_recorded_stack_is_the_run_alone_and_the_same_bytes_twice(
    model: str, method: str, made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(**more: Any) -> list[Recommender]:
        made_of = [{**QUICK, **one, "batch_size": 256, "device": "cuda", **more} for one in VARIED]
        return [Recommender(model=model, method=method, **one) for one in made_of]

    stacked, again = (fit_stacked(runs(), Source(made.log())) for _ in range(2))
    short = fit_stacked(runs(epochs=2), Source(made.log()))
    monkeypatch.setattr(stepping, "WARM_UP", 10**9)  # no step is ever recorded
    plain = fit_stacked(runs(), Source(made.log()))
    for rec, twin, unrecorded in zip(stacked, again, plain, strict=True):
        assert torch.equal(weights(rec), weights(twin))
        assert torch.equal(weights(rec), weights(unrecorded))
    # Alone, other kernels do the products; Adam makes more of rounding with every epoch.
    for rec, alone in zip(short, runs(epochs=2), strict=True):
        alone.fit(made.log())
        assert [r["loss"] for r in rec.history_] == pytest.approx([r["loss"] for r in alone.history_], rel=5e-3)
        apart = 5e-2 if method == "t-ce" else 5e-3  # of two clicks at T-CE's cut, rounding may keep the other
        assert torch.dist(weights(rec), weights(alone)) < apart * weights(alone).norm()
