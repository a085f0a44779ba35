"""`accord recommend --all`: the lists of every user, by one process or by several that share the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accord.cli import output, ui
from accord.cli.runs import read_by
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
