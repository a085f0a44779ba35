"""A study's page and the page of all studies, number by number, from outcomes made by hand."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord.evaluation import difference
from accord.reproduction import figures, overview
from accord.reproduction.overview import write_overview
from accord.reproduction.page import write_results
from accord.reproduction.parts import Declared, Part, View
from accord.reproduction.running import judged
from accord.tasks.clicks import ClickTask

Drawn = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """What figures are asked to show, instead of the figures."""
    shown: Drawn = {}

    @contextmanager
    def figure(path: Path, size: Any = None, columns: int = 1) -> Iterator[list[None]]:
        shown.setdefault("figures", []).append((path.name, columns))
        yield [None] * columns

    def keeps(name: str) -> Any:
        return lambda axes, *given, **more: shown.setdefault(name, []).append((*given, *more.values()))

    for module in (figures, overview):
        monkeypatch.setattr(module, "figure", figure)
        for name in ("draw_lines", "draw_heat", "draw_bars", "draw_differences"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, keeps(name))
    return shown


def row(method: str, value: float | None, model: str = "gmf", **more: Any) -> dict[str, Any]:
    metrics = {} if value is None else {"ndcg@20": {"mean": value, "std": value / 10}}
    done = {"seeds": 0 if value is None else 2, "seconds": 1.0}
    return {"model": model, "method": method, "metrics": metrics} | done | more


def with_p(p: float, **how: Any) -> dict[str, Any]:
    numbers = {"difference": 0.0125, "low": 0.00125, "high": 0.5, "p": p / 2, "p_holm": p}
    return {"against_normal": {"metric": "ndcg@20", "over": "seeds and users", **numbers} | how}


def outcome_of(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    models = list(dict.fromkeys(one["model"] for one in rows if one["model"]))
    said = {"seeds": 2, "wall_seconds": 90.0, "search_budget": "4 trials", "rules": list(ClickTask.rules)}
    return {"models": models, "rows": list(rows)} | said | more


MODCLOTH = Part("fair", "modcloth", ("normal", "deca"))


def page_of(
    out: Path, outcome: dict[str, Any], view: View, part: Part = MODCLOTH, *others: Part
) -> tuple[list[str], list[list[str]]]:
    """The lines of the page below the view's title, and its table as CSV where there is one."""
    out.mkdir(exist_ok=True)
    declared = Declared("made", "Made", (part, *others), (view,))
    parts = outcome if part.name in outcome else {part.name: outcome}
    text = write_results(declared, {"parts": parts}, out).read_text().splitlines()
    tables = sorted(out.glob("*.csv"))
    rows = list(csv.reader(tables[0].read_text().splitlines())) if tables else []
    return text[text.index(f"## {view.title}") + 2 :], rows


def put_cell(out: Path, part: Part, row: dict[str, Any], seed: int, **holds: Any) -> None:
    folder = out / part.name.replace(" ", "-") / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{row['model']}-{row['method'].replace(' ', '-')}-seed{seed}.json").write_text(json.dumps(holds))


# -- the table --------------------------------------------------------------------------------------------


def test_the_table_by_hand(tmp_path: Path) -> None:
    """Ours, the paper's, the gain over normal of the same model, and its corrected p."""
    found = outcome_of(
        row("popularity", 0.05, ""),
        row("normal", 0.08),
        row("deca", 0.0925, **with_p(0.0123)),
        row("deca-p", None),
        row("normal", 0.2, "neumf"),
        row("deca", 0.15, "neumf", **with_p(0.3, over="seeds", difference=-0.05, low=-0.2, high=0.1)),
        row("oracle", 0.1, "neumf", uses_knowledge=True, seeds=1),
    )
    found["rows"][1]["metrics"] |= {
        "valid ndcg@20": {"mean": 1.0, "std": 0.0},
        "noise auc": {"mean": 0.5, "std": 0},
    }
    page, rows = page_of(tmp_path, found, View("table", "All", ("fair",), paper="recommend"))
    assert rows == [
        [
            *("model", "method", "ndcg@20", "paper ndcg@20", "noise auc"),
            *("ndcg@20 against normal", "p (Holm)", "seeds"),
        ],
        ["", "popularity", "0.0500 ± 0.0050", "", "", "", "", "2"],
        ["gmf", "normal", "0.0800 ± 0.0080", "0.088", "0.5000 ± 0.0000", "", "", "2"],
        ["gmf", "deca", "0.0925 ± 0.0092", "0.099", "", "+0.0125 [+0.0013, +0.5000]", "0.012 *", "2"],
        ["gmf", "deca-p", "not run", "0.100", "not run", "", "", "not run"],
        ["neumf", "normal", "0.2000 ± 0.0200", "0.101", "", "", "", "2"],
        ["neumf", "deca", "0.1500 ± 0.0150", "0.113", "", "-0.0500 [-0.2000, +0.1000]", "0.300 ‡", "2"],
        ["neumf", "oracle †", "0.1000 ± 0.0100", "", "", "-0.1000", "", "1"],
    ]
    assert "| " + " | ".join(rows[3]) + " |" in page
    assert "Not complete: some rows have 1 of 2 seeds." in page
    text = "\n".join(page)
    assert text.count("† knows clean labels") == text.count("or, marked ‡, over seeds alone") == 1
    assert (tmp_path / "1-table-fair-fair.csv").is_file()


