"""Searches on the command line: progress for the whole, the winner, and a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.cli.paths import nothing_left, refuse_others
from accord.errors import DataError
from accord.estimators.run_folder import REPORT
from accord.experiments.budget import Budget
from accord.experiments.stored import read_stored
from accord.experiments.study import CHECKPOINTS, Study
from accord.experiments.tuning import (
    FINDINGS,
    MakeCallback,
    SearchProgress,
    Tuning,
    fit_line,
    plain,
    tune,
    tuned_study,
)
from accord.report import write_search_report


def run_tune(study: Study, budget: dict[str, Any], out: Path, data: str, given: Sequence[str]) -> dict[str, Any]:
    tuning = Tuning(study, **budget, default_first=True)
    tuning.check()
    refuse_others(out, "search", ("study.db", FINDINGS, CHECKPOINTS))
    _refuse_another_row(tuning, out)
    done = [0]
    with nothing_left(out, lambda: done[-1] > 0), ui.bar() as progress:
        whole = progress.add_task("search", total=tuning.trials, note="")

        def on_progress(now: SearchProgress) -> None:
            done.append(now.done)
            show_search(progress, whole, now)

        found = tune(tuning, out, on_progress, trial_callback(progress))
    write_search_report(found, out / REPORT)
    rows = [["setting", "best", "searched"]]
    rows += [
        [
            n,
            plain(found["best"].get(n, "default")),
            ", ".join(plain(v) for v in values),
        ]
        for n, values in found["space"].items()
    ]
    ui.table(
        rows,
        f"{found['method']}: {found['metric']} {found['value']:.4f} on noisy validation, "
        f"{found['trials']} trials of {found['seeds']} seed(s)",
    )
    for words in said_of_default(found):
        ui.say(words)
    ui.say("Train the winner:")
    line = fit_line(found, data, given)
    ui.out.print(ui.harmless(line), markup=False, soft_wrap=True)
    ui.say(f"Settings: {out / 'best.json'}    Report: {out / REPORT}")
    return {**found, "command": line, "report": out / REPORT}


def said_of_default(found: dict[str, Any]) -> list[str]:
    """How the default settings did, beside all that were tried."""
    if "default" not in found:
        return []
    others = [row["value"] for row in found["rows"] if row["trial"] != 0]
    if found["value"] > found["default"] or not others:
        return [f"The default settings reach {found['default']:.4f}."]
    return [f"Nothing that was tried beat the default settings: {found['default']:.4f} against {max(others):.4f}."]


def _refuse_another_row(tuning: Tuning, out: Path) -> None:
    """What was found for one method is not replaced by another's."""
    found = read_stored(out / FINDINGS, "findings")
    if found and (found["model"], found["method"]) != tuning.row:
        raise DataError(f"'{out}' holds the search of {found['method']}; choose another path.")


def run_tuned(study: Study, budget: Budget, out: Path, on_progress: Callable[[SearchProgress], None]) -> Study:
    """Search for every row of a comparison with the same budget."""
    with ui.bar() as progress:
        tasks: dict[str, Any] = {}

        def of_row(row: str, now: SearchProgress) -> None:
            on_progress(now)
            if row not in tasks:
                tasks[row] = progress.add_task(f"search {row}", total=now.trials, note="")
            show_search(progress, tasks[row], now)

        return tuned_study(study, out, budget, of_row, trial_callback(progress))


def show_search(progress: Any, task: Any, now: SearchProgress) -> None:
    best = "" if now.best is None else f"  best {now.best:.4f}"
    progress.update(task, completed=now.done, total=now.trials, note=f"trial {now.done}/{now.trials}{best}")


def trial_callback(progress: ui.Bars) -> MakeCallback:
    """Bars for the trainings at hand below that of the whole."""
    trainings = ui.Trainings(progress)
    return lambda trial, seed: trainings.callback(f"trial {trial}, seed {seed}: ")
