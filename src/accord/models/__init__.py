"""Networks that return logits and know no loss. A new model is one file and one line here, or `register_model`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from accord.errors import SettingError, nearest
from accord.models import classifiers, recommenders
from accord.registry import Registry

ModelFactory = Callable[[int, int], nn.Module]
"""Builds a recommender for a number of users and a number of items."""
TASKS = ("clicks", "labels")


def _wrong(model: Any) -> str | None:
    if not callable(model):
        return "a model is a class or a function that builds a torch module"
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
    ("popularity", recommenders.Popularity),
    ("mlp", classifiers.MLP),
    ("convnet", classifiers.ConvNet),
    ("resnet32", classifiers.ResNet32),
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


def recommender_factory(
    model: str | ModelFactory,
    *,
    dims: int | None = None,
    item_bias: bool = False,
    init_std: float = recommenders.INIT_STD,
) -> ModelFactory:
    """The factory of a named model, or the caller's own; without ``dims`` a model has the paper's."""
    if not isinstance(model, str):
        return model
    known = model_of(model, "clicks")
    options: dict[str, Any] = {"item_bias": item_bias, "init_std": init_std}
    options |= {} if dims is None else {"dims": dims}
    accepted = inspect.signature(known).parameters
    return partial(known, **{name: value for name, value in options.items() if name in accepted})


__all__ = [
    "MODELS",
    "NOISE_MODELS",
    "ModelFactory",
    "check_model",
    "model_of",
    "models_of",
    "recommender_factory",
    "register_model",
    "trait",
]