def test_without_a_paper_and_marks_there_are_none(tmp_path: Path) -> None:
    page, rows = page_of(tmp_path, outcome_of(row("normal", 0.1), row("deca", 0.1)), View("table", "All"))
    assert rows[0] == ["model", "method", "ndcg@20", "ndcg@20 against normal", "p (Holm)", "seeds"]
    assert rows[2][3] == "+0.0000"
    text = "\n".join(page)
    assert not any(word in text for word in ("†", "‡", "paper", "Not complete", "run again", "way"))


@pytest.mark.parametrize(
    ("low", "high", "deca", "words"),
    [
        (0.1, 0.3, 0.15, "of the way: deca +25%, deca-p +100%."),
        (0.1, 0.3, 0.05, "of the way: deca -25%, deca-p +100%."),
        (0.3, 0.3, 0.15, ""),  # the oracle is not ahead, or not in four digits: nothing to say
        (0.35, 0.3, 0.15, ""),
        (0.29996, 0.3, 0.15, ""),
    ],
)
def test_the_share_of_the_way_to_the_oracle(
    low: float, high: float, deca: float, words: str, tmp_path: Path
) -> None:
    found = outcome_of(
        row("normal", low),
        row("deca", deca),
        row("deca-p", 0.3),
        row("t-ce", None),
        row("oracle", high, uses_knowledge=True),
        row("normal", 0.1, "mf"),  # of which no oracle is known
        row("deca", 0.2, "mf"),
    )
    page, _ = page_of(tmp_path, found, View("table", "All"))
    said = [line for line in page if line.startswith("- ")]
    assert said == ([f"- gmf: normal {low:.4f}, oracle {high:.4f}; {words}"] if words else [])
    assert not any(line.startswith("- mf") for line in page)


@pytest.mark.parametrize(("lowest", "shown"), [(0.01, True), (0.0, False), (-0.1, False)])
def test_there_is_no_way_to_an_oracle_that_is_ahead_by_luck(lowest: float, shown: bool, tmp_path: Path) -> None:
    gain = {
        "difference": 0.2,
        "low": lowest,
        "high": 0.4,
        "p": 0.04,
        "p_holm": 0.04,
        "over": "seeds",
        "metric": "x",
    }
    found = outcome_of(row("normal", 0.1), row("deca", 0.2), row("oracle", 0.3, against_normal=gain))
    page, _ = page_of(tmp_path, found, View("table", "All"))
    assert [line for line in page if "; of the way" in line] == (
        ["- gmf: normal 0.1000, oracle 0.3000; of the way: deca +50%."] if shown else []
    )


def test_what_was_run_and_where(tmp_path: Path) -> None:
    others = Part("two words", "modcloth", (), same_as=("first", "fair")), Part("left", "modcloth", ())
    machine = {"device": "an abacus", "python": "3", "torch": "2"}
    found = {
        "fair": outcome_of(row("normal", 0.1), row("deca", 0.1, seeds=1), machines=[machine], wall_seconds=99.0),
        "two words": outcome_of(row("normal", 0.1), machine=machine, rules=[]),
        "left": {"missing": "data not at hand"},
    }
    put_cell(tmp_path, MODCLOTH, row("normal", 0.1), 0)  # not packed yet
    page, _ = page_of(tmp_path, found, View("table", "All"), MODCLOTH, *others)
    text = (tmp_path / "README.md").read_text()
    head = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("## ")[0].splitlines()]
    where = "an abacus, Python 3, torch 2"
    assert ["fair", "modcloth", "4 trials", "2", "[3 of 4](fair/cells)", "1.6", where] in head
    again = ["two words", "modcloth, as in first fair", "4 trials", "2", "[2 of 2](cells.parquet)", "1.5", where]
    assert again in head
    assert ["left", "modcloth", "", "", "", "", "data not at hand"] in head
    assert "left: data not at hand." in page
    assert "### two words" in page
    assert f"To be run again; since then: {'; '.join(ClickTask.rules)}." in page
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["1-table-fair.csv", "1-table-two-words.csv"]


