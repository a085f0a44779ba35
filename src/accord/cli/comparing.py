"""`accord compare`: methods next to one another, tuned first where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.cli.paths import alone, nothing_left, refuse_others
from accord.cli.searching import run_tuned
from accord.errors import DataError
from accord.estimators.run_folder import REPORT
from accord.experiments.budget import Budget
from accord.experiments.cells import CellFiles
from accord.experiments.compare import SUMMARY, compare, is_of
from accord.experiments.stored import read_stored
from accord.experiments.study import CELLS, Study
from accord.experiments.tuning import TUNE
from accord.files import write_whole
from accord.report import write_comparison_plot, write_comparison_report
from accord.report.tables import (
    as_csv,
    as_markdown,
    comparison_rows,
    detection_rows,
    served_rows,
    what_intervals_mean,
    what_served_means,
    words_of_seeds,
)


def compare_and_show(study: Study, out: Path, budget: Budget | None = None) -> dict[str, Any]:
    """Where there is a ``budget``, every row is tuned first."""
    study.check()
    refuse_others(out, "comparison", (CELLS, SUMMARY, TUNE))
    _refuse_another(study, out)
    tried = [0]
    worth = nothing_left(out, lambda: any(out.glob("cells/*.json")) or max(tried) > 0)
    with worth, alone(out, "comparison"):
        if budget is not None:
            study = run_tuned(study, budget, out, lambda now: tried.append(now.done))
        summary = _compared(study, out)
        _write_comparison(summary, out)
    ui.table(comparison_rows(summary), f"{', '.join(study.models)}, {words_of_seeds(summary)}")
    for rows in (served_rows(summary), detection_rows(summary)):
        if rows:
            ui.table(rows)
    for words in [what_intervals_mean(summary), what_served_means(summary), *study.remarks(summary)]:
        if words:
            ui.say(words)
    ui.say(f"Selection: {summary['selection']}")
    ui.say(f"Report: {out / REPORT}")
    return {**summary, "report": out / REPORT}


def _refuse_another(study: Study, out: Path) -> None:
    """The page of another study, of other data or settings, stays; more methods, models and seeds join this one."""
    summary = read_stored(out / SUMMARY, "summary")
    if summary is not None and not is_of(study, summary, CellFiles(out)):
        raise DataError(f"'{out}' holds a comparison of other data or settings; choose another path.")


def _compared(study: Study, out: Path) -> dict[str, Any]:
    with ui.bar() as progress:
        whole = progress.add_task("comparison", total=study.seeds * len(study.rows()), note="")

        trainings = ui.Trainings(progress)

        def start(row: str, seed: int, number: int, of: int) -> Any:
            if not trainings.expects_more:
                progress.update(whole, completed=number - 1, note=f"run {number}/{of}")
            return trainings.callback(f"{row}, seed {seed}: ")

        return compare(study, out, start)


def _write_comparison(summary: dict[str, Any], out: Path) -> None:
    tables = [comparison_rows(summary, bold=("**", "**")), served_rows(summary), detection_rows(summary)]
    markdown = "\n".join(as_markdown(rows) for rows in tables if rows)
    said = (what_intervals_mean(summary), what_served_means(summary))
    markdown += "".join(f"\n{words}\n" for words in said if words)
    write_whole(out / "compare.md", markdown)
    write_whole(out / "compare.csv", as_csv(summary))
    write_comparison_plot(summary, out / "compare.svg")
    write_comparison_report(summary, out / REPORT)
