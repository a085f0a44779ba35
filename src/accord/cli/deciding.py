"""What is done with people's decisions: apply, export, merge, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.cli import output, ui
from accord.cli.runs import read_by
from accord.errors import DataError, SettingError


def run_apply(path: Path, out: Path, undecided: str, data: Path | None, spreadsheet: bool) -> dict[str, Any]:
    from accord.decisions.resolving import counts, verdicts
    from accord.tasks.runs import open_run

    output.check_audit(1, out)
    output.check_spreadsheet(spreadsheet, out, None)
    with ui.busy("applying what was decided"):
        run = open_run(path)
        held = verdicts(run.estimator.decisions_).values()
        if not held and undecided == "keep":
            raise DataError(f"Nobody has decided anything in '{path}' yet; review it with `accord review`.")
        table, log = run.decided(undecided, data)
        place = None if log is None else log.place
        output.refuse_own(out, sources=read_by(run.estimator, data, place), run=path)
    if log is None:
        answer = output.emit(table(), None, out, "", spreadsheet)
    else:
        output.write_log(out, lambda draft: log.write_clean(draft, out), table, spreadsheet)
        ui.say(f"{log.counted()} written to {out}")
        answer = {"written": out, "count": log.count()}
    each = counts(held)
    differ = sum(not one.agreed for one in held)
    ui.say(", ".join(f"{count} {action}" for action, count in each.items()) + f"; people differ on {differ}")
    return answer | {"decided": each, "differing": differ}


def run_export(path: Path, out: Path | None, format_: str | None) -> dict[str, Any]:
    from accord.tasks.deciding import decisions_at

    output.check_format(format_, out)
    output.refuse_own(out, run=path if path.is_dir() else None, sources=[path])
    with ui.busy("reading what was decided"):
        table = decisions_at(path)
    return output.emit(table, format_, out, f"{table.num_rows} decisions")


def run_merge(paths: list[Path], out: Path, disagreements: Path | None) -> dict[str, Any]:
    from accord.tasks.deciding import joined

    if len(paths) < 2:
        raise SettingError("Name at least two files or runs whose decisions are to be joined.")
    output.check_audit(1, out, disagreements)
    output.refuse_own(out, disagreements, sources=list(paths))
    with ui.busy("joining what was decided"):
        table, differing = joined(paths)
    answer = output.emit(table, None, out, "")
    reviewers = sorted({name for name in table["reviewer"].to_pylist() if name})
    ui.say(f"decided by {', '.join(reviewers)}; they differ in {differing.num_rows} decisions")
    if disagreements is not None:
        answer["disagreements"] = output.emit(differing, None, disagreements, "")
    elif differing.num_rows:
        output.emit(differing.slice(0, 20), "table", None, "Where people differ")
    return answer | {"reviewers": reviewers, "differing": differing.num_rows}


def run_show(path: Path) -> dict[str, Any]:
    from accord.decisions.estimates import rows_of
    from accord.tasks.runs import open_run

    with ui.busy("estimating"):
        found = open_run(path).estimator.decisions_estimate()
    if not found["decided"]:
        raise DataError(f"Nobody has decided anything in '{path}' yet; review it with `accord review`.")
    level = f"{found['level']:.0%} interval"
    rows = [["", f"estimate ({found['words']})", level]]
    rows += [[words, value, f"{low} to {high}"] for words, value, low, high in rows_of(found)]
    ui.table(rows, f"{found['decided']} labels decided, {found['checks']} random checks of the flagged")
    if found["stop"] is not None:
        beyond = f"beyond them about {found['left']:.0f} are wrong"
        ui.say(f"Worth looking at, worst first: {found['stop']} labels; {beyond}")
    return found
