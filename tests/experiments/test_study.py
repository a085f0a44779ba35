"""Rows, settings and identities of a study: what is trained with what, and when a cell is another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accord.errors import DataError, SettingError
from accord.experiments.budget import Budget
from accord.experiments.study import Cell, Study, _digest, kept_metric, refuse_varied, row_name, validation_value
from accord.experiments.tuning import Tuning
from accord.tasks.clicks import ClickTask
from accord.tasks.label_sources import LabelSource, read_examples

LOG = pa.table({"user": [1, 1, 2], "item": [1, 2, 1]})
VARIANT = {"deca dp": {"method": "deca", "sub_tasks": "dp"}}


def study(*methods: str, models: Sequence[str] = ("gmf",), **more: Any) -> Study:
    return Study(ClickTask(LOG), methods or ("normal", "deca"), models, **more)


def changed(study: Study, **more: Any) -> Study:
    """A study with other choices, its own or those of its task."""
    of_task = {name: value for name, value in more.items() if name in {one.name for one in fields(ClickTask)}}
    own = {name: value for name, value in more.items() if name not in of_task}
    return replace(study, task=replace(study.task, **of_task), **own)


def test_rows_stand_model_by_model_and_popularity_once_and_first() -> None:
    rows = study("normal", "popularity", "deca", models=("gmf", "mf")).rows()
    assert rows == [("", "popularity"), ("gmf", "normal"), ("gmf", "deca"), ("mf", "normal"), ("mf", "deca")]
    cells = [Cell("gmf", "deca dp", 1), Cell("", "popularity", 0)]
    assert [cell.row for cell in cells] == ["gmf deca dp", "popularity"]
    assert [cell.name for cell in cells] == ["gmf-deca-dp-seed1", "popularity-seed0"]
    assert row_name("", "popularity") == "popularity"


def test_which_setting_goes_before_which() -> None:
    """One method's own before all methods', found ones before those, and a row's before everything."""
    asked = study(
        "normal",
        "deca",
        "deca dp",
        settings={"l2": 1.0, "dims": 4, "deca.dims": 8, "deca dp.c0": 5.0, "sub_tasks": "joint"},
        variants=VARIANT,
    )
    assert asked.settings_of("gmf", "normal", 3) == {
        **{"model": "gmf", "method": "normal", "seed": 3, "l2": 1.0, "dims": 4, "sub_tasks": "joint"}
    }
    assert asked.settings_of("gmf", "deca", 0)["dims"] == 8
    dp = asked.settings_of("gmf", "deca dp", 0)
    assert (dp["method"], dp["sub_tasks"], dp["dims"], dp["c0"]) == ("deca", "dp", 8, 5.0)
    assert "c0" not in asked.settings_of("gmf", "deca", 0)
    found = replace(asked, tuned={"gmf deca": {"l2": 10.0}, "gmf deca dp": {"l2": 100.0, "sub_tasks": "dn"}})
    assert found.settings_of("gmf", "deca", 0)["l2"] == 10.0
    dp = found.settings_of("gmf", "deca dp", 0)
    assert (dp["l2"], dp["sub_tasks"]) == (100.0, "dp")
    assert found.settings_of("gmf", "normal", 0)["l2"] == 1.0
    assert found.settings_of("mf", "deca", 0)["l2"] == 1.0  # another model's search
    assert asked.settings_of("", "popularity", 0)["model"] == "mf"


def test_the_oracle_is_normal_training_with_normals_settings_unless_it_has_its_own() -> None:
    asked = study("normal", "oracle", tuned={"gmf normal": {"l2": 10.0}})
    assert asked.settings_of("gmf", "oracle", 0) == {"model": "gmf", "method": "normal", "seed": 0, "l2": 10.0}
    assert asked.found_for("gmf", "oracle") == ["gmf oracle", "gmf normal"]
    own = replace(asked, tuned=asked.tuned | {"gmf oracle": {"l2": 5.0}})
    assert own.settings_of("gmf", "oracle", 0)["l2"] == 5.0
    assert own.settings_of("gmf", "normal", 0)["l2"] == 10.0
    assert asked.trained("oracle") == "normal"
    assert replace(asked, variants=VARIANT).trained("deca dp") == "deca"


