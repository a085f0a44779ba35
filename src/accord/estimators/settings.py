"""Settings of the estimators: those of a task, composed with those of all its methods and models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from accord.data.log_rows import PER_ROW
from accord.errors import SettingError, nearest
from accord.estimators.handed import Pretrained
from accord.methods import METHODS, Method, MethodSettings, Space, method_of, methods_of
from accord.models import MODELS, is_solved, models_of, settings_of, space_of, trait
from accord.optim import Updates
from accord.registry import OwnSettings
from accord.training import TrainingOptions

S = TypeVar("S", bound=BaseModel)


class TaskSettings(BaseModel):
    """What every task has."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
    task: ClassVar[str] = ""
    common_space: ClassVar[Space] = {}
    """What is searched for every method."""
    may_differ: ClassVar[frozenset[str]] = frozenset()
    """Settings in which the runs of a stack may differ, besides those of the method."""

    model: str
    method: str
    epochs: int
    batch_size: int
    seed: int = Field(default=0, ge=0)
    """One number from which every random stream is derived."""
    device: str = "auto"
    """Where to train: cpu, cuda, or auto, which takes a GPU if there is one."""
    pretrained: Pretrained = "keep"
    """In Python: what becomes of the weights of a torch module that is handed over. They are kept (keep), kept but
    for the last layer (head), or all layers are reset (reset); each network then draws its own."""

    @property
    def method_class(self) -> type[Method]:
        return method_of(self.method, self.task)

    @property
    def kept_epoch(self) -> Literal["best", "last"]:
        """Which epoch's weights are kept."""
        usual = self.method_class.usual_epoch
        return getattr(self, "restore", None) or (usual if isinstance(usual, str) else usual[self.task])


LARGEST = 1 << 53
"""A number of whatever kind: what libraries can count to."""
COUNCIL = "council"
"""The name of a prior that is a council, as of the method."""
RATE, L2, DIMS = 3e-3, 0.06, 32
"""Learning rate, λ and length of vectors if neither the user nor the model gives any; by noisy validation."""
PATIENCE, PATIENT_STEPS = 10, 300
"""Epochs, and steps, without a better one before a recommender stops, if the user gives no patience."""
GIGABYTE = 1e9
SGD_RATE, ADAM_RATE = 0.1, 1e-3
"""The same rates for classifiers."""
FINE_TUNING = 0.1
"""The share of them by which weights that were handed over learn."""
RENAMED = {"spread": "init_std"}
"""Settings of version 0.1 that have another name now."""