def put_values(out: Path, part: Part, method: str, values: np.ndarray) -> None:
    (out / part.folder / "cells").mkdir(parents=True, exist_ok=True)
    for seed, own in enumerate(values):
        path = out / part.folder / "cells" / f"gmf-{method}-seed{seed}.parquet"
        parquet.write_table(pa.table({part.tested.column: own}), path)


@pytest.mark.parametrize(
    ("part", "units"),
    [(MODCLOTH, "users"), (Part("noise-40", "cifar10", ("normal", "deca"), level=0.4), "examples")],
)
def test_what_is_there_is_judged_anew_without_data(part: Part, units: str, tmp_path: Path) -> None:
    """Over seeds and users where their values are there, over seeds where they are not; older p-values go."""
    rng = np.random.default_rng(0)
    base, gain = rng.random((2, 2, 30))
    put_values(tmp_path, part, "normal", base)
    put_values(tmp_path, part, "deca", base + gain)
    old = {"against_normal": {"metric": "ndcg@20", "p": 0.5, "p_holm": 0.5}}
    rows = [row("normal", 0.1), row("deca", 0.2, **old), row("t-ce", 0.3, **old), row("wbpr", None)]
    rows += [row("oracle", 0.4, **old) | {"seeds": 1}]
    for one in rows:
        values = one["metrics"].pop("ndcg@20", None)
        one["metrics"] |= {} if values is None else {part.metric: values, f"valid {part.metric}": values}
    outcome = {"study": "made", "title": "Made", "accord": "0.1.0", "parts": {part.name: outcome_of(*rows)}}
    (tmp_path / "study.json").write_text(json.dumps(outcome))
    declared = Declared("made", "Made", (part, Part("left", "modcloth", ())), ())
    normal, deca, t_ce, wbpr, oracle = judged(declared, tmp_path)["parts"][part.name]["rows"]
    found = difference(base + gain, base, units=units)
    assert deca["against_normal"] == {"metric": part.metric, **found._asdict(), "p_holm": pytest.approx(found.p)}
    assert t_ce["against_normal"]["over"] == "seeds"
    assert t_ce["against_normal"]["difference"] == pytest.approx(0.2)
    assert not any("against_normal" in one for one in (normal, wbpr, oracle))
    written = json.loads((tmp_path / "study.json").read_text())
    assert written["accord"] == "0.1.0"
    assert written["parts"][part.name]["served"][0]["method"] == "t-ce"
    (tmp_path / "study.json").chmod(0o444)
    stamp = (tmp_path / "study.json").stat()
    assert judged(declared, tmp_path) == written
    assert (tmp_path / "study.json").stat() == stamp  # nothing changed, nothing written
    shutil.rmtree(tmp_path / part.folder)  # intervals over seeds and users stay where rows do
    assert judged(declared, tmp_path) == written


def test_a_page_names_the_rows_that_validation_serves(tmp_path: Path) -> None:
    one = {"ndcg@20": {"mean": 0.25, "std": 0.0}, "valid ndcg@20": {"mean": 0.5, "std": 0.0}}
    found = outcome_of(row("normal", 0.25), row("ensemble", 0.25, validates_part=True), row("normal", 0.25, "mf"))
    chosen = {"gmf": ("gmf", "ensemble"), "mf": ("mf", "normal"), "all": ("gmf", "ensemble")}
    found["served"] = [{"of": of, "model": m, "method": n, "metrics": one} for of, (m, n) in chosen.items()]
    page, _ = page_of(tmp_path, found, View("table", "All"))
    at = page.index("Best served row, chosen by validation alone:")
    numbers = "(ndcg@20 0.2500, valid ndcg@20 0.5000)"
    rows = [f"- gmf: **ensemble** {numbers}", f"- mf: **normal** {numbers}", f"- all: **gmf ensemble** {numbers}"]
    assert page[at + 2 : at + 5] == rows
    assert sum("single networks of ensemble, not their mean" in line for line in page) == 1


