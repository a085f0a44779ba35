"""What is asked of a saved run: recommend, predict, audit, evaluate, report."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.cli import output, ui
from accord.errors import DataError, SettingError
from accord.plain import read_plain

UNKNOWN = ("refuse", "skip")
SHOWN = 10
"""Unknown ids that are named."""


@dataclass(frozen=True)
class Asked:
    """What `accord recommend` was asked for."""

    run: Path
    users: list[str]
    users_file: Path | None
    history: Path | None
    k: int
    include_seen: bool
    format_: str | None
    out: Path | None
    on_unknown: str
    spreadsheet: bool


def run_recommend(asked: Asked) -> dict[str, Any]:
    from accord.estimators.recommender import Recommender

    check_unknown(asked.on_unknown)
    output.check_format(asked.format_, asked.out)
    output.check_spreadsheet(asked.spreadsheet, asked.out, asked.format_)
    users = asked.users + ([] if asked.users_file is None else _lines_of(asked.users_file))
    if not users and asked.history is None:
        raise SettingError("No user was asked for; give --user ID, --users FILE, --history FILE or --all.")
    if users and asked.history is not None:
        raise SettingError("--history brings users of its own; leave --user and --users out.")
    with ui.busy("ranking"):
        rec = Recommender.load(asked.run)
        read = read_by(rec, asked.users_file, asked.history)
        output.refuse_own(asked.out, sources=read, run=asked.run)
        unknown = rec.user_ids_.unknown(users) if asked.on_unknown == "skip" else []
        given: dict[str, Any] = {"k": asked.k, "exclude_seen": not asked.include_seen}
        if asked.history is not None:
            table = rec.recommend_for(asked.history, **given)
        else:
            table = rec.recommend(_without(users, unknown), **given)
    say_unknown("users", len(unknown), len(users), unknown)
    shown = len(users) - len(unknown) if asked.history is None else len(table["user"].unique())
    title = f"Top {asked.k} for {shown} user{'' if shown == 1 else 's'}"
    answer = output.emit(table, asked.format_, asked.out, title, asked.spreadsheet)
    return {**answer, "unknown_users": unknown}


def read_by(estimator: Any, *more: Path | None) -> list[str | Path | None]:
    """Files that were read for a run, and ``more``: nothing that is written may replace them."""
    log = getattr(getattr(estimator, "source_", None), "log", None)
    named = log if isinstance(log, str | Path) else None
    return [named, getattr(estimator, "source_file_", None), *more]


def _lines_of(path: Path) -> list[str]:
    """The lines of a file, or of standard input where the path is -."""
    try:
        lines = (sys.stdin.read() if str(path) == "-" else read_plain(path, kind="lines")).splitlines()
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' is no UTF-8 text: {error.reason} at byte {error.start}.") from error
    return [line.strip() for line in lines if line.strip()]


def check_unknown(on_unknown: str) -> None:
    if on_unknown not in UNKNOWN:
        raise SettingError(f"Unknown way with unknown ids '{on_unknown}': choose skip or refuse.")


def _without(users: list[str], unknown: list[str]) -> list[str]:
    left = set(unknown)
    return [user for user in users if user not in left]


def say_unknown(what: str, count: int, of: int, names: list[str]) -> None:
    if count:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        ui.say(f"{count} of {of} {what} are unknown and were skipped: {', '.join(names[:SHOWN])}{more}")


def run_predict(
    path: Path,
    data: Path,
    probabilities: bool,
    format_: str | None,
    out: Path | None,
    on_unknown: str,
    spreadsheet: bool = False,
) -> dict[str, Any]:
    from accord.tasks.runs import open_run

    check_unknown(on_unknown)
    output.check_format(format_, out)
    output.check_spreadsheet(spreadsheet, out, format_)
    with ui.busy("predicting"):
        run = open_run(path)
        output.refuse_own(out, sources=read_by(run.estimator, data), run=path)
        found = run.predict(data, probabilities, on_unknown == "skip")
    say_unknown("rows", found.skipped, found.skipped + found.table.num_rows, found.unknown)
    answer = output.emit(found.table, format_, out, f"{found.table.num_rows} predictions", spreadsheet)
    return {**answer, "skipped": found.skipped, "unknown": found.unknown}


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
    spreadsheet: bool = False,
) -> dict[str, Any]:
    from accord.tasks.runs import open_run

    output.check_audit(top, out, write_clean, write_issues)
    output.check_spreadsheet(spreadsheet, out, None, write_clean, write_issues)
    if relabel is not None and write_clean is None:
        raise SettingError("--relabel says what --write-clean writes; give a file with --write-clean FILE.")
    with ui.busy("judging"):
        run = open_run(path)
        audit = run.audit(share, truth, data)
        judged = audit.original() if audit.original is not None and (write_clean or write_issues) else None
        place = None if judged is None else judged.place
        read = read_by(run.estimator, data, truth, place)
        output.refuse_own(out, write_clean, write_issues, sources=read, run=path)
    if out is not None:
        answer = output.emit(audit.issues, None, out, "", spreadsheet)
    else:
        shown = min(top, audit.issues.num_rows)
        words = f"The {shown} least believable {run.what}"
        answer = output.emit(audit.issues.slice(0, shown), "table", None, words)
    answer |= {"judged": audit.issues.num_rows, "flagged": audit.flagged, "rule": audit.rule}
    ui.say(f"{audit.flagged} of {audit.issues.num_rows} {run.what} flagged ({audit.rule})")
    if judged is not None:
        if relabel is not None:
            raise SettingError(f"--relabel is for labelled data; these are {run.what}.")
        answer |= _write_log(judged, share, write_clean, write_issues, spreadsheet)
    else:
        for file, what, made in (
            (write_clean, "clean", _relabelled(audit, relabel)),
            (write_issues, "issues", audit.marked),
        ):
            if file is not None:
                answer[what] = output.emit(made(), None, file, "", spreadsheet)
    for rows in audit.measured:
        ui.table(rows)
    return answer if audit.against_truth is None else {**answer, "against_truth": audit.against_truth}


def _write_log(
    judged: Any, share: float | None, clean: Path | None, issues: Path | None, spreadsheet: bool
) -> dict[str, Any]:
    """The log without its flagged rows, and with what was judged of each row."""
    answer: dict[str, Any] = {}
    if clean is not None:
        output.write_log(
            clean,
            lambda draft: judged.write_clean(draft, clean, share),
            lambda: judged.cleaned(share),
            spreadsheet,
        )
        ui.say(f"{judged.counted(share)} written to {clean}")
        answer["clean"] = {"written": clean, "count": judged.count(share)}
    if issues is not None:
        output.write_log(
            issues,
            lambda draft: judged.write_issues(draft, issues, share),
            lambda: judged.with_issues(share),
            spreadsheet,
        )
        ui.say(f"{len(judged.found.clicks)} rows written to {issues}")
        answer["issues"] = {"written": issues, "count": len(judged.found.clicks)}
    return answer


def _relabelled(audit: Any, how: str | None) -> Any:
    """What gives the cleaned table, or the one with other labels."""
    if how is None or audit.relabelled is None:
        return audit.cleaned if how is None else None
    return lambda: audit.relabelled(how)


def run_evaluate(path: Path, truth: Path | None, ks: list[int] | None, images: Path | None) -> dict[str, Any]:
    from accord.tasks.runs import open_run

    with ui.busy("measuring"):
        found = open_run(path).evaluate(truth, ks or [], images)
    ui.table(found.table, found.title)
    for remark in found.remarks:
        ui.say(remark)
    return found.measured


def run_report(path: Path, data: Path | None = None) -> dict[str, Any]:
    from accord.estimators.run_folder import CONFIG, REPORT
    from accord.files import standing
    from accord.report import report_runs, write_report
    from accord.tasks.runs import open_run

    if path.is_dir() and not (standing(path) / CONFIG).exists():
        if data is not None:
            raise SettingError("The page of several runs shows no rows of data; name one run, or leave data= out.")
        with ui.busy("reading the runs"):
            page = report_runs(path)
        ui.say(f"Runs: {page}")
        return {"report": page}
    with ui.busy("writing the report"):
        write_report(open_run(path).estimator, path / REPORT, data=data)
    ui.say(f"Report: {path / REPORT}")
    return {"report": path / REPORT}
