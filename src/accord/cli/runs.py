"""What is asked of a saved run: recommend, audit, evaluate, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accord.cli import output, ui
from accord.errors import DataError, SettingError


def run_recommend(
    run: Path,
    users: list[str],
    users_file: Path | None,
    k: int,
    include_seen: bool,
    format_: str | None,
    out: Path | None,
) -> None:
    from accord.estimators.recommender import Recommender

    if users_file is not None:
        try:
            lines = users_file.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise DataError(f"'{users_file}' cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise DataError(f"'{users_file}' is no UTF-8 text: {error.reason} at byte {error.start}.") from error
        users = users + [line.strip() for line in lines if line.strip()]
    if not users:
        raise SettingError("No user was asked for; give --user ID or --users-file FILE.")
    with ui.busy("ranking"):
        table = Recommender.load(run).recommend(users, k=k, exclude_seen=not include_seen)
    output.emit(table, format_, out, f"Top {k} for {len(users)} user{'s' if len(users) > 1 else ''}")


def run_audit(
    path: Path,
    top: int,
    share: float | None,
    out: Path | None,
    write_clean: Path | None,
    truth: Path | None,
    write_issues: Path | None = None,
    relabel: str | None = None,
    data: Path | None = None,
) -> None:
    from accord.tasks.runs import open_run

    output.check_audit(top, out, write_clean, write_issues)
    if relabel is not None and write_clean is None:
        raise SettingError("--relabel says what --write-clean writes; give a file with --write-clean FILE.")
    with ui.busy("judging"):
        run = open_run(path)
        audit = run.audit(share, truth, data)
    if out is not None:
        output.emit(audit.issues, None, out, "")
    else:
        shown = min(top, audit.issues.num_rows)
        output.emit(audit.issues.slice(0, top), "table", None, f"The {shown} least believable {run.what}")
    ui.say(f"{audit.flagged} of {audit.issues.num_rows} {run.what} flagged ({audit.rule})")
    for file, what, made in (
        (write_clean, "--relabel", audit.cleaned if relabel is None else _relabelled(audit.relabelled, relabel)),
        (write_issues, "--write-issues", audit.marked),
    ):
        if file is not None:
            if made is None:
                raise SettingError(f"{what} is for labelled data; these are {run.what}.")
            output.emit(made(), None, file, "")
    for rows in audit.measured:
        ui.table(rows)


def _relabelled(made: Any, how: str) -> Any:
    return None if made is None else lambda: made(how)


def run_evaluate(path: Path, truth: Path | None, ks: list[int], images: Path | None, as_json: bool) -> None:
    from accord.tasks.runs import open_run

    with ui.busy("measuring"):
        found = open_run(path).evaluate(truth, ks, images)
    if as_json:
        print(json.dumps(found.measured))
        return
    ui.table(found.table, found.title)
    for remark in found.remarks:
        ui.say(remark)


def run_report(path: Path) -> None:
    from accord.estimators.run_folder import REPORT
    from accord.tasks.runs import open_run

    with ui.busy("writing the report"):
        open_run(path).write_report(path / REPORT)
    ui.say(f"Report: {path / REPORT}")
