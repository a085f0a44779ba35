"""DeCA(p)'s prior, g and h on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from accord import Recommender
from accord.data.simulator import Simulation

FAST = ["--set", "epochs=1", "--set", "batch_size=512", "--set", "dims=4"]


@pytest.fixture
def log(made: Simulation, tmp_path: Path) -> Path:
    parquet.write_table(made.log(), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--set", "prior=lightgnc"], "Unknown prior 'lightgnc': did you mean 'lightgcn'"),
        (["fit", "--set", "prior=own-prior"], "Setting 'prior' was given as an object"),
        (["fit", "--method", "deca", "--set", "auxiliary=ease"], "learns by gradients, and 'ease' has none"),
        (["fit", "--set", "noise_model=rp3beta"], "learns by gradients, and 'rp3beta' has none"),
        (["tune", "--set", "prior=convnet"], "Unknown prior 'convnet'"),
        (["compare", "--set", "deca-p.prior=convnet"], "Unknown prior 'convnet'"),
    ],
)
def test_what_is_no_prior_is_one_sentence(accord: Any, log: Path, words: list[str], said: str) -> None:
    code, _, err = accord(words[0], log, *words[1:], *FAST, "--out", log.parent / "out")
    assert code == 2, err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in log.parent.iterdir()] == [log.name]


def test_a_prior_is_chosen_by_name(accord: Any, log: Path) -> None:
    out = log.parent / "run"
    code, said, err = accord("fit", log, "--set", "prior=lightgcn", *FAST, "--out", out)
    assert code == 0, err
    assert "prior: lightgcn, NDCG@20 0." in said + err
    assert json.loads((out / "config.json").read_text())["settings"]["prior"] == "lightgcn"
    assert [path.name for path in sorted(log.parent.iterdir())] == ["log.parquet", "run"]
    rec = Recommender.load(out)
    typed = Recommender(prior="lightgcn", epochs=1, batch_size=512, dims=4).fit(parquet.read_table(log))
    assert rec.find_label_issues().equals(typed.find_label_issues())


def test_rows_with_a_prior_are_compared_and_searched(accord: Any, log: Path) -> None:
    out = log.parent / "cmp"
    more = ["--methods", "normal,deca-p", "--seeds", 2, "--set", "deca-p.prior=ease", "--set", "deca-p.ease_l2=50"]
    code, _, err = accord("compare", log, *more, *FAST, "--out", out)
    assert code == 0, err
    cell = json.loads((out / "cells" / "gmf-deca-p-seed1.json").read_text())
    assert cell["settings"]["prior"] == "ease"
    assert cell["settings"]["ease_l2"] == 50
    words = ["--set", "prior=ease", "--trials", 2, *FAST]
    code, said, err = accord("tune", log, *words, "--out", log.parent / "tuned")
    assert code == 0, err
    assert "--set prior=ease" in " ".join(said.split())


def test_priors_and_noise_models_of_labels(accord: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [",".join([*(f"{v:.3f}" for v in rng.normal(size=3)), "ab"[k % 2]]) for k in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,z,label", *lines]))
    words = ["fit", tmp_path / "t.csv", "--label", "label", "--set", "epochs=2", "--out", tmp_path / "run"]
    code, _, err = accord(*words, "--set", "noise_model=convnet")
    assert code == 2
    assert "hφ reads features; take auto or mlp" in err
    code, _, err = accord(*words, "--set", "prior=council", "--set", "folds=2", "--set", "noise_model=mlp")
    assert code == 0, err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["networks"] == {"target": "mlp", "noise": "noise-model mlp"}
    assert config["data"]["prior"]["model"] == "mlp council"
