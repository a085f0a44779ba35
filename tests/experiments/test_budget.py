"""What a search may spend, row by row, the words by which cells tell it, and what comes of it without training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.errors import DataError, SettingError
from accord.experiments.budget import Budget
from accord.experiments.spaces import size
from accord.experiments.study import Study
from accord.experiments.tuning import SearchProgress, Tuning, fit_line, tune, tuned_study
from accord.tasks.clicks import ClickTask

THREE = {"l2": (0.1, 1.0, 10.0)}
SIX = {"l2": (0.1, 1.0), "c0": (1.0, 10.0, 100.0)}


@pytest.mark.parametrize(
    ("trials", "settings", "expected"),
    [
        (24, 3, (3, 8)),
        (25, 3, (3, 8)),  # what is left over is not spent
        (26, 3, (3, 8)),
        (27, 3, (3, 9)),
        (6, 3, (3, 2)),  # twice as many trials as settings: from here on
        (5, 3, (5, 1)),
        (3, 3, (3, 1)),
        (2, 3, (2, 1)),
        (24, 24, (24, 1)),
        (24, 1, (1, 24)),
    ],
)
@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_a_row_of_few_settings_tries_each_with_more_seeds(
    trials: int, settings: int, expected: tuple[int, int], sampler: str
) -> None:
    budget = Budget(trials, sampler=sampler, where="noise-40")
    own = budget.of({"l2": tuple(range(settings))})
    assert (own.trials, own.seeds) == expected
    assert own.trials * own.seeds <= trials  # as many trainings as the others at most
    assert (own.sampler, own.where) == (sampler, "noise-40")
    assert (own is budget) == (expected == (trials, 1))


def test_seeds_that_were_asked_for_are_multiplied() -> None:
    assert Budget(12, seeds=2).of(THREE) == Budget(3, seeds=8)
    assert Budget(12, seeds=2).of(SIX) == Budget(6, seeds=4)


@pytest.mark.parametrize("sampler", ["rounds", "tpe"])
def test_searches_that_may_come_back_to_settings_keep_their_trials(sampler: str) -> None:
    budget = Budget(24, sampler=sampler)
    assert budget.of(THREE) is budget


def test_nothing_to_search_spends_as_the_others() -> None:
    budget = Budget(24)
    assert budget.of({}) is budget
    assert size({}) == 1


def test_words() -> None:
    assert Budget(24).words() == "24 trials of 1 seed(s) for each row, random search"
    assert Budget(4, 2, "grid").words("this row") == "4 trials of 2 seed(s) for this row, grid search"
    rounds = Budget(36, sampler="rounds", where="fashion-mnist 40")
    assert rounds.words() == "36 trials of 1 seed(s) for each row, in two rounds at fashion-mnist 40"


def test_a_row_says_its_own_budget_where_it_has_one() -> None:
    assert Budget(24).words_of(THREE) == "3 trials of 8 seed(s) for this row, random search"
    assert Budget(5).words_of(THREE) == "5 trials of 1 seed(s) for each row, random search"
    assert Budget(24).words_of({}) == Budget(24).words()


def test_cells_tell_a_budget_wherever_it_was_spent() -> None:
    """Those made by a search in another part count; those of another number of trials or seeds do not."""
    here, there = Budget(24), Budget(24, where="noise-40")
    told = there.words_of(THREE)
    assert told.endswith("for this row, random search at noise-40")
    assert here.matches(told, THREE)
    assert there.matches(here.words_of(THREE), THREE)
    assert not here.matches(told, SIX)
    for other in (Budget(48), Budget(24, seeds=2), Budget(24, sampler="grid")):
        assert not other.matches(told, THREE)
    assert not here.matches("", THREE)


# -- searches that take no time ---------------------------------------------------------------------------


def value_of(settings: dict[str, Any]) -> float:
    """What a training with these settings would be worth; of λ = 1 nothing comes, nor of 0.7 with every seed."""
    if settings["l2"] == 1.0 or (settings["l2"] == 0.7 and settings["seed"]):
        return nan
    alike = abs(settings.get("learning_rate", 0.01) - 0.003) + abs(settings["l2"] - 0.1)
    return settings["seed"] / 8 - alike + 2 * (settings["method"] == "normal") + settings.get("c0", 0.0) / 1000


class Quick(Study):
    """Trains nothing."""

    def validate(self, settings: Any, method: str, callbacks: Any, checkpoints: Any = None) -> list[float]:
        return [value_of(one) for one in settings]

    def validated_at_once(self) -> int:
        return 64


TASK = ClickTask(pa.table({"user": [1, 1, 2], "item": [1, 2, 1]}))


def study(*methods: str, models: Sequence[str] = ("gmf",), **more: Any) -> Quick:
    return Quick(TASK, methods, models, **more)


def searched(asked: Quick, out: Path, budget: Budget, **more: Any) -> Any:
    return tuned_study(asked, out, budget, lambda row, now: None, lambda trial, seed: None, **more)


def findings(place: Path) -> dict[str, Any]:
    return json.loads((place / "tune.json").read_text())


def test_what_a_search_finds_and_writes_down(tmp_path: Path) -> None:
    """The mean over the seeds decides; a setting of which nothing comes is left out."""
    tuning = Tuning(
        study("wbpr", settings={"dims": 4}), 5, 2, "grid", {"l2": (0.3, 0.2, 1.0, 0.0, 0.7)}, alone=True
    )
    seen: list[SearchProgress] = []
    found = tune(tuning, tmp_path, seen.append)
    assert found == findings(tmp_path)
    kept = {name: found[name] for name in ("trials", "planned", "seeds", "sampler", "space", "fixed", "metric")}
    assert kept == {
        **{"trials": 3, "planned": 5, "seeds": 2, "sampler": "grid", "metric": "ndcg@20"},
        **{"space": {"l2": [0.3, 0.2, 1.0, 0.0, 0.7]}, "fixed": {"dims": 4}},
    }
    assert (found["model"], found["method"]) == ("gmf", "wbpr")
    exact = {
        l2: [value_of({"l2": l2, "seed": seed, "method": "wbpr"}) for seed in (0, 1)] for l2 in (0.3, 0.2, 0.0)
    }
    assert [(r["trial"], r["settings"]["l2"], r["values"]) for r in found["rows"]] == [
        (0, 0.3, exact[0.3]),
        (1, 0.2, exact[0.2]),
        (3, 0.0, exact[0.0]),
    ]
    assert [r["value"] for r in found["rows"]] == [pytest.approx(sum(own) / 2) for own in exact.values()]
    assert found["best"] == {"l2": 0.2}  # as good as the last, which was planned later
    assert found["value"] == found["rows"][1]["value"] == found["rows"][2]["value"]
    assert json.loads((tmp_path / "best.json").read_text()) == {"l2": 0.2}
    table = parquet.read_table(tmp_path / "trials.parquet")
    assert table.column_names == ["trial", "l2", "value", "seconds"]
    assert table["trial"].to_pylist() == [0, 1, 3]
    assert table["value"].to_pylist() == [r["value"] for r in found["rows"]]
    assert (seen[0].done, seen[0].best, seen[0].settings) == (0, None, {})
    assert (seen[-1].done, seen[-1].trials, seen[-1].best, seen[-1].settings) == (3, 5, found["value"], {"l2": 0.2})


def test_a_search_without_a_single_training_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No trial of the search could be trained: training diverged"):
        tune(Tuning(study("normal"), 2, space={"l2": (1.0,)}), tmp_path)


def test_what_is_no_search() -> None:
    for wrong in (Tuning(study("normal"), trials=0), Tuning(study("normal"), seeds=0)):
        with pytest.raises(DataError, match="at least one trial and one seed"):
            wrong.check()
    with pytest.raises(SettingError, match="unknown method"):
        Tuning(study("normal", settings={"dcea.l2": 1.0})).check()
    Tuning(study("normal"), trials=1, seeds=1).check()
    with pytest.raises(SettingError, match="'seed' cannot be set"):
        Tuning(study("normal"), space={"seed": (1, 2)}).check()
    with pytest.raises(SettingError):
        Tuning(study("normal"), space={"l2": (1.0, "much")}).check()


def test_what_is_searched_besides() -> None:
    own = TASK.space("deca")
    tuning = Tuning(study("deca", "normal"), space={"l2": (5.0,), "dims": (4, 8)})
    assert tuning.row == ("gmf", "deca")
    assert tuning.whole_space() == own | {"l2": (5.0,), "dims": (4, 8)}
    assert replace(tuning, alone=True).whole_space() == {"l2": (5.0,), "dims": (4, 8)}
    assert tuning.settings_of({"l2": 5.0}, 3) == {"model": "gmf", "method": "deca", "seed": 3, "l2": 5.0}


def test_more_trials_are_the_same_search_and_anything_else_is_another() -> None:
    tuning = Tuning(study("normal"), 4)
    assert replace(tuning, trials=9).identity() == tuning.identity()
    changes = ({"seeds": 2}, {"sampler": "grid"}, {"seed": 1}, {"space": {"l2": (1.0,)}}, {"study": study("deca")})
    assert len({tuning.identity(), *(replace(tuning, **one).identity() for one in changes)}) == 6


@pytest.mark.parametrize(
    ("trials", "rounds"),
    [(1, (1, 0)), (3, (1, 2)), (8, (2, 6)), (20, (3, 17))],
)
def test_a_third_of_two_rounds_is_for_the_common_settings(
    trials: int, rounds: tuple[int, int], tmp_path: Path
) -> None:
    """And never more than there are of them: what is left is for a method's own."""
    first, second = rounds
    budget = Budget(trials, sampler="rounds")
    asked = study("deca", settings={"alpha": 0.5, "l2": 0.1})  # of which three learning rates are common
    tuned = searched(asked, tmp_path, budget)
    place = tmp_path / "tune" / "gmf-deca"
    assert findings(place / "common")["planned"] == first
    assert [folder.name for folder in place.glob("own-*")] == ([f"own-{second}"] if second else [])
    if second:
        own = findings(place / f"own-{second}")
        assert own["planned"] == second
        common = findings(place / "common")["best"]
        further = {} if second <= 16 else {"learning_rate"}
        assert set(own["space"]) == {"c0", "c1", *further}
        best = own["best"] if own["value"] > findings(place / "common")["value"] else {}
        assert tuned.tuned["gmf deca"] == common | best
        if not further:
            assert common.items() <= own["fixed"].items()
    assert searched(asked, tmp_path, budget, has_time=lambda: False).tuned == tuned.tuned
    assert searched(asked, tmp_path, Budget(trials + 1, sampler="rounds"), has_time=lambda: False).tuned == {}