# -- figures ----------------------------------------------------------------------------------------------


def test_heat(tmp_path: Path, drawn: Drawn) -> None:
    """The best pair of settings of each method, and every field where it belongs."""
    values = {(1.0, 1.0): 0.1, (10.0, 1.0): 0.4, (1.0, 10.0): 0.3}
    variants = {f"{m} {a:g} {b:g}": {"method": m, "c0": a, "c1": b} for m in ("deca", "deca-p") for a, b in values}
    part = Part("fair", "modcloth", tuple(variants), variants=variants)
    rows = [
        row(name, values[own["c0"], own["c1"]] + (own["method"] == "deca-p"))
        for name, own in variants.items()
        if name != "deca-p 1 10"
    ]
    page, table = page_of(tmp_path, outcome_of(*rows), View("heat", "Heat"), part)
    assert page[2] == "deca: best 0.4000 at c0=10, c1=1; deca-p: best 1.4000 at c0=10, c1=1."
    assert table[0] == ["c0", "c1", "method", "ndcg@20"]
    assert table[1:] == [
        *(["1", "1", "deca", "0.100000"], ["10", "1", "deca", "0.400000"], ["1", "10", "deca", "0.300000"]),
        *(["1", "1", "deca-p", "1.100000"], ["10", "1", "deca-p", "1.400000"]),
    ]
    (first, down, across, words), (second, *_) = drawn["draw_heat"]
    assert np.array_equal(first, [[0.1, 0.3], [0.4, np.nan]], equal_nan=True)
    assert np.array_equal(second, [[1.1, np.nan], [1.4, np.nan]], equal_nan=True)
    assert (down, across, words) == (["1", "10"], ["1", "10"], ("C0", "C1", "deca, modcloth, ndcg@20"))
    assert drawn["figures"] == [("1-heat", 2)]
    assert page_of(tmp_path / "b", outcome_of(row("deca 1 1", 0.1, metrics={})), View("heat", "Heat"), part)[0] == [
        "not run"
    ]


def epochs(phase: str, *pairs: tuple[float, float]) -> list[dict[str, Any]]:
    return [
        {"phase": phase, "epoch": k, "valid": {"ndcg@20": valid}, "eval_set": {"ndcg@20": test}}
        for k, (valid, test) in enumerate(pairs, 1)
    ]


def test_curves(tmp_path: Path, drawn: Drawn) -> None:
    """Of the last phase: the test at the best epoch by validation, the best test, and the last."""
    normal, ensemble, oracle = row("normal", 0.1), row("ensemble", 0.1), row("oracle", 0.1, uses_knowledge=True)
    first = epochs("joint", (0.1, 0.5), (0.3, 0.25), (0.2, 0.75), (0.9, 0.9))
    prior = epochs("prior", (0.99, 0.99))
    put_cell(tmp_path, MODCLOTH, normal, 0, also={"curve": prior + first})
    put_cell(tmp_path, MODCLOTH, normal, 1, also={"curve": epochs("joint", (0.4, 0.75), (0.3, 0.5), (0.3, 0.25))})
    put_cell(tmp_path, MODCLOTH, ensemble, 0, also={"curve": epochs("b", (0.1, 0.125))})
    (short,) = epochs("joint", (0.1, 0.5))
    put_cell(tmp_path, MODCLOTH, oracle, 0, history=[short | {"train_seconds": 1.0, "loss": 0.1}])
    found = outcome_of(normal, ensemble, row("deca", 0.1), oracle)
    page, table = page_of(tmp_path, found, View("curves", "Curves"))
    assert table == [
        ["method", "best epoch by validation", "its test", "best test", "last test"],
        ["normal", "2/1", "0.5000", "0.7500", "0.5000"],  # three epochs, as long as the shorter
        ["ensemble's second", "1", "0.1250", "0.1250", "0.1250"],
        ["oracle †", "1", "0.5000", "0.5000", "0.5000"],
    ]
    ((series, words, _, colours),) = drawn["draw_lines"]
    assert colours == {"normal": 0, "ensemble's second": 3, "oracle †": 6}
    std = [pytest.approx(s) for s in (0.125 * np.sqrt(2), 0.125 * np.sqrt(2), 0.25 * np.sqrt(2))]
    assert series["normal"] == [(1, 0.625, std[0]), (2, 0.375, std[1]), (3, 0.5, std[2])]
    assert series["ensemble's second"] == [(1, 0.125, 0.0)]
    assert words[1] == "clean test ndcg@20"
    assert any(line.startswith("† knows") for line in page)
    assert page_of(tmp_path / "b", outcome_of(normal), View("curves", "Curves"))[0] == ["not run"]


