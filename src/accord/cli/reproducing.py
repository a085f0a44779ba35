"""Studies on the command line: a list of them, progress for the whole, and where the outcome is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli import ui
from accord.cli.searching import show_search, trial_callback
from accord.errors import DataError
from accord.experiments.tuning import SearchProgress

if TYPE_CHECKING:
    from accord.reproduction.running import Callbacks


def run_list() -> dict[str, Any]:
    from accord.reproduction.studies import STUDIES

    rows = [["study", "what", "data", "cells of a seed"]]
    for study in STUDIES.values():
        cells = sum(len(part.models) * len(part.methods) for part in study.parts)
        data = ", ".join(dict.fromkeys(part.data for part in study.parts))
        rows.append([study.name, study.title, data, str(cells)])
    ui.table(rows)
    return {"studies": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}


def run_overview(folder: Path) -> dict[str, Any]:
    from accord.reproduction.overview import write_overview

    with ui.busy("drawing"):
        page = write_overview(folder)
    ui.say(f"Page: {page}")
    return {"page": page}


def run_reproduce(
    name: str,
    root: Path | None,
    out: Path,
    seeds: int,
    device: str,
    parts: list[str],
    models: list[str],
    methods: list[str],
    trials: int | None,
    minutes: float | None,
    show: bool,
) -> dict[str, Any]:
    from accord.reproduction.page import write_results
    from accord.reproduction.running import OUTCOME, has_cells, judged, refuse_other_study, reproduce
    from accord.reproduction.studies import find_study

    declared = find_study(name).with_trials(trials)
    until = None if minutes is None and not show else time.monotonic() + 60 * (0 if show else minutes or 0)
    if show and not (out / OUTCOME).is_file() and not has_cells(declared, out):
        raise DataError(f"There is nothing of study '{name}' in '{out}' to show; run it without --show.")
    if show and (out / OUTCOME).is_file():
        refuse_other_study(declared, out)
        outcome = judged(declared, out)
    else:
        with ui.bar() as progress:
            outcome = reproduce(
                declared,
                root,
                out,
                seeds=seeds,
                device=device,
                only=tuple(parts),
                wanted=declared.select(models, methods),
                callbacks=_callbacks(progress, until),
            )
    with ui.busy("drawing"):
        page = write_results(declared, outcome, out)
    rows = [["part", "cells", "state"]]
    for part in declared.parts:
        found: dict[str, Any] = outcome["parts"].get(part.name, {"missing": "not run"})
        if "missing" in found:
            rows.append([part.name, "0", found["missing"]])
            continue
        done, whole = sum(row["seeds"] for row in found["rows"]), found["seeds"] * len(found["rows"])
        state = "done" if done == whole else "not complete" if done else "not run"
        rows.append([part.name, f"{done}/{whole}", state])
    ui.table(rows, declared.title)
    ui.say(f"Page: {page}")
    return {"study": name, "page": page, "parts": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}


def _callbacks(progress: ui.Bars, until: float | None) -> Callbacks:
    from accord.reproduction.running import Callbacks

    tasks: dict[str, Any] = {}
    trainings = ui.Trainings(progress)

    def clear() -> None:
        for name in list(tasks):
            if name != "whole":
                progress.remove_task(tasks.pop(name))
        for task in [t.id for t in progress.tasks if t.id != tasks.get("whole")]:
            progress.remove_task(task)

    def part(name: str, number: int, of: int) -> None:
        clear()
        if "whole" not in tasks:
            tasks["whole"] = progress.add_task("study", total=of, note="")
        progress.update(tasks["whole"], completed=number - 1, note=f"{name} ({number}/{of})")

    def cell(row: str, seed: int, number: int, of: int) -> Any:
        if not trainings.expects_more:
            clear()
        return trainings.callback(f"{row}, seed {seed} ({number}/{of}): ")

    def search(row: str, now: SearchProgress) -> None:
        if row not in tasks:
            clear()
            tasks[row] = progress.add_task(f"search {row}", total=now.trials, note="")
        show_search(progress, tasks[row], now)

    return Callbacks(
        part=part,
        cell=cell,
        search=search,
        trial=trial_callback(progress),
        has_time=lambda: until is None or time.monotonic() < until,
    )
