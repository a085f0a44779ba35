"""Studies run cell by cell, are resumed where they stopped, and say plainly what was not run."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from accord.data.datasets.image_sets import IMAGE_SETS
from accord.errors import SettingError
from accord.estimators import fitting
from accord.experiments import study as studies
from accord.experiments.study import ORACLE, Cell
from accord.methods import methods_of
from accord.models import models_of
from accord.reproduction.cells import StudyCells
from accord.reproduction.page import write_results
from accord.reproduction.paper_numbers import paper_numbers, paper_value
from accord.reproduction.parts import Declared, Part, View
from accord.reproduction.running import Callbacks, reproduce
from accord.reproduction.studies import STUDIES, find_study
from accord.tasks import labels as label_task

QUICK: dict[str, Any] = {"epochs": 2, "dims": 4, "batch_size": 256}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up files in the format of Electronics: user, item, rating, tab separated."""
    place = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    folder = place / "electronics"
    folder.mkdir()
    users, items = 40, 30
    pairs = rng.permutation(users * items)[:700]
    rating = rng.integers(1, 6, len(pairs))
    rows = [f"{p // items}\t{p % items}\t{r}\n" for p, r in zip(pairs, rating, strict=True)]
    clean = [row for row, r in zip(rows[600:], rating[600:], strict=True) if r == 5]
    for name, part in (("train.rating", rows[:500]), ("valid.rating", rows[500:600]), ("test.negative", clean)):
        (folder / f"electronics_5.{name}").write_text("".join(part))
    return place


def small(name: str, **changes: Any) -> Declared:
    """A study with settings that take no time."""
    study = find_study(name)
    parts = tuple(replace(p, settings={**p.settings, **QUICK}, **changes) for p in study.parts)
    return replace(study, parts=tuple(replace(p, data="electronics") for p in parts if not p.is_images))


def shown(study: Declared, root: Path, out: Path, **more: Any) -> str:
    outcome = reproduce(study, root, out, device="cpu", **more)
    return write_results(study, outcome, out).read_text(encoding="utf-8")


def cell_of(place: Path, model: str, method: str, seed: int = 0) -> dict[str, Any]:
    cell = StudyCells(place).read(Cell(model, method, seed))
    assert cell is not None
    return cell


def refused(*_: Any) -> Any:
    pytest.fail("trained again")


def test_every_declared_row_can_be_trained() -> None:
    """Names of models, methods and settings are real ones, for every row of every study."""
    for study in STUDIES.values():
        for part in study.parts:
            task = "labels" if part.is_images else "clicks"
            assert set(part.models) <= set(models_of(task))
            for row in part.methods:
                assert part.variants.get(row, {"method": row})["method"] in {*methods_of(task), ORACLE}
        names = {part.name for part in study.parts}
        assert all(set(view.parts) <= names for view in study.views), study.name
    with pytest.raises(SettingError, match="robustness"):
        find_study("robustnes")


def test_electronics_by_a_file_of_the_same_format(root: Path, tmp_path: Path) -> None:
    study = small("recommend-electronics", models=("cdae",), trials=1)
    study = replace(study, parts=study.parts[:1], views=study.views[:1])
    page = shown(study, root, tmp_path, seeds=2)
    assert "paper ndcg@50" in page
    assert "[16 of 16](cells.parquet)" in page
    assert not list((tmp_path / "fair" / "cells").iterdir())
    assert parquet.read_table(tmp_path / "cells.parquet").num_rows == (1 + 7) * 2
    cell = cell_of(tmp_path / "fair", "cdae", "deca-p", 1)
    assert cell["protocol"]["data"] == "electronics"
    assert cell["search_budget"].startswith("1 trials")