class ClickSettings(TaskSettings):
    """Keywords of `Recommender`, and the names that ``--set`` takes."""

    task: ClassVar[str] = "clicks"
    common_space: ClassVar[Space] = {
        "learning_rate": (1e-3, 3e-3, 1e-2),
        "l2": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
    }
    may_differ: ClassVar[frozenset[str]] = frozenset({"seed", "learning_rate", "l2"})

    model: str = "gmf"
    """The target model: mf, gmf, neumf, cdae, lightgcn, ease, ials, rp3beta or itemknn; in Python also any callable
    (users, items) -> module, and a model that scores pairs already."""
    method: str = "deca-p"
    """The training method: normal, wbpr, t-ce, r-ce, ensemble, deca, deca-p or popularity; by default
    deca-p, but normal for ease, ials, rp3beta and itemknn, and for a model that is fitted already."""
    dims: int | None = Field(default=None, ge=1, le=4096)
    """Length of user and item vectors; by default 32, 64 for lightgcn, and 128 for ials."""
    item_bias: bool | None = None
    """Give every item an offset of its own: by default mf, gmf and neumf have one (the paper's have none). cdae
    always has one, lightgcn and models that are solved never."""
    init_std: float = Field(default=0.1, gt=0)
    """Standard deviation of fresh vectors (the paper's program has 0.01)."""
    epochs: int = Field(default=100, ge=1)
    """The largest number of epochs in a phase."""
    patience: int | None = Field(default=None, ge=0)
    """Epochs without a better noisy validation before a phase stops; by default 10, and on a log of few clicks as
    many as make 300 steps. 0 trains all epochs."""
    metric: str = "ndcg@20"
    """The metric of noisy validation that chooses the epoch and, in a search, the settings: ndcg, recall,
    precision, hit or mrr, at the length of a list, such as recall@50."""
    restore: Literal["best", "last"] | None = None
    """Which epoch's weights to keep: the best by noisy validation (the default), or the last."""
    batch_size: int = Field(default=2048, ge=1)
    """Clicks in a step. For each click, ``negatives`` non-clicks are drawn."""
    negatives: int = Field(default=1, ge=1, le=1000)
    """Non-clicks that are drawn for each click in every step; together they weigh as much
    as the click. Models that read whole rows (cdae) and models that are solved take one."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """Adam's step size; by default 0.003, and 0.01 for lightgcn; three times that for a council's student."""
    l2: float | None = Field(default=None, ge=0)
    """The paper's λ, divided by the number of users before use; by default 0.06, and 0.001 for lightgcn; a tenth
    of that for a council's student."""
    updates: Updates = "auto"
    """Adam's updates: dense (the paper's), by the rows a batch touched, or by rows for large tables alone."""
    split: Literal["auto", "time", "random", "global-time", "leave-one-out"] = "auto"
    """How validation clicks are chosen: each user's latest (time), at random, the latest of the whole log
    (global-time), one of each user, the latest if times are known (leave-one-out); auto takes each user's latest if
    times are known, and else random ones."""
    valid_share: float = Field(default=0.1, gt=0, lt=0.9)
    """Share of the log held out for choosing the epoch."""
    valid_users: int = Field(default=10_000, ge=1)
    """At most this many users are ranked in validation."""
    cold_users: Literal["popularity", "model"] = "popularity"
    """How users without a training click are ranked: by item popularity, or by the model's untrained vectors."""
    memory: float = Field(default=2.0, ge=0)
    """Gigabytes that the rows of a log may take, at 60 bytes each; larger logs are kept in files, and trained in
    shuffled blocks."""

    def training_options(self, n_users: int, capture: bool = False) -> TrainingOptions:
        rate, l2 = trait(self.model, "usual_rate", RATE), trait(self.model, "usual_l2", L2)
        rate, l2 = rate * self.method_class.usual_rate_factor, l2 * self.method_class.usual_l2_share
        return TrainingOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            weight_decay=(l2 if self.l2 is None else self.l2) / n_users,
            patience=PATIENCE if self.patience is None else self.patience,
            patient_steps=PATIENT_STEPS if self.patience is None else 0,
            metric=self.metric,
            restore=self.kept_epoch,
            updates=self.updates,
            capture=capture,
            seed=self.seed,
        )

    def memory_need(self, n_users: int, n_items: int, n_clicks: int) -> int:
        """Bytes that training takes, roughly: the networks with their moments, a step's batch, and the clicks."""
        clicks = min(PER_ROW * n_clicks, int(self.memory * GIGABYTE))  # more are in files
        own = trait(self.model, "memory_need", None)
        if own is not None:
            return own(n_users, n_items, n_clicks, self) + clicks
        dims = self.dims or trait(self.model, "usual_dims", DIMS)
        wide = dims * trait(self.model, "numbers_per_dim", 1)
        networks = self.method_class.network_count
        batch = min(self.batch_size, n_clicks)
        examples = 2 * batch * (1 + self.negatives)
        numbers = (n_users + n_items) * wide * networks * 4 + examples * wide * networks * 3
        return 4 * numbers + clicks


