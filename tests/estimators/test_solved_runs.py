"""Models that are solved, used like any other: fit, serve, judge, save, search, compare, resume, refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from pydantic import Field
from safetensors.torch import load_file, save_file

from accord import Recommender
from accord.cli import main
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, InterruptedRunError, LimitError, SettingError
from accord.estimators import limits
from accord.experiments.compare import compare
from accord.experiments.study import Study
from accord.experiments.tuning import Tuning, tune
from accord.methods import METHODS, Build, Method, Phase, methods_of, register_method
from accord.models import MODELS, ModelSettings, is_solved, models_of, register_model
from accord.models.recommenders import EASE, Popularity
from accord.tasks.clicks import ClickTask
from accord.training import Checkpoint, Progress

SOLVED = [name for name in models_of("clicks") if is_solved(name)]
QUICK: dict[str, Any] = {"epochs": 4, "dims": 8, "seed": 1}


@pytest.fixture(scope="module")
def runs(made: Simulation) -> dict[str, Recommender]:
    return {model: Recommender(model=model, **QUICK).fit(made.log()) for model in SOLVED}


def test_four_models_are_solved() -> None:
    assert SOLVED == ["ease", "ials", "rp3beta", "itemknn"]


@pytest.mark.parametrize("model", SOLVED)
def test_a_run_is_saved_and_made_again_to_the_byte(
    runs: dict[str, Recommender], model: str, made: Simulation, tmp_path: Path
) -> None:
    rec = runs[model]
    assert rec.settings.method == "normal"
    rec.save(tmp_path / "run")
    for other in (Recommender.load(tmp_path / "run"), Recommender(model=model, **QUICK).fit(made.log())):
        mine, theirs = (one.networks_["target"].state_dict() for one in (rec, other))
        assert list(mine) == list(theirs)
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        assert other.recommend(["u1", "u9"], k=7).equals(rec.recommend(["u1", "u9"], k=7))
        assert other.find_label_issues().equals(rec.find_label_issues())
        assert other.similar_items("i7", k=4).equals(rec.similar_items("i7", k=4))
    own = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    others = {"ease_l2", "ials_l2", "ials_alpha", "rp3_alpha", "rp3_beta", "neighbours", "shrink"}
    found = MODELS.find(model).settings.model_fields  # pyright: ignore[reportFunctionMemberAccess]
    assert others & set(own) == set(found)


@pytest.mark.parametrize("model", SOLVED)
def test_it_recommends_judges_and_answers(runs: dict[str, Recommender], model: str, made: Simulation) -> None:
    rec = runs[model]
    some = [f"i{k}" for k in range(5, 15)]
    chosen = rec.recommend("u1", k=20, items=some, exclude_seen=False)
    assert set(chosen["item"].to_pylist()) == set(some)
    pairs = rec.predict(["u1"] * 10, chosen["item"].to_pylist())
    np.testing.assert_allclose(pairs, chosen["score"].to_numpy(), atol=1e-4)
    assert (rec.evaluate(made.truth(), k=20)["ndcg@20"]) > 0
    assert rec.evaluate_issues(made.clicks())["roc_auc"] > 0.55
    flags = rec.find_label_issues()["is_label_issue"].to_numpy()
    assert 0 < flags.mean() < 0.6
    alike = rec.similar_items("i7", k=5)
    assert "i7" not in alike["similar_item"].to_pylist()
    assert list(alike["score"].to_numpy()) == sorted(alike["score"].to_numpy(), reverse=True)


@pytest.mark.parametrize("model", SOLVED)
@pytest.mark.parametrize("cold", ["popularity", "model"])
def test_users_without_a_click_are_ranked_by_popularity(model: str, cold: str, made: Simulation) -> None:
    known = {"user": ["new"], "item": ["i3"]}
    rec = Recommender(model=model, cold_users=cold, **QUICK).fit(made.log(), known=known)
    counts = np.bincount(rec.clicks_.items[rec.part_ == 0], minlength=len(rec.item_ids_))
    shown = rec.recommend("new", k=30, exclude_seen=False)["item"]
    found = [counts[int(rec.item_ids_.find(shown)[k])] for k in range(30)]
    assert found == sorted(counts, reverse=True)[:30]


def test_a_closed_form_has_one_epoch_and_sweeps_have_a_best_one(made: Simulation) -> None:
    seen: list[Progress] = []
    rec = Recommender(model="ease", epochs=50, seed=1).fit(made.log(), callback=seen.append)
    (record,) = rec.history_
    assert record["epoch"] == 1
    assert record["is_best"]
    assert record["train_seconds"] > 0
    assert record["loss"] > 0
    assert {now.epochs for now in seen} == {1}
    rec = Recommender(model="ials", epochs=12, patience=3, dims=16, ials_l2=1e-4, seed=1).fit(made.log())
    values = [record["valid"]["ndcg@20"] for record in rec.history_]
    best = int(np.argmax(values)) + 1
    assert rec.validation_["training"]["epoch"] == best
    assert len(values) == min(12, best + 3)
    again = Recommender(model="ials", epochs=best, dims=16, ials_l2=1e-4, seed=1).fit(made.log())
    assert all(
        torch.equal(a, b)
        for a, b in zip(*(r.networks_["target"].state_dict().values() for r in (rec, again)), strict=True)
    )


def test_the_usual_patience_is_ten_sweeps_on_any_log(made: Simulation) -> None:
    """A sweep has no steps that could be too few."""
    settings: dict[str, Any] = {"model": "ials", "epochs": 40, "dims": 16, "ials_l2": 1e-4, "seed": 1}
    usual, ten = (Recommender(**settings, **more).fit(made.log()) for more in ({}, {"patience": 10}))
    assert len(usual.history_) == len(ten.history_) < 40


def test_popularity_is_solved_too(made: Simulation) -> None:
    rec = Recommender(method="popularity", epochs=5).fit(made.log())
    (record,) = rec.history_
    assert (record["phase"], record["loss"]) == ("counting", 0.0)
    assert record["valid"]["ndcg@20"] > 0


class Stops(Checkpoint):
    """Asks to stop after some chances to save."""

    def __init__(self, path: Path, after: int) -> None:
        super().__init__(path)
        self.left = after

    def due(self) -> bool:
        self.left -= 1
        self.stop = self.left <= 0
        return self.stop


@pytest.mark.parametrize("model", SOLVED)
def test_a_training_is_stopped_within_a_sweep_and_resumed(model: str, made: Simulation, tmp_path: Path) -> None:
    def fit(checkpoint: Checkpoint | None) -> Recommender:
        return Recommender(model=model, **QUICK).fit(made.log(), checkpoint=checkpoint)

    whole, path, stops = fit(None), tmp_path / "state.safetensors", 0
    for after in (1, 2, 3, 1000):
        try:
            again = fit(Stops(path, after))
            break
        except InterruptedRunError:
            stops += 1
    assert stops > 0
    mine, theirs = (one.networks_["target"].state_dict() for one in (whole, again))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert [r["valid"] for r in again.history_] == [r["valid"] for r in whole.history_]


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in methods_of("clicks") if name not in ("normal", "popularity")])
def test_methods_that_learn_by_gradients_are_refused(method: str) -> None:
    with pytest.raises(SettingError, match=f"'{method}' learns by gradients.*'ease'.*take method='normal'.*gmf"):
        Recommender(model="ease", method=method)


def test_so_are_a_class_and_an_auxiliary(made: Simulation) -> None:
    with pytest.raises(SettingError, match="EASE.* is solved without any"):
        Recommender(model=lambda users, items: EASE(users, items), method="wbpr").fit(made.log())
    with pytest.raises(SettingError, match="'itemknn' has none; take mf"):
        Recommender(method="deca", auxiliary="itemknn")
    rec = Recommender(model=EASE).fit(made.log())  # a class that is solved asks for no method
    assert rec.settings.method == "normal"


def test_a_catalogue_that_is_too_large_is_refused_before_anything_is_made(
    made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda device: 1_500_000)
    monkeypatch.setattr(EASE, "__init__", lambda *args, **more: pytest.fail("it was built"))
    with pytest.raises(LimitError, match=r"Model 'ease' of 249 items needs about .* MB.*; take model='rp3beta'"):
        Recommender(model="ease").fit(made.log())
    monkeypatch.setattr(limits, "free_memory", lambda device: 1_000)
    for model in ("ials", "rp3beta", "itemknn"):
        with pytest.raises(LimitError, match="use fewer"):
            Recommender(model=model).fit(made.log())


def test_what_cannot_be_solved_is_one_sentence() -> None:
    """Two items that the same users clicked, and next to no penalty."""
    log = {"user": [f"u{k // 3}" for k in range(60)], "item": ["a", "b", "c"] * 20}
    log = {"user": [*log["user"], "x", "y"], "item": [*log["item"], "d", "d"]}
    with pytest.raises(AccordError, match=r"The EASE of phase 'training' cannot be solved .*; raise its L2"):
        Recommender(model="ease", ease_l2=1e-300).fit(log)


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [("itemknn", "indices", 250), ("rp3beta", "indices", -1), ("ease", "weights", np.nan), ("ials", "scale", -1.0)],
)
def test_damaged_runs_are_refused(
    runs: dict[str, Recommender], model: str, name: str, value: float, tmp_path: Path
) -> None:
    runs[model].save(tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    tensors = load_file(path)
    tensors[f"target.{name}"].view(-1)[-1] = value
    save_file(tensors, path)
    with pytest.raises(DataError, match="fit it again"):
        Recommender.load(tmp_path / "run")


# -- comparisons and searches ------------------------------------------------------------------------------


def test_rows_that_cannot_be_are_not_there(made: Simulation, tmp_path: Path) -> None:
    methods = ["popularity", "normal", "deca", "deca-p", "oracle"]
    study = Study(ClickTask(made.log(), [made.clicks()]), methods, ["gmf", "ease", "itemknn"], 1, {"epochs": 1})
    study.check()
    assert [row for row in study.rows() if row[0] != "gmf"] == [
        ("", "popularity"), ("ease", "normal"), ("ease", "oracle"), ("itemknn", "normal"), ("itemknn", "oracle"),
    ]  # fmt: skip
    summary = compare(Study(study.task, ["normal", "deca"], ["ease", "mf"], 1, {"epochs": 1}), tmp_path)
    assert [(row["model"], row["method"]) for row in summary["rows"]] == [
        ("ease", "normal"), ("mf", "normal"), ("mf", "deca"),
    ]  # fmt: skip
    (said,) = [words for words in study.remarks(summary) if "Solved" in words]
    assert said == "Solved without gradients, so without rows of deca, deca-p: ease and itemknn"
    with pytest.raises(SettingError, match="learns by gradients"):
        Study(study.task, ["deca"], ["ease"]).check()


def test_what_is_searched_is_the_models_own() -> None:
    task = ClickTask({"user": [1, 2], "item": [1, 2]})
    assert set(task.space("normal", "ease")) == {"ease_l2"}
    assert set(task.space("normal", "itemknn")) == {"shrink", "neighbours"}
    assert set(task.space("normal", "gmf")) == {"learning_rate", "l2"} == set(task.space("normal"))
    assert task.space("popularity", "ease") == {}
    asked = Study(task, ["normal"], ["rp3beta"], settings={"rp3_beta": 0.5})
    assert set(asked.searched("normal", "rp3beta")) == {"rp3_alpha", "neighbours"}


def test_a_search_finds_its_setting(made: Simulation, tmp_path: Path) -> None:
    task = ClickTask(made.log())
    values = (1e-3, 30.0, 1e7)
    found = tune(Tuning(Study(task, ["normal"], ["ease"], 1), 3, space={"ease_l2": values}), tmp_path)
    measured = {row["settings"]["ease_l2"]: row["value"] for row in found["rows"]}
    assert set(measured) == set(values)
    assert found["best"]["ease_l2"] == max(measured, key=lambda value: measured[value])
    alone = Recommender(model="ease", ease_l2=found["best"]["ease_l2"]).fit(made.log())
    assert alone.validation_["training"]["ndcg@20"] == pytest.approx(found["value"])


# -- models of another package -----------------------------------------------------------------------------


class OwnSettings(ModelSettings):
    own_power: float = Field(default=1.0, gt=0)
    """Own: the power of an item's clicks."""