def test_what_is_fixed_is_not_searched() -> None:
    variants = {"deca 1": {"method": "deca", "c0": 1.0}}
    asked = study("deca", "deca 1", settings={"l2": 1.0, "normal.learning_rate": 0.1}, variants=variants)
    whole = asked.task.space("deca")
    left = {name: values for name, values in whole.items() if name not in ("l2", "learning_rate")}
    assert asked.searched("deca") == left
    assert asked.searched("deca 1") == {name: values for name, values in left.items() if name != "c0"}


def test_in_a_tuned_comparison_a_cell_waits_for_its_search() -> None:
    asked = study("normal", "deca", "oracle", "popularity", only_tuned=True, tuned={"gmf normal": {"l2": 1.0}})
    ready = {method: asked.ready(Cell("gmf", method, 0)) for method in asked.methods}
    assert ready == {"normal": True, "deca": False, "oracle": True, "popularity": True}
    assert replace(asked, only_tuned=False).ready(Cell("gmf", "deca", 0))


def test_cells_say_how_their_settings_were_found() -> None:
    asked = study()
    none = "none: the settings as given"
    assert asked.search_words("deca") == none
    assert asked.same_search("deca", none)
    assert not asked.same_search("deca", "")
    tuned = replace(asked, budget=Budget(54))
    assert tuned.search_words("normal") == "18 trials of 3 seed(s) for this row, random search"
    assert tuned.search_words("deca") == "54 trials of 1 seed(s) for each row, random search"
    assert tuned.same_search("normal", tuned.search_words("normal"))
    assert not tuned.same_search("normal", none)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"epochs": 3}},
        {"tuned": {"gmf deca": {"l2": 1.0}}},
        {"protocol": {"data": "another"}},
        {"ks": (5,)},
        {"inject": 0.1},
        {"measurements": {"curve": len}},
        {"log": pa.table({"user": [1, 1, 2], "item": [1, 2, 2]})},
        {"valid": LOG},
    ],
)
def test_what_makes_a_cell_another(change: dict[str, Any]) -> None:
    cell = Cell("gmf", "deca", 0)
    assert study().identity(cell) == study().identity(cell)
    assert changed(study(), **change).identity(cell) != study().identity(cell)


def test_what_leaves_a_cell_as_it_is() -> None:
    """Other rows, more seeds, another method's settings, and how what it has was found."""
    cell = Cell("gmf", "deca", 0)
    for change in (
        {"methods": ("deca", "t-ce")},
        {"models": ("gmf", "mf")},
        {"seeds": 9},
        {"settings": {"normal.epochs": 3}},
        {"tuned": {"gmf normal": {"l2": 1.0}}},
        {"budget": Budget(3)},
    ):
        assert changed(study(), **change).identity(cell) == study().identity(cell)
    others = [Cell("gmf", "deca", 1), Cell("mf", "deca", 0), Cell("gmf", "normal", 0), Cell("gmf", "oracle", 0)]
    assert len({study().identity(one) for one in [cell, *others]}) == 5


def test_a_cell_is_another_where_its_rules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = study().identity(Cell("gmf", "deca", 0))
    monkeypatch.setattr(ClickTask, "rules", (*ClickTask.rules, "another"))
    assert study().identity(Cell("gmf", "deca", 0)) != before


