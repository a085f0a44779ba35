"""The classifier: fit on labels that cannot all be trusted, predict, and say which labels are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import nn

from accord.batches.labels import LabelData
from accord.batches.scaling import Scaling
from accord.data.table_columns import TableColumns
from accord.decisions.tables import Subject
from accord.errors import DataError, SettingError
from accord.estimators import (
    classifier_folder,
    classifier_inputs,
    classifier_judging,
    classifier_networks,
    classifier_stacks,
    classifier_training,
    run_folder,
    scikit_folder,
)
from accord.estimators.base import CUSTOM, Cache, Convening, Estimator, Prepared, Trained
from accord.estimators.deciding import Decided
from accord.estimators.examples import NotTrainedError, refused
from accord.estimators.inputs import examples_of
from accord.estimators.issues import flag_share
from accord.estimators.keywords import ClassifierKeywords
from accord.estimators.measuring import as_bool
from accord.estimators.naming import OWN, is_estimator, named_objects
from accord.estimators.scikit_models import SCIKIT, Lessons, ScikitModel, refuse_other
from accord.estimators.setting_rules import check_prior, usual_method
from accord.estimators.settings import refuse_unknown, settings_class
from accord.estimators.tables_back import TablesBack
from accord.evaluation.detection import detection_metrics, flag_metrics
from accord.methods import METHODS, Method, chosen_method, is_method
from accord.models import check_model
from accord.training import Callback, CheckpointPath


class Classifier(Estimator, TablesBack, ClassifierMixin, BaseEstimator):
    """Learns classes from labels that cannot all be trusted; a scikit-learn estimator.

    >>> clf = Classifier(method="deca-p", epochs=2, seed=0)
    >>> X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> clf.fit(X, y).find_label_issues().column_names
    ['index', 'given_label', 'predicted_label', 'label_quality', 'is_label_issue']
    """

    kind = "classifier"
    task = "labels"
    metric, metric_words, what = "accuracy", "accuracy", "labels"

    n_features_in_: int
    shape_: tuple[int, ...]
    """Of an example: (columns,) or (height, width, channels)."""
    integers_: bool
    """Whether the model takes whole numbers as they are."""
    model_: str
    scaling_: Scaling
    columns_: TableColumns | None
    """How the columns of a table become numbers."""
    names_: np.ndarray | None
    """What the examples are called, such as files."""
    index_: Any
    """The table's own names of its rows."""
    part_: np.ndarray
    """The use of each example: 0 trained on, 1 held out."""
    label_quality_: np.ndarray
    is_issue_: np.ndarray
    noise_matrix_: np.ndarray
    worst_images_: tuple[np.ndarray, np.ndarray] | None
    n_iter_: int
    device_: str

    # What is there during a fit alone, but for the device.
    _device: torch.device
    _inputs: np.ndarray
    _rows: Any
    _decided: Decided | None
    _given: np.ndarray
    """The examples as an estimator of scikit-learn gets them."""
    _weights: np.ndarray | None
    _whole: LabelData
    _eval_set: LabelData | None

    def __init__(
        self,
        model: Any = "auto",
        method: Any = None,
        features: Any = None,
        **given: Unpack[ClassifierKeywords],
    ) -> None:
        """Without a ``method`` it is deca-p, or normal for a model without gradients, such as scikit-learn's."""
        # scikit-learn's way: keep what was given, check it when fit is called.
        settings: dict[str, Any] = {**given}
        if is_method(method):
            method, settings = self._named_method(method, settings)
        self.model, self.method, self.features = model, method, features
        if not set(settings) <= set(settings_class(self.task).model_fields):
            METHODS.load_plugins()  # perhaps one of an installed package's method
        known = settings_class(self.task).model_fields
        refuse_unknown(settings, known)
        fields = {name: field.default for name, field in known.items()}
        for name, value in {**fields, **settings}.items():
            if name not in ("model", "method"):
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """A setting of a method that was registered after this estimator was made."""
        fields = {} if name.endswith("_") else settings_class(self.task).model_fields
        if name not in fields:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return fields[name].default

    @property
    def settings(self) -> Any:
        """The settings, checked."""
        if isinstance(self.model, str) and self.model == SCIKIT:
            raise SettingError(f"Model '{SCIKIT}' stands for an estimator of yours; give the estimator itself.")
        given = usual_method(self.model, self.task) if self.method is None else self.method
        method, chosen = chosen_method(given, self.task)  # set_params may give any form
        values = {name: getattr(self, name) for name in settings_class(self.task).model_fields}
        values |= {"method": method, **chosen}
        if not isinstance(self.model, str):
            refuse_other(self.model)
            values["model"] = SCIKIT if is_estimator(self.model) else CUSTOM
        return self.check_settings(named_objects(values)[0])

    def objects(self) -> dict[str, Any]:
        """What was given as an object in place of a name, by the names that settings have for it."""
        return named_objects({name: getattr(self, name, None) for name in (*OWN, "members")})[1]

    def renewed(self, **changes: Any) -> Self:
        """An estimator that is not fitted, of the same settings but for these."""
        return type(self)(**{**self.get_params(deep=False), **changes})

    @classmethod
    def check_settings(cls, values: dict[str, Any]) -> Any:
        """Settings from keywords, refused in one sentence where they are wrong."""
        settings = super().check_settings(values)
        check_model(settings.model, cls.task, "auto", CUSTOM, SCIKIT)
        if settings.model == SCIKIT and not settings.method_class.takes_estimators:
            raise SettingError(
                f"Method '{settings.method}' learns by gradients, and a scikit-learn model has none: take "
                "method='normal' or 'council', or a torch module as the model."
            )
        check_prior(settings, cls.task)
        for name in ("auxiliary", "noise_model"):
            if getattr(settings, name) != OWN[name]:
                check_model(getattr(settings, name), cls.task, "auto", what=name)
        return settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _method(self, **more: Any) -> Method:
        return super()._method(**{"classes": len(self.classes_), **more})

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        clean: tuple[Any, Any] | None = None,
        eval_set: tuple[Any, Any] | None = None,
        decisions: Any = None,
        names: Any = None,
        callback: Callback | None = None,
        checkpoint: CheckpointPath | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train on a table (examples, columns) or images (examples, height, width[, channels]) and their labels.

        A table of pandas, polars or Arrow, or a file of one, may have columns of words, dates and gaps; ``y`` may
        be the name of its column of labels. Images may be paths, or a folder. Data sets of torch may hold labels.
        ``sample_weight`` multiplies each example's loss, scaled to a mean of 1: a weight of 2 is the example twice,
        and 0 leaves it out of what is learnt. Held-out examples count by their weights too.
        A part of the examples is held out, with the labels it has, to choose the epoch. ``clean`` holds examples
        with trusted labels for mw-net; ``eval_set`` ones whose accuracy is written into the history and decides
        nothing. ``decisions``, a table or a file of what people decided about these labels, are learnt from: what
        is kept or fixed has its decided label and is trusted, what is dropped is left out, and how many labels are
        flagged agrees with the decisions. ``names`` are the examples' own, such as files. ``callback`` receives the
        progress.
        ``checkpoint`` is a file in which the training is saved from time to time. If it exists, the training is
        resumed from it; when all is done, it is removed. Progress is shown on a terminal and in a notebook;
        ``verbose`` True shows it anywhere, False nowhere.
        """
        source = {"X": X, "y": y, "clean": clean, "eval_set": eval_set, "names": names}
        source |= {"sample_weight": sample_weight, "decisions": decisions}
        return self._fit(source, callback, checkpoint, verbose)

    def _prepare(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
        return classifier_training.prepare(self, source, device, cache)

    def _divided(self, source: Mapping[str, Any], cache: Cache) -> dict[str, Any]:
        own = {"sample_weight": self._weights}
        own |= {"decisions": source.get("decisions"), "divided": self.part_ == classifier_training.VALID}
        return {"X": source["X"], "y": source.get("y"), **own}

    def _as_prior(self, given: Any) -> nn.Module:
        return classifier_networks.as_prior(self, given)

    def _join(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        return classifier_stacks.join(self, prepared)

    def _stackable(self, settings: Any) -> bool:
        return classifier_stacks.stackable(self, settings)

    def _room(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
        return classifier_stacks.room(self, source, device, cache)

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        from accord.estimators.council.labels import convene

        return convene(self, prepared, source, cache, callback, checkpoint)

    def _finish(self, trained: Trained, judge: bool) -> None:
        """Keep what was learned and judge every given label."""
        classifier_judging.finish(self, trained, judge)

    # -- answering -------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class) of each example, columns in the order of ``classes_``."""
        self._require_fit()
        return classifier_judging.probabilities(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each example."""
        self._require_fit()
        return self.classes_[self.predict_proba(X).argmax(1)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of labels that are predicted."""
        y = examples_of(X, y, classifier_inputs.known_of(self)).labels if y is None or isinstance(y, str) else y
        with refused("give as many labels as examples"):
            return float(super().score(X, y, sample_weight))

    def _require_fit(self) -> None:
        try:
            check_is_fitted(self, "networks_")
        except NotFittedError as error:
            raise NotTrainedError("This classifier is not fitted yet; call fit first.") from error

    def class_numbers(self, labels: Any, *, unknown: bool = False) -> np.ndarray:
        """The class number of each label, whether it came as text or as a number.

        A label that was not trained on is an error, or with ``unknown`` −1.
        """
        return classifier_inputs.class_numbers(self, labels, unknown=unknown)

    # -- noise -----------------------------------------------------------------------------------------

    def find_label_issues(self, share: float | None = None) -> Any:
        """Every example it was fitted on, worst label first.

        Columns: index, given_label, predicted_label, label_quality (1 = clean) and is_label_issue: the model
        takes the example for another class, or with ``share`` it is among the worst of that share. ``index`` is
        the number of the row, from 0; ``source_index`` is the index of a pandas table that has one of its own. A
        council adds how many members believe the label (``votes``, of so many ``voters``) and how far they agree
        (``agreement``: the share of pairs of members that take the example for one class).
        """
        return self._shown(self.issues_table(share))

    def issues_table(self, share: float | None = None) -> pa.Table:
        """What `find_label_issues` says, as an Arrow table."""
        self._require_fit()
        return classifier_judging.issues_table(self, share)

    def _subject(self) -> Subject:
        return classifier_judging.subject(self)

    def _flagged(self, share: float | None) -> np.ndarray:
        return self.is_issue_ if share is None else flag_share(self.label_quality_, share)

    # -- measuring -------------------------------------------------------------------------------------

    def evaluate(self, X: Any, y: Any = None) -> dict[str, float]:
        """Accuracy and cross-entropy against trusted labels."""
        self._require_fit()
        y = examples_of(X, y, classifier_inputs.known_of(self)).labels if y is None or isinstance(y, str) else y
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
        return {
            **detection_metrics(self.label_quality_, is_noise, "label"),
            **flag_metrics(self._flagged(share), is_noise),
            "examples": len(is_noise),
            "noise_share": float(is_noise.mean()),
        }

    # -- keeping ---------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, model: Any = None, features: Any = None, trusted: Sequence[str] = ()) -> Self:
        """Read a run folder; a run of your own torch module needs ``model``, and ``features`` as it was given.

        A scikit-learn model is read from the folder. If it has types that are not known to be safe, they are named;
        list those that you trust in ``trusted``.
        """

        def make(settings: dict[str, Any]) -> Self:
            own = model if settings["model"] == CUSTOM else settings["model"]
            lists = {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
            values: dict[str, Any] = {**settings, **lists, "model": own}
            if own == SCIKIT:
                values["model"] = scikit_folder.Stored(trusted)
            return cls(features=features, **values)

        return run_folder.load(Path(path), cls.kind, model is not None, make)

    def _save_files(self, draft: Path) -> dict[str, Any]:
        return classifier_folder.save_files(self, draft)

    def _load_files(self, run: Path, config: dict[str, Any]) -> Callable[..., nn.Module]:
        classifier_folder.load_files(self, run, config)
        if not isinstance(self.model, scikit_folder.Stored):
            return classifier_networks.networks_of(self)
        fitted = scikit_folder.read(run, self.model.trusted)
        self.model = clone(fitted)
        lessons = Lessons(None, self.labels_, self.classes_)
        return lambda role, name: ScikitModel(self.model, lessons).restore(fitted)

    @property
    def bytes_to_look(self) -> int:
        """What looking at one example takes when a run is loaded."""
        return classifier_folder.LOOK * self.n_features_in_

    def _check_loaded(self, run: Path) -> None:
        try:
            sound = hasattr(self._target, "outputs")
        except KeyError:
            sound = False
        if not sound:
            raise DataError(f"'{run}' names no network that answers; the folder is damaged, fit it again.")

    @property
    def metrics_(self) -> dict[str, Any]:
        """Noisy validation metrics of the epoch that was kept, for each phase, and how many labels are flagged."""
        return classifier_folder.metrics_of(self)