class Own(Popularity):
    """Clicks to a power, with neither calibration nor a number of sweeps."""

    settings = OwnSettings
    space: ClassVar = {"own_power": (0.5, 1.0)}

    def __init__(self, n_users: int, n_items: int, own_power: float = 1.0) -> None:
        super().__init__(n_users, n_items)
        self.power = own_power

    def bind(self, starts: torch.Tensor, items: torch.Tensor) -> None:
        self.appeal = torch.bincount(items, minlength=self.n_items).float() ** self.power


@pytest.fixture
def own() -> Iterator[str]:
    register_model("own", Own)
    yield "own"
    MODELS.unregister("own")


def test_a_model_of_another_package_has_settings(own: str, made: Simulation, tmp_path: Path) -> None:
    rec = Recommender(model=own, own_power=0.5).fit(made.log())
    assert rec.networks_["target"].power == 0.5
    rec.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert again.settings.own_power == 0.5
    assert again.predict(["u1"], ["i1"]) == rec.predict(["u1"], ["i1"])
    assert ClickTask(made.log()).space("normal", own) == {"own_power": (0.5, 1.0)}
    with pytest.raises(SettingError, match="own_power.*greater than 0"):
        Recommender(model=own, own_power=0)
    assert "own_power" not in Recommender(model="gmf").settings_to_save()


