"""`accord fit`: from what was typed to a training, begun or resumed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.cli.checkpointing import Checkpointing, arguments_of
from accord.cli.given import Given, given_data
from accord.cli.paths import quoted
from accord.cli.process import system_memory
from accord.cli.words import settings_of
from accord.errors import DataError

PATHS = ("data", "out", "valid", "labels", "clean")
"""Arguments that name a file or a folder."""
DATA = ("data", "user", "item", "time", "valid", "label", "labels", "size", "noise", "noise_kind")


def begin(typed: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A new training. What was typed is kept with its checkpoint, with whole paths, until it is done."""
    words = {name: str(value) if isinstance(value, Path) else value for name, value in typed.items()}
    for name in PATHS:
        if words[name] is not None and (name != "data" or os.path.exists(words[name])):
            words[name] = os.path.abspath(words[name])
    return _fit(typed, Checkpointing(words, seconds=seconds))


def resume(out: Path, seconds: float) -> dict[str, Any]:
    """The training that was interrupted before it was saved at ``out``."""
    words = arguments_of(out)
    try:
        typed = {**words, **{name: None if words[name] is None else Path(words[name]) for name in PATHS}}
        # What stands at its path, if anything does, was saved by this run, just before it was killed.
        typed |= {"out": out, "overwrite": True}
        return _fit(typed, Checkpointing(words, resume=True, seconds=seconds))
    except (KeyError, TypeError) as error:
        raise DataError(f"The checkpoint of the run at '{out}' does not say what was asked for.") from error


def _fit(typed: dict[str, Any], checkpointing: Checkpointing) -> dict[str, Any]:
    values = {name: typed[name] for name in ("method", "seed", "device", "model", "epochs")}
    values = {name: value for name, value in values.items() if value is not None} | settings_of(typed["settings"])
    given = given_data(**{name: typed[name] for name in DATA}, ignore=typed["ignore"] or [])
    given.refuse_other_task(clean=typed["clean"])
    values = {"model": given.usual_model} | values
    return run_fit(given, typed["out"], values, typed["clean"], typed["overwrite"], checkpointing)


def run_fit(
    given: Given,
    out: Path,
    values: dict[str, Any],
    clean: Path | None = None,
    overwrite: bool = False,
    checkpointing: Checkpointing | None = None,
) -> dict[str, Any]:
    from accord.estimators.run_folder import REPORT, check_free
    from accord.tasks.runs import run_of

    estimator = given.check(values)  # before the path is looked at or a row is read
    check_free(out, estimator.kind, overwrite=overwrite)
    with system_memory():
        job = given.fit_job(values, clean)

        def also(draft: Path) -> None:
            run_of(job.estimator).write_report(draft / REPORT)
            job.also(draft)

        with (checkpointing or Checkpointing()).on(out, overwrite) as checkpoint:
            with ui.bar() as progress:
                job.fit(ui.Trainings(progress).callback(first=job.first), checkpoint)
            with ui.busy("saving the run and its report"):
                job.estimator.save(out, overwrite=overwrite, also=also)
    *lines, issues = run_of(job.estimator).description()
    for line in (*lines, f"{issues}: accord audit {quoted(out)}", f"Report: {out / REPORT}", *job.remarks):
        ui.say(line)
    fitted = job.estimator
    metrics, settings = fitted.metrics_, fitted.settings_to_save()
    return {
        "run": out,
        "report": out / REPORT,
        "kind": fitted.kind,
        "settings": settings,
        "metrics": metrics,
        "remarks": [*lines, *job.remarks],
    }
