"""What only a recommender's run folder has: ids, clicks and their qualities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from accord.errors import DataError
from accord.estimators import run_folder as folder
from accord.estimators.log_split import TRAIN, clicks_from
from accord.estimators.originals import Source
from accord.stored import blocks

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

GROUP = 1 << 20
"""Rows of a table that are written together."""


def save_files(rec: Recommender, draft: Path) -> dict[str, Any]:
    folder.write_ids(draft / folder.IDS, rec.user_ids_, rec.item_ids_)
    _write_clicks(rec, draft / folder.CLICKS)
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


def _write_clicks(rec: Recommender, path: Path) -> None:
    """The clicks and what is said of them, a group of rows at a time."""
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
    columns |= rec.votes_ or {}
    schema = pa.schema([(name, pa.from_numpy_dtype(values.dtype)) for name, values in columns.items()])
    if clicks.time_type is not None and "time" in columns:
        schema = schema.set(schema.get_field_index("time"), pa.field("time", clicks.time_type))
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for some in blocks(*columns.values(), size=GROUP):
            arrays = [pa.array(values).cast(kind) for values, kind in zip(some, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema), GROUP)


def load_files(rec: Recommender, run: Path, config: dict[str, Any]) -> None:
    rec.user_ids_, rec.item_ids_ = folder.read_ids(run / folder.IDS)
    rec.columns_ = folder.read_columns(config["columns"])
    rec.notes_, rec.threshold_ = folder.read_notes(config["log"]), float(config["threshold"])
    if not 0 <= rec.threshold_ <= 1 + folder.ROUNDING:
        raise ValueError("the threshold is no probability")
    table = folder.read_clicks(run / folder.CLICKS, timed=rec.columns_.time is not None)
    rec.source_, origin = Source.saved(config.get("source"))
    if origin is not None and "row" not in table.column_names:
        raise ValueError("the clicks do not say in which row of the log they are")
    rec.clicks_ = replace(clicks_from(table, rec.user_ids_, rec.item_ids_, rec.columns_), origin=origin)
    rec.part_, rec.quality_ = np.asarray(table["part"]), np.asarray(table["label_quality"])
    rec.votes_ = {name: np.asarray(table[name]) for name in folder.VOTES if name in table.column_names} or None
    fits = len(rec.clicks_) == rec.part_.size and (np.diff(rec.clicks_.keys) > 0).all()
    if not fits or not (rec.part_ == TRAIN).any():
        raise DataError(f"The clicks of '{run}' are not in order; the folder is damaged, fit it again.")


def metrics_of(rec: Recommender) -> dict[str, Any]:
    of_members = folder.seconds_of_members(rec.notes_)
    issues = rec._judged(None)[2]
    return {
        "validation": rec.validation_,
        "label_issues": {
            "threshold": rec.threshold_,
            "flagged": int(issues.sum()),
            "share": float(issues.sum() / len(issues)),
            "doubt": rec.doubt_,
        },
        "epochs": len(rec.history_),
        "train_seconds": round(sum(r["train_seconds"] for r in rec.history_) + of_members, 3),
    }