class Clash(ModelSettings):
    alpha: float = 1.0


def test_settings_of_another_thing_are_refused() -> None:
    with pytest.raises(SettingError, match="different settings 'alpha'"):
        register_model("clash", type("ClashModel", (Own,), {"settings": Clash, "__qualname__": "ClashModel"}))
    with pytest.raises(SettingError, match="ModelSettings"):
        register_model("wrong", type("WrongModel", (Own,), {"settings": {}, "__qualname__": "WrongModel"}))
    assert not {"clash", "wrong"} & set(MODELS)
    assert Recommender().settings.alpha == 0.5


# -- methods with several networks ---------------------------------------------------------------------------


class Two(Method):
    """Two networks in one phase; which, says the test."""

    name = "two-networks"
    tasks = ("clicks",)
    takes_solved = True
    other: ClassVar[str] = "ease"

    def phases(self, build: Build) -> list[Phase]:
        networks = {"target": build("target"), "other": build("other", self.other)}

        def loss(batch: Any, info: Any) -> torch.Tensor:
            raise AssertionError("nothing is trained")

        return [Phase("both", networks, target="target", loss=loss, kept=("target", "other"))]


@pytest.fixture
def two() -> Iterator[type[Two]]:
    yield register_method(Two)  # pyright: ignore[reportReturnType]
    METHODS.unregister("two-networks")


