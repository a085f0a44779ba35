"""The claim of the demo on a smaller log: DeCA(p) ranks true preference better than normal, and finds the noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord import Recommender
from accord.data.simulator import GENUINE, Simulation, SimulatorSettings, simulate
from accord.experiments.compare import compare
from accord.experiments.study import Study
from accord.tasks.clicks import ClickTask


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return simulate(SimulatorSettings(users=1000, items=500, interactions=35_000, seed=0))


def test_deca_p_is_ahead_and_finds_the_noise(simulation: Simulation, tmp_path: Path) -> None:
    truths = [simulation.truth(), simulation.clicks()]
    summary = compare(Study(ClickTask(simulation.log(), truths), ["normal", "deca-p"], ["gmf"], seeds=3), tmp_path)
    normal, deca_p = (row["metrics"] for row in summary["rows"])
    assert deca_p["ndcg@20"]["mean"] > normal["ndcg@20"]["mean"]
    assert deca_p["noise auc"]["mean"] >= 0.75
    by_kind = summary["rows"][1]["auc_by_kind"]
    assert all(by_kind[kind] > summary["popularity_auc_by_kind"][kind] for kind in by_kind)


def test_noise_hurts_normal_training(simulation: Simulation) -> None:
    genuine = simulation.log().filter(simulation.kinds == GENUINE)
    noisy, clean = (
        Recommender(method="normal").fit(log).evaluate(simulation.truth(), k=[20])
        for log in (simulation.log(), genuine)
    )
    assert clean["ndcg@20"] > 1.15 * noisy["ndcg@20"]