def test_a_study_is_resumed_from_its_packed_cells_alone(root: Path, tmp_path: Path) -> None:
    """With their p-values to the last digit; without the values of each user they stay as they were."""
    study = small("recommend-electronics", models=("gmf",), methods=("normal", "deca", "wbpr"), trials=1)
    study = replace(study, parts=study.parts[:1])
    once = reproduce(study, root, tmp_path, seeds=2, device="cpu")["parts"]["fair"]["rows"]
    assert all("p" in row["against_normal"] for row in once[1:])
    shutil.rmtree(tmp_path / "fair")
    nothing = Callbacks(cell=refused, trial=refused)
    for gone in ("README.md", "values.parquet"):
        table = (tmp_path / "cells.parquet").read_bytes()
        again = reproduce(study, root, tmp_path, seeds=2, device="cpu", callbacks=nothing)
        assert again["parts"]["fair"]["rows"] == once
        assert (tmp_path / "cells.parquet").read_bytes() == table
        (tmp_path / gone).unlink(missing_ok=True)
    started: list[tuple[str, int]] = []
    callbacks = Callbacks(cell=lambda row, seed, number, of: started.append((row, seed)), trial=refused)
    changed = reproduce(study, root, tmp_path, seeds=3, device="cpu", callbacks=callbacks)["parts"]["fair"]["rows"]
    assert {seed for _, seed in started} == {2}
    assert len(started) == 3
    assert all(row["against_normal"]["over"] == "seeds" for row in changed[1:])
    assert parquet.read_table(tmp_path / "cells.parquet").num_rows == 9


@pytest.mark.parametrize(
    "name", ["hyper", "noise-models", "interpretation", "curves", "cost", "agreement-recommend"]
)
def test_every_kind_of_view(name: str, root: Path, tmp_path: Path) -> None:
    study = small(name)
    study = replace(study, parts=study.parts[:1], views=study.views[:1])
    part = study.parts[0]
    if name == "hyper":
        few = [row for row in part.methods if row.endswith("c0=1 c1=1") or row.endswith("c0=10 c1=1")]
        study = replace(study, parts=(replace(part, methods=tuple(few)),))
    if name == "cost":
        study = replace(study, parts=(replace(part, models=("gmf",)),))
    page = shown(study, root, tmp_path, seeds=2)
    assert "not run" not in page
    assert len(list(tmp_path.glob("*.csv"))) == 1
    pictures = 0 if name == "noise-models" else 1
    assert len(list(tmp_path.glob("*.svg"))) == pictures
    assert not list(tmp_path.rglob("*.png"))
    assert page.count(".svg)") == pictures
    if name == "agreement-recommend":
        (tmp_path / "values.parquet").unlink()
        assert shown(study, root, tmp_path, seeds=2) == page  # what was measured of them stays


def with_cleanlab() -> Declared:
    """A rate of the study of robustness on digits."""
    study = find_study("robustness")
    (part,) = [p for p in study.parts if p.name == "digits 40"]
    part = replace(part, settings={"epochs": 1}, methods=("normal", "cleanlab"), models=("mlp",))
    views = tuple(replace(v, parts=("digits 40",)) for v in study.views if v.title.startswith("digits"))
    return replace(study, parts=(part,), views=views)


def test_robustness_on_digits_with_cleanlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cleanlab")
    page = shown(with_cleanlab(), tmp_path, tmp_path / "out", seeds=1)
    quality, found = page.split("## digits: the noise found")
    assert "| cleanlab |" not in quality
    assert "| cleanlab | 0." in found
    alone = cell_of(tmp_path / "out" / "digits-40", "mlp", "cleanlab")
    assert alone["settings"]["method"] == "normal"
    together: list[int] = []

    def counted(classifiers: Any, *given: Any, **more: Any) -> Any:
        together.append(len(classifiers))
        return fitting.fit_together(classifiers, *given, **more)

    monkeypatch.setattr(studies, "fit_together", counted)
    shown(with_cleanlab(), tmp_path, tmp_path / "two", seeds=2, wanted=lambda _, method: method == "cleanlab")
    assert together == [10], "the folds of two seeds, at once"
    with_another = cell_of(tmp_path / "two" / "digits-40", "mlp", "cleanlab")
    assert with_another["detection"] == pytest.approx(alone["detection"], abs=1e-3)


