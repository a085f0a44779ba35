"""What a study may measure of a cell besides its metrics: learning curves, time, ratings, decisions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.data.clicks import match_pairs, pair_keys
from accord.data.noise import add_noise
from accord.estimators import Recommender
from accord.estimators.log_split import TRAIN
from accord.files import whole_file
from accord.tasks.base import CellData, Measurement
from accord.tasks.clicks import ClickTask
from accord.tasks.labels import GIVEN, LabelTask

COLUMNS = ("decision", "clean")
"""What is kept of each example, where decisions are measured."""
CURVE, COST, BY_RATING, DECISIONS = "curve", "cost", "by_rating", "decisions"
CLEAN, NOISY = (4.0, 5.0), (1.0, 2.0)
"""Ratings of clicks taken for clean and for noisy; 3 is neither."""
NEITHER = -1
"""The mark of such examples, where clean ones have 1 and noisy ones 0."""


def curve(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every epoch: seconds of training so far, the loss, and the metrics along the way."""
    rows, seconds = [], 0.0
    for record in history:
        seconds += record["train_seconds"]
        kept = {name: record[name] for name in ("phase", "epoch", "loss") if name in record}
        measured = {name: record.get(name, {}) for name in ("valid", "eval_set")}
        rows.append({**kept, "seconds": round(seconds, 3), **measured})
    return rows


def _curve(rec: Recommender, task: ClickTask, data: CellData, path: Path) -> list[dict[str, Any]]:
    return curve(rec.history_)


def cost(rec: Recommender, task: ClickTask, data: CellData, path: Path) -> dict[str, float]:
    """Seconds of training, and of ranking every item for a thousand users."""
    users = rec.user_ids_.values.slice(0, 1000)
    rec.recommend(users, k=20)
    started = time.perf_counter()
    for _ in range(3):
        rec.recommend(users, k=20)
    inference = (time.perf_counter() - started) / 3
    epochs = len(rec.history_)
    training = sum(record["train_seconds"] for record in rec.history_)
    return {"train_seconds": training, "epochs": epochs, "inference_seconds": inference}


def by_rating(rec: Recommender, task: ClickTask, data: CellData, path: Path) -> dict[str, dict[str, float]]:
    """The mean P(the click is meant) of training clicks with each rating."""
    quality, rating = _rated(rec, task.ratings, rec.quality_)
    return {
        f"{value:g}": {"mean": float(quality[rating == value].mean()), "clicks": int((rating == value).sum())}
        for value in np.unique(rating)
    }


def decisions(rec: Recommender, task: ClickTask, data: CellData, path: Path) -> dict[str, int]:
    """Whether the model believes each training click (P > ½) and whether it is clean or noisy, saved."""
    believed, rating = _rated(rec, task.ratings, rec.quality_ > 0.5)
    kind = np.where(np.isin(rating, CLEAN), 1, np.where(np.isin(rating, NOISY), 0, NEITHER)).astype(np.int8)
    _write(believed, kind, path.with_suffix(f".{DECISIONS}.parquet"))
    return {"clean": int((kind == 1).sum()), "noisy": int((kind == 0).sum())}


def _rated(rec: Recommender, ratings: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A value of each training click that has a rating, and the rating; ordered by user and item."""
    pairs = match_pairs(ratings, rec.user_ids_, rec.item_ids_, rec.columns_)
    own = rec.part_ == TRAIN
    keys, values = rec.clicks_.keys[own], values[own]
    wanted = pair_keys(pairs.users, pairs.items, len(rec.item_ids_))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = pairs.known & (keys[at] == wanted)
    order = np.argsort(wanted[found], kind="stable")
    rating = np.asarray(pairs.table["rating"].cast(pa.float64()))
    return values[at[found]][order], rating[found][order]


def label_decisions(clf: Any, task: LabelTask, data: CellData, path: Path) -> dict[str, int]:
    """The class a model decides for: of each training example and, where there are any, of each test example.

    An example is noisy where its label was changed; test labels are changed at the same rate. What was held out of
    training is neither.
    """
    noisy, test = data.noise, task.test
    right = ~noisy.is_noise if noisy is not None else np.ones(len(clf.labels_), bool)
    parts = {"train": (clf.predicted_, np.where(clf.part_ == TRAIN, right, NEITHER))}
    if test is not None and noisy is not None and noisy.kind != GIVEN:  # noise of one's own is not in the test
        truth = clf.class_numbers(test[1])
        more = {
            "kind": noisy.kind,
            "seed": 0,
            "inputs": test[0],
            "matrix": task.noise_matrix,
        }  # for all models alike
        changed = add_noise(truth, len(clf.classes_), noisy.rate, **more)
        parts["test"] = (clf.predict_proba(test[0]).argmax(1), ~changed.is_noise)
    for name, (decided, clean) in parts.items():
        _write(decided, clean, path.with_suffix(f".{name}.{DECISIONS}.parquet"))
    return {name: len(decided) for name, (decided, _) in parts.items()}


MEASUREMENTS: dict[str, dict[str, Measurement]] = {
    "clicks": {CURVE: _curve, COST: cost, BY_RATING: by_rating, DECISIONS: decisions},
    "labels": {DECISIONS: label_decisions},
}
"""By task and name."""


def _write(decided: np.ndarray, clean: np.ndarray, path: Path) -> None:
    with whole_file(path) as draft:
        columns = (decided.astype(np.int16), clean.astype(np.int8))
        parquet.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), draft)


Decided = tuple[np.ndarray, np.ndarray]
"""What a model decides for each example, and whether that is clean, noisy or neither."""


def disagreement(one: Decided, other: Decided) -> dict[str, float]:
    """The share of examples on which two models decide differently, of the clean and of the noisy ones: such as
    are the same for both."""
    same, differ = one[1] == other[1], one[0] != other[0]
    return {name: float(differ[same & (one[1] == code)].mean()) for name, code in (("clean", 1), ("noisy", 0))}