def test_levels(tmp_path: Path, drawn: Drawn) -> None:
    """A line for each method over the shares of noise, with the paper's below; what was not run is said."""
    parts = [Part(f"noise-{level:g}", "cifar10", (), ("resnet32",), level=level) for level in (0.2, 0.4, 0.1)]

    def measured(method: str, value: float | None, std: float = 0.0) -> dict[str, Any]:
        metrics = {} if value is None else {"accuracy": {"mean": value, "std": std}}
        return row(method, value, "resnet32") | {"metrics": metrics}

    found = {
        "noise-0.2": outcome_of(measured("normal", 0.75, 0.25), measured("deca-p", 0.5), measured("itlm", None)),
        "noise-0.4": outcome_of(measured("normal", 0.5), measured("deca-p", None), measured("cleanlab", None)),
        "noise-0.1": {},
    }
    page, table = page_of(tmp_path, found, View("levels", "Levels", paper="images"), *parts)
    assert page[0] == "noise-0.1: not run."
    assert table == [
        ["method", "20%", "40%"],
        ["normal", "0.7500 ± 0.2500", "0.5000"],
        ["deca-p", "0.5000", "not run"],
        ["normal (paper)", "0.8744", "0.8415"],
        ["deca-p (paper)", "0.8878", "0.8662"],
        ["itlm", "not run", "not run"],
    ]
    ((series, words, _, ticks, colours),) = drawn["draw_lines"]
    assert colours == {"normal": 0, "deca-p": 2}
    assert series == {"normal": [(0.2, 0.75, 0.25), (0.4, 0.5, 0.0)], "deca-p": [(0.2, 0.5, 0.0)]}
    assert words == ("noise", "accuracy")
    assert ticks == {0.2: "20%", 0.4: "40%"}
    _, table = page_of(tmp_path / "b", found, View("levels", "Levels", metric="noise auc"), *parts)
    assert table == []
    found["noise-0.4"]["rows"][0]["metrics"]["noise auc"] = {"mean": 0.5, "std": 0.0}
    _, table = page_of(tmp_path / "c", found, View("levels", "Levels", metric="noise auc"), *parts)
    assert [one[0] for one in table] == ["method", "normal", "itlm", "deca-p", "cleanlab"]


def test_ratings(tmp_path: Path, drawn: Drawn) -> None:
    """The mean belief by rating, and how many of the steps up the ratings rise."""
    deca, deca_p = row("deca", 0.1), row("deca-p", 0.1)
    for seed, shift in enumerate((0.0, 0.5)):
        means = {"3": {"mean": 0.25 + shift}, "4": {"mean": 0.25 + shift}, "5": {"mean": 0.375}}
        put_cell(tmp_path, MODCLOTH, deca, seed, also={"by_rating": means})
    put_cell(tmp_path, MODCLOTH, deca_p, 1, also={"by_rating": {k: {"mean": int(k) / 8} for k in "345"}})
    _, table = page_of(tmp_path, outcome_of(deca, deca_p, row("t-ce", None)), View("ratings", "Ratings"))
    half = f"0.5000 ± {0.5 / np.sqrt(2):.4f}"
    assert table == [
        ["method, h", "rating 3", "rating 4", "rating 5", "rises"],
        ["deca", half, half, "0.3750 ± 0.0000", "0 of 2 steps"],
        ["deca-p", "0.3750 ± 0.0000", "0.5000 ± 0.0000", "0.6250 ± 0.0000", "2 of 2 steps"],
    ]
    ((bars, *_),) = drawn["draw_bars"]
    assert bars["deca-p"] == {"rating 3": (0.375, 0.0), "rating 4": (0.5, 0.0), "rating 5": (0.625, 0.0)}


def decided(folder: Path, name: str, decisions: list[int], clean: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"decision": decisions, "clean": clean}), folder / f"{name}.decisions.parquet")


