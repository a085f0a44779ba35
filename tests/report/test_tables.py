"""A comparison's summary and table by hand: means, who is best, who is significant, and what the files say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.evaluation import difference
from accord.evaluation.significance import over_seeds
from accord.experiments.budget import Budget
from accord.experiments.compare import run_cells, summarise, write_summary
from accord.experiments.study import Cell, Job, Study
from accord.experiments.verdicts import add_served
from accord.report.tables import (
    as_csv,
    as_markdown,
    best_rows,
    comparison_rows,
    detection_rows,
    is_over_seeds,
    labels,
    metric_names,
    served_rows,
    shown_gain,
    shown_p,
    what_intervals_mean,
    what_served_means,
    words_of_seeds,
)
from accord.tasks.clicks import ClickTask


def row(method: str, model: str = "gmf", p: float | None = None, over: str = "", **means: Any) -> dict[str, Any]:
    """A row with means of metrics; `ndcg_20` stands for ndcg@20."""
    metrics = {name.replace("_", "@"): {"mean": mean, "std": mean / 10} for name, mean in means.items()}
    tested = {} if p is None else {"against_normal": against(p, over or "seeds and users")}
    return {"model": model, "method": method, "metrics": metrics, "seeds": 3, "seconds": 12.34} | tested


def against(p: float, over: str = "seeds and users") -> dict[str, Any]:
    numbers = {"difference": 0.0125, "low": -0.00004, "high": 0.02504, "p": p / 2, "p_holm": p}
    return {"metric": "ndcg@20", "over": over} | numbers


def oracle(model: str = "gmf", **means: float) -> dict[str, Any]:
    return row("oracle", model, **means) | {"uses_knowledge": True}


def table_of(*rows: dict[str, Any], models: tuple[str, ...] = ("gmf",)) -> dict[str, Any]:
    return {"models": list(models), "rows": list(rows)}


# -- who is best ------------------------------------------------------------------------------------------


def test_the_oracle_is_never_bold() -> None:
    """Though it is ahead in everything; nor does it take the bold from the best of the others."""
    table = table_of(row("normal", a=0.1, b=0.3), row("deca", a=0.2, b=0.2), oracle(a=0.9, b=0.9))
    assert best_rows(table) == {(1, "a"), (0, "b")}
    shown = comparison_rows(table, ("**", "**"))
    assert shown[1:] == [
        ["normal", "0.1000±0.0100", "**0.3000±0.0300**", "12.3"],
        ["deca", "**0.2000±0.0200**", "0.2000±0.0200", "12.3"],
        ["oracle †", "0.9000±0.0900", "0.9000±0.0900", "12.3"],
    ]
    assert best_rows(table_of(oracle(a=0.9))) == set()
    assert best_rows(table_of(oracle("", a=0.9), row("normal", a=0.1))) == {(1, "a")}


def test_each_model_has_its_best_and_popularity_competes_with_all() -> None:
    table = table_of(
        row("popularity", "", a=0.5),
        row("normal", "gmf", a=0.4),
        row("deca", "gmf", a=0.3),
        row("normal", "mf", a=0.6),
        row("deca", "mf", a=0.7),
        models=("gmf", "mf"),
    )
    assert best_rows(table) == {(0, "a"), (4, "a")}
    assert best_rows(table_of(*table["rows"][:1])) == {(0, "a")}


def test_a_row_that_was_not_measured_does_not_compete() -> None:
    table = table_of(row("normal", a=-0.5), row("deca"), row("deca-p", a=-0.25, b=0.1))
    assert best_rows(table) == {(2, "a"), (2, "b")}
    assert metric_names(table) == ["a", "b"]


# -- rows of text -----------------------------------------------------------------------------------------


def test_rows_by_hand() -> None:
    table = table_of(
        row("normal", ndcg_20=0.12345, valid=0.5),
        row("deca", ndcg_20=0.2, p=0.0123),
        row("deca-p") | {"seeds": 0, "seconds": 0.0},
        models=("gmf", "mf"),
    )
    assert comparison_rows(table) == [
        ["method", "ndcg@20", "valid", "ndcg@20 against normal", "p", "train s"],
        ["gmf normal", "0.1235±0.0123", "0.5000±0.0500", "", "", "12.3"],
        ["gmf deca", "0.2000±0.0200", "", "+0.0125 [-0.0000, +0.0250]", "0.012 ahead", "12.3"],
        ["gmf deca-p", "", "", "", "", "not run"],
    ]
    untested = table_of(row("normal", a=0.5) | {"seconds": 1.0})
    assert comparison_rows(untested, ("<b>", "</b>")) == [
        ["method", "a", "train s"],
        ["normal", "<b>0.5000±0.0500</b>", "1.0"],
    ]


def test_a_p_value_says_which_way() -> None:
    for ahead, shown in ((0.1, "0.012 ahead"), (-0.1, "0.012 behind"), (0.0, "0.012")):
        one = row("deca", p=0.0123)
        one["against_normal"]["difference"] = ahead
        assert shown_p(one, directed=True) == shown
    older = {"against_normal": {"metric": "ndcg@20", "p": 0.5, "p_holm": 0.5}}
    assert shown_p(older, directed=True) == "0.500"


def test_one_seed_has_no_deviation() -> None:
    one = row("normal", ndcg_20=0.2) | {"seeds": 1}
    assert comparison_rows(table_of(one))[1] == ["normal", "0.2000", "12.3"]
    assert words_of_seeds({"seeds": 1}) == "1 seed"
    assert words_of_seeds({"seeds": 3}) == "3 seeds, mean ± std"


def test_names_of_rows() -> None:
    rows = row("popularity", ""), row("normal"), oracle()
    assert labels(table_of(*rows)) == ["popularity", "normal", "oracle †"]
    assert labels(table_of(*rows, models=("gmf", "mf"))) == ["popularity", "gmf normal", "gmf oracle †"]
    assert labels({"rows": list(rows)}) == ["popularity", "normal", "oracle †"]


@pytest.mark.parametrize(
    ("p", "over", "shown"),
    [
        (0.0004, "", "<0.001 *"),
        (0.00099999, "", "<0.001 *"),
        (0.001, "", "0.001 *"),
        (0.049, "", "0.049 *"),
        (0.05, "", "0.050"),
        (0.0499999, "", "0.050 *"),
        (0.7, "seeds", "0.700 ‡"),
        (0.01, "seeds", "0.010 * ‡"),
        (None, "", ""),
    ],
)
def test_a_star_stands_for_less_than_one_in_twenty(p: float | None, over: str, shown: str) -> None:
    """Of the corrected p; another mark says that it is over the seeds."""
    one = row("deca", p=p, over=over)
    assert shown_p(one, " *") == shown
    assert shown_p(one) == shown.replace(" *", "")
    assert is_over_seeds(one) == bool(over)


def test_what_the_intervals_are_over_is_said_below_a_table() -> None:
    """Of each kind in the table, and that these are corrected apart; older tables have none."""
    both, seeds, alone = (row("deca", p=0.5, over=over) for over in ("seeds and examples", "seeds", "examples"))
    head = "Against normal: the difference, its 95 % interval and p over "
    missing = "over seeds alone, as values of each user or example are not at hand"
    joint = "seeds and examples"
    assert what_intervals_mean(table_of(row("normal"), both)) == f"{head}{joint}; p Holm-corrected."
    mixed = f"{head}{joint} or, marked ‡, {missing}; p Holm-corrected, for each of these apart."
    assert what_intervals_mean(table_of(both, seeds)) == what_intervals_mean(table_of(seeds, both)) == mixed
    assert what_intervals_mean(table_of(seeds)) == f"{head[:-5]}{missing}; p Holm-corrected."
    one_seed = f"{head}examples alone, as there is one seed; p Holm-corrected."
    assert what_intervals_mean(table_of(alone)) == one_seed
    older = {"against_normal": {"p": 0.1, "p_holm": 0.1}}
    assert what_intervals_mean(table_of(row("normal"), row("deca") | older)) == ""
    assert shown_gain(row("deca") | older) == shown_gain(row("normal")) == ""
    several = table_of(row("popularity", "", p=0.5), row("deca", p=0.5), models=("mf", "gmf"))
    assert what_intervals_mean(several).endswith(" A row of no model is compared with normal of mf.")
    assert "no model" not in what_intervals_mean(table_of(*several["rows"]))


def test_noise_found_by_kind() -> None:
    table = table_of(
        row("normal") | {"auc_by_kind": {"all": 0.71, "slip": 0.8125}},
        row("deca"),
        row("deca-p") | {"auc_by_kind": {"slip": 0.9, "all": 0.95}},
    )
    assert detection_rows(table) == []
    table["popularity_auc_by_kind"] = {"all": 0.5, "slip": 0.4321}
    assert detection_rows(table) == [
        ["noise found by (ROC-AUC)", "all", "slip"],
        ["normal", "0.710", "0.812"],
        ["deca-p", "0.950", "0.900"],
        ["item popularity", "0.500", "0.432"],
    ]


def test_markdown() -> None:
    assert as_markdown([["a", "b"], ["1", ""]]) == "| a | b |\n| --- | --- |\n| 1 |  |\n"


def test_csv() -> None:
    table = table_of(row("normal", a=0.5), row("deca", a=0.25, b=1.0, p=0.125), row("t-ce"))
    tests = "difference,low,high,over,p,p_holm"
    assert as_csv(table).splitlines() == [
        f"model,method,a mean,a std,b mean,b std,{tests},train_seconds",
        "gmf,normal,0.500000,0.050000,,,,,,,,,12.340",
        "gmf,deca,0.250000,0.025000,1.000000,0.100000,0.0125,-4e-05,0.02504,seeds and users,0.0625,0.125,12.340",
        "gmf,t-ce,,,,,,,,,,,",
    ]


# -- summaries --------------------------------------------------------------------------------------------

LOG = pa.table({"user": [1, 1, 2], "item": [1, 2, 1]})
CELLS: dict[tuple[str, int], dict[str, float]] = {
    ("normal", 0): {"ndcg@20": 0.25, "noise auc": 0.5},
    ("normal", 1): {"ndcg@20": 0.75, "noise auc": 0.625},
    ("deca", 0): {"ndcg@20": 0.5, "noise auc": 0.75},
    ("deca", 1): {"ndcg@20": 1.0, "noise auc": 0.875},
    ("deca-p", 0): {"ndcg@20": 0.125, "noise auc": 1.0},
}


def result(method: str, seed: int, **more: Any) -> dict[str, Any]:
    kinds = {"by_kind": {"all": 0.5 + seed / 4, "slip": 0.25}, "popularity_by_kind": {"all": 0.5, "slip": 0.375}}
    return {
        **{"model": "gmf", "method": method, "seed": seed, "metrics": CELLS[method, seed], "detection": kinds},
        **{"seconds": 1.0 + seed, "uses_knowledge": method == "oracle", "selection": "by validation"},
        **more,
    }


def study(
    methods: Sequence[str] = ("normal", "deca", "deca-p", "t-ce"), seeds: int = 2, budget: Budget | None = None
) -> Study:
    return Study(ClickTask(LOG, protocol={"data": "made"}), methods, ["gmf"], seeds, budget=budget)


def test_means_and_deviations_over_the_seeds_that_are_done() -> None:
    summary = summarise([result(*cell) for cell in CELLS], study())
    normal, deca, deca_p, t_ce = summary["rows"]
    assert normal == {
        **{"model": "gmf", "method": "normal", "seeds": 2, "seconds": 1.5, "uses_knowledge": False},
        "metrics": {
            "ndcg@20": {"mean": 0.5, "std": pytest.approx(np.sqrt(0.125))},
            "noise auc": {"mean": 0.5625, "std": pytest.approx(0.125 / np.sqrt(2))},
        },
        "auc_by_kind": {"all": 0.625, "slip": 0.25},
    }
    assert deca["metrics"]["ndcg@20"]["mean"] == 0.75
    assert (deca_p["seeds"], deca_p["metrics"]["ndcg@20"]) == (1, {"mean": 0.125, "std": 0.0})
    assert t_ce == {"model": "gmf", "method": "t-ce", "metrics": {}, "seeds": 0}
    assert summary["popularity_auc_by_kind"] == {"all": 0.5, "slip": 0.375}
    assert (summary["models"], summary["seeds"], summary["selection"]) == (["gmf"], 2, "by validation")
    assert summary["data"] == "made"
    assert summary["search_budget"] == "none: the settings as given"


def test_where_nothing_is_done_there_are_rows_without_numbers() -> None:
    summary = summarise([], study())
    assert [one["seeds"] for one in summary["rows"]] == [0] * 4
    assert summary["selection"] == ""
    assert not {"machines", "popularity_auc_by_kind"} & set(summary)


def test_every_machine_is_named_once_in_the_order_of_the_cells() -> None:
    one, two = {"device": "cpu"}, {"device": "cuda"}
    cells = [result(*cell, machine=machine) for cell, machine in zip(CELLS, [two, one, two, one, one], strict=True)]
    assert summarise(cells, study())["machines"] == [two, one]
    del cells[0]["machine"]
    assert summarise(cells, study())["machines"] == [one, two]


def test_how_settings_were_found_is_said_once_where_rows_are_alike() -> None:
    words = "54 trials of 1 seed(s) for each row, random search"
    tuned = study(budget=Budget(54), methods=["deca", "deca-p"])
    assert summarise([], tuned)["search_budget"] == words
    mixed = replace(tuned, methods=["deca", "normal"])  # of which normal has 18 settings
    assert summarise([], mixed)["search_budget"] == f"{words}; rows of few settings with more seeds"


# -- p-values ---------------------------------------------------------------------------------------------


def put_users(folder: Path, method: str, seed: int, values: np.ndarray) -> None:
    (folder / "cells").mkdir(exist_ok=True)
    name = Cell("gmf", method, seed).name
    parquet.write_table(
        pa.table({"ndcg@20": values, "recall@20": values[::-1]}), folder / "cells" / f"{name}.parquet"
    )


@pytest.fixture
def users(tmp_path: Path) -> dict[str, np.ndarray]:
    """Metrics of 12 users for each seed, next to the cells."""
    rng = np.random.default_rng(0)
    base = rng.random((2, 12))
    every = {"normal": base, "deca": base + 0.1 + 0.3 * rng.normal(size=(2, 12)), "wbpr": rng.random((2, 12))}
    for method, values in every.items():
        for seed in range(2):
            put_users(tmp_path, method, seed, values[seed])
    return every


def cells_of(*methods: str, **more: Any) -> list[dict[str, Any]]:
    return [result("normal", s, **more) | {"method": m, "detection": {}} for m in methods for s in range(2)]


def test_rows_are_tested_against_normal_user_by_user_and_corrected_together(
    users: dict[str, np.ndarray], tmp_path: Path
) -> None:
    asked = study(methods=["normal", "deca", "wbpr", "t-ce"])
    normal, deca, wbpr, t_ce = write_summary(asked, tmp_path, cells_of("normal", "deca", "wbpr"))["rows"]
    exact = [difference(users[m], users["normal"]) for m in ("deca", "wbpr")]
    low, high = sorted(one.p for one in exact)
    assert low < high
    holms = {low: min(1, 2 * low), high: max(min(1, 2 * low), high)}
    for one, found in zip((deca, wbpr), exact, strict=True):
        corrected = pytest.approx(holms[found.p])
        assert one["against_normal"] == {"metric": "ndcg@20", **found._asdict(), "p_holm": corrected}
        assert one["against_normal"]["over"] == "seeds and users"
    assert "against_normal" not in normal
    assert "against_normal" not in t_ce
    on_disk = json.loads((tmp_path / "compare.json").read_text())
    assert on_disk["rows"] == [normal, deca, wbpr, t_ce]
    assert on_disk["rules"] == list(ClickTask.rules)


def test_a_row_with_a_seed_left_to_do_is_not_tested(users: dict[str, np.ndarray], tmp_path: Path) -> None:
    asked = study(methods=["normal", "deca", "wbpr"])
    _, deca, wbpr = write_summary(asked, tmp_path, cells_of("normal", "deca", "wbpr")[:-1])["rows"]
    assert "against_normal" not in wbpr
    assert deca["against_normal"]["p_holm"] == pytest.approx(deca["against_normal"]["p"])  # the only one
    (tmp_path / "compare.json").unlink()
    rows = write_summary(asked, tmp_path, cells_of("normal", "deca", "wbpr")[1:])["rows"]
    assert not any("against_normal" in one for one in rows)  # nor is any where normal lacks one


def test_metrics_of_other_users_are_not_compared(users: dict[str, np.ndarray], tmp_path: Path) -> None:
    for seed in range(2):
        put_users(tmp_path, "deca", seed, users["deca"][seed, :11])
    _, deca, wbpr = write_summary(
        study(methods=["normal", "deca", "wbpr"]), tmp_path, cells_of("normal", "deca", "wbpr")
    )["rows"]
    assert "against_normal" not in deca
    assert "against_normal" in wbpr


def test_one_seed_is_compared_over_users_alone(users: dict[str, np.ndarray], tmp_path: Path) -> None:
    cells = [one for one in cells_of("normal", "deca") if one["seed"] == 0]
    _, deca = write_summary(study(methods=["normal", "deca"], seeds=1), tmp_path, cells)["rows"]
    found = difference(users["deca"][0], users["normal"][0])
    assert {name: deca["against_normal"][name] for name in found._fields} == found._asdict()
    assert deca["against_normal"]["over"] == "users"


def test_without_metrics_of_users_it_is_tested_over_seeds(users: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Of the row whose own are gone alone; and where neither varies, not at all."""
    (tmp_path / "cells" / "gmf-deca-seed1.parquet").unlink()
    cells = [*cells_of("normal", "wbpr"), result("deca", 0), result("deca", 1)]
    _, deca, wbpr = write_summary(study(methods=["normal", "deca", "wbpr"]), tmp_path, cells)["rows"]
    std = float(np.sqrt(0.125))
    found = over_seeds({"mean": 0.75, "std": std}, {"mean": 0.5, "std": std}, 2)
    assert found is not None
    for name, value in found._asdict().items():
        assert deca["against_normal"][name] == (value if name == "over" else pytest.approx(value))
    assert is_over_seeds(deca)
    assert not is_over_seeds(wbpr)
    for one in (deca, wbpr):  # two families of one
        assert one["against_normal"]["p_holm"] == pytest.approx(one["against_normal"]["p"])
    same = [result("normal", 0) | {"method": m, "seed": s} for m in ("normal", "deca") for s in range(2)]
    (tmp_path / "compare.json").unlink()
    assert "against_normal" not in write_summary(study(methods=["normal", "deca"]), tmp_path, same)["rows"][1]