def test_cells_that_another_study_has_are_copied(tmp_path: Path) -> None:
    """Searches and cells alike, so that nothing is trained again; what the other has not is trained here."""

    def part(name: str, **changes: Any) -> Part:
        space = {"normal": {"learning_rate": [0.01, 0.02]}}
        one = Part(name, "digits", ("normal", "ensemble"), ("mlp",), level=0.4, settings={"epochs": 1})
        return replace(one, trials=2, sampler="grid", spaces=space, follows={"ensemble": "normal"}, **changes)

    first = Declared("first", "First", (part("noise"),), (View("table", "All"),))
    again = part("digits", same_as=("first", "noise"))
    second = Declared("second", "Second", (again,), (View("curves", "Curves", metric="accuracy"),))
    only = first.select((), ["normal"])
    reproduce(first, None, tmp_path / "first", seeds=2, device="cpu", wanted=only)
    started: list[str] = []
    callbacks = Callbacks(
        cell=lambda row, seed, number, of: started.append(f"{row} {seed}"),
        trial=lambda trial, seed: started.append(f"trial {trial}"),
    )
    page = shown(second, tmp_path, tmp_path / "second", seeds=2, callbacks=callbacks)
    assert started == ["mlp ensemble 0", "mlp ensemble 1"]
    shown(second, tmp_path, tmp_path / "second", seeds=2, callbacks=callbacks)
    assert len(started) == 2
    assert "| normal |" in page
    assert "digits, as in first noise" in page
    assert "ensemble's second" in page
    for seed in range(2):
        cell = Cell("mlp", "normal", seed)
        ours, theirs = (StudyCells(tmp_path / place) for place in ("second/digits", "first/noise"))
        assert ours.read(cell) == theirs.read(cell)
        right = ours.values(cell, "right")
        assert right is not None
        assert right.tolist() == theirs.values(cell, "right").tolist()  # pyright: ignore[reportOptionalMemberAccess]