def test_agreement(tmp_path: Path, drawn: Drawn) -> None:
    """The share of clean and of noisy clicks that two models, or two seeds of one, decide differently."""
    part = Part("pairs", "modcloth", ("normal",), ("gmf", "mf", "cdae"))
    kinds, folder = [1, 1, 1, 1, 0, 0, -1], tmp_path / "pairs" / "cells"
    decided(folder, "gmf-normal-seed0", [1, 1, 1, 1, 1, 1, 1], kinds)
    decided(folder, "gmf-normal-seed1", [1, 1, 1, 1, 1, 0, 0], kinds)
    decided(folder, "mf-normal-seed0", [1, 1, 1, 0, 0, 0, 0], kinds)
    decided(folder, "mf-normal-seed1", [0, 1, 1, 0, 0, 0, 0], kinds)
    found = outcome_of(*(row("normal", 0.1, model) for model in part.models))
    page, table = page_of(tmp_path, found, View("agreement", "Agreement"), part)
    assert table == [
        ["models", "clean", "noisy", "noisy / clean"],
        ["gmf–mf", f"0.3750 ± {0.25 / np.sqrt(2):.4f}", f"0.7500 ± {0.5 / np.sqrt(2):.4f}", "2.00"],
        ["gmf, seeds", "0.0000 ± 0.0000", "0.5000 ± 0.0000", ""],
        ["mf, seeds", "0.2500 ± 0.0000", "0.0000 ± 0.0000", "0.00"],
    ]
    assert drawn["draw_bars"][0][0]["mf, seeds"] == {"clean": (0.25, 0.0), "noisy": (0.0, 0.0)}
    for path in folder.iterdir():
        path.unlink()
    again, kept = page_of(tmp_path, found, View("agreement", "Agreement"), part)
    assert (again, kept) == (page, table)  # what was once measured stays
    nothing, _ = page_of(tmp_path / "b", found, View("agreement", "Agreement"), part)
    assert nothing[0].startswith("Nothing to compare")


def test_cost(tmp_path: Path, drawn: Drawn) -> None:
    """The quickest of the seeds, as many times as normal of the same model."""
    rows = [
        row("normal", 0.1),
        row("deca", 0.1),
        row("normal", 0.1, "mf"),
        row("deca", 0.1, "mf"),
        row("t-ce", None),
    ]
    seconds = [[(2.0, 0.5), (4.0, 0.25)], [(6.0, 1.0), (5.0, 1.0)], [(10.0, 1.0)], [(5.0, 4.0)]]
    for one, times in zip(rows, seconds, strict=False):
        for seed, (train, inference) in enumerate(times):
            cost = {"train_seconds": train, "inference_seconds": inference}
            put_cell(tmp_path, MODCLOTH, one, seed, also={"cost": cost})
    _, table = page_of(tmp_path, outcome_of(*rows), View("cost", "Cost"))
    assert table == [
        ["model", "method", "train s", "of normal", "inference ms", "of normal"],
        ["gmf", "normal", "2.00", "1.00", "250.0", "1.00"],
        ["gmf", "deca", "5.00", "2.50", "1000.0", "4.00"],
        ["mf", "normal", "10.00", "1.00", "1000.0", "1.00"],
        ["mf", "deca", "5.00", "0.50", "4000.0", "4.00"],
    ]
    ((bars, *_),) = drawn["draw_bars"]
    expected = {"gmf": {"normal": (1.0, 0.0), "deca": (2.5, 0.0)}, "mf": {"normal": (1.0, 0.0), "deca": (0.5, 0.0)}}
    assert bars == expected


def test_cost_where_normal_was_not_run(tmp_path: Path) -> None:
    """As by `--methods deca` alone: a time without a ratio, not a page that cannot be written."""
    deca = row("deca", 0.1)
    put_cell(tmp_path, MODCLOTH, deca, 0, also={"cost": {"train_seconds": 5.0, "inference_seconds": 1.0}})
    _, table = page_of(tmp_path, outcome_of(row("normal", None), deca), View("cost", "Cost"))
    assert table[1] == ["gmf", "deca", "5.00", "", "1000.0", ""]


# -- all studies ------------------------------------------------------------------------------------------


def put(folder: Path, study: str, **parts: dict[str, Any]) -> None:
    (folder / study).mkdir(parents=True)
    (folder / study / "study.json").write_text(json.dumps({"study": study, "parts": parts}))


def cells(page: Path) -> list[list[str]]:
    return [
        [c.strip() for c in line.strip("|").split("|")] for line in page.read_text().splitlines() if "|" in line
    ]