def test_a_cell_is_known_by_the_contents_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by where they lie, nor by size and time: a copy or `touch` changes nothing, other clicks do."""

    def identity_of(log: Path | str, valid: Path | None = None, truths: tuple[Path, ...] = ()) -> str:
        asked = changed(study(), log=log, valid=valid, truths=truths)
        return asked.identity(Cell("gmf", "deca", 0))

    path, other = tmp_path / "log.csv", tmp_path / "other.csv"
    path.write_text("user,item\n1,2\n3,4\n")
    os.utime(path, (1, 1))
    first = identity_of(path)
    other.write_bytes(path.read_bytes())
    os.utime(path, (5, 5))
    monkeypatch.chdir(tmp_path)
    assert {identity_of(one) for one in (path, other, "log.csv", "./log.csv")} == {first}
    path.write_text("user,item\n1,2\n3,5\n")
    os.utime(path, (1, 1))  # the same size and time, as after `cp -p` or a checkout
    assert identity_of(path) != first
    changes: list[dict[str, Any]] = [{"valid": path}, {"truths": (path,)}]
    for more in changes:
        before = identity_of(other, **more)
        assert before != first
        path.write_text("user,item\n1,2\n3,6\n")
        assert identity_of(other, **more) != before
        path.write_text("user,item\n1,2\n3,5\n")
        assert identity_of(other, **more) == before


def test_a_search_of_labels_is_known_by_its_examples(tmp_path: Path) -> None:
    def identity_of(path: Path) -> str:
        task = read_examples(LabelSource(path, label="kind")).task(0.0, "uniform", None)
        return Tuning(Study(task, ["normal"], ["mlp"])).identity()

    path, other = tmp_path / "table.csv", tmp_path / "other.csv"
    path.write_text("a,b,kind\n" + "".join(f"{k},{k % 3},{'xy'[k % 2]}\n" for k in range(20)))
    other.write_bytes(path.read_bytes())
    first = identity_of(path)
    assert identity_of(other) == first
    path.write_text(path.read_text().replace("3,0,y", "3,1,y"))
    assert identity_of(path) != first


def test_what_cannot_be_run_is_refused() -> None:
    study(settings={"deca.l2": 1.0, "l2": 1.0}).check()
    for wrong, words in (
        ({"methods": ()}, "No methods were given"),
        ({"models": ()}, "No methods were given"),
        ({"seeds": 0}, "At least one seed"),
        ({"settings": {"dcea.l2": 1.0}}, "'dcea.l2' is for an unknown method.*'deca'"),
        ({"settings": {"seed": 1}}, "'seed' cannot be set for all rows and seeds alike"),
        ({"settings": {"deca.model": "mf"}}, "'model' cannot be set"),
    ):
        with pytest.raises(SettingError, match=words):
            replace(study(), **wrong).check()
    study(seeds=1).check()
    refuse_varied("l2")
    with pytest.raises(SettingError, match="say it with method= or methods="):
        refuse_varied("method")


def test_a_choice_is_made_by_the_last_phase() -> None:
    phases = {"prior": {"ndcg@20": 0.9, "epoch": 1}, "joint": {"ndcg@20": 0.5, "epoch": 7}}
    assert kept_metric(phases, "ndcg@20") == {"valid ndcg@20": 0.5}
    assert validation_value(phases, "ndcg@20") == 0.5
    assert kept_metric(phases, "accuracy") == {}
    with pytest.raises(DataError, match="Nothing is held out for validation"):
        validation_value({"joint": {}}, "ndcg@20")


def test_what_is_tested_is_the_metric_of_the_larger_k() -> None:
    asked = changed(study(), ks=(5, 50, 10))
    assert asked.tested() == asked.tested_mean() == "ndcg@50"


def test_arrays_are_told_apart_by_what_they_hold() -> None:
    """A study of examples: their values, their shape, and words as labels."""
    arrays = [
        np.zeros((2, 3)),
        np.zeros((3, 2)),
        np.ones((2, 3)),
        np.array(["a", "bc"]),
        np.array(["ab", "c"]),
        np.array(["a", "bd"]),
    ]
    assert len({_digest(one) for one in arrays}) == len(arrays)
    assert _digest(np.array(["a", "bc"], object)) == _digest(np.array(["a", "bc"]))
    assert _digest(np.zeros((2, 3))[:, ::-1]) == _digest(np.zeros((2, 3)))


def test_a_table_without_numbers_says_why() -> None:
    nothing = {"rows": [{"seeds": 1, "metrics": {}}]}
    assert study().remarks(nothing)[0].startswith("Nothing could be measured")
    for rows in ([{"seeds": 0, "metrics": {}}], [{"seeds": 1, "metrics": {"a": {}}}]):
        assert not any("Nothing could be measured" in one for one in study().remarks({"rows": rows}))
