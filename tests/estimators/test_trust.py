"""When a run says that its model is no better than what needs no training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accord import Classifier, Recommender
from accord.data.simulator import SimulatorSettings, simulate
from accord.estimators.trust import doubt, reach_of_chance
from accord.evaluation import difference

POPULAR = {"item popularity": 0.1}


def test_the_reach_of_chance_is_half_the_interval_of_a_difference() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.random(3000), rng.random(3000)
    found = difference(ours, theirs)
    assert reach_of_chance(ours - theirs) == pytest.approx((found.high - found.low) / 2, rel=1e-3)


def test_a_weight_of_two_is_an_example_twice() -> None:
    """But for how many examples there are."""
    rng = np.random.default_rng(0)
    values, weights = rng.random(2000), rng.integers(1, 4, 2000)
    drawn = [
        np.average(values[own], weights=weights[own]) for own in (rng.integers(0, 2000, 2000) for _ in range(800))
    ]
    assert reach_of_chance(values, weights) == pytest.approx(1.96 * np.std(drawn), rel=0.1)
    assert reach_of_chance(values, np.full(2000, 3.0)) == pytest.approx(reach_of_chance(values))


@pytest.mark.parametrize(
    ("value", "by_chance", "fires"),
    [(0.09, {}, True), (0.1, {}, True), (0.1 + 2e-8, {}, True), (0.101, {}, False), (None, {}, False),
     (0.11, {"item popularity": 0.02}, True), (0.12, {"item popularity": 0.01}, False),
     (0.11, {"its prior": 0.02}, False)],
)  # fmt: skip
def test_it_is_in_doubt_within_chance_of_what_it_should_beat(
    value: float | None, by_chance: dict[str, float], fires: bool
) -> None:
    assert (doubt(value, POPULAR, "NDCG@20", "clicks", by_chance) is not None) == fires


@pytest.mark.parametrize("seed", [1, 2])
def test_a_plateau_near_popularity_is_told_and_a_good_run_is_not(seed: int) -> None:
    log = simulate(SimulatorSettings(users=500, items=300, interactions=10_000, seed=seed)).log()
    plain: dict[str, Any] = {"method": "normal", "seed": seed, "dims": 16, "learning_rate": 0.01}
    early, late = (Recommender(epochs=epochs, **plain).fit(log) for epochs in (12, 40))
    assert early.validation_["training"]["ndcg@20"] > early.notes_["lowest"]["item popularity"]
    assert "no better than item popularity" in str(early.doubt_)
    assert late.doubt_ is None


def test_labels_that_nothing_tells_apart_are_told() -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(400, 5)).astype(np.float32), rng.integers(0, 2, 400)
    plain: dict[str, Any] = {"model": "mlp", "method": "normal", "epochs": 8, "valid_share": 0.25}
    blind = Classifier(**plain).fit(inputs, labels)
    seeing = Classifier(**plain).fit(inputs, (inputs[:, 0] > 0).astype(int))
    bar = "the most frequent label"
    assert f"no better than {bar}" in str(blind.doubt_)
    assert 0.03 < seeing.notes_["by_chance"][bar] < 0.3
    assert seeing.doubt_ is None