class LabelSettings(TaskSettings):
    """Keywords of `Classifier`, and the names that ``--set`` takes for labelled data."""

    task: ClassVar[str] = "labels"
    common_space: ClassVar[Space] = {"learning_rate": (0.1, 0.05, 0.02, 0.01)}
    may_differ: ClassVar[frozenset[str]] = frozenset({"seed", "learning_rate", "weight_decay"})

    model: str = "auto"
    """mlp, convnet, resnet32, resnet9 or inception; auto takes mlp for tables and convnet for images (mlp where
    they are smaller than 4 pixels); in Python also any torch module, a callable (shape, classes) -> module, or an
    estimator or pipeline of scikit-learn."""
    method: str = "deca-p"
    """The training method: normal, ensemble, mw-net, itlm, deca or deca-p; if none is named, normal for estimators
    of scikit-learn, and for modules that are frozen as a whole."""
    epochs: int = Field(default=60, ge=1)
    """Epochs in a phase."""
    patience: int = Field(default=0, ge=0)
    """Epochs without better validation accuracy before a phase stops; 0 trains all epochs."""
    restore: Literal["best", "last"] | None = None
    """Which epoch's weights to keep: the best by noisy validation accuracy (the default), or the last (the default
    for a council's student, since what it learns has hardly any noise)."""
    batch_size: int = Field(default=100, ge=1)
    """Examples in a step."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """SGD with momentum 0.9, or Adam."""
    learning_rate: float | None = Field(default=None, ge=0, le=10)
    """The step size; by default 0.1 for SGD (0.05 for mlp and convnet) and 0.001 for Adam, and a tenth of that for
    a module whose weights are kept. At 0 nothing is learned, and such a module predicts as before."""
    schedule: Literal["cosine", "one-cycle", "constant"] = "cosine"
    """Let the step size fall to zero over the epochs of a phase (cosine), rise for a while and then fall to zero
    (one-cycle, which lets large batches begin at a large rate), or keep it constant."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """L2 term of the target."""
    clip: float | None = Field(default=5.0, gt=0)
    """SGD: gradients are clipped to this length; a very confident prior can cause huge ones."""
    standardise: bool | Literal["auto"] = "auto"
    """Scale columns and channels to mean 0 and deviation 1; auto does, but not for a module whose weights are kept,
    whole numbers that a module takes as they are, and scikit-learn's estimators."""
    augment: Literal["none", "crop", "crop-flip"] = "none"
    """Random crops out of the padded image, and mirror images."""
    valid_share: float = Field(default=0.1, ge=0, lt=0.9)
    """Share of the examples held out, with their noisy labels, for choosing the epoch."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What networks compute in; auto takes bfloat16 on a GPU, unless MPS gives the process a share of it."""
    capture: bool = True
    """On a GPU, capture a step once and replay it."""
    compile: bool = False
    """On a GPU, fuse the network's kernels with torch.compile: seconds once, then faster epochs. Not for mw-net."""

    def training_options(self, model: str, fine_tunes: bool = False) -> TrainingOptions:
        usual = ADAM_RATE if self.optimiser == "adam" else trait(model, "usual_rate", SGD_RATE)
        usual *= FINE_TUNING if fine_tunes else 1.0
        return TrainingOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=usual if self.learning_rate is None else self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            metric="accuracy",
            restore=self.kept_epoch,
            optimiser=self.optimiser,
            schedule=self.schedule,
            clip=self.clip,
            capture=self.capture,
            seed=self.seed,
        )


OF_TASK: dict[str, type[TaskSettings]] = {"clicks": ClickSettings, "labels": LabelSettings}


def settings_class(task: str) -> Any:
    """The settings of a task and of all its methods and models that are registered by now."""
    return _composed(task, METHODS.changes, MODELS.changes)


@cache
def _composed(task: str, *changes: int) -> Any:
    of_methods = [METHODS.find(name).settings_of(task) for name in methods_of(task)]
    of_models = [settings_of(name) for name in models_of(task)]
    classes = dict.fromkeys([*of_methods, *(one for one in of_models if one is not None)])
    classes.pop(MethodSettings, None)
    own = [one for one in classes if not any(one is not other and issubclass(other, one) for other in classes)]
    base = OF_TASK[task]
    _refuse_clashes(base, own)
    return create_model(base.__name__, __base__=(base, *own), __doc__=base.__doc__)


