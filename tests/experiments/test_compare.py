"""Comparisons: means over seeds, the best marked, and settings of one method alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow as pa
import pytest
from scipy.stats import ttest_ind

from accord.data.simulator import Simulation
from accord.errors import SettingError
from accord.experiments.compare import compare, run_cells, write_summary
from accord.experiments.study import Cell, Job, Study, _digest
from accord.report.tables import as_csv, as_markdown, best_rows, comparison_rows, detection_rows, shown_p
from accord.tasks.clicks import ClickTask

QUICK = {"epochs": 2, "batch_size": 512, "dims": 8}


def test_summary_is_the_mean_of_its_cells(made: Simulation, tmp_path: Path) -> None:
    task = ClickTask(made.log(), [made.truth(), made.clicks()])
    study = Study(task, ["normal", "deca"], ["gmf"], seeds=2, settings=QUICK)
    started: list[tuple[str, int, int, int]] = []
    summary = compare(study, tmp_path, lambda *cell: started.append(cell))
    assert started == [
        ("gmf normal", 0, 1, 4),
        ("gmf normal", 1, 2, 4),
        ("gmf deca", 0, 3, 4),
        ("gmf deca", 1, 4, 4),
    ]
    cells = [json.loads((tmp_path / "cells" / f"gmf-deca-seed{s}.json").read_text()) for s in (0, 1)]
    values = [cell["metrics"]["ndcg@20"] for cell in cells]
    row = summary["rows"][1]["metrics"]["ndcg@20"]
    assert row == {"mean": pytest.approx(fmean(values)), "std": pytest.approx(stdev(values))}
    assert set(summary["rows"][0]["metrics"]) == {"valid ndcg@20", "ndcg@20", "recall@20", "noise auc"}
    assert cells[0]["settings"]["seed"] == 0
    assert cells[0]["selection"] == "best epoch by NDCG@20 on held-out clicks (each user's latest clicks)"


def test_rows_that_may_be_one_stack_are(made: Simulation, tmp_path: Path) -> None:
    """Those that differ in their constants alone, by seed, so that a prior is trained once; and they give what they
    would give one by one."""
    variants = {f"deca-p {c0:g}": {"method": "deca-p", "c0": c0} for c0 in (1.0, 10.0)}
    variants |= {"deca-p gmf": {"method": "deca-p", "noise_model": "gmf"}}
    methods = ["normal", "oracle", *variants]
    task = ClickTask(made.log(), [made.truth(), made.clicks()])
    study = Study(task, methods, ["gmf"], 2, settings=QUICK, variants=variants)
    jobs = [Job(study, Cell(*row, seed), tmp_path) for row in study.rows() for seed in range(2)]
    groups = [[(job.cell.method, job.cell.seed) for job in group] for group in study.groups(jobs)]
    constants = [(name, seed) for seed in range(2) for name in ("deca-p 1", "deca-p 10")]
    alone = [[(name, seed) for seed in range(2)] for name in ("normal", "oracle", "deca-p gmf")]
    assert sorted(groups) == sorted([constants, *alone])
    together = compare(study, tmp_path / "together")
    for name in ("deca-p 1", "deca-p 10"):
        single = compare(replace(study, methods=["normal", name]), tmp_path / name.replace(" ", "-"))
        ours, own = (
            {n: one["mean"] for row in whole["rows"] if row["method"] == name for n, one in row["metrics"].items()}
            for whole in (together, single)
        )
        assert ours == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("changed", ["log", "valid", "truths", "known", "clean_log", "ratings"])
def test_another_table_of_the_same_size_is_another_study(changed: str, made: Simulation) -> None:
    def study(table: Any) -> Study:
        task = ClickTask(**{"log": made.log(), changed: [table] if changed == "truths" else table})
        return Study(task, ["normal"], ["gmf"])

    table = made.truth()
    users = table["user"].to_pylist()
    other = table.set_column(0, "user", pa.array([users[-1], *users[:-1]]))
    cut = pa.concat_tables([table.slice(0, 7), table.slice(7)])  # the same in other pieces, and of other kinds
    words = table.cast(pa.schema([(name, pa.large_string()) for name in table.column_names]))
    each = [study(one).identity(Cell("gmf", "normal", 0)) for one in (table, cut, words, table.to_pandas(), other)]
    assert len(set(each[:4])) == 1
    assert each[0] != each[4]


def test_digests_of_odd_tables() -> None:
    tables = [
        pa.table({"a": pa.array([], pa.string())}),
        pa.table({"a": ["", None]}),
        pa.table({"a": [None, ""]}),
        pa.table({"a": ["ab", "c"]}),
        pa.table({"a": ["a", "bc"]}),
        pa.table({"b": ["a", "bc"]}),
        pa.table({"a": [[1], [2, 3]]}),
        pa.table({"a": [[1, 2], [3]]}),
    ]
    assert len({_digest(table) for table in tables}) == len(tables)


def test_a_table_shows_users_with_clicks_apart_where_there_are_others(made: Simulation, tmp_path: Path) -> None:
    new = pa.table({"user": ["new"] * 3, "item": made.truth()["item"].slice(0, 3)})
    truth = pa.concat_tables([made.truth().select(["user", "item"]), new])
    summary = compare(Study(ClickTask(made.log(), [truth]), ["popularity"], ["gmf"], seeds=1), tmp_path)
    (row,) = summary["rows"]
    assert {"ndcg@20", "warm ndcg@20"} <= set(row["metrics"])
    assert not {"warm recall@20", "warm ndcg@5"} & set(row["metrics"])
    assert summary["rules"] == list(ClickTask.rules)


def test_tables() -> None:
    summary = {
        "rows": [
            {
                "method": "normal",
                "metrics": {"ndcg@20": {"mean": 0.2, "std": 0.01}},
                "seconds": 1.25,
                "auc_by_kind": {"all": 0.7},
            },
            {
                "method": "deca",
                "metrics": {"ndcg@20": {"mean": 0.1, "std": 0.0}},
                "seconds": 2.0,
                "auc_by_kind": {"all": 0.6},
            },
        ],
        "popularity_auc_by_kind": {"all": 0.5},
    }
    assert best_rows(summary) == {(0, "ndcg@20")}
    rows = comparison_rows(summary, bold=("**", "**"))
    assert rows[1] == ["normal", "**0.2000±0.0100**", "1.2"]
    assert as_markdown(rows).splitlines()[1] == "| --- | --- | --- |"
    assert as_csv(summary).splitlines()[1] == ",normal,0.200000,0.010000,,,,,,,1.250"
    assert detection_rows(summary)[-1] == ["item popularity", "0.500"]
    assert detection_rows({"rows": []}) == []


def test_intervals_stay_where_rows_have_not_changed(made: Simulation, tmp_path: Path) -> None:
    """Though the metrics of each user are gone; the correction is that of the table as it is now."""
    task = ClickTask(made.log(), [made.truth()])
    study = Study(task, ["normal", "wbpr", "deca"], ["gmf"], seeds=2, settings=QUICK)
    before = {row["method"]: row.get("against_normal") for row in compare(study, tmp_path)["rows"]}
    assert before["deca"] is not None
    for file in (tmp_path / "cells").glob("*.parquet"):
        file.unlink()
    again = compare(study, tmp_path)
    assert {row["method"]: row.get("against_normal") for row in again["rows"]} == before
    other = tmp_path / "other"  # a study that has copied these cells, and knew one of the rows otherwise
    (copied,) = run_cells([(study, other)], lambda *cell: pytest.fail("trained"), reuse=[tmp_path])
    (other / "compare.json").write_text(json.dumps({"rows": [{"method": "deca", "metrics": {}, "seeds": 2}]}))
    rows = write_summary(study, other, copied, tmp_path)["rows"]
    assert {row["method"]: row.get("against_normal") for row in rows} == before
    fewer = compare(replace(study, methods=["normal", "deca"]), tmp_path)["rows"][1]["against_normal"]
    assert fewer == before["deca"] | {"p_holm": pytest.approx(before["deca"]["p"])}
    kept = json.loads((tmp_path / "compare.json").read_text())
    for row in kept["rows"][1:]:  # as an older version wrote it: of no known kind, so it does not stay
        row["against_normal"] = {"metric": "ndcg@20", "p": 0.5, "p_holm": 0.5}
    (tmp_path / "compare.json").write_text(json.dumps(kept))
    assert compare(study, tmp_path)["rows"][1]["against_normal"]["over"] == "seeds"
    cell = tmp_path / "cells" / "gmf-normal-seed0.json"
    changed = json.loads(cell.read_text())
    changed["metrics"]["ndcg@20"] += 1e-9
    cell.write_text(json.dumps(changed))
    for row in compare(study, tmp_path)["rows"][1:]:
        ours, theirs = (
            [json.loads((tmp_path / "cells" / f"gmf-{m}-seed{k}.json").read_text())["metrics"] for k in range(2)]
            for m in (row["method"], "normal")
        )
        welch = ttest_ind([one["ndcg@20"] for one in ours], [one["ndcg@20"] for one in theirs], equal_var=False)
        assert row["against_normal"]["p"] == pytest.approx(welch.pvalue)
        assert row["against_normal"]["over"] == "seeds"
        assert shown_p(row).endswith(" ‡")
    again = compare(study, tmp_path)["rows"][1]["against_normal"]  # and so it stays
    assert again["over"] == "seeds"


def test_bad_studies_are_refused_before_training(made: Simulation, tmp_path: Path) -> None:
    for settings in ({"dcea.alpha": 1}, {"alfa": 1}, {"deca.alfa": 1}):
        with pytest.raises(SettingError):
            compare(Study(ClickTask(made.log()), ["normal", "deca"], ["gmf"], settings=settings), tmp_path / "out")
    with pytest.raises(SettingError, match="At least one seed"):
        compare(Study(ClickTask(made.log()), ["normal"], ["gmf"], seeds=0), tmp_path / "out")
    assert not (tmp_path / "out").exists()
