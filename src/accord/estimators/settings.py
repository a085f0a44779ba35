"""Every setting of the recommender, with its meaning, default and range."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accord.errors import SettingError, nearest
from accord.methods import CONSTANTS, METHODS, Denoising, Method, make_method
from accord.methods.denoising import SubTasks
from accord.models import NOISE_MODELS, RECOMMENDERS
from accord.training import TrainingOptions, Updates

T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)


RATE_AND_L2 = {"": (3e-3, 0.06), "lightgcn": (1e-2, 1e-3)}
"""Learning rate and λ of each model where none are given, by noisy validation: LightGCN's averaging shrinks its
vectors, so they must be free to grow."""


class RecommenderSettings(BaseModel):
    """Keywords of `Recommender`, and the names that ``--set`` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True)

    model: str = "gmf"
    """The target model: mf, gmf, neumf, cdae or lightgcn; in Python also any callable (users, items) -> module."""
    method: str = "deca-p"
    """The training method: normal, wbpr, t-ce, r-ce, ensemble, deca, deca-p or popularity."""
    dims: int | None = Field(default=None, ge=1, le=4096)
    """Length of user and item vectors; by default 32, and 64 for lightgcn."""
    item_bias: bool = True
    """Give every item an offset of its own (the paper's models have none)."""
    spread: float = Field(default=0.1, gt=0)
    """Standard deviation of fresh vectors (the paper's program has 0.01)."""
    epochs: int = Field(default=100, ge=1)
    """Most epochs of a phase."""
    patience: int = Field(default=10, ge=0)
    """Epochs without a better validation NDCG@20 before a phase stops; 0 trains all epochs."""
    restore: Literal["best", "last"] = "best"
    """Which epoch's weights to keep: the best by noisy validation, or the last."""
    batch_size: int = Field(default=2048, ge=1)
    """Clicks of a step; as many non-clicks are drawn."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """Adam's step size; by default 0.003, and 0.01 for lightgcn."""
    l2: float | None = Field(default=None, ge=0)
    """The paper's λ, divided by the number of users before use; by default 0.06, and 0.001 for lightgcn."""
    updates: Updates = "auto"
    """Adam's updates: dense (the paper's), by the rows a batch touched, or by rows for large tables alone."""
    c0: float | None = Field(default=None, ge=0)
    """How sure a click is a true like (the paper searches 1 to 1000); by default 10 for deca, 1 for deca-p."""
    c1: float | None = Field(default=None, ge=0)
    """How sure a sampled non-click is a true dislike (the paper searches 1 to 1000); by default 10."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of KL(g‖f) in DeCA and of KL(f‖f′) in DeCA(p), against the other direction."""
    sub_tasks: SubTasks = "both"
    """Alternate DP and DN (both), use one alone (dp, dn), or train the noise models together (joint)."""
    noise_model: str = "mf"
    """Model of the two noise models h and h′."""
    auxiliary: str = "mf"
    """Model of DeCA's auxiliary g."""
    drop_rate: float = Field(default=0.1, ge=0, lt=1)
    """T-CE: the share of clicks left out in the end (the paper searches 0.05, 0.1, 0.2)."""
    ramp_epochs: int = Field(default=10, ge=1)
    """T-CE: epochs until that share is reached."""
    beta: float = Field(default=0.25, ge=0)
    """R-CE: how strongly believed examples count more."""
    split: Literal["auto", "time", "random"] = "auto"
    """How validation clicks are chosen: each user's latest (time), at random, or latest if times are known."""
    valid_share: float = Field(default=0.1, gt=0, lt=0.9)
    """Share of the log held out for choosing the epoch."""
    valid_users: int = Field(default=10_000, ge=1)
    """At most this many users are ranked in validation."""
    cold_users: Literal["popularity", "model"] = "popularity"
    """Who ranks for users without a training click: item popularity, or the model's untrained vectors."""
    seed: int = Field(default=0, ge=0)
    """One number from which every random stream is derived."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def training_options(self, n_users: int) -> TrainingOptions:
        rate, l2 = RATE_AND_L2.get(self.model, RATE_AND_L2[""])
        return TrainingOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            weight_decay=(l2 if self.l2 is None else self.l2) / n_users,
            patience=self.patience,
            restore=self.restore,
            updates=self.updates,
            seed=self.seed,
        )

    def memory_need(self, n_users: int, n_items: int, n_clicks: int) -> int:
        """Bytes that training takes, roughly: the networks with their moments, a step's batch, and the clicks."""
        dims = self.dims or (64 if self.model == "lightgcn" else 32)
        wide = 5 * dims if self.model == "neumf" else dims
        networks = {"deca": 4, "deca-p": 4, "ensemble": 2}.get(self.method, 1)
        batch = min(self.batch_size, n_clicks)
        numbers = (n_users + n_items) * wide * networks * 4 + batch * wide * networks * 12
        return 4 * numbers + 60 * n_clicks

    def make_method(self) -> Method:
        return make_method(
            self.method,
            self.denoising(),
            self.auxiliary,
            drop_rate=self.drop_rate,
            ramp_epochs=self.ramp_epochs,
            beta=self.beta,
        )

    def denoising(self) -> Denoising:
        c0, c1 = CONSTANTS.get(self.method, (0.0, 0.0))
        return Denoising(
            c0=c0 if self.c0 is None else self.c0,
            c1=c1 if self.c1 is None else self.c1,
            alpha=self.alpha,
            sub_tasks=self.sub_tasks,
            noise_model=self.noise_model,
        )


def make_settings(values: dict[str, Any]) -> RecommenderSettings:
    """Settings from keywords or from words typed at a prompt; errors name the nearest match."""
    settings = checked(RecommenderSettings, values)
    require("model", settings.model, [*RECOMMENDERS, "custom"])
    require("auxiliary", settings.auxiliary, list(RECOMMENDERS))
    require("noise_model", settings.noise_model, list(NOISE_MODELS))
    require("method", settings.method, list(METHODS))
    return settings


def checked(cls: type[S], values: dict[str, Any]) -> S:
    """Settings of a class; an unknown name or a bad value is one sentence."""
    for name in values:
        if name not in cls.model_fields:
            raise SettingError(f"Unknown setting '{name}': {nearest(name, cls.model_fields)}")
    try:
        return cls(**values)
    except ValidationError as error:
        errors = error.errors()
        own = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
        deepest = max(
            own, key=lambda one: len(one["loc"])
        )  # of the forms a setting may have, the one that was meant
        name = "settings" if not deepest["loc"] else str(deepest["loc"][0])
        place = "".join(f"[{part}]" for part in deepest["loc"][1:] if isinstance(part, int))
        raise SettingError(f"Setting '{name}{place}': {deepest['msg']} (it was {deepest['input']!r}).") from error


def require(name: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise SettingError(f"Unknown {name} '{value}': {nearest(value, known)}")


def with_settings_in_signature(settings: type[BaseModel]) -> Callable[[type[T]], type[T]]:
    """`help` and editors list every setting of an estimator; the settings class stays their one home."""

    def decorate(cls: type[T]) -> type[T]:
        own = list(inspect.signature(cls.__init__).parameters.values())
        first = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.annotation)
            for name, f in settings.model_fields.items()
            if name not in {parameter.name for parameter in first}
        ]
        signature = inspect.Signature([*first, *keywords])
        cls.__init__.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return cls

    return decorate
