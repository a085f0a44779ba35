"""The classifier: fit on labels that cannot all be trusted, predict, and say which labels are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from accord.data.labelled import BLOCK, LabelledBatch, LabelledData, Scaling
from accord.data.splits import stratified_mask
from accord.errors import DataError, SettingError
from accord.estimators import classifier_folder
from accord.estimators.classifier_settings import ClassifierSettings, make_classifier_settings
from accord.estimators.examples import (
    NotTrainedError,
    as_classes,
    as_images,
    count,
    is_table,
    on_device,
    refuse_other_than_pairs,
    refused,
)
from accord.estimators.issues import flag_share, worst_first
from accord.estimators.label_issues import judge
from accord.estimators.limits import require_memory
from accord.estimators.measuring import as_bool
from accord.estimators.networks import Networks, Trained, probabilities
from accord.estimators.refit import all_or_nothing
from accord.estimators.settings import with_settings_in_signature
from accord.evaluation.detection import detection_metrics, flag_metrics
from accord.methods import USES_CLEAN_LABELS
from accord.models.classifiers import SMALLEST
from accord.training import (
    EpochRecord,
    Hook,
    Run,
    Where,
    checkpoint_of,
    computes_here,
    drive,
    resolve_device,
    training,
)

TRAIN, VALID = 0, 1
TABLE_ADVICE = "give a table (examples, columns) of finite numbers, with a label for each example"


class Prepared(NamedTuple):
    """Examples that were taken in: what a training needs."""

    inputs: np.ndarray
    data: LabelledData
    valid: LabelledData | None
    watched: LabelledData | None
    trusted: LabelledData | None
    """Clean examples."""
    build: Networks


@with_settings_in_signature(ClassifierSettings)
class Classifier(ClassifierMixin, BaseEstimator):
    """Learns classes from labels that cannot all be trusted; a scikit-learn estimator.

    >>> clf = Classifier(method="deca-p", epochs=2, seed=0)
    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> clf.fit(X, y).find_label_issues().column_names
    ['index', 'given_label', 'predicted_label', 'label_quality', 'is_label_issue']
    """

    def __init__(self, model: Any = "auto", method: str = "deca-p", features: Any = None, **settings: Any) -> None:
        # scikit-learn's way: keep what was given, check it when fit is called.
        self.model, self.method, self.features = model, method, features
        fields = {name: field.default for name, field in ClassifierSettings.model_fields.items()}
        for name, value in {**fields, **settings}.items():
            if name not in ("model", "method"):
                setattr(self, name, value)
        unknown = set(settings) - set(fields)
        if unknown:
            make_classifier_settings(dict.fromkeys(unknown))

    @property
    def settings(self) -> ClassifierSettings:
        """The settings, checked."""
        values = {name: getattr(self, name) for name in ClassifierSettings.model_fields}
        if not isinstance(self.model, str):
            values["model"] = "custom"
        return make_classifier_settings(values)

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        clean: tuple[Any, Any] | None = None,
        watch: tuple[Any, Any] | None = None,
        names: Any = None,
        hook: Hook | None = None,
        checkpoint: Where | None = None,
    ) -> Self:
        """Train on a table (examples, columns) or images (examples, height, width[, channels]) and their labels.

        A part of the examples is held out, with the labels it has, to choose the epoch. ``clean`` holds examples
        with trusted labels for mw-net; ``watch`` ones whose accuracy is written into the history and decides
        nothing. ``names`` are the examples' own, such as files. ``hook`` is told of the progress. ``checkpoint`` is
        a file in which the training is written down from time to time: where it is there already, the training
        goes on from it, and when all is done it is removed.
        """
        with all_or_nothing(self):
            self.names_ = None if names is None else np.asarray(names)
            if self.names_ is not None and self.names_.shape != (count(y),):
                raise DataError(f"There are {self.names_.size} names for {count(y)} labels; give one for each.")
            run = self.start(X, y, clean=clean, watch=watch, checkpoint=checkpoint)
            self.finish(drive([run], self._device, [hook])[0])
        if isinstance(checkpoint, str | Path):
            Path(checkpoint).unlink(missing_ok=True)
        return self

    def start(
        self,
        X: Any,
        y: Any,
        *,
        clean: tuple[Any, Any] | None = None,
        watch: tuple[Any, Any] | None = None,
        resident: Tensor | None = None,
        checkpoint: Where | None = None,
    ) -> Run:
        """Take the examples in and give the training, to be driven alone or beside others, and then finished.

        ``resident`` is the same examples on the device already, shared by several runs.
        """
        settings, taken = self.settings, self.prepare(X, y, clean=clean, watch=watch, resident=resident)
        valid, watched = taken.valid, taken.watched
        method = settings.make_method(
            len(self.classes_), self._auxiliary(), taken.trusted, keep_last=watched is not None
        )
        self._phases, self._watched = method.phases(taken.build), watched
        known = (
            self._device.type,
            settings.model_dump_json(),
            taken.inputs,
            self.labels_,
            *map(np.asarray, clean or ()),
        )
        return training(
            self._phases,
            taken.data,
            settings.training_options(self.model_),
            None if valid is None else lambda network: accuracy(network, valid),
            None if watched is None else lambda network: accuracy(network, watched),
            checkpoint_of(checkpoint, *known),
        )

    def prepare(
        self,
        X: Any,
        y: Any,
        *,
        clean: tuple[Any, Any] | None = None,
        watch: tuple[Any, Any] | None = None,
        resident: Tensor | None = None,
    ) -> Prepared:
        """Check the examples and lay them out for a training."""
        settings = self.settings
        refuse_other_than_pairs(clean=clean, watch=watch)
        if settings.method == "mw-net" and (clean is None or not count(clean[1])):
            raise DataError("Method mw-net learns from some clean examples: give fit(..., clean=(inputs, labels)).")
        if clean is not None and settings.method not in USES_CLEAN_LABELS:
            raise SettingError(f"Method '{settings.method}' learns from no clean examples; leave clean= out.")
        self._device = resolve_device(settings.device)
        names: np.ndarray | None = getattr(self, "names_", None)
        self.names_ = names if names is not None and len(names) == count(y) else None
        self.notes_: dict[str, Any] = {}
        inputs, labels = self._take(X, y)
        held = np.zeros(len(labels), bool)
        if settings.valid_share > 0:
            held = stratified_mask(labels, settings.valid_share, seed=settings.seed)
        self.part_ = np.where(held, VALID, TRAIN).astype(np.int8)
        self.labels_ = labels
        if resident is None:
            advice = "use fewer examples, or smaller images"
            require_memory(inputs.size * inputs.itemsize, self._device, "Holding these examples", advice)
        values = on_device(inputs, self._device) if resident is None else resident
        rows = torch.from_numpy(np.flatnonzero(~held)).to(self._device)
        self.scaling_ = Scaling.of(values.index_select(0, rows)).to(torch.device("cpu"))
        given = torch.from_numpy(labels).to(self._device)
        augmentation = settings.augmentation() if values.dim() == 4 else None
        data = self._data(values, given, rows)
        data.augmentation = augmentation
        self._whole = self._data(values, given, torch.arange(len(labels), device=self._device))
        alone = settings.batch_size == 1 or len(rows) == 1
        alone |= settings.method == "itlm" and round(settings.keep_share * len(rows)) <= 1
        build = self._networks(alone)
        build.check(self._auxiliary() if settings.method == "deca" else None)
        valid = self._data(values, given, torch.from_numpy(np.flatnonzero(held)).to(self._device))
        watched, trusted = (None if given is None else self._other(given) for given in (watch, clean))
        return Prepared(inputs, data, valid if held.any() else None, watched, trusted, build)

    def _take(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked inputs and class numbers; learns the shape, the classes and the model's name."""
        if y is None:
            raise DataError("A classifier requires y to be passed, but the target y is None.")
        if is_table(X):
            with refused(TABLE_ADVICE):
                checked: Any = validate_data(self, X, y, dtype=np.float32)
            inputs, y = checked
        else:
            inputs = as_images(X)
            self.n_features_in_ = int(np.prod(inputs.shape[1:]))
            if len(inputs) != count(y):
                raise DataError(f"There are {len(inputs)} images and {count(y)} labels; give one for each.")
        self.classes_, labels = as_classes(y)
        if len(self.classes_) < 2:
            found = "one class" if len(labels) else "no class"
            raise DataError(f"The labels hold {found}; a classifier needs at least two.")
        self.shape_: tuple[int, ...] = tuple(inputs.shape[1:])
        name = self.settings.model
        self.model_ = self._usual_model() if name == "auto" else name
        return inputs, labels.astype(np.int64)

    def _usual_model(self) -> str:
        """convnet for images, unless they are too small to be pooled, and mlp for all else."""
        return "convnet" if len(self.shape_) == 3 and min(self.shape_[:2]) >= SMALLEST else "mlp"

    def _auxiliary(self) -> str:
        name = self.settings.auxiliary
        return self._usual_model() if name == "auto" else name

    def _networks(self, alone: bool = False) -> Networks:
        shape = self.shape_ if len(self.shape_) == 1 else (self.shape_[2], *self.shape_[:2])
        model = self.model_ if isinstance(self.model, str) else self.model
        settings = self.settings
        fused = settings.compile and settings.method != "mw-net"  # forward mode goes through no compiled network
        return Networks(model, self.features, shape, len(self.classes_), settings.seed, self._device, fused, alone)

    def _data(self, values: Tensor, labels: Tensor, rows: Tensor) -> LabelledData:
        device = values.device
        return LabelledData(values, labels, rows, self.scaling_.to(device), None, self.settings.dtype(device))

    def _other(self, examples: tuple[Any, Any]) -> LabelledData:
        """Further examples with labels of the known classes, on the device."""
        values = on_device(self._as_fitted(examples[0]), self._device)
        labels = torch.from_numpy(self.class_numbers(examples[1])).to(self._device)
        if len(values) != len(labels) or not len(labels):
            raise DataError(
                f"There are {len(values)} clean or watched examples and {len(labels)} labels of theirs; "
                "give one for each, and at least one."
            )
        return self._data(values, labels, torch.arange(len(labels), device=self._device))

    def finish(self, history: list[EpochRecord], trained: Trained | None = None) -> None:
        """Keep what was learned and judge every given label; by default by the networks of `start`."""
        self.history_ = history
        if trained is None:
            trained = Trained.by(self._phases, self._watched)
            del self._phases, self._watched
        self.networks_ = {role: network for role, network in trained.kept.items() if role != "prior"}
        method = self.settings.make_method(len(self.classes_), self._auxiliary())
        if trained.last and trained.watched is not None:
            answers = accuracy(method.target(trained.last).eval(), trained.watched)
            history[-1]["watched_together"] = {name: float(value) for name, value in answers.items()}
        judged = judge(method, self.networks_, self._whole.in_order, len(self.classes_))
        self.label_quality_, self.predicted_ = judged.quality, judged.predicted
        self.is_issue_, self.noise_matrix_ = judged.is_issue, judged.noise_matrix
        self.n_iter_ = len(history)
        self.device_ = str(self._device)
        self.worst_images_ = self._worst_images()
        del self._whole

    def _worst_images(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Positions and pixels of the least believable images, for the report."""
        if len(self.shape_) == 1:
            return None
        order = np.argsort(self.label_quality_, kind="stable")
        worst = order[self.is_issue_[order]][: classifier_folder.THUMBNAILS]
        pixels = self._whole.inputs[torch.from_numpy(worst).to(self._device)].float().cpu().numpy()
        return worst, pixels

    # -- answering -------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class) of each example, columns in the order of ``classes_``."""
        self._require_fit()
        inputs = self._as_fitted(X)
        if not len(inputs):
            return np.empty((0, len(self.classes_)))
        device = torch.device(self.device_)
        labels = torch.zeros(len(inputs), dtype=torch.int64)
        target = self._target()
        parts = []
        for start in range(0, len(inputs), BLOCK):
            values = on_device(inputs[start : start + BLOCK], device)
            data = self._data(values, labels.to(device), torch.arange(len(values), device=device))
            parts.append(probabilities(target, data.in_order()))
        answers = torch.cat(parts).double().cpu().numpy()
        lost = ~np.isfinite(answers).all(1)
        if lost.any():
            raise DataError(
                f"Example {int(lost.argmax())} is so far from those trained on that it has no answer; "
                "leave it out, or scale the columns."
            )
        return answers

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each example."""
        self._require_fit()
        return self.classes_[self.predict_proba(X).argmax(1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that are foreseen."""
        with refused("give as many labels as examples"):
            return float(super().score(X, y, sample_weight))

    def _require_fit(self) -> None:
        try:
            check_is_fitted(self, "networks_")
        except NotFittedError as error:
            raise NotTrainedError("This classifier is not fitted yet; call fit first.") from error

    def _target(self) -> nn.Module:
        """What was trained answers, whatever the settings say by now."""
        computes_here()
        if "target" in self.networks_:
            return self.networks_["target"].eval()
        return self.settings.make_method(len(self.classes_), self._auxiliary()).target(self.networks_).eval()

    def _as_fitted(self, X: Any) -> np.ndarray:
        """Inputs of the shape that was trained on."""
        if len(self.shape_) == 1:
            if getattr(X, "ndim", 2) == 1:
                raise DataError("Reshape your data: one example is X.reshape(1, -1), one column X.reshape(-1, 1).")
            with refused("give a table (examples, columns) of finite numbers, like that of the training"):
                checked: Any = validate_data(self, X, dtype=np.float32, reset=False)
            return checked
        images = as_images(X)
        if images.shape[1:] != self.shape_:
            raise DataError(f"Images of shape {images.shape[1:]} are not those of the training, {self.shape_}.")
        return images

    def class_numbers(self, labels: Any, *, strangers: bool = False) -> np.ndarray:
        """The class number of each label, whether it came as text or as a number.

        A label that was not trained on is an error, or with ``strangers`` −1.
        """
        known = {_word(value): k for k, value in enumerate(self.classes_.tolist())}
        with refused("give each example one label of the classes trained on"):
            distinct, which = np.unique(column_or_1d(labels), return_inverse=True)
        numbers = np.array([known.get(_word(value), -1) for value in distinct.tolist()], np.int64)
        if not strangers and (numbers < 0).any():
            unknown = distinct[numbers < 0][0]
            raise DataError(f"Label '{unknown}' is none of the {len(self.classes_)} classes trained on.")
        return numbers[which]

    # -- noise -----------------------------------------------------------------------------------------

    def find_label_issues(self, share: float | None = None) -> pa.Table:
        """Every example it was fitted on, the least believable label first.

        Columns: index, given_label, predicted_label, label_quality (1 = clean) and is_label_issue: the model
        takes the example for another class, or with ``share`` it is among the worst of that share.
        """
        self._require_fit()
        flagged = self.is_issue_ if share is None else flag_share(self.label_quality_, share)
        named = {} if self.names_ is None else {"file": self.names_}
        return worst_first(
            pa.table(
                {
                    "index": np.arange(len(self.labels_)),
                    **named,
                    "given_label": self.classes_[self.labels_],
                    "predicted_label": self.classes_[self.predicted_],
                    "label_quality": self.label_quality_,
                    "is_label_issue": flagged,
                }
            )
        )

    # -- measuring -------------------------------------------------------------------------------------

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Accuracy and cross-entropy against trusted labels."""
        p, at = self.predict_proba(X), self.class_numbers(y)
        if len(p) != len(at) or not len(at):
            raise DataError(f"There are {len(p)} examples and {len(at)} labels; give one for each, at least one.")
        given = p[np.arange(len(at)), at]
        return {
            "accuracy": float((p.argmax(1) == at).mean()),
            "cross_entropy": float(-np.log(np.maximum(given, 1e-12)).mean()),
            "examples": len(at),
        }

    def evaluate_issues(self, is_noise: Any, share: float | None = None) -> dict[str, float]:
        """How well the quality finds labels known to be wrong: True for each example that is."""
        self._require_fit()
        with refused("mark each example True or False"):
            is_noise = as_bool(pa.chunked_array([pa.array(np.asarray(is_noise))]))
        if len(is_noise) != len(self.labels_):
            raise DataError(f"{len(is_noise)} marks for {len(self.labels_)} examples; give one for each.")
        flagged = self.is_issue_ if share is None else flag_share(self.label_quality_, share)
        return {
            **detection_metrics(self.label_quality_, is_noise, "label"),
            **flag_metrics(flagged, is_noise),
            "examples": len(is_noise),
            "noise_share": float(is_noise.mean()),
        }

    @property
    def metrics_(self) -> dict[str, Any]:
        """Noisy validation metrics of the epoch that was kept, for each phase, and the issues that were found."""
        return classifier_folder.metrics_of(self)

    # -- keeping ---------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = True, also: Any = None) -> None:
        """Write the run folder, whole or not at all; ``also`` may add files before it appears."""
        self._require_fit()
        classifier_folder.save(self, Path(path), overwrite=overwrite, also=also)

    @classmethod
    def load(cls, path: str | Path, model: Any = None, features: Any = None) -> Self:
        """Read a run folder; a run of your own model needs ``model``, and ``features`` as it was given."""
        return classifier_folder.load(cls, Path(path), model, features)


def _word(value: Any) -> str:
    """A label in words: 1, 1.0 and '1' are the same."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def accuracy(network: nn.Module, data: LabelledData) -> dict[str, Tensor]:
    """The share of given labels that a network foresees; left on the device until it is read."""
    with torch.no_grad():
        right = [_right(network, batch) for batch in data.in_order()]
    return {"accuracy": torch.stack(right).sum() / len(data)}


def _right(network: nn.Module, batch: LabelledBatch) -> Tensor:
    return (batch.logits(network).argmax(1) == batch.labels).sum()