def test_differences_from_normal_in_per_cent(tmp_path: Path, drawn: Drawn) -> None:
    """Filled where they are beyond chance; no point for what was not run, nor where normal is nothing."""
    rows = [
        *(row("popularity", 0.9, ""), row("normal", 0.2), row("deca", 0.25, **with_p(0.049))),
        *(row("deca-p", 0.15, **with_p(0.05)), row("t-ce", None), row("oracle", 0.3, uses_knowledge=True)),
        *(row("normal", 0.0, "mf"), row("deca", 0.1, "mf"), row("normal", None, "cdae"), row("deca", 0.1, "cdae")),
    ]
    put(tmp_path, "recommend-modcloth", fair=outcome_of(*rows))
    page = write_overview(tmp_path)
    ((points, colours, (label, _), widest),) = drawn["draw_differences"]
    gains = {"deca": (pytest.approx(25), True), "deca-p": (pytest.approx(-25), False)}
    assert points == {"modcloth gmf": gains | {"oracle †": (pytest.approx(50), False)}}
    assert widest == 40.0
    assert label == "ndcg@20: difference from normal, per cent"
    assert list(colours) == ["normal", "deca", "deca-p", "t-ce", "oracle †"]
    assert len(set(colours.values())) == 5
    assert [
        "modcloth gmf",
        "0.2000 (0.088)",
        "0.2500 ▲ (0.099)",
        "0.1500 (0.100)",
        "not run (0.093)",
        "0.3000",
    ] in (cells(page))
    assert "deca or deca-p ahead of normal in 2 of 2 cells, beyond chance in 1; behind in 0" in page.read_text()


@pytest.mark.parametrize(("value", "widest"), [(0.22, 10.5), (0.19, 5.25), (0.4, 40.0), (0.2, 1.0)])
def test_the_figure_is_a_little_wider_than_the_largest_difference(
    value: float, widest: float, tmp_path: Path, drawn: Drawn
) -> None:
    put(tmp_path, "recommend-modcloth", fair=outcome_of(row("normal", 0.2), row("deca", value)))
    write_overview(tmp_path)
    assert drawn["draw_differences"][0][3] == pytest.approx(widest)


@pytest.mark.parametrize(
    ("gain", "ahead", "behind"),
    [(0.00005, 1, 0), (0.00004, 0, 0), (-0.00004, 0, 0), (-0.00006, 0, 1), (0.01, 1, 0), (-0.01, 0, 1)],
)
def test_what_does_not_show_in_four_digits_is_no_difference(
    gain: float, ahead: int, behind: int, tmp_path: Path
) -> None:
    rows = [row("normal", 0.0), row("deca", gain, **with_p(0.01)), row("deca-p", -0.5, **with_p(0.01))]
    put(tmp_path, "recommend-modcloth", fair=outcome_of(*rows))
    words = (
        f"ahead of normal in {ahead} of 1 cells, beyond chance in {ahead}; behind in {behind}, beyond chance in "
    )
    assert f"{words}{behind}." in write_overview(tmp_path).read_text()


def test_what_is_done_of_every_study(tmp_path: Path) -> None:
    """Cells, minutes of all parts, and what is lacking part by part."""
    short = outcome_of(row("normal", 0.1), row("deca", 0.1, seeds=1), wall_seconds=89.5)
    paper = outcome_of(row("normal", 0.1))
    del paper["wall_seconds"]
    put(tmp_path, "recommend-modcloth", fair=short, paper=paper)
    put(tmp_path, "recommend-adressa", fair={"missing": "data not at hand"}, paper=outcome_of(row("normal", 0.1)))
    found = {line[0]: line[2:] for line in cells(write_overview(tmp_path))}
    assert found["[recommend-modcloth](recommend-modcloth/README.md)"] == ["5", "1", "fair: 3 of 4"]
    assert found["[recommend-adressa](recommend-adressa/README.md)"] == ["2", "2", "fair: data not at hand"]
    assert found["hyper"] == ["", "", "not run"]


def test_a_further_method_is_shown_too(tmp_path: Path, drawn: Drawn) -> None:
    put(tmp_path, "recommend-modcloth", fair=outcome_of(row("normal", 0.2), row("r-ce", 0.25)))
    assert ["modcloth gmf", "0.2000 (0.088)", "0.2500"] in cells(write_overview(tmp_path))