# -- which row to serve -----------------------------------------------------------------------------------


def judged(method: str, valid: float | None, test: float | None, model: str = "gmf", **more: Any) -> dict[str, Any]:
    values = {"valid ndcg@20": valid, "ndcg@20": test}
    metrics = {name: {"mean": value, "std": 0.0} for name, value in values.items() if value is not None}
    return {"model": model, "method": method, "metrics": metrics, "seeds": 2, "uses_knowledge": False} | more


def served(*rows: dict[str, Any], models: tuple[str, ...] = ("gmf", "mf")) -> list[list[str]]:
    summary = table_of(*rows, models=models) | {"seeds": 2}
    add_served(summary, "valid ndcg@20", "ndcg@20")
    return served_rows(summary)


def test_validation_names_the_row_to_serve_and_the_test_does_not() -> None:
    rows = [
        judged("popularity", 0.3, 0.1, ""),
        judged("normal", 0.1, 0.9),
        judged("deca", 0.2, 0.5),
        judged("deca-p", 0.95, 0.4, seeds=1),  # not complete
        judged("oracle", 0.9, 0.95, uses_knowledge=True),
        judged("normal", 0.15, None, "mf"),
        judged("deca", None, 0.7, "mf"),
    ]
    head = ["best served, by validation", "row", "valid ndcg@20", "ndcg@20"]
    of_models = [["gmf", "deca", "0.2000", "0.5000"], ["mf", "normal", "0.1500", ""]]
    assert served(*rows) == [head, *of_models, ["all", "popularity", "0.3000", "0.1000"]]
    assert served(*rows[1:3], models=("gmf",)) == [head, of_models[0]]  # one model: all is the same
    best_of_all = [
        ["gmf", "deca", "0.2000", "0.5000"],
        ["mf", "normal", "0.1500", ""],
        ["all", "gmf deca", "0.2000", "0.5000"],
    ]
    assert served(*rows[1:]) == [head, *best_of_all]
    assert served(judged("normal", None, 0.5)) == []
    assert served(rows[0], rows[4], models=("gmf",)) == [head, ["all", "popularity", "0.3000", "0.1000"]]


