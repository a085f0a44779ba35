"""What only a classifier's run folder has: classes, scaling, labels and their qualities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from safetensors.numpy import load_file, save_file

from accord.batches.scaling import Scaling
from accord.data.parquet_files import parquet_names
from accord.data.table_columns import TableColumns
from accord.data.text_arrays import as_array
from accord.errors import DataError
from accord.estimators import run_folder as folder
from accord.estimators import scikit_folder
from accord.estimators.notes import sound_notes
from accord.estimators.scikit_models import ScikitModel
from accord.memory import refuse_too_large
from accord.plain import tensor_shapes
from accord.training import resolve_device

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

LABELS, THUMBS, NOISE = "labels.parquet", "worst.safetensors", "noise.safetensors"
COLUMNS = "columns.safetensors"
"""The arrays by which columns of text become numbers, where there are any."""
INDEX = "source_index"
"""The column of the table's own names of its rows."""
WIDEST = 1 << 14
"""Bytes of a class's name that a run folder may ask for."""
LOOK = 256
"""Bytes of memory for a number of an example: what networks make of it on the way."""
THUMBNAILS, MOST_THUMBNAILS, BYTES_OF_THUMBNAILS = 48, 500, 8_000_000
"""Images of the worst labels that a run keeps for its report: always so many, and more where they are small."""