def test_only_what_fits_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's, or half a cell, is left where it is; one's own of other settings is replaced."""
    monkeypatch.setattr(StudyCells, "pack", lambda *_: True)  # as while a study is made
    part = Part("noise", "digits", ("normal",), ("mlp",), level=0.4, settings={"epochs": 1})
    tuned = replace(part, trials=2, sampler="grid", spaces={"normal": {"learning_rate": [0.01, 0.02]}})
    again = replace(tuned, name="digits", same_as=("first", "noise"))
    views = (View("curves", "Curves", metric="accuracy"),)
    second = Declared("second", "Second", (again,), views)
    started: list[str] = []
    callbacks = Callbacks(
        cell=lambda row, seed, number, of: started.append(f"cell {seed}"),
        trial=lambda trial, seed: started.append(f"trial {trial}"),
    )
    reproduce(Declared("first", "First", (tuned,), ()), None, tmp_path / "first", seeds=2, device="cpu")
    reproduce(second, None, tmp_path / "other", seeds=1, device="auto", callbacks=callbacks)  # of another device
    assert started == ["trial 0", "trial 1", "cell 0"]
    untuned = Declared("second", "Second", (replace(part, name="digits"),), ())
    reproduce(untuned, None, tmp_path / "second", seeds=2, device="cpu")
    cells = tmp_path / "first" / "noise" / "cells"
    whole = (cells / "mlp-normal-seed1.json").read_bytes()
    (cells / "mlp-normal-seed1.json").unlink()
    (cells / "mlp-normal-seed1.parquet").write_bytes(b"PAR1")
    (cells / ".mlp-normal-seed1.json.1.tmp").write_text("{")
    started.clear()
    page = shown(second, tmp_path, tmp_path / "second", seeds=1, callbacks=callbacks)
    assert started == []
    assert "| normal | 1 |" in page  # of one seed, though another lies there
    (cells / "mlp-normal-seed1.json").write_bytes(whole)
    (cells / "mlp-normal-seed1.parquet").unlink()
    shown(second, tmp_path, tmp_path / "second", seeds=2, callbacks=callbacks)
    assert started == []
    assert not list((tmp_path / "second" / "digits" / "cells").glob(".*"))


def test_a_part_alone_copies_the_search_of_its_group(tmp_path: Path) -> None:
    space = {"normal": {"learning_rate": [0.01, 0.02]}}
    one = Part(
        "noise-40", "digits", ("normal",), ("mlp",), level=0.4, settings={"epochs": 1}, trials=2, sampler="grid"
    )
    one = replace(one, spaces=space, together="noise", searched_in="noise-40")
    both = (replace(one, name="noise-10", level=0.1), one)
    reproduce(Declared("first", "First", both, ()), None, tmp_path / "first", seeds=1, device="cpu")
    again = tuple(
        replace(p, name=f"digits {p.name}", searched_in="digits noise-40", same_as=("first", p.name)) for p in both
    )
    callbacks = Callbacks(
        trial=lambda trial, seed: pytest.fail("searched again"), cell=lambda *_: pytest.fail("trained")
    )
    second = Declared("second", "Second", again, ())
    reproduce(
        second, None, tmp_path / "second", seeds=1, device="cpu", only=("digits noise-10",), callbacks=callbacks
    )


def test_the_studies_that_share_cells_declare_them_alike() -> None:
    for study in STUDIES.values():
        for part in study.parts:
            if part.same_as is not None:
                name, other = part.same_as
                (origin,) = [one for one in STUDIES[name].parts if one.name == other]
                kept = ("data", "models", "level", "settings", "also", "trials", "sampler", "spaces", "protocol")
                assert [getattr(part, one) for one in kept] == [getattr(origin, one) for one in kept]


def test_without_cleanlab_its_row_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_task, "find_spec", lambda name: None)
    page = shown(with_cleanlab(), tmp_path, tmp_path / "out", seeds=1)
    assert page.count("| cleanlab | not run |") == 1


def test_what_is_not_at_hand_is_said_and_stops_nothing(tmp_path: Path) -> None:
    study = find_study("hyper")
    assert not IMAGE_SETS["cifar10"].at_hand(tmp_path)
    page = shown(study, tmp_path, tmp_path / "out")
    assert page.count("data not at hand") == 2 * len(study.parts)


def test_what_is_not_at_hand_is_still_said_when_another_part_runs(root: Path, tmp_path: Path) -> None:
    study = small("noise-models", methods=("popularity",))
    here, elsewhere = study.parts[0], replace(study.parts[1], data="adressa")
    study = replace(study, parts=(here, elsewhere), views=study.views[:2])
    assert shown(study, root, tmp_path, seeds=1).count("data not at hand") == 2
    page = shown(study, root, tmp_path, seeds=1, only=(here.name,))
    assert page.count("data not at hand") == 2
    assert "not run" not in page


def test_a_study_that_is_stopped_says_what_was_not_run(root: Path, tmp_path: Path) -> None:
    study = small("noise-models")
    study = replace(study, parts=study.parts[:1], views=study.views[:1])
    turns = iter([True, True, False, False, False, False, False, False, False])
    page = shown(study, root, tmp_path, seeds=1, callbacks=Callbacks(has_time=lambda: next(turns)))
    assert page.count("not run") > 4
    page = shown(study, root, tmp_path, seeds=1)
    assert "not run" not in page
    assert "Not complete" not in page
    page = shown(study, root, tmp_path, seeds=2, callbacks=Callbacks(has_time=lambda: False))
    assert "Not complete: some rows have 1 of 2 seeds." in page


def test_where_cells_do_not_say_their_machine_the_outcome_still_does(root: Path, tmp_path: Path) -> None:
    """As cells that were made before they did."""
    study = small("curves", methods=("normal",))
    study = replace(study, parts=study.parts[:1], views=study.views[:1])
    (name,) = (part.name for part in study.parts)
    reproduce(study, root, tmp_path, device="cpu", seeds=1)
    cells, cell = StudyCells(tmp_path / name), Cell("gmf", "normal", 0)
    said = cell_of(tmp_path / name, *cell)
    cells.write(cell, {key: value for key, value in said.items() if key != "machine"})
    path = tmp_path / "study.json"
    once = json.loads(path.read_text())
    once["parts"][name]["machine"] = once["parts"][name].pop("machines")[0] | {"device": "an abacus"}
    path.write_text(json.dumps(once))
    assert "an abacus" in shown(study, root, tmp_path, seeds=1)


def test_time_counts_for_the_rules_that_cells_are_made_by(root: Path, tmp_path: Path) -> None:
    """A part that is resumed adds to its time; what cells of older rules took is not its time."""
    study = small("curves", methods=("normal",))
    study = replace(study, parts=study.parts[:1], views=study.views[:1])
    (name,) = (part.name for part in study.parts)
    once, path = reproduce(study, root, tmp_path, device="cpu", seeds=1), tmp_path / "study.json"
    once["parts"][name]["wall_seconds"] = 1000.0
    path.write_text(json.dumps(once))
    assert reproduce(study, root, tmp_path, device="cpu", seeds=1)["parts"][name]["wall_seconds"] > 1000
    once["parts"][name]["rules"] = ["of old"]
    path.write_text(json.dumps(once))
    assert reproduce(study, root, tmp_path, device="cpu", seeds=1)["parts"][name]["wall_seconds"] < 1000


def test_the_papers_numbers() -> None:
    assert len(paper_numbers("recommend")) == 4 * 4 * 6 * 4
    wanted = {"data": "modcloth", "model": "neumf", "method": "deca", "metric": "ndcg@20"}
    assert paper_value("recommend", **wanted) == 0.113
    assert paper_value("images", data="cifar10", method="deca-p", noise="0.5") == 0.8432
    assert paper_value("variants", data="modcloth", model="lightgcn", method="deca dn", metric="ndcg@20") == 0.096
    assert paper_value("images", data="cifar10", method="none") is None


def test_parts_that_differ_in_their_noise_are_trained_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rate is searched; the cells of all rates are one stack, and what they would be alone."""
    stacks: list[int] = []
    whole = fitting._Party.fit_stack

    def counted(party: Any, group: Any, ended: Any) -> bool:
        stacks.append(len(group))
        return whole(party, group, ended)

    monkeypatch.setattr(fitting._Party, "fit_stack", counted)
    parts = tuple(
        Part(
            f"noise-{level:g}",
            "digits",
            ("normal", "ensemble", "itlm"),
            ("mlp",),
            level=level,
            settings={"epochs": 2, "augment": "none", "device": "cpu"},
            trials=2,
            sampler="grid",
            spaces={"normal": {"learning_rate": (0.1, 0.01)}, "itlm": {"keep_share": (0.6, 0.8)}},
            follows={"ensemble": "normal"},
            together="noise",
            searched_in="noise-0.2",
        )
        for level in (0.2, 0.4)
    )
    view = View("levels", "Accuracy over the noise")
    declared = Declared("made", "made", parts, (view,))
    outcome = reproduce(declared, None, tmp_path / "a", seeds=2, device="cpu")
    assert stacks[:3] == [2, 4, 4]  # the search, then normal and the ensemble at both rates
    best = json.loads((tmp_path / "a" / "noise-0.2" / "tune" / "mlp-normal" / "best.json").read_text())
    for part in parts:
        place = tmp_path / "a" / part.name
        rows = {row["method"]: row for row in outcome["parts"][part.name]["rows"]}
        assert {row["seeds"] for row in rows.values()} == {2}
        assert not (place / "tune" / "mlp-ensemble").exists()
        cell = cell_of(place, "mlp", "ensemble", 1)
        assert best.items() <= cell["settings"].items()
    assert not (tmp_path / "a" / "noise-0.4" / "tune").exists()
    alone = reproduce(declared, None, tmp_path / "b", seeds=2, device="cpu", only=("noise-0.4",))
    for ours, theirs in zip(
        outcome["parts"]["noise-0.4"]["rows"], alone["parts"]["noise-0.4"]["rows"], strict=True
    ):
        assert ours["metrics"]["accuracy"]["mean"] == pytest.approx(theirs["metrics"]["accuracy"]["mean"], abs=0.02)


