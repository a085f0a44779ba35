"""A trained recommender as a run folder: JSON, safetensors and Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

import accord
from accord.errors import DataError
from accord.estimators import run_folder as folder
from accord.estimators.parts import TRAIN, VALID, clicks_from
from accord.files import standing
from accord.models import PairModel

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

R = TypeVar("R", bound="Recommender")
KIND = "recommender"


def save(rec: Recommender, path: Path, *, overwrite: bool, also: Callable[[Path], None] | None) -> None:
    with folder.new_folder(path, KIND, overwrite=overwrite) as draft:
        folder.write_json(draft / folder.CONFIG, _config(rec))
        folder.write_weights(draft / folder.WEIGHTS, rec.networks_)
        folder.write_ids(draft / folder.IDS, rec.user_ids_, rec.item_ids_)
        pyarrow.parquet.write_table(_click_table(rec), draft / folder.CLICKS)
        folder.write_lines(draft / folder.HISTORY, rec.history_)
        folder.write_json(draft / folder.METRICS, metrics_of(rec))
        if also is not None:
            also(draft)


def load(kind: type[R], run: Path, model: Any) -> R:
    run = standing(run)
    config = folder.read_config(run, KIND)
    with folder.damage_named(run, own_model=model is not None):
        settings = dict(config["settings"])
        name = settings.pop("model")
        if name == "custom" and model is None:
            raise DataError(
                f"'{run}' holds a model of your own; pass its factory: Recommender.load(path, model=…)."
            )
        rec = kind(model=model if name == "custom" and model is not None else name, **settings)
        _restore(rec, run, config)
        return rec


def _config(rec: Recommender) -> dict[str, Any]:
    columns = rec.columns_
    return {
        "format": folder.FORMAT,
        "kind": KIND,
        "accord": accord.__version__,
        "torch": torch.__version__,
        "settings": rec.settings.model_dump(),
        "columns": {"user": columns.user, "item": columns.item, "time": columns.time},
        "log": rec.notes_,
        "threshold": rec.threshold_,
        "networks": list(rec.networks_),
    }


def _click_table(rec: Recommender) -> pa.Table:
    clicks = rec.clicks_
    columns: dict[str, Any] = {
        "user": clicks.users,
        "item": clicks.items,
        "count": clicks.counts,
        "part": rec.part_,
        "label_quality": rec.quality_,
    }
    if clicks.times is not None:
        times = pa.array(clicks.times)
        columns["time"] = times.cast(clicks.time_type) if clicks.time_type else times
    return pa.table(columns)


def _restore(rec: Recommender, run: Path, config: dict[str, Any]) -> None:
    rec.user_ids_, rec.item_ids_ = folder.read_ids(run / folder.IDS)
    rec.columns_ = folder.read_columns(config["columns"])
    rec.notes_, rec.threshold_ = folder.read_notes(config["log"]), float(config["threshold"])
    table = folder.read_clicks(run / folder.CLICKS, timed=rec.columns_.time is not None)
    rec.clicks_ = clicks_from(table, rec.user_ids_, rec.item_ids_, rec.columns_)
    rec.part_, rec.quality_ = np.asarray(table["part"]), np.asarray(table["label_quality"])
    fits = len(rec.clicks_) == rec.part_.size and (np.diff(rec.clicks_.keys) > 0).all()
    if not fits or not (rec.part_ == TRAIN).any():
        raise DataError(f"The clicks of '{run}' are not in order; the folder is damaged, fit it again.")
    noise_model = rec.settings.noise_model
    models = {"noise_dp": noise_model, "noise_dn": noise_model}
    if rec.settings.method == "popularity":
        models["target"] = "popularity"
    training = rec._training()
    rec.networks_ = {role: rec._build(role, models.get(role), training) for role in config["networks"]}
    folder.read_weights(run / folder.WEIGHTS, rec.networks_)
    for network in rec.networks_.values():
        network.requires_grad_(False).eval()
    rec.history_ = folder.read_history(run / folder.HISTORY, "ndcg@20")
    if not isinstance(rec._target, PairModel):
        raise DataError(f"'{run}' names no network that answers; the folder is damaged, fit it again.")


def metrics_of(rec: Recommender) -> dict[str, Any]:
    issues = rec.quality_[rec.part_ <= VALID] < rec.threshold_
    return {
        "validation": folder.kept_epochs(rec.history_, rec.settings.restore),
        "label_issues": {
            "threshold": rec.threshold_,
            "flagged": int(issues.sum()),
            "share": float(issues.mean()),
        },
        "epochs": len(rec.history_),
        "train_seconds": round(sum(r["train_seconds"] for r in rec.history_), 3),
    }