def test_each_network_of_a_phase_has_its_own_sweeps(
    two: type[Two], made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve, sweeps = EASE.solve, []
    monkeypatch.setattr(EASE, "solve", lambda self, sweep: sweeps.append(sweep) or solve(self, sweep))
    rec = Recommender(model="ials", method=two, patience=0, **QUICK).fit(made.log())
    assert (sweeps, len(rec.history_)) == ([0], 4)
    alone = Recommender(model="ease", seed=1).fit(made.log())
    both = rec.networks_["other"].state_dict(), alone.networks_["target"].state_dict()
    assert torch.equal(both[0]["weights"], both[1]["weights"])


def test_one_that_learns_and_one_that_is_solved_are_refused_in_one_phase(
    two: type[Two], made: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Two, "other", "mf")
    with pytest.raises(SettingError, match="trains MF together with IALS.*give each a phase of its own"):
        Recommender(model="ials", method=two, **QUICK).fit(made.log())


# -- the command line --------------------------------------------------------------------------------------


@pytest.fixture
def accord(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["accord", *map(str, words)])
        code = 0
        try:
            main.run()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capfd.readouterr()

    return run


def test_on_the_command_line(accord: Any, made: Simulation, tmp_path: Path) -> None:
    import pyarrow.csv as csv

    log, run = tmp_path / "log.csv", tmp_path / "run"
    csv.write_csv(made.log(), log)
    code, _, err = accord("fit", log, "--model", "ease", "--set", "ease_l2=50", "--out", run)
    assert code == 0, err
    assert json.loads((run / "config.json").read_text())["settings"]["ease_l2"] == 50
    assert accord("recommend", run, "--user", "u1", "-k", 3, "--format", "csv")[1].count("u1") == 3
    assert accord("audit", run, "--top", 5)[0] == 0
    code, _, err = accord("fit", log, "--model", "ease", "--method", "deca-p", "--out", tmp_path / "no")
    assert code == 2
    assert err.count("\n") == 1
    code, _, err = accord("tune", log, "--model", "itemknn", "--trials", 2, "--out", tmp_path / "search")
    assert code == 0, err
    assert set(json.loads((tmp_path / "search" / "best.json").read_text())) == {"shrink", "neighbours"}