def test_some_rows_alone_take_nothing_from_the_others(root: Path, tmp_path: Path) -> None:
    """A row that follows another has that one searched; what is done stays, with its p-values, and is drawn."""
    declared = small("recommend-electronics", methods=("normal", "wbpr", "oracle"), models=("gmf", "mf"), trials=2)
    declared = replace(declared, parts=tuple(replace(p, sampler="random") for p in declared.parts[:1]))

    def seeds_of(outcome: dict[str, Any]) -> dict[tuple[str, str], int]:
        return {(row["model"], row["method"]): row["seeds"] for row in outcome["parts"]["fair"]["rows"]}

    first = reproduce(declared, root, tmp_path, seeds=1, device="cpu", wanted=declared.select(["gmf"], ["oracle"]))
    assert [row for row, done in seeds_of(first).items() if done] == [("gmf", "oracle")]
    whole = reproduce(declared, root, tmp_path, seeds=1, device="cpu")
    assert set(seeds_of(whole).values()) == {1}
    again = reproduce(declared, root, tmp_path, seeds=1, device="cpu", wanted=declared.select([], ["wbpr"]))
    for now, before in zip(again["parts"]["fair"]["rows"], whole["parts"]["fair"]["rows"], strict=True):
        assert now == before
    assert any("against_normal" in row for row in again["parts"]["fair"]["rows"])
    views = tuple(view for view in declared.views if view.parts == ("fair",))
    assert "oracle" in write_results(replace(declared, views=views), again, tmp_path).read_text(encoding="utf-8")
    with pytest.raises(SettingError, match="has no method 'norml'"):
        declared.select([], ["norml"])


