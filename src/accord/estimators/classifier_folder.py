"""A trained classifier as a run folder: JSON, safetensors and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import accord
from accord.data.labelled import Scaling
from accord.errors import DataError
from accord.estimators import run_folder as folder
from accord.training import resolve_device

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

C = TypeVar("C", bound="Classifier")
KIND = "classifier"
LABELS, THUMBS = "labels.parquet", "worst.safetensors"
THUMBNAILS = 48
"""Images of the worst labels that a run keeps for its report."""


def save(clf: Classifier, path: Path, *, overwrite: bool, also: Any) -> None:
    with folder.new_folder(path, overwrite=overwrite) as draft:
        folder.write_json(draft / folder.CONFIG, _config(clf))
        folder.write_weights(draft / folder.WEIGHTS, clf.networks_)
        pyarrow.parquet.write_table(_label_table(clf), draft / LABELS)
        folder.write_lines(draft / folder.HISTORY, clf.history_)
        folder.write_json(draft / folder.METRICS, metrics_of(clf))
        if clf.worst_images_ is not None:
            at, pixels = clf.worst_images_
            save_file({"index": at.astype(np.int64), "pixels": np.ascontiguousarray(pixels)}, draft / THUMBS)
        if also is not None:
            also(draft)


def _config(clf: Classifier) -> dict[str, Any]:
    scaling = clf.scaling_
    return {
        "format": folder.FORMAT,
        "kind": KIND,
        "accord": accord.__version__,
        "torch": torch.__version__,
        "settings": clf.settings.model_dump(),
        "model": clf.model_,
        "classes": {"type": clf.classes_.dtype.str, "values": clf.classes_.tolist()},
        "shape": list(clf.shape_),
        "scaling": {"mean": scaling.mean.tolist(), "std": scaling.std.tolist()},
        "noise_matrix": clf.noise_matrix_.tolist(),
        "networks": list(clf.networks_),
        "data": clf.notes_,
    }


def _label_table(clf: Classifier) -> pa.Table:
    return pa.table(
        {
            "given": clf.labels_,
            "predicted": clf.predicted_,
            "label_quality": clf.label_quality_,
            "is_issue": clf.is_issue_,
            "part": clf.part_,
            "name": pa.nulls(len(clf.labels_), pa.string()) if clf.names_ is None else clf.names_,
        }
    )


def load(cls: type[C], run: Path, model: Any, features: Any) -> C:
    config = folder.read_config(run, KIND)
    settings = dict(config["settings"])
    own = settings.pop("model") == "custom"
    if own and model is None:
        raise DataError(f"'{run}' holds a model of your own; pass it: Classifier.load(path, model=…, features=…).")
    for name in ("c1", "c2"):
        if isinstance(settings[name], list):
            settings[name] = tuple(settings[name])
    clf = cls(model=model if own else config["settings"]["model"], features=features, **settings)
    try:
        _restore(clf, run, config)
    except (KeyError, TypeError) as error:
        raise DataError(f"'{run / folder.CONFIG}' lacks {error}; the folder is damaged, fit it again.") from error
    return clf


def _restore(clf: Classifier, run: Path, config: dict[str, Any]) -> None:
    clf.classes_ = np.array(config["classes"]["values"], dtype=np.dtype(config["classes"]["type"]))
    clf.shape_, clf.model_ = tuple(config["shape"]), config["model"]
    clf.n_features_in_ = int(np.prod(clf.shape_))
    clf.scaling_ = Scaling(torch.tensor(config["scaling"]["mean"]), torch.tensor(config["scaling"]["std"]))
    clf.noise_matrix_ = np.array(config["noise_matrix"])
    clf.notes_ = config["data"]
    table = folder.read_parquet(run / LABELS, ["given", "predicted", "label_quality", "is_issue", "part", "name"])
    clf.labels_, clf.predicted_ = np.asarray(table["given"]), np.asarray(table["predicted"])
    if len(clf.labels_) and max(clf.labels_.max(), clf.predicted_.max()) >= len(clf.classes_):
        raise DataError(f"'{run / LABELS}' names classes that the run does not have; fit it again.")
    clf.label_quality_, clf.is_issue_ = np.asarray(table["label_quality"]), np.asarray(table["is_issue"])
    clf.part_ = np.asarray(table["part"])
    clf.names_ = None if table["name"].null_count else np.array(table["name"].to_pylist())
    clf.history_ = folder.read_lines(run / folder.HISTORY)
    clf.n_iter_ = len(clf.history_)
    clf._device = resolve_device(clf.settings.device if torch.cuda.is_available() else "cpu")
    clf.device_ = str(clf._device)
    build = clf._networks()
    models = {"noise": "noise", "weight": "weight"}
    clf.networks_ = {role: build(role, models.get(role)) for role in config["networks"]}
    folder.read_weights(run / folder.WEIGHTS, clf.networks_)
    for network in clf.networks_.values():
        network.requires_grad_(False).eval()
    clf.worst_images_ = _read_thumbnails(run / THUMBS) if len(clf.shape_) == 3 else None


def _read_thumbnails(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        tensors = load_file(path)
        return tensors["index"], tensors["pixels"]
    except (SafetensorError, OSError, KeyError) as error:
        raise DataError(f"'{path}' does not hold the run's worst images; fit it again.") from error


def metrics_of(clf: Classifier) -> dict[str, Any]:
    return {
        "validation": folder.kept_epochs(clf.history_, clf.settings.restore),
        "label_issues": {"flagged": int(clf.is_issue_.sum()), "share": float(clf.is_issue_.mean())},
        "epochs": len(clf.history_),
        "train_seconds": round(sum(r["train_seconds"] + r["valid_seconds"] for r in clf.history_), 3),
    }
