"""Comparisons on labelled data: groups of runs, failures, and what makes a cell stale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from accord.cli.comparing import compare_and_show
from accord.errors import AccordError
from accord.estimators import Classifier, fitting
from accord.estimators.fitting import batched
from accord.experiments.compare import compare
from accord.experiments.study import Cell, Job, Study
from accord.tasks.labels import LabelTask

QUICK = {"epochs": 2, "batch_size": 32}


X, Y = make_blobs(150, 4, centers=3, random_state=0)[:2]
TEST = make_blobs(60, 4, centers=3, random_state=0)[:2]


def made(kind: type[Study] = Study, noise: float = 0.3, noise_kind: str = "uniform", **more: Any) -> Study:
    task = LabelTask(X, Y, TEST, noise, noise_kind)
    choices = {"methods": ["normal", "deca-p"], "models": ["auto"], "seeds": 2, "settings": QUICK}
    return kind(task, **{**choices, **more})


class Together(Study):
    """As on a GPU: cells of several rows are trained side by side."""

    def groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        return [group for group in (list(jobs[:3]), list(jobs[3:])) if group]


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
    one, many = compare(made(), tmp_path / "one"), compare(made(Together), tmp_path / "many")
    for stacked, alone in zip(one["rows"], many["rows"], strict=True):
        for name, value in stacked["metrics"].items():
            assert value["mean"] == pytest.approx(alone["metrics"][name]["mean"], abs=1e-3)


def test_the_bars_of_a_group_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    compare_and_show(made(Together), tmp_path)
    assert (tmp_path / "report.html").is_file()


def test_a_run_that_fails_does_not_take_its_group_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Classifier._finish

    def failing(self: Classifier, trained: Any, judge: bool) -> None:
        if self.settings.method == "normal":  # it ends first, and the others are trained to their end
            raise AccordError("Training diverged.")
        finish(self, trained, judge)

    monkeypatch.setattr(Classifier, "_finish", failing)
    with pytest.raises(AccordError, match="diverged"):
        compare(made(Together), tmp_path)
    assert [path.stem for path in (tmp_path / "cells").glob("*.json")] == ["auto-deca-p-seed0"]


@pytest.mark.parametrize("what", ["labels", "inputs", "test"])
def test_cells_of_other_data_are_made_anew(what: str, tmp_path: Path) -> None:
    study = made(methods=["normal"], seeds=1)
    compare(study, tmp_path)
    path = tmp_path / "cells" / "auto-normal-seed0.json"
    before = path.read_text()
    compare(study, tmp_path)
    assert path.read_text() == before
    other: dict[str, Any] = {
        "labels": {"y": np.roll(Y, 1)},
        "inputs": {"X": np.asarray(X) + 1.0},
        "test": {"test": (TEST[0], np.roll(TEST[1], 1))},
    }[what]
    compare(replace(study, task=replace(study.task, **other)), tmp_path)
    assert json.loads(path.read_text())["identity"] != json.loads(before)["identity"]


def test_without_validation_or_clean_labels_the_table_has_fewer_columns(tmp_path: Path) -> None:
    nothing = made(methods=["normal"], seeds=1, settings={**QUICK, "valid_share": 0.0})
    assert "valid accuracy" not in compare(nothing, tmp_path / "a")["rows"][0]["metrics"]
    all_wrong = made(methods=["normal"], seeds=1, noise=1.0, noise_kind="others")
    assert "noise auc" not in compare(all_wrong, tmp_path / "b")["rows"][0]["metrics"]


def test_clean_examples_are_taken_apart_once_for_the_same_data() -> None:
    rng = np.random.default_rng(0)
    inputs, y = rng.normal(size=(60, 2)).astype(np.float32), np.arange(60) % 2
    one, same, other = (LabelTask(inputs, labels, noise=0.2) for labels in (y, y, 1 - y))
    cache: dict[Any, Any] = {}
    first, second, third = (task.cell_data("mw-net", 0, None, cache).sources[0] for task in (one, same, other))
    assert first["X"] is second["X"]
    assert np.array_equal(first["clean"][1], 1 - third["clean"][1])
    assert one.cell_data("mw-net", 1, None, cache).sources[0]["X"] is not first["X"]


def test_runs_with_validation_sets_of_unlike_sizes_are_one_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the folds of cleanlab's row: 52 and 53 examples, of which 42 are trained on."""
    stacks: list[int] = []
    whole = fitting._Party.fit_stack
    counted = lambda party, group, ended: stacks.append(len(group)) or whole(party, group, ended)  # noqa: E731
    monkeypatch.setattr(fitting._Party, "fit_stack", counted)
    sources = [{"X": X[:count], "y": Y[:count]} for count in (52, 53)]
    settings = {"epochs": 3, "batch_size": 16, "valid_share": 0.2, "device": "cpu"}
    together = [Classifier(**settings, seed=seed) for seed in range(2)]
    fitting.fit_together(together, sources)
    assert stacks == [2]
    for seed, (one, source) in enumerate(zip(together, sources, strict=True)):
        alone = Classifier(**settings, seed=seed).fit(**source)
        ours, theirs = ([record["valid"]["accuracy"] for record in clf.history_] for clf in (one, alone))
        assert ours == pytest.approx(theirs, abs=1e-6)