def test_a_row_whose_validation_is_of_a_part_of_it_says_so() -> None:
    summary = table_of(judged("normal", 0.5, 0.5), judged("ensemble", 0.1, 0.5)) | {"seeds": 2}
    assert what_served_means(summary) == ""
    add_served(summary, "valid ndcg@20", "ndcg@20")
    assert [row.get("validates_part", False) for row in summary["rows"]] == [False, True]
    assert what_served_means(summary).startswith("Validation judges single networks of ensemble,")
    del summary["served"]  # nothing was held out
    assert what_served_means(summary) == ""


# -- cells ------------------------------------------------------------------------------------------------


class Untrained(Study):
    """Cells that take no time."""

    def run(self, jobs: Any, callbacks: Any, keep: Any, checkpoints: Any = None) -> None:
        for job in jobs:
            keep(
                job,
                {"metrics": {"ndcg@20": 0.5}, "seconds": 1.0, "uses_knowledge": False, "selection": "none"}
                | {"settings": {}},
            )

    def groups(self, jobs: Any) -> list[list[Job]]:
        return [[job] for job in jobs]


def test_cells_are_run_in_order_once_and_as_long_as_there_is_time(tmp_path: Path) -> None:
    asked = Untrained(ClickTask(LOG), ["popularity", "normal", "deca"], ["gmf"], seeds=2)
    begun: list[tuple[Any, ...]] = []
    turns = iter([True, True, True, False])
    (done,) = run_cells([(asked, tmp_path)], lambda *cell: begun.append(cell), lambda: next(turns))
    assert begun == [("popularity", 0, 1, 6), ("popularity", 1, 2, 6), ("gmf normal", 0, 3, 6)]
    assert [(one["model"], one["method"], one["seed"]) for one in done] == [
        ("", "popularity", 0),
        ("", "popularity", 1),
        ("gmf", "normal", 0),
    ]
    cell = json.loads((tmp_path / "cells" / "gmf-normal-seed0.json").read_text())
    assert cell == done[2]
    assert cell["identity"] == asked.identity(Cell("gmf", "normal", 0))
    assert cell["search_budget"] == "none: the settings as given"
    begun.clear()
    wanted = lambda model, method: method == "deca"  # noqa: E731
    (done,) = run_cells([(asked, tmp_path)], lambda *cell: begun.append(cell), wanted=wanted)
    assert begun == [("gmf deca", 0, 5, 6), ("gmf deca", 1, 6, 6)]
    assert [one["method"] for one in done] == ["popularity", "popularity", "normal", "deca", "deca"]


def test_a_cell_of_other_settings_is_run_anew(tmp_path: Path) -> None:
    asked, out = Untrained(ClickTask(LOG), ["normal"], ["gmf"], seeds=1), tmp_path / "a" / "new place"
    begun: list[tuple[Any, ...]] = []

    def run(one: Study) -> int:
        begun.clear()
        run_cells([(one, out)], lambda *cell: begun.append(cell))
        return len(begun)

    assert [run(asked), run(asked)] == [1, 0]
    assert run(replace(asked, settings={"epochs": 3})) == 1
    assert run(replace(asked, seeds=3)) == 3  # the first is of other settings by now
    assert run(replace(asked, seeds=2)) == 0
