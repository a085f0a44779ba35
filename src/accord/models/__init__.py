"""Networks that return logits and know no loss. A new model is one file and one line here, or `register_model`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from accord.errors import SettingError, nearest
from accord.models import classifiers, recommenders
from accord.registry import OwnSettings, Registry

ModelFactory = Callable[[int, int], nn.Module]
"""Builds a recommender for a number of users and a number of items."""
TASKS = ("clicks", "labels")
ModelSettings = OwnSettings
"""Settings of a model: a subclass is its attribute ``settings``, and its factory takes them as keywords."""


def _wrong(model: Any) -> str | None:
    if not callable(model):
        return "a model is a class or a function that builds a torch module"
    own = getattr(model, "settings", None)
    if own is not None and not (isinstance(own, type) and issubclass(own, OwnSettings)):
        return "its attribute settings is a subclass of accord.models.ModelSettings"
    return None if task_of(model) in TASKS else f"its attribute task must be one of {', '.join(TASKS)}"


def task_of(model: Any) -> str:
    """The task a model is for: its attribute ``task``; by default a module with ``scores`` recommends."""
    return getattr(model, "task", "clicks" if hasattr(model, "scores") else "labels")


MODELS: Registry[Callable[..., nn.Module]] = Registry("model", "accord.models", _wrong)
"""A recommender is built for (users, items) and is given the training clicks if it has ``bind(starts, items)``; a
classifier is built for the shape of an example and a number of classes."""
for _name, _model in (
    ("mf", recommenders.MF),
    ("gmf", recommenders.GMF),
    ("neumf", recommenders.NeuMF),
    ("cdae", recommenders.CDAE),
    ("lightgcn", recommenders.LightGCN),
    ("ease", recommenders.EASE),
    ("ials", recommenders.IALS),
    ("rp3beta", recommenders.RP3Beta),
    ("itemknn", recommenders.ItemKNN),
    ("popularity", recommenders.Popularity),
    ("mlp", classifiers.MLP),
    ("convnet", classifiers.ConvNet),
    ("resnet32", classifiers.ResNet32),
    ("resnet9", classifiers.ResNet9),
    ("inception", classifiers.Inception),
):
    MODELS.register(_name, _model)
UNTRAINED = ("popularity",)
"""Models that learn nothing, and are a method's target rather than a choice."""
NOISE_MODELS = ("mf", "gmf", "neumf")
"""What the noise models h and h′ of recommenders can be."""


def register_model(name: str, model: Callable[..., nn.Module], task: str | None = None) -> None:
    """Let a model be chosen by name, as ``model="name"`` and on the command line."""
    if task is not None:
        model.task = task  # pyright: ignore[reportFunctionMemberAccess]
    MODELS.register(name, model)


def models_of(task: str) -> list[str]:
    """Names of the models that a task can train."""
    MODELS.load_plugins()
    return [name for name in MODELS if task_of(MODELS.find(name)) == task and name not in UNTRAINED]


def model_of(name: str, task: str) -> Callable[..., nn.Module]:
    """The model of a name, for a task."""
    model = MODELS.find(name)
    if task_of(model) != task:
        raise SettingError(f"Model '{name}' is not for {task}: choose from {', '.join(models_of(task))}.")
    return model


def check_model(value: str, task: str, *also: str, what: str = "model") -> None:
    """Refuse a name that is no model of a task, nor one of the other words that are allowed."""
    known = value in also or (value not in UNTRAINED and value in MODELS and task_of(MODELS.find(value)) == task)
    if not known:
        raise SettingError(f"Unknown {what} '{value}': {nearest(value, [*models_of(task), *also])}")


def trait(model: str, name: str, default: Any) -> Any:
    """An attribute of a named model's class; the default where it has none, or the model has no name."""
    return getattr(MODELS.find(model), name, default) if model in MODELS else default


def is_solved(model: Any) -> bool:
    """Whether a model, by name, class or object, is computed from the clicks with no gradient: it has ``solve``."""
    if isinstance(model, str):
        model = MODELS.find(model) if model in MODELS else None
    return callable(getattr(model, "solve", None))


def settings_of(model: Any) -> type[OwnSettings] | None:
    """The settings that a model brings, by name or class: its attribute ``settings``."""
    if isinstance(model, str):
        model = MODELS.find(model) if model in MODELS else None
    return getattr(model, "settings", None)


def space_of(model: Any) -> dict[str, tuple[Any, ...]]:
    """What is searched for a model's own settings: its attribute ``space``."""
    return dict(trait(model, "space", {}))


def recommender_factory(model: str | ModelFactory, settings: Any = None, **options: Any) -> ModelFactory:
    """The factory of a named model, or the caller's own.

    A named model is given those options that it takes (``dims``, without which it has the paper's, ``item_bias``,
    ``init_std``), and the values of its own settings.
    """
    if not isinstance(model, str):
        return model
    known = model_of(model, "clicks")
    accepted = inspect.signature(known).parameters
    taken = {name: value for name, value in options.items() if name in accepted and value is not None}
    own = settings_of(known)
    if own is not None and settings is not None:
        taken |= {name: getattr(settings, name) for name in own.model_fields}
    return partial(known, **taken)


__all__ = [
    "MODELS",
    "NOISE_MODELS",
    "ModelFactory",
    "ModelSettings",
    "check_model",
    "is_solved",
    "model_of",
    "models_of",
    "recommender_factory",
    "register_model",
    "settings_of",
    "space_of",
    "trait",
]
