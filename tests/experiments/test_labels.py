"""Comparisons on labelled data: groups of runs, going on, and what makes a cell stale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accord.cli.commands import compare_and_show
from accord.estimators.stacking import batched
from accord.experiments.labels import LabelComparison
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from accord.errors import AccordError
from accord.estimators import Classifier
from accord.experiments import compare
from accord.experiments.study import Cell, Job

QUICK = {"epochs": 2, "batch_size": 32}


def made(**more: Any) -> LabelComparison:
    X, y = make_blobs(150, 4, centers=3, random_state=0)  # pyright: ignore
    test = make_blobs(60, 4, centers=3, random_state=0)
    choices = {"methods": ["normal", "deca-p"], "seeds": 2, "settings": QUICK, "test": test[:2], "noise": 0.3}
    return LabelComparison(X, y, **{**choices, **more})  # pyright: ignore


class Together(LabelComparison):
    """As on a GPU: cells of several rows are trained side by side."""

    def groups(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        return [part for part in (list(cells[:3]), list(cells[3:])) if part]


def together(**more: Any) -> Together:
    study = made(**more)
    return Together(**{field.name: getattr(study, field.name) for field in fields(study)})


@given(st.integers(0, 40), st.integers(1, 12))
def test_groups_are_even_and_keep_their_order(count: int, size: int) -> None:
    """Nine with room for eight are four and five: one alone is as slow as many."""
    groups = batched(range(count), size)
    assert [k for group in groups for k in group] == list(range(count))
    assert len(groups) == -(-count // size)
    lengths = {len(group) for group in groups} or {1}
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_runs_of_one_seed_stand_together() -> None:
    """In a stack they may share a prior."""
    study = made(seeds=3)
    jobs = [Job(study, Cell(*row, seed), Path()) for row in study.rows() for seed in range(3)]
    for group in study.groups(jobs):
        seeds = [job.cell.seed for job in group]
        assert seeds == sorted(seeds)
    assert sum(map(len, study.groups(jobs))) == len(jobs) == 6


def test_a_group_of_cells_gives_what_single_ones_give(tmp_path: Path) -> None:
    """As a stack of a row's seeds, or side by side."""
    one, many = compare(made(), tmp_path / "one"), compare(together(), tmp_path / "many")
    for stacked, beside in zip(one["rows"], many["rows"], strict=True):
        for name, value in stacked["metrics"].items():
            assert value["mean"] == pytest.approx(beside["metrics"][name]["mean"], abs=1e-3)


def test_the_bars_of_a_group_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    compare_and_show(together(), tmp_path)
    assert (tmp_path / "report.html").is_file()


def test_a_run_that_fails_does_not_take_its_group_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Classifier.finish

    def failing(self: Classifier, history: Any, networks: Any = None) -> None:
        if self.settings.method == "normal":  # ends first: the others must go on
            raise AccordError("Training diverged.")
        finish(self, history, networks)

    monkeypatch.setattr(Classifier, "finish", failing)
    with pytest.raises(AccordError, match="diverged"):
        compare(together(), tmp_path)
    assert [path.stem for path in (tmp_path / "cells").glob("*.json")] == ["auto-deca-p-seed0"]


@pytest.mark.parametrize("what", ["labels", "inputs", "test"])
def test_cells_of_other_data_are_made_anew(what: str, tmp_path: Path) -> None:
    study = made(methods=["normal"], seeds=1)
    compare(study, tmp_path)
    path = tmp_path / "cells" / "auto-normal-seed0.json"
    before = path.read_text()
    compare(study, tmp_path)
    assert path.read_text() == before
    assert study.test is not None
    other = {
        "labels": {"y": np.roll(study.y, 1)},
        "inputs": {"X": study.X + 1.0},
        "test": {"test": (study.test[0], np.roll(study.test[1], 1))},
    }[what]
    compare(replace(study, **other), tmp_path)
    assert json.loads(path.read_text())["identity"] != json.loads(before)["identity"]


def test_without_validation_or_clean_labels_the_table_has_fewer_columns(tmp_path: Path) -> None:
    nothing = made(methods=["normal"], seeds=1, settings={**QUICK, "valid_share": 0.0})
    assert "valid accuracy" not in compare(nothing, tmp_path / "a")["rows"][0]["metrics"]
    all_wrong = made(methods=["normal"], seeds=1, noise=1.0, noise_kind="others")
    assert "noise auc" not in compare(all_wrong, tmp_path / "b")["rows"][0]["metrics"]


def test_clean_examples_are_taken_apart_once_for_the_same_data() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)).astype(np.float32), np.arange(60) % 2
    one, same, other = (LabelComparison(X, labels, ["mw-net"], noise=0.2) for labels in (y, y, 1 - y))
    apart: dict[Any, Any] = {}
    first, second, third = (study._materials(Cell("", "mw-net", 0), apart) for study in (one, same, other))
    assert first.inputs is second.inputs
    assert first.clean is not None
    assert third.clean is not None
    assert np.array_equal(first.clean[1], 1 - third.clean[1])
    assert one._materials(Cell("", "mw-net", 1), apart).inputs is not first.inputs