def _refuse_clashes(base: type[BaseModel], classes: list[type[OwnSettings]]) -> None:
    """Two methods or models may share a setting, if it is the same one."""
    home: dict[str, type[BaseModel]] = {}
    for one in classes:
        for name in one.model_fields:
            owner = next(c for c in reversed(one.__mro__) if name in getattr(c, "__annotations__", {}))
            if name in base.model_fields:
                raise SettingError(f"A method has a setting '{name}', which every method has; rename its own.")
            if home.setdefault(name, owner) is not owner:
                raise SettingError(f"Two methods have different settings '{name}'; rename one of them.")


def own_settings(settings: Any, task: str) -> set[str]:
    """Names of the settings of the task, the method and the model: of those that matter to a training."""
    of_model = settings_of(settings.model)
    own = {*OF_TASK[task].model_fields, *settings.method_class.settings_of(task).model_fields}
    return own | set(() if of_model is None else of_model.model_fields)


def of_models(task: str) -> set[str]:
    """Names of the settings of all models of a task."""
    each = [settings_of(name) for name in models_of(task)]
    return {name for one in each if one is not None for name in one.model_fields}


def searched_space(task: str, method: str, model: str) -> Space:
    """What is searched for a method and a model; of a model that is solved, its own settings alone."""
    found = method_of(method, task)
    if not found.needs_model:
        return {}
    common = {} if is_solved(model) else settings_class(task).common_space
    return dict(common) | found.space_of(task) | space_of(model)


def make_settings(task: str, values: dict[str, Any]) -> Any:
    """Settings from keywords or from words typed on the command line; errors name the nearest match."""
    method = values.get("method")
    if isinstance(method, str):
        method_of(method, task)  # before the settings are composed: an installed package's method brings its own
    if any(name not in settings_class(task).model_fields for name in values):
        METHODS.load_plugins()  # perhaps one of another such method or model
        MODELS.load_plugins()
    cls = settings_class(task)
    typed = {
        name: _many(cls.model_fields[name], value) if name in cls.model_fields else value
        for name, value in values.items()
    }
    made = checked(cls, typed)
    for name in cls.model_fields:
        value = getattr(made, name)
        if type(value) is int and value > LARGEST and name != "seed":
            raise SettingError(
                f"Setting '{name}': {value} is larger than any training needs; give a smaller number."
            )
    return made


def _many(field: Any, value: Any) -> Any:
    """'1,2,3' as three values, where a setting takes several; one word alone too, where it takes nothing else."""
    kind = str(field.annotation)
    if not isinstance(value, str) or "tuple[" not in kind:
        return value
    return tuple(one.strip() for one in value.split(",")) if "," in value or kind.startswith("tuple[") else value


def checked(cls: type[S], values: dict[str, Any]) -> S:
    """Settings of a class; an unknown name or a bad value is one sentence."""
    refuse_unknown(values, cls.model_fields)
    try:
        return cls(**values)
    except ValidationError as error:
        errors = error.errors()
        own = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
        deepest = max(
            own, key=lambda one: len(one["loc"])
        )  # of the forms a setting may have, the one that was meant
        name = "settings" if not deepest["loc"] else str(deepest["loc"][0])
        index = "".join(f"[{one}]" for one in deepest["loc"][1:] if isinstance(one, int))
        raise SettingError(f"Setting '{name}{index}': {deepest['msg']} (it was {deepest['input']!r}).") from error


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            now = RENAMED.get(name)
            hint = f"it is called '{now}' now." if now is not None and now in known else nearest(name, known)
            raise SettingError(f"Unknown setting '{name}': {hint}")


def fields_of(task: str) -> dict[str, FieldInfo]:
    """Every setting: those of the task first, then those of methods and models."""
    fields = settings_class(task).model_fields
    return {name: fields[name] for name in dict.fromkeys([*OF_TASK[task].model_fields, *fields])}
