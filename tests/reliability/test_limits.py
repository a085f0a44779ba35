"""What cannot fit is refused before the work starts; what diverges is caught; others of a stack continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from accord import Classifier, Recommender, memory
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError
from accord.estimators import fit_together, limits
from accord.experiments.study import Study
from accord.tasks.clicks import ClickTask


def test_a_log_that_does_not_fit_is_refused_with_the_estimate(
    made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda device: 1_000_000)
    with pytest.raises(
        DataError, match=r"needs about .* of memory, but this machine has 1\.0 MB free; use fewer dims"
    ):
        Recommender(epochs=1).fit(made.log())
    monkeypatch.setattr(limits, "free_memory", lambda device: 10)
    with pytest.raises(DataError, match="Holding these examples needs about"):
        Classifier(epochs=1).fit(np.zeros((50, 4)), np.arange(50) % 2)


def test_free_memory_is_what_the_machine_or_its_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = limits.free_memory(torch.device("cpu"))
    assert whole > 1_000_000
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert limits.free_memory(torch.device("cpu")) == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert limits.free_memory(torch.device("cpu")) > 2_000_000


def test_a_full_disk_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="make room"):
        limits.require_disk(1 << 60, tmp_path / "not" / "there" / "run", "The run")
    limits.require_disk(10, tmp_path / "run", "The run")


SMALL: dict[str, Any] = {"method": "deca", "epochs": 3, "dims": 8, "batch_size": 512}
HUGE = 1e38
"""A constant with which the loss of a batch is beyond any number."""


def test_weights_that_are_no_numbers_stop_a_run(made: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccordError, match="diverged.*epoch 1 of phase 'training'.*learning rate 0.003.*lower"):
        Recommender(**SMALL, c1=HUGE).fit(made.log())
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(AccordError, match="diverged"):
        Classifier(epochs=3, method="normal", learning_rate=10.0, clip=None, weight_decay=1e30).fit(
            X, np.arange(60) % 3
        )


def test_in_a_stack_the_others_continue(made: Simulation) -> None:
    constants = [1.0, HUGE, 10.0]
    runs = [Recommender(**SMALL, c1=c1, seed=k) for k, c1 in enumerate(constants)]
    failed: dict[int, AccordError] = {}
    fit_together(runs, {"log": made.log()}, failed=failed.__setitem__)
    assert list(failed) == [1]
    assert "seed 1" in str(failed[1])
    for k in (0, 2):
        alone = Recommender(**SMALL, c1=constants[k], seed=k).fit(made.log())
        ours, theirs = runs[k].networks_["target"], alone.networks_["target"]
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-2, atol=1e-4)
    with pytest.raises(AccordError, match="diverged"):
        fit_together([Recommender(**SMALL, c1=c1) for c1 in constants[:2]], {"log": made.log()})


def test_a_search_counts_a_diverged_trial_as_failed(made: Simulation) -> None:
    study = Study(
        ClickTask(made.log()), ["deca"], ["gmf"], settings={k: v for k, v in SMALL.items() if k != "method"}
    )
    settings = [study.settings_of("gmf", "deca", 0) | {"c1": c1} for c1 in (1.0, HUGE)]
    values = study.validate(settings, "deca", [None, None])
    assert np.isfinite(values[0])
    assert not np.isfinite(values[1])