def test_what_is_searched_at_every_rate_is_searched_in_every_part(tmp_path: Path) -> None:
    parts = tuple(
        Part(
            f"noise-{level:g}",
            "digits",
            ("normal", "itlm"),
            ("mlp",),
            level=level,
            settings={"epochs": 1, "augment": "none", "device": "cpu"},
            trials=2,
            sampler="grid",
            spaces={"normal": {"learning_rate": (0.1, 0.01)}, "itlm": {"keep_share": (0.3, 0.9)}},
            together="noise",
            searched_in="noise-0.2",
            searched_here=("itlm",),
        )
        for level in (0.2, 0.4)
    )
    declared = Declared("made", "made", parts, (View("table", "Rows"),))
    outcome = reproduce(declared, None, tmp_path, seeds=1, device="cpu")
    found = [tmp_path / part.name / "tune" for part in parts]
    assert sorted(one.name for one in found[0].iterdir()) == ["mlp-itlm", "mlp-normal"]
    assert [one.name for one in found[1].iterdir()] == ["mlp-itlm"]
    cell: dict[str, Any] = {}
    for part, folder in zip(parts, found, strict=True):
        best = json.loads((folder / "mlp-itlm" / "best.json").read_text())
        cell = cell_of(tmp_path / part.name, "mlp", "itlm", 0)
        assert best.items() <= cell["settings"].items()
    assert " at " not in cell["search_budget"]  # of the second part
    assert outcome["parts"]["noise-0.4"]["row_rules"] == {"itlm": ["itlm is searched at every rate"]}
    assert "row_rules" not in outcome["parts"]["noise-0.2"]
    page = write_results(declared, outcome, tmp_path)
    assert "run again" not in page.read_text()
    del outcome["parts"]["noise-0.4"]["row_rules"]  # as it was before
    page = write_results(declared, outcome, tmp_path)
    again = "Rows to be run again: itlm of noise-0.4; since then itlm is searched at every rate."
    assert again in page.read_text()
    stale = tuple(replace(part, searched_here=()) for part in parts)
    before, now = (one[1].study(None, 1, "cpu") for one in (stale, parts))
    assert before.identity(Cell("mlp", "normal", 0)) == now.identity(Cell("mlp", "normal", 0))
    assert before.identity(Cell("mlp", "itlm", 0)) != now.identity(Cell("mlp", "itlm", 0))
