"""What only a recommender's run folder has: ids, clicks and their qualities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.errors import DataError
from accord.estimators import run_folder as folder
from accord.estimators.click_table import LAST_PART, read_clicks, write_clicks
from accord.estimators.log_split import TRAIN, clicks_from
from accord.estimators.originals import Source
from accord.estimators.settings import GIGABYTE
from accord.stored import tally

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


def save_files(rec: Recommender, draft: Path) -> dict[str, Any]:
    folder.write_ids(draft / folder.IDS, rec.user_ids_, rec.item_ids_)
    write_clicks(draft / folder.CLICKS, _click_columns(rec), rec.clicks_.time_type)
    columns = rec.columns_
    return {
        "columns": {"user": columns.user, "item": columns.item, "time": columns.time},
        "source": _source(rec),
        "log": rec.notes_,
        "threshold": rec.threshold_,
    }


def _source(rec: Recommender) -> dict[str, Any] | None:
    """Where the log is, and by what it is known again."""
    origin = rec.clicks_.origin
    if origin is None or rec.source_ is None:
        return None
    return rec.source_.to_save() | {
        "rows": origin.rows,
        "dropped": origin.dropped,
        "fingerprint": origin.fingerprint,
    }


def _click_columns(rec: Recommender) -> dict[str, np.ndarray]:
    """The clicks and what is said of them, by the names that they have in the folder."""
    clicks = rec.clicks_
    columns: dict[str, np.ndarray] = {
        "user": clicks.users,
        "item": clicks.items,
        "count": clicks.counts,
        "part": rec.part_,
        "label_quality": rec.quality_,
    }
    columns |= {"time": clicks.times} if clicks.times is not None else {}
    columns |= {"row": clicks.first_rows} if clicks.first_rows is not None else {}
    columns |= {"trusted": clicks.marks} if clicks.marks is not None else {}
    return columns | (rec.votes_ or {})


def load_files(rec: Recommender, run: Path, config: dict[str, Any]) -> None:
    rec.user_ids_, rec.item_ids_ = folder.read_ids(run / folder.IDS)
    rec.columns_ = folder.read_columns(config["columns"])
    rec.notes_, rec.threshold_ = folder.read_notes(config["log"]), float(config["threshold"])
    if not 0 <= rec.threshold_ <= 1 + folder.ROUNDING:
        raise ValueError("the threshold is no probability")
    memory = rec.settings.memory * GIGABYTE
    table, time_type = read_clicks(run / folder.CLICKS, timed=rec.columns_.time is not None, memory=memory)
    rec.source_, origin = Source.saved(config.get("source"))
    if origin is not None and "row" not in table:
        raise ValueError("the clicks do not say in which row of the log they are")
    clicks = clicks_from(table, rec.user_ids_, rec.item_ids_, rec.columns_, time_type)
    rec.clicks_ = replace(clicks, origin=origin)
    rec.part_, rec.quality_ = table["part"], table["label_quality"]
    rec.votes_ = {name: table[name] for name in folder.VOTES if name in table} or None
    fits = len(rec.clicks_) == rec.part_.size and rec.clicks_.in_order
    if not fits or not tally(rec.part_, LAST_PART + 1)[TRAIN]:
        raise DataError(f"The clicks of '{run}' are not in order; the folder is damaged, fit it again.")


def metrics_of(rec: Recommender) -> dict[str, Any]:
    of_members = folder.seconds_of_members(rec.notes_)
    flagged = tally(rec._judged(None)[2], 2)
    return {
        "validation": rec.validation_,
        "label_issues": {
            "threshold": rec.threshold_,
            "flagged": flagged[True],
            "share": flagged[True] / sum(flagged),
            "doubt": rec.doubt_,
        },
        "epochs": len(rec.history_),
        "train_seconds": round(sum(r["train_seconds"] for r in rec.history_) + of_members, 3),
    }