def images_kept(shape: tuple[int, ...]) -> int:
    """How many images of a shape a run keeps.

    >>> images_kept((28, 28, 1)), images_kept((64, 64, 3)), images_kept((224, 224, 3))
    (500, 162, 48)
    """
    return max(THUMBNAILS, min(MOST_THUMBNAILS, BYTES_OF_THUMBNAILS // (4 * math.prod(shape))))


def save_files(clf: Classifier, draft: Path) -> dict[str, Any]:
    pyarrow.parquet.write_table(_label_table(clf), draft / LABELS)
    save_file({"matrix": clf.noise_matrix_}, draft / NOISE)
    if clf.worst_images_ is not None:
        at, pixels = clf.worst_images_
        save_file({"index": at.astype(np.int64), "pixels": np.ascontiguousarray(pixels)}, draft / THUMBS)
    if clf.columns_ is not None and clf.columns_.arrays():
        save_file(clf.columns_.arrays(), draft / COLUMNS)
    target = clf.networks_.get("target")
    if isinstance(target, ScikitModel):
        scikit_folder.write(target, draft)
    scaling = clf.scaling_
    return {
        "model": clf.model_,
        "classes": {"type": clf.classes_.dtype.str, "values": clf.classes_.tolist()},
        "shape": list(clf.shape_),
        "scaling": {"mean": scaling.mean.tolist(), "std": scaling.std.tolist()},
        "columns": None if clf.columns_ is None else clf.columns_.state(),
        "feature_names": [str(name) for name in getattr(clf, "feature_names_in_", ())] or None,
        "integers": clf.integers_,
        "data": clf.notes_,
    }


def _label_table(clf: Classifier) -> pa.Table:
    return pa.table(
        {
            **(clf.votes_ or {}),
            "given": clf.labels_,
            "predicted": clf.predicted_,
            "label_quality": clf.label_quality_,
            "is_issue": clf.is_issue_,
            "part": clf.part_,
            **({} if clf.index_ is None else {INDEX: clf.index_}),
            "name": pa.nulls(len(clf.labels_), pa.string()) if clf.names_ is None else clf.names_,
        }
    )


def load_files(clf: Classifier, run: Path, config: dict[str, Any]) -> None:
    """Classes, shape, scaling and the judgement of every label, each checked against the others."""
    clf.classes_ = _classes(config["classes"])
    clf.shape_, clf.model_ = tuple(int(n) for n in config["shape"]), config["model"]
    clf.integers_ = bool(config.get("integers", False))
    clf.n_features_in_ = math.prod(clf.shape_)
    refuse_too_large(LOOK * clf.n_features_in_, f"An example of '{run}'", "fit it with smaller images")
    _take_columns(clf, config.get("columns"), run)
    _take_names(clf, config.get("feature_names"))
    mean, std = (torch.tensor(config["scaling"][name], dtype=torch.float32) for name in ("mean", "std"))
    clf.scaling_ = Scaling(mean, std)
    clf.noise_matrix_ = _tensors(run / NOISE)["matrix"]
    clf.notes_ = sound_notes(config["data"], "labels")
    names = ["given", "predicted", "label_quality", "is_issue", "part", "name"]
    table = folder.read_parquet(run / LABELS, names)
    kinds = (pa.int64(), pa.int64(), pa.float32(), pa.bool_(), pa.int8())
    clf.labels_, clf.predicted_, clf.label_quality_, clf.is_issue_, clf.part_ = (
        folder.column(table, name, kind, run / LABELS) for name, kind in zip(names, kinds, strict=False)
    )
    folder.sound_quality(clf.label_quality_, run / LABELS)
    clf.votes_ = _votes(run / LABELS)
    clf.index_ = None
    if INDEX in parquet_names(run / LABELS, inside=True):
        clf.index_ = folder.read_parquet(run / LABELS, [INDEX])[INDEX].combine_chunks()
    clf.names_ = (
        None if table["name"].null_count else as_array(table["name"].cast(pa.string()), f"'{run / LABELS}'")
    )
    clf.n_iter_ = len(folder.read_lines(run / folder.HISTORY))
    clf.worst_images_ = (
        _read_thumbnails(run / THUMBS, len(clf.labels_), clf.shape_) if len(clf.shape_) == 3 else None
    )
    count = len(clf.classes_)
    used = np.concatenate([clf.labels_, clf.predicted_])
    sound = (
        count >= 2
        and len(clf.shape_) in (1, 3)
        and min(clf.shape_) > 0
        and mean.shape == std.shape == (clf.shape_[-1],)
        and bool(mean.isfinite().all() and std.isfinite().all() and (std > 0).all())
        and clf.noise_matrix_.shape == (count, count)
        and clf.noise_matrix_.dtype.kind == "f"
        and len(used) > 0
        and 0 <= used.min() <= used.max() < count
    )
    if not sound:
        raise DataError(f"The files of '{run}' do not fit together; the folder is damaged, fit it again.")
    clf._device = resolve_device(clf.settings.device if torch.cuda.is_available() else "cpu")
    clf.device_ = str(clf._device)


def _take_columns(clf: Classifier, state: Any, run: Path) -> None:
    """How the columns of a table become numbers; a run of arrays does not say it."""
    clf.columns_ = None
    if state is None:
        return
    arrays = _tensors(run / COLUMNS) if (run / COLUMNS).is_file() else {}
    clf.columns_ = TableColumns.from_state(state, arrays)
    clf.n_features_in_ = len(clf.columns_.names)
    if clf.shape_ != (clf.columns_.width,):
        raise ValueError(f"the columns make {clf.columns_.width} numbers of an example of {clf.shape_}")


def _take_names(clf: Classifier, names: Any) -> None:
    """The names of the columns, where they had any: columns in another order are refused by them."""
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the names of the columns are no names")
    if len(names) != clf.n_features_in_:
        raise ValueError(f"{len(names)} names for {clf.n_features_in_} columns")
    clf.feature_names_in_ = np.array(names, dtype=object)  # pyright: ignore[reportAttributeAccessIssue]


def _votes(path: Path) -> dict[str, np.ndarray] | None:
    """What a council said of every label, where one was asked."""
    if "votes" not in parquet_names(path, inside=True):
        return None
    table = folder.read_parquet(path, list(folder.VOTES))
    return {name: folder.column(table, name, kind, path) for name, kind in folder.VOTES.items()}


def _classes(stored: dict[str, Any]) -> np.ndarray:
    """Distinct names or numbers, in order, in the type they had."""
    kind, values = np.dtype(stored["type"]), stored["values"]
    if kind.kind not in "biufUO" or kind.itemsize > WIDEST or not isinstance(values, list):
        raise ValueError(f"classes of type {kind}")
    if not all(isinstance(value, str | int | float) for value in values):
        raise ValueError("a class is neither a name nor a number")
    refuse_too_large(2 * kind.itemsize * len(values), "The list of classes", "fit the run again")
    classes = np.array(values, dtype=kind)
    if not np.array_equal(np.unique(classes), classes):
        raise ValueError("the classes are not distinct and in order")
    return classes


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file whose header was looked at."""
    tensor_shapes(path)
    return load_file(path)


def _read_thumbnails(path: Path, examples: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    tensors = _tensors(path)
    at, pixels = tensors["index"], tensors["pixels"]
    fits = at.ndim == 1 and pixels.shape == (len(at), *shape) and shape[2] in (1, 3, 4)
    fits = fits and at.dtype == np.int64 and pixels.dtype == np.float32 and bool(np.isfinite(pixels).all())
    if not fits or (len(at) and not 0 <= at.min() <= at.max() < examples):
        raise DataError(f"'{path}' does not hold the run's worst images; fit it again.")
    return at, pixels


def metrics_of(clf: Classifier) -> dict[str, Any]:
    own = sum(r["train_seconds"] + r["valid_seconds"] for r in clf.history_)
    return {
        "validation": clf.validation_,
        "label_issues": {
            "flagged": int(clf.is_issue_.sum()),
            "share": float(clf.is_issue_.mean()),
            "doubt": clf.doubt_,
        },
        "epochs": len(clf.history_),
        "train_seconds": round(own + folder.seconds_of_members(clf.notes_), 3),
    }