def test_the_first_round_of_deca_p_is_normals_and_its_value_does_not_count(tmp_path: Path) -> None:
    tuned = searched(study("deca-p"), tmp_path, Budget(6, sampler="rounds"))
    place = tmp_path / "tune" / "gmf-deca-p"
    first, second = findings(place / "common"), findings(place / "own-4")
    assert (first["method"], second["method"]) == ("normal", "deca-p")
    assert first["value"] > second["value"]
    assert tuned.tuned["gmf deca-p"] == first["best"] | second["best"]


def test_where_nothing_common_is_searched_there_is_one_round(tmp_path: Path) -> None:
    asked = study("deca", settings={"l2": 0.1, "learning_rate": 0.01})
    tuned = searched(asked, tmp_path, Budget(6, sampler="rounds"))
    place = tmp_path / "tune" / "gmf-deca"
    assert [folder.name for folder in place.iterdir()] == ["own-6"]
    assert findings(place / "own-6")["trials"] == 6
    assert tuned.tuned["gmf deca"] == findings(place / "own-6")["best"]


def test_rows_that_learn_nothing_are_not_searched_and_the_oracle_follows_normal(tmp_path: Path) -> None:
    methods = ("popularity", "normal", "oracle", "deca")
    asked = study(*methods, models=("gmf", "mf"), settings={"deca.alpha": 0.5})
    after: list[list[str]] = []
    wanted = lambda model, method: model == "mf" and method == "oracle"  # noqa: E731
    tuned = searched(asked, tmp_path, Budget(2), wanted=wanted, after=lambda now: after.append(list(now.tuned)))
    assert after == [["mf normal"]]
    assert tuned.only_tuned
    whole = searched(asked, tmp_path, Budget(2))
    assert list(whole.tuned) == ["gmf normal", "gmf deca", "mf normal", "mf deca"]
    assert whole.tuned["mf normal"] == tuned.tuned["mf normal"]
    assert not list(tmp_path.rglob("*oracle*"))
    other = searched(asked, tmp_path / "other", Budget(2), reuse=tmp_path, has_time=lambda: False)
    assert other.tuned == whole.tuned  # copied, with its findings
    taken = tmp_path / "other" / "tune" / "mf-deca" / "tune.json"
    assert taken.read_bytes() == (tmp_path / "tune" / "mf-deca" / "tune.json").read_bytes()


def test_the_winners_command_line() -> None:
    fixed, best = {"dims": 4, "device": "cpu"}, {"l2": 0.10, "c0": 10.0}
    found = {"model": "gmf", "method": "deca", "fixed": fixed, "best": best}
    assert fit_line(found, "my clicks.csv", ["--user", "who"]) == (
        "accord fit 'my clicks.csv' --out run --model gmf --method deca --user who "
        "--set dims=4 --set l2=0.1 --set c0=10"
    )
    found = {"model": "", "method": "x", "fixed": {"a": 1}, "best": {"a": 2}}
    assert fit_line(found, "d") == "accord fit d --out run --method x --set a=2"
