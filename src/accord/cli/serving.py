"""A run in use: `accord recommend --all`, by one process or several together, and `accord audit --log`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accord.cli import output, ui
from accord.cli.runs import check_unknown, read_by, say_unknown
from accord.errors import SettingError


def share_of_work() -> tuple[int, int]:
    """Which of how many processes this one is, as torchrun says it: (rank, number of processes)."""
    words = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not all(word.isascii() and word.isdigit() for word in words) or not int(words[0]) < int(words[1]):
        raise SettingError(
            f"RANK={words[0]} and WORLD_SIZE={words[1]} name no process of several: start accord by torchrun, or "
            "unset both."
        )
    return int(words[0]), int(words[1])


def run_recommend_all(run: Path, k: int, include_seen: bool, out: Path | None) -> dict[str, Any]:
    from accord.estimators.recommender import Recommender

    rank, world = share_of_work()
    if out is None:
        raise SettingError("The lists of all users are for a file; name it with --out FILE.parquet.")
    if world == 1 and output.check_format(None, out) != "parquet":
        raise SettingError(f"All users' lists are written as Parquet; let the name '{out}' end with .parquet.")
    with ui.busy("loading"):
        rec = Recommender.load(run)
        output.refuse_own(out, sources=read_by(rec), run=run)
    lists = rec.recommend_all(k, exclude_seen=not include_seen, rank=rank, world=world)
    with ui.bar() as bars:
        task = bars.add_task("ranking", total=len(lists), note="")
        written = lists.write(
            out, lambda done, of: bars.update(task, completed=done, note=f"{done:,} of {of:,} users")
        )
    ui.say(f"Top {k} for {len(lists):,} users written to {written}")
    return {"written": written, "users": len(lists)}


def run_judge(
    run: Path, log: Path, top: int, share: float | None, out: Path | None, on_unknown: str, spreadsheet: bool
) -> dict[str, Any]:
    """New clicks, judged by an old run."""
    from accord.estimators.recommender import Recommender

    check_unknown(on_unknown)
    output.check_audit(top, out)
    output.check_spreadsheet(spreadsheet, out, None)
    with ui.busy("judging"):
        rec = Recommender.load(run)
        output.refuse_own(out, sources=read_by(rec, log), run=run)
        found = rec.judged_log(log, share, on_unknown=on_unknown)
    say_unknown("clicks", found.skipped, found.skipped + found.table.num_rows, found.unknown)
    rule = f"quality below {found.threshold:.4f}" if share is None else f"the worst {share:.1%}"
    count, flagged = found.table.num_rows, int(found.table["is_label_issue"].to_numpy().sum())
    shown = found.table if out is not None else found.table.slice(0, top)
    answer = output.emit(shown, None, out, f"The {shown.num_rows} least believable new clicks", spreadsheet)
    ui.say(f"{flagged} of {count} new clicks flagged ({rule}); {found.new_users} users are new to the run")
    answer |= {"judged": count, "flagged": flagged, "rule": rule, "skipped": found.skipped}
    return {**answer, "unknown": found.unknown, "new_users": found.new_users}


def run_export(run: Path, to: Path, index: bool, overwrite: bool) -> dict[str, Any]:
    from accord.estimators.export.writing import KIND
    from accord.estimators.recommender import Recommender
    from accord.estimators.run_folder import check_free

    check_free(to, KIND, overwrite=overwrite)
    with ui.busy("exporting"):
        rec = Recommender.load(run)
        output.refuse_own(to, sources=read_by(rec), run=run)
        made = rec.export(to, index=index, overwrite=overwrite)
    ui.say(f"{len(made.files)} files written to {to}, read back and compared: {', '.join(made.files)}")
    if made.recall is not None:
        ui.say(f"The index finds {made.recall:.1%} of the ten best items.")
    if made.left_out is not None:
        ui.say(f"There is no model.pt2: {made.left_out}")
    return {"written": to, "files": made.files, "form": made.form, "recall": made.recall, "left_out": made.left_out}
