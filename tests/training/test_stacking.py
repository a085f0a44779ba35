"""A run in a stack is the run alone: the same chosen epoch, and the same weights but for rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from accord import Recommender
from accord.data.simulator import Simulation
from accord.errors import SettingError
from accord.estimators.stacking import can_stack, fit_stacked
from accord.studies import Comparison

QUICK: dict[str, Any] = {"epochs": 6, "patience": 2, "batch_size": 512, "dims": 8}
VARIED: list[dict[str, Any]] = [
    {"seed": 0, "learning_rate": 0.003, "l2": 0.06, "c0": 1.0, "c1": 10.0, "alpha": 0.5},
    {"seed": 1, "learning_rate": 0.01, "l2": 1.0, "c0": 10.0, "c1": 1.0, "alpha": 0.0},
    {"seed": 2, "learning_rate": 0.03, "l2": 0.0, "c0": 100.0, "c1": 100.0, "alpha": 1.0},
]


def weights(rec: Recommender) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for net in rec.networks_.values() for p in net.parameters()])


def recommenders(model: str, method: str) -> list[Recommender]:
    return [Recommender(model=model, method=method, **{**QUICK, **one}) for one in VARIED]


@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "lightgcn"])
@pytest.mark.parametrize("method", ["normal", "wbpr", "ensemble", "deca", "deca-p"])
def test_a_run_in_a_stack_is_the_run_alone(model: str, method: str, made: Simulation) -> None:
    stacked = fit_stacked(recommenders(model, method), made.log())
    lengths = set()
    for rec, alone in zip(stacked, recommenders(model, method), strict=True):
        alone.fit(made.log())
        lengths.add(len(alone.history_))
        assert [(r["phase"], r["epoch"]) for r in rec.history_] == [
            (r["phase"], r["epoch"]) for r in alone.history_
        ]
        assert [r["is_best"] for r in rec.history_] == [r["is_best"] for r in alone.history_]
        assert [r["loss"] for r in rec.history_] == pytest.approx([r["loss"] for r in alone.history_], rel=1e-3)
        assert torch.allclose(weights(rec), weights(alone), rtol=1e-2, atol=1e-4)
        assert rec.find_label_issues().num_rows == alone.find_label_issues().num_rows
    if model == "gmf" and method == "normal":
        assert len(lengths) > 1  # some stopped early and left the stack


def test_what_cannot_be_stacked_is_refused(made: Simulation) -> None:
    pair = [Recommender(method="normal", **QUICK), Recommender(method="normal", **{**QUICK, "dims": 4})]
    assert not can_stack(pair)
    with pytest.raises(SettingError, match="cannot be stacked"):
        fit_stacked(pair, made.log())
    assert not can_stack([Recommender(model="cdae"), Recommender(model="cdae", seed=1)])
    assert not can_stack([Recommender(method="t-ce"), Recommender(method="t-ce", seed=1)])


def test_lightgcn_is_not_stacked_over_different_graphs(made: Simulation) -> None:
    """Without times each seed holds out other clicks."""
    log = made.log().select(["user", "item"])
    pair = [Recommender(model="lightgcn", method="normal", **{**QUICK, "seed": seed}) for seed in (0, 1)]
    with pytest.raises(SettingError, match="shares one graph"):
        fit_stacked(pair, log)
    factors = [Recommender(model="gmf", method="normal", **{**QUICK, "seed": seed}) for seed in (0, 1)]
    alone = Recommender(model="gmf", method="normal", **{**QUICK, "seed": 1}).fit(log)
    assert torch.allclose(weights(fit_stacked(factors, log)[1]), weights(alone), rtol=1e-2, atol=1e-4)
    study = Comparison(log, ["normal"], models=["lightgcn"], settings={**QUICK, "epochs": 1})
    settings = [study.settings_of("lightgcn", "normal", seed) for seed in (0, 1)]
    assert len(study.validate(settings, "normal", [None, None])) == 2
