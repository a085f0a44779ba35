"""Rows that use knowledge no method has, and false clicks whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accord import Recommender
from accord.data.simulator import GENUINE, Simulation
from accord.errors import DataError
from accord.experiments.compare import compare
from accord.experiments.study import Study
from accord.report.tables import comparison_rows
from accord.tasks.cell_data import ClickData, clean_only, with_false_clicks
from accord.tasks.clicks import ClickTask

QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 512, "dims": 8}


def pairs(table) -> set[tuple[str, str]]:
    return set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


def test_oracle_trains_on_the_clean_rows_alone(made: Simulation) -> None:
    clean = clean_only(ClickData(made.log(), noise=made.clicks()), None)
    assert pairs(clean.log) == pairs(made.log().filter(made.kinds == GENUINE))
    rec = Recommender(method="normal", **QUICK).fit(clean.log, known=clean.known, seen=clean.seen)
    shown = rec.recommend("u1", k=1000)["item"].to_pylist()
    assert not {("u1", item) for item in shown} & pairs(made.log())  # its noise stays seen, as for every row
    assert rec.find_label_issues().num_rows == clean.log.num_rows
    with pytest.raises(DataError, match="is_noise"):
        clean_only(ClickData(made.log()), None)


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_false_clicks_go_into_training_alone(made: Simulation, share: float) -> None:
    dirty = with_false_clicks(ClickData(made.log()), share, {}, seed=0, split_share=0.1)
    marked = dirty.noise.to_pandas()
    own, false = marked[~marked.is_noise], marked[marked.is_noise]
    assert len(false) == round(share * len(own))
    false_pairs = set(zip(false.user, false.item, strict=True))
    assert len(false_pairs) == len(false)
    assert not false_pairs & pairs(made.log())
    assert pairs(dirty.valid) | set(zip(own.user, own.item, strict=True)) == pairs(made.log())


def test_no_false_click_is_one_that_is_tested_by(made: Simulation) -> None:
    """Nor one of the pairs that the catalogue knows."""
    known = with_false_clicks(ClickData(made.log()), 0.5, {}, seed=1, split_share=0.1).noise.to_pandas()
    known = pa.Table.from_pandas(known[known.is_noise][["user", "item"]].head(100), preserve_index=False)
    task = ClickTask(made.log(), [made.truth()], inject=2.0, known=known)
    marked = task.cell_data("normal", 1, task.check_settings(dict(QUICK)), {}).noise.to_pandas()
    false = set(zip(marked[marked.is_noise].user, marked[marked.is_noise].item, strict=True))
    assert len(false) > 1000
    assert not false & (pairs(made.truth()) | pairs(known) | pairs(made.log()))


def test_reference_rows_in_a_table(made: Simulation, tmp_path: Path) -> None:
    task = ClickTask(made.log(), [made.truth(), made.clicks()])
    study = Study(task, ["popularity", "normal", "oracle"], ["mf", "gmf"], seeds=2, settings=QUICK)
    summary = compare(study, tmp_path)
    names = [row[0] for row in comparison_rows(summary)[1:]]
    assert names == ["popularity", "mf normal", "mf oracle †", "gmf normal", "gmf oracle †"]
    assert [("against_normal" in row) for row in summary["rows"]] == [True, False, True, False, True]
    assert json.loads((tmp_path / "cells" / "mf-oracle-seed0.json").read_text())["uses_knowledge"]


def test_injected_clicks_are_measured(made: Simulation, tmp_path: Path) -> None:
    task = ClickTask(made.log(), [made.truth()], inject=0.3)
    study = Study(task, ["normal", "oracle"], ["gmf"], seeds=1, settings=QUICK)
    summary = compare(study, tmp_path)
    cell = json.loads((tmp_path / "cells" / "gmf-normal-seed0.json").read_text())
    assert cell["inject"] == 0.3
    assert cell["detection"]["noise_share"] == pytest.approx(0.3 / 1.3, abs=0.01)
    assert "noise auc" in summary["rows"][0]["metrics"]
