"""The classifier: fit on labels that cannot all be trusted, predict, and say which labels are wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from accord.batches.labels import BLOCK, LabelData, LabelFeed, Scaling, on_shared_inputs
from accord.data.augmentation import Augmentation
from accord.data.columns import listed
from accord.data.frames import table_of_array
from accord.data.splits import stratified_mask
from accord.data.table_columns import TableColumns
from accord.data.tables_out import kind_of_table
from accord.errors import DataError, SettingError
from accord.estimators import classifier_folder, run_folder, scikit_folder
from accord.estimators.base import CUSTOM, Cache, Convening, Estimator, Prepared, Trained, place_of
from accord.estimators.examples import (
    NotTrainedError,
    as_classes,
    as_images,
    as_weights,
    as_whole,
    count,
    is_table,
    is_whole,
    known_ids,
    lowest_and_highest,
    on_device,
    refuse_other_than_pairs,
    refused,
    scaled_weights,
)
from accord.estimators.handed import same_weights, told_of, weights_of
from accord.estimators.inputs import Examples, Known, examples_of
from accord.estimators.issues import flag_share, worst_first
from accord.estimators.keywords import ClassifierKeywords
from accord.estimators.label_issues import judge as judge_labels
from accord.estimators.limits import free_memory, require_memory
from accord.estimators.measuring import as_bool
from accord.estimators.naming import OWN, is_estimator, named_objects
from accord.estimators.networks import Networks, scaled_as
from accord.estimators.scikit_models import (
    SCIKIT,
    Judges,
    Lessons,
    Said,
    ScikitModel,
    as_array,
    checked_rows,
    folds_of,
    refuse_other,
    taken,
)
from accord.estimators.settings import check_prior, refuse_unknown, settings_class, usual_method
from accord.estimators.tables_back import TablesBack
from accord.evaluation.detection import detection_metrics, flag_metrics
from accord.methods import METHODS, chosen_method, is_method
from accord.methods.two_stage import some_classes
from accord.models import check_model
from accord.models.classifiers import SMALLEST
from accord.models.classifiers.mlp import WIDTH
from accord.models.stack import as_stack, stack_kind
from accord.training import Callback, CheckpointPath, Run, computes_here, has_whole_gpu

TRAIN, VALID = 0, 1
TABLE_ADVICE = "give a table (examples, columns) of finite numbers, with a label for each example"
MOST = {"cpu": 16, "cuda": 64}
"""Most runs of a stack: beyond them nothing is gained."""


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
        return named_objects({name: getattr(self, name, None) for name in (*OWN, "members")})[1]

    def renewed(self, **changes: Any) -> Self:
        return type(self)(**{**self.get_params(deep=False), **changes})

    @classmethod
    def check_settings(cls, values: dict[str, Any]) -> Any:
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

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        clean: tuple[Any, Any] | None = None,
        eval_set: tuple[Any, Any] | None = None,
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
        nothing. ``names`` are the examples' own, such as files. ``callback`` receives the progress.
        ``checkpoint`` is a file in which the training is saved from time to time. If it exists, the training is
        resumed from it; when all is done, it is removed. Progress is shown on a terminal and in a notebook;
        ``verbose`` True shows it anywhere, False nowhere.
        """
        source = {"X": X, "y": y, "clean": clean, "eval_set": eval_set, "names": names}
        source["sample_weight"] = sample_weight
        return self._fit(source, callback, checkpoint, verbose)

    def _prepare(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> Prepared:
        settings, clean, eval_set = self.settings, source.get("clean"), source.get("eval_set")
        method = settings.method_class
        refuse_other_than_pairs(clean=clean, eval_set=eval_set)
        if method.uses_clean_labels and (clean is None or not count(clean[1])):
            raise DataError(
                f"Method {method.name} learns from some clean examples: give fit(..., clean=(inputs, labels))."
            )
        if clean is not None and not method.uses_clean_labels:
            raise SettingError(f"Method '{settings.method}' learns from no clean examples; leave clean= out.")
        weights = source.get("sample_weight")
        if weights is not None and not method.takes_weights:
            raise SettingError(f"Method '{settings.method}' takes no sample_weight; leave it out.")
        self._device, self.notes_ = device, {}
        self._take(source, cache)
        weights = as_weights(weights, len(self.labels_))
        lesson = source.get("lesson")
        held = source.get("divided", np.zeros(len(self.labels_), bool))
        crossed = self._rows is not None and not method.convenes  # then every label is judged by a fold's model
        if settings.valid_share > 0 and lesson is None and "divided" not in source and not crossed:
            held = stratified_mask(self.labels_, settings.valid_share, seed=settings.seed)
        self.part_ = np.where(held, VALID, TRAIN).astype(np.int8)
        self._weights = scaled_weights(weights, ~held)
        values = self._on_device(source["X"], cache)
        rows = torch.from_numpy(np.flatnonzero(~held) if lesson is None else lesson.rows).to(device)
        if not self._standardises():
            self.scaling_ = Scaling.none(self.shape_[-1])
        elif lesson is None:
            self.scaling_ = Scaling.of(values.index_select(0, rows)).to(torch.device("cpu"))
        else:
            self.scaling_ = lesson.scaling
        given = torch.from_numpy(self.labels_).to(device)
        data = self._data(values, given, rows)
        if values.dim() == 4 and settings.augment != "none":
            data.augmentation = Augmentation(flip=settings.augment == "crop-flip")
        self._whole = self._data(values, given, torch.arange(len(self.labels_), device=device))
        if lesson is not None:
            data = lesson.given_to(data)
        run = Run(settings.training_options(self.model_, self._keeps_weights()), data, LabelFeed)
        build = self._networks(self._has_lone_steps(len(rows)))
        valid: Any = None
        if self._rows is not None:
            seen = np.flatnonzero(held)
            build.lessons = Lessons(
                self._rows, self.labels_, self.classes_, run, settings.seed, not len(seen), weights
            )
            self.notes_ |= {"judged_by_folds": folds_of(len(rows))} if crossed and not len(seen) else {}
            unseen = taken(self._rows, seen) if len(seen) else None
            own = seen if len(seen) else slice(None)
            valid = Judges(self.labels_[own], unseen, None if weights is None else weights[own])
        else:
            self._check(build)
            if held.any():
                valid = self._data(values, given, torch.from_numpy(np.flatnonzero(held)).to(device))
        if self._weights is not None:
            data.weights = torch.from_numpy(self._weights).float().to(device)
            if isinstance(valid, LabelData):
                valid.weights = data.weights
        self._eval_set = self._other(eval_set, cache)
        run.valid, run.eval_set = valid, self._eval_set
        return Prepared(
            run,
            build,
            self.model_,
            self._identity(source),
            self._shared_by_stack(data, valid, clean),
            self._other(clean, cache),
        )

    def _check(self, build: Networks) -> None:
        """Refuse networks that cannot serve, before anything is trained."""
        settings = self.settings
        read = settings.method_class.settings_of(self.task).model_fields
        build.check(
            self._auxiliary() if "auxiliary" in read else None,
            settings.noise_model if "noise_model" in read else "auto",
        )
        self._tell_of_weights(build)

    def _take(self, source: Mapping[str, Any], cache: Cache) -> None:
        """Check the examples; learns the shape, the classes and the model's name."""
        X, names = source["X"], source.get("names")
        given = self._given(source, cache)
        y = given.labels
        self._came_as = kind_of_table(X, source.get("y"))
        if y is None:
            raise DataError("A classifier requires y to be passed, but the target y is None.")
        self.names_ = given.names if names is None else np.asarray(names)
        self.index_, self.columns_ = given.index, None
        self.notes_ |= given.notes
        if self.names_ is not None and self.names_.shape != (count(y),):
            raise DataError(f"There are {self.names_.size} names for {count(y)} labels; give one for each.")
        self._rows = None
        rows = given.inputs if given.frame is None else given.frame
        if is_table(rows) and is_estimator(self.model):
            self._rows = checked_rows(self, rows, reset=True)
            inputs = as_array(self._rows)
            if len(inputs) != count(y) and not hasattr(X, "tocsr"):
                raise DataError(f"There are {len(inputs)} examples and {count(y)} labels; give one for each.")
        elif given.is_table and not (self._may_take_integers() and given.is_whole):
            inputs = self._take_columns(given, X, cache)
        elif is_table(rows):
            whole = self._may_take_integers() and (given.is_whole if given.is_table else is_whole(rows))
            with refused(TABLE_ADVICE):
                checked: Any = validate_data(self, rows, y, dtype=np.int64 if whole else np.float32)
            inputs, y = checked
        else:
            inputs = cache.get(("images",), [X], lambda: as_images(given.inputs))
            self.n_features_in_ = int(np.prod(inputs.shape[1:]))
            if len(inputs) != count(y):
                raise DataError(f"There are {len(inputs)} images and {count(y)} labels; give one for each.")
            if is_estimator(self.model):
                self._rows = inputs.reshape(len(inputs), -1)
        self.classes_, labels = as_classes(y)
        if len(self.classes_) < 2:
            found = "one class" if len(labels) else "no class"
            raise DataError(f"The labels hold {found}; a classifier needs at least two.")
        self.labels_ = labels.astype(np.int64)
        table = self._rows is not None and is_table(X)
        self.shape_: tuple[int, ...] = (getattr(self, "n_features_in_", 1),) if table else tuple(inputs.shape[1:])
        self.integers_ = False
        if inputs.dtype == np.int64:
            self.integers_ = self._networks().takes_integers(lowest_and_highest(inputs))
        self._inputs = inputs.astype(np.float32) if inputs.dtype == np.int64 and not self.integers_ else inputs
        name = self.settings.model
        self.model_ = self._usual_model() if name == "auto" else name

    def _given(self, source: Mapping[str, Any], cache: Cache) -> Examples:
        """What was given to be fitted on, read once."""
        X, y = source["X"], source.get("y")
        if is_estimator(self.model) and y is not None and not isinstance(y, str):
            return Examples(X, y)  # its rows are taken as they are given
        return cache.get(("examples",), [X, y], lambda: examples_of(X, y))

    def _take_columns(self, given: Examples, X: Any, cache: Cache) -> np.ndarray:
        """Learn what the columns of a table hold, and bring them to numbers."""
        rows = given.inputs.num_rows
        if rows != count(given.labels) or not rows:
            raise DataError(f"There are {rows} rows and {count(given.labels)} labels; give one for each.")
        with refused(TABLE_ADVICE):
            validate_data(self, given.frame, skip_check_array=True)

        def make() -> tuple[TableColumns, np.ndarray]:
            columns = TableColumns.learn(given.inputs)
            return columns, columns.encode(given.inputs)

        self.columns_, inputs = cache.get(("columns",), [given], make)
        self.notes_["remarks"] = [*self.notes_.get("remarks", []), *self.columns_.remarks()]
        return inputs

    def _divided(self, source: Mapping[str, Any], cache: Cache) -> dict[str, Any]:
        own = {"sample_weight": self._weights}
        return {"X": source["X"], "y": source.get("y"), "divided": self.part_ == VALID, **own}

    def _as_prior(self, given: Any) -> nn.Module:
        if given.shape_ != self.shape_:
            raise DataError(
                f"The fitted prior is for examples of shape {given.shape_}, and these are {self.shape_}; fit it on "
                "such examples, or name its model to have it fitted here."
            )
        if not np.array_equal(given.classes_, self.classes_):
            raise DataError(
                "The fitted prior was fitted on other classes than those of these labels; fit it on these, or "
                "name its model to have it fitted here."
            )
        if given.integers_ and not self.integers_:
            raise SettingError(
                "The prior takes whole numbers as they are, and the model takes them scaled; give both models that "
                "do the same."
            )
        return scaled_as(given._target, given.scaling_, self.scaling_, len(self.shape_))

    def _on_device(self, X: Any, cache: Cache) -> Tensor:
        """The inputs on the device; those that are one object are held once."""

        def make() -> Tensor:
            if self._rows is not None and len(self.shape_) == 1:  # which stay as they are
                return torch.zeros(len(self.labels_), 1, device=self._device)
            size = self._inputs.size * self._inputs.itemsize
            require_memory(size, self._device, "Holding these examples", "use fewer examples, or smaller images")
            return on_device(self._inputs, self._device)

        return cache.get(("inputs", str(self._device)), [X], make)

    def _identity(self, source: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        pairs = [self._asked(*pair) for pair in (source.get("clean"), source.get("eval_set")) if pair is not None]
        further = [one for pair in pairs for one in pair]
        own = [(source["X"], self._inputs), (self.labels_, self.labels_)]
        own += [] if source.get("lesson") is None else source["lesson"].identity()
        own += place_of(source)
        own += weights_of([self.model, *self.objects().values()], self.settings.pretrained)
        own += [] if self._weights is None else [(self._weights, self._weights)]
        own += [] if source.get("divided") is None else [(source["divided"], source["divided"])]
        return [*own, *((one, np.asarray(one)) for one in further)]

    def _shared_by_stack(self, data: LabelData, valid: LabelData | None, clean: Any) -> dict[str, Any]:
        """What the runs of a stack must have in common."""
        alone = len(data) < self.settings.batch_size or some_classes(self.settings, len(self.classes_)) is not None
        return {
            "number of examples": (len(data), valid is None, None if clean is None else count(clean[1])),
            "classes": tuple(self.classes_.tolist()),
            "targets": (data.targets is None, data.mixup, data.augmentation),
            "weights, all or none": data.weights is None,
            "size of a step, or sum over all classes": id(self) if alone else None,
        }

    def _has_lone_steps(self, examples: int) -> bool:
        """Whether some step may have a single example."""
        settings = self.settings
        fewest = settings.method_class.fewest_examples(settings, examples)
        return settings.batch_size == 1 or min(fewest, examples) <= 1

    def _usual_model(self) -> str:
        """convnet for images, unless they are too small to be pooled, and mlp for all else."""
        return "convnet" if len(self.shape_) == 3 and min(self.shape_[:2]) >= SMALLEST else "mlp"

    def _auxiliary(self) -> str:
        name = self.settings.auxiliary
        if name != "auto":
            return name
        return CUSTOM if self.integers_ else self._usual_model()

    def _standardises(self) -> bool:
        """Whether inputs are scaled to mean 0 and deviation 1."""
        settings = self.settings
        if self._rows is not None:
            return False
        if settings.standardise != "auto":
            return settings.standardise
        serves = settings.method_class.convenes and settings.serve == "council"  # then all members have names
        return not ((self._keeps_weights() and not serves) or self.integers_)

    def _keeps_weights(self) -> bool:
        """Whether the model was handed over with weights that are kept."""
        return isinstance(self.model, nn.Module) and self.settings.pretrained != "reset"

    def _may_take_integers(self) -> bool:
        return not isinstance(self.model, str) and self.settings.standardise is not True

    def _tell_of_weights(self, build: Networks) -> None:
        """Say what became of the weights of a module that was handed over."""
        settings, method = self.settings, self.settings.method_class
        if not isinstance(self.model, nn.Module):
            return
        if not method.takes_solved and not method.convenes:
            build.refuse_frozen(settings.method)
        self.notes_["weights"] = told_of(self.model, settings.pretrained)
        other = self.objects().get(OWN["auxiliary"])
        compares = settings.pretrained == "keep" and "auxiliary" in method.settings_of(self.task).model_fields
        if compares and isinstance(other, nn.Module) and same_weights(self.model, other):
            warnings.warn(
                f"Method '{settings.method}' compares two networks, and both begin as the same one here, so that "
                "their agreement says little: leave auxiliary= out, give another model, or reset a part of them "
                "(pretrained='head' or 'reset').",
                UserWarning,
                stacklevel=2,
            )

    def _networks(self, alone: bool = False) -> Networks:
        shape = self.shape_ if len(self.shape_) == 1 else (self.shape_[2], *self.shape_[:2])
        model = self.model_ if isinstance(self.model, str) else self.model
        settings = self.settings
        fused = settings.compile and settings.method_class.compilable
        usual = CUSTOM if self.integers_ else self._usual_model()
        reads = {"features", "noise_model"} & set(settings.method_class.settings_of(self.task).model_fields)
        return Networks(
            model,
            self.features,
            shape,
            len(self.classes_),
            settings.seed,
            self._device,
            fused,
            alone,
            usual,
            reads_features=bool(reads),
            own=self.objects(),
            pretrained=settings.pretrained,
            still=settings.learning_rate == 0,
            integers=self.integers_,
        )

    def _data(self, values: Tensor, labels: Tensor, rows: Tensor) -> LabelData:
        device, precision = values.device, self.settings.precision
        half = precision == "bfloat16" or (precision == "auto" and device.type == "cuda" and has_whole_gpu())
        kind = torch.bfloat16 if half else torch.float32
        return LabelData(values, labels, rows, self.scaling_.to(device), None, kind)

    def _other(self, examples: tuple[Any, Any] | None, cache: Cache) -> LabelData | None:
        """Further examples with labels of the known classes, on the device."""
        if examples is None:
            return None
        if self._rows is not None:
            labels = examples_of(*examples, self._known()).labels
            return Judges(self.class_numbers(labels), self._as_fitted(examples[0]))  # pyright: ignore
        made = lambda: on_device(self._asked(*examples)[0], self._device)  # noqa: E731
        values = cache.get(("inputs", str(self._device)), [examples[0]], made)
        labels = torch.from_numpy(self.class_numbers(examples_of(*examples, self._known()).labels)).to(self._device)
        if len(values) != len(labels) or not len(labels):
            raise DataError(
                f"There are {len(values)} clean or eval_set examples and {len(labels)} labels of theirs; "
                "give one for each, and at least one."
            )
        return self._data(values, labels, torch.arange(len(labels), device=self._device))

    def _join(self, prepared: Sequence[Prepared]) -> dict[str, Any]:
        if self._rows is not None:
            return {"classes": len(self.classes_)}
        runs = [one.run for one in prepared]
        distinct = {id(run.data.inputs): run.data.inputs for run in runs}
        size = sum(inputs.numel() * inputs.element_size() for inputs in distinct.values())
        if len(distinct) > 1:
            from accord.estimators.fitting import SHARE, StackError

            if 2 * size > SHARE * free_memory(self._device):
                raise StackError("There is no room to lay the inputs of these runs end to end.")
        sets = on_shared_inputs([run.data for run in runs] + [run.valid for run in runs if run.valid is not None])
        for k, run in enumerate(runs):
            run.data = sets[k]
            run.valid = None if run.valid is None else sets[len(runs) + k]
        trusted = [one.clean for one in prepared if one.clean is not None]
        clean = LabelFeed(on_shared_inputs(trusted)) if trusted else None
        return {"classes": len(self.classes_), "clean": clean, "keep_last": runs[0].eval_set is not None}

    def _stackable(self, settings: Any) -> bool:
        named = settings.model in ("auto", "mlp") or stack_kind(_class_of(settings.model)) is not None
        return isinstance(self.model, str) and named and not settings.compile and not self.objects()

    def _room(self, source: Mapping[str, Any], device: torch.device, cache: Cache) -> int:
        from accord.estimators.fitting import room_for

        settings, given = self.settings, self._given(source, cache)
        X = given.inputs
        model = settings.model if settings.model != "auto" else "mlp" if is_table(X) else "convnet"
        if stack_kind(_class_of(model)) is None:
            return 1
        example, classes = int(np.prod(np.shape(X)[1:])), len(np.unique(given.labels))
        inner = settings.batch_size * (example + 8 * WIDTH + classes * WIDTH)
        taken = 4 * (2 * inner + 12 * WIDTH * (example + 3 * WIDTH))
        own = len(X) if source.get("clean") is not None else 0  # laid end to end
        return room_for(taken + 2 * own * example * 4, MOST[device.type], device)

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        from accord.estimators.council.labels import convene

        return convene(self, prepared, source, cache, callback, checkpoint)

    def _finish(self, trained: Trained, judge: bool) -> None:
        """Keep what was learned and judge every given label."""
        self.history_, self.architectures_ = trained.history, trained.architectures
        self.networks_ = {role: network for role, network in trained.kept.items() if role != "prior"}
        method = self._method(classes=len(self.classes_))
        if trained.last and self._eval_set is not None:
            together = as_stack(method.target(trained.last).eval())
            found = self._eval_set.measure(together, [0], [self._eval_set])
            self.history_[-1]["eval_set_together"] = {name: float(value) for name, value in found.items()}
        self.n_iter_, self.device_ = len(self.history_), str(self._device)
        self.votes_ = None
        self.notes_ |= {} if trained.prior is None else {"prior": trained.prior.notes}
        if trained.council is not None:
            self._hear(trained.council)
        elif judge:
            target: Any = self.networks_.get("target")
            said = [Said(target.told(), self.labels_)] if isinstance(target, ScikitModel) else None
            batches = LabelFeed([self._whole]).in_order if said is None else lambda: iter(said)
            judged = judge_labels(method, self.networks_, batches, len(self.classes_))
            self.label_quality_, self.predicted_ = judged.quality, judged.predicted
            self.is_issue_, self.noise_matrix_ = judged.is_issue, judged.noise_matrix
        if judge:
            self.worst_images_ = self._worst_images()
            self._measure_lowest()
        del self._whole, self._eval_set, self._inputs, self._weights, self._rows

    def _hear(self, council: Any) -> None:
        """Keep what a council said of every label."""
        self.notes_["council"] = council.notes
        self.label_quality_, self.predicted_ = council.quality, council.targets.argmax(1)
        self.is_issue_ = self.predicted_ != self.labels_
        self.noise_matrix_, self.votes_ = council.noise_matrix, council.votes

    def _measure_lowest(self) -> None:
        """How often the most frequent label is right, by the labels held out: a model should beat it."""
        held = self.part_ == VALID
        if self._rows is not None and not held.any():
            held = np.ones(len(self.labels_), bool)
        if held.any():
            weights = np.ones(len(self.labels_)) if self._weights is None else self._weights
            usual = np.bincount(self.labels_, weights * (self.part_ == TRAIN)).argmax()
            counted = weights[held] if weights[held].any() else None
            right = self.labels_[held] == usual
            self.notes_["lowest"] = {"the most frequent label": float(np.average(right, weights=counted))}

    def _worst_images(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Positions and pixels of the worst images, for the report."""
        if len(self.shape_) == 1:
            return None
        order = np.argsort(self.label_quality_, kind="stable")
        worst = order[self.is_issue_[order]][: classifier_folder.images_kept(self.shape_)]
        pixels = self._whole.inputs[torch.from_numpy(worst).to(self._device)].float().cpu().numpy()
        return worst, pixels

    # -- answering -------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class) of each example, columns in the order of ``classes_``."""
        self._require_fit()
        inputs = self._as_fitted(X)
        if not inputs.shape[0]:
            return np.empty((0, len(self.classes_)))
        device, target = torch.device(self.device_), self._target.eval()
        if isinstance(target, ScikitModel):
            return target.probabilities(inputs)
        parts = []
        for start in range(0, len(inputs), BLOCK):
            values = on_device(inputs[start : start + BLOCK], device)
            labels = torch.zeros(len(values), dtype=torch.int64, device=device)
            data = self._data(values, labels, torch.arange(len(values), device=device))
            with torch.no_grad(), known_ids():
                parts += [torch.softmax(batch.logits(target)[0], 1) for batch in LabelFeed([data]).in_order()]
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

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of labels that are predicted."""
        y = examples_of(X, y, self._known()).labels if y is None or isinstance(y, str) else y
        with refused("give as many labels as examples"):
            return float(super().score(X, y, sample_weight))

    def _require_fit(self) -> None:
        try:
            check_is_fitted(self, "networks_")
        except NotFittedError as error:
            raise NotTrainedError("This classifier is not fitted yet; call fit first.") from error

    @property
    def _target(self) -> nn.Module:
        """What was trained answers, whatever the settings say by now."""
        computes_here()
        if "target" in self.networks_:
            return self.networks_["target"]
        return self._method(classes=len(self.classes_)).target(self.networks_)

    def _known(self) -> Known:
        return Known(self.shape_, self.notes_.get("label"), self.notes_.get("depth"))

    def _asked(self, X: Any, y: Any = None) -> tuple[np.ndarray, Any]:
        """Further examples as those trained on, and their labels, which may be among them."""
        given = examples_of(X, y, self._known())
        return self._as_fitted(X, given), given.labels

    def _as_fitted(self, X: Any, given: Examples | None = None) -> np.ndarray:
        """Inputs of the shape that was trained on."""
        if is_estimator(self.model) and len(self.shape_) == 1:
            return checked_rows(self, self._rows_of(X, given), reset=False)
        given = given or examples_of(X, None, self._known())
        if len(self.shape_) == 1:
            values = X if given.is_table and self.columns_ is None else given.inputs
            if getattr(values, "ndim", 2) == 1:
                raise DataError("Reshape your data: one example is X.reshape(1, -1), one column X.reshape(-1, 1).")
            if self.columns_ is not None:
                return self._encoded(self.columns_, given)
            with refused("give a table (examples, columns) of finite numbers, like that of the training"):
                kind = np.float32 if not self.integers_ else None
                checked: Any = validate_data(self, values, dtype=kind, reset=False)
            return as_whole(checked) if self.integers_ else checked
        images = as_images(given.inputs)
        if images.shape[1:] != self.shape_:
            raise DataError(f"Images of shape {images.shape[1:]} are not those of the training, {self.shape_}.")
        return images.reshape(len(images), -1) if is_estimator(self.model) else images

    def _rows_of(self, X: Any, given: Examples | None) -> Any:
        """Rows as an estimator of scikit-learn gets them: as they are given, less a column of labels."""
        if self._known().label is None:
            return X
        given = given or examples_of(X, None, self._known())
        return given.inputs if given.frame is None else given.frame

    def _encoded(self, columns: TableColumns, given: Examples) -> np.ndarray:
        """A table brought to numbers as that of the training was; an array has the same columns, without names."""
        with refused(f"give the columns of the training in their order: {listed(columns.names)}"):
            values: Any = given.frame if given.is_table else np.asarray(given.inputs)
            validate_data(self, values, skip_check_array=True, reset=False)
            return columns.encode(given.inputs if given.is_table else table_of_array(values, columns.names))

    def class_numbers(self, labels: Any, *, unknown: bool = False) -> np.ndarray:
        """The class number of each label, whether it came as text or as a number.

        A label that was not trained on is an error, or with ``unknown`` −1.
        """
        known = {_word(value): k for k, value in enumerate(self.classes_.tolist())}
        with refused("give each example one label of the classes trained on"):
            distinct, which = np.unique(column_or_1d(labels), return_inverse=True)
        numbers = np.array([known.get(_word(value), -1) for value in distinct.tolist()], np.int64)
        if not unknown and (numbers < 0).any():
            label = distinct[numbers < 0][0]
            raise DataError(f"Label '{label}' is none of the {len(self.classes_)} classes trained on.")
        return numbers[which]

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
        named = {} if self.names_ is None else {"file": self.names_}
        named |= {} if self.index_ is None else {"source_index": self.index_}
        return worst_first(
            pa.table(
                {
                    "index": np.arange(len(self.labels_)),
                    **named,
                    "given_label": self.classes_[self.labels_],
                    "predicted_label": self.classes_[self.predicted_],
                    "label_quality": self.label_quality_,
                    "is_label_issue": self._flagged(share),
                    **(self.votes_ or {}),
                }
            )
        )

    def _flagged(self, share: float | None) -> np.ndarray:
        return self.is_issue_ if share is None else flag_share(self.label_quality_, share)

    # -- measuring -------------------------------------------------------------------------------------

    def evaluate(self, X: Any, y: Any = None) -> dict[str, float]:
        """Accuracy and cross-entropy against trusted labels."""
        self._require_fit()
        y = examples_of(X, y, self._known()).labels if y is None or isinstance(y, str) else y
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
            return self._networks()
        fitted = scikit_folder.read(run, self.model.trusted)
        self.model = clone(fitted)
        lessons = Lessons(None, self.labels_, self.classes_)
        return lambda role, name: ScikitModel(self.model, lessons).restore(fitted)

    @property
    def bytes_to_look(self) -> int:
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
        return classifier_folder.metrics_of(self)


def _class_of(model: str) -> Any:
    from accord.models import model_of

    return None if model in (CUSTOM, "auto") else model_of(model, "labels")


def _word(value: Any) -> str:
    """A label in words: 1, 1.0 and '1' are the same."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
