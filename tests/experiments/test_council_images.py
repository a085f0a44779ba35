"""The study of councils on images: what is trained beside a council, and what is kept of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import council_images as study
from accord import Classifier

DATA, SEEDS = "digits/uniform-0.4", ("0", "1")
TINY = ("--tiny", "--device", "cpu", "--models", "convnet", "--data", DATA, "--seeds", *SEEDS)


def run(out: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["council_images.py", str(out), *TINY, *words])
    study.main()


def cell(out: Path, method: str, seed: int) -> dict[str, Any]:
    return json.loads((out / f"digits_uniform-0.4_convnet_{method}_{seed}.json").read_text())


def test_baselines_are_two_normal_runs_their_mean_and_a_prior(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Classifier] = []
    own = study.fit_together

    def kept(fitted: Any, *given: Any, **more: Any) -> Any:
        made.extend(fitted)
        return own(fitted, *given, **more)

    monkeypatch.setattr(study, "fit_together", kept)
    run(tmp_path, monkeypatch, "--methods", "baselines")
    methods = [(one.settings.method, one.settings.seed) for one in made]
    assert methods == [
        ("normal", 0),
        ("normal", 1),
        ("normal", 1000),
        ("normal", 1001),
        ("deca-p", 0),
        ("deca-p", 1),
    ]
    test = study.loaded("digits").test_inputs[:200]
    for seed in (0, 1):
        normal, other, ours = made[seed], made[2 + seed], made[4 + seed]
        mean = normal.predict_proba(test) + other.predict_proba(test)
        stored = {
            row: np.load(tmp_path / f"digits_uniform-0.4_convnet_{row}_{seed}.npz") for row in study.BASELINES
        }
        assert np.array_equal(stored["ensemble"]["answers"], mean.argmax(1))
        assert np.array_equal(stored["normal"]["answers"], normal.predict_proba(test).argmax(1))
        assert np.array_equal(stored["deca-p"]["answers"], ours.predict_proba(test).argmax(1))
        assert ours.notes_["prior"]["fitted"] is True
        assert cell(tmp_path, "ensemble", seed)["accuracy"] == stored["ensemble"]["right"].mean()
    made.clear()
    run(tmp_path, monkeypatch, "--methods", "baselines")
    assert not made  # cells that are there are kept


def test_a_council_leaves_what_its_first_round_said_of_unseen_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--methods", "council", "--set", "member_epochs=1", "member_rounds=1", "--together", "1")
    run(tmp_path, monkeypatch, *words)
    for seed in (0, 1):
        with np.load(tmp_path / "detect" / f"digits_uniform-0.4_convnet_council_{seed}.npz") as left:
            assert left["probabilities"].shape == (600, 10)
            assert left["probabilities"].sum(1) == pytest.approx(1, abs=0.01)
            assert json.loads(str(left["metadata"])) == {"data": DATA, "seed": seed}
            assert 0.25 < (left["given"] != left["truth"]).mean() < 0.45
            assert left["quality"].shape == (600,)
        assert cell(tmp_path, "council", seed)["council"]["folds"] == 5
    run(tmp_path, monkeypatch, "--report")
    assert "| digits/uniform-0.4 | convnet | council | 2 |" in capsys.readouterr().out
