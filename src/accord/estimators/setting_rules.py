"""Which settings of an estimator go together: what a model or a method would ignore, or cannot do, is refused."""

from __future__ import annotations

from typing import Any

from torch import nn

from accord.errors import SettingError
from accord.estimators.handed import is_frozen
from accord.estimators.naming import OWN, is_estimator, is_scorer
from accord.estimators.settings import COUNCIL, OF_TASK
from accord.evaluation.ranking import METRICS
from accord.methods import METHODS, method_of, methods_of
from accord.models import MODELS, check_model, is_solved, models_of, trait

DEEPEST = 1000
"""The longest list by which an epoch is chosen."""


def refuse_solved(settings: Any, task: str) -> None:
    """Refuse a model without gradients for a method that needs them."""
    if not is_solved(settings.model):
        return
    if not settings.method_class.takes_solved:
        raise SettingError(not_taken(settings.method, settings.model, task))
    if settings.loss != "bce":
        raise SettingError(
            f"Setting 'loss' is '{settings.loss}', but model '{settings.model}' is solved without one: leave it "
            "out, or take a model that learns by gradients, such as gmf."
        )


def takes(method: str, model: str, task: str) -> bool:
    """Whether a method trains a model of this name."""
    return method_of(method, task).takes_solved or not is_solved(model)


def not_taken(method: str, model: str, task: str) -> str:
    """Why a method does not train a model, and what to take."""
    methods = [name for name in methods_of(task) if takes(name, model, task) and METHODS.find(name).needs_model]
    models = ", ".join(name for name in models_of(task) if not is_solved(name))
    return (
        f"Method '{method}' learns by gradients, and model '{model}' is solved without any: take "
        f"method={' or '.join(repr(name) for name in methods)}, or a model of {models}."
    )


def check_metric(metric: str) -> None:
    """Refuse what is no metric of a ranking."""
    name, at, k = metric.partition("@")
    length = int(k) if k.isascii() and k.isdigit() and len(k) < 5 else 0
    if name not in METRICS or not at or not 1 <= length <= DEEPEST or k != str(length):
        raise SettingError(
            f"Setting 'metric': choose {', '.join(METRICS[:-1])} or {METRICS[-1]} at a length of 1 to {DEEPEST}, "
            f"such as recall@50 (it was {metric!r})."
        )


def refuse_negatives(settings: Any) -> None:
    """Refuse several non-clicks for each click where a network of the training cannot learn from them."""
    if settings.negatives == 1:
        return
    own = {"deca": ("model", "noise_model", "auxiliary"), "deca-p": ("model", "noise_model")}
    for role in own.get(settings.method, ("model",)):
        name = getattr(settings, role)
        if name in MODELS:
            refuse_negatives_of(settings, MODELS.find(name), f"{role} '{name}'")


def refuse_negatives_of(settings: Any, model: Any, words: str) -> None:
    """The same, of one model: its class or a network."""
    if settings.negatives > 1 and (is_solved(model) or getattr(model, "reads_rows", False)):
        why = "is solved without them" if is_solved(model) else "learns whole rows of clicks"
        raise SettingError(
            f"Setting 'negatives' is {settings.negatives}, but {words} {why}: leave negatives at 1, or take "
            "another model, such as gmf, neumf or lightgcn."
        )


def refuse_item_bias(settings: Any) -> None:
    """Refuse an item bias, or to be without one, where a model would ignore it."""
    if not takes_item_bias(settings.model, settings.item_bias):
        always = trait(settings.model, "fixed_item_bias", None)
        raise SettingError(
            f"Setting 'item_bias' is {settings.item_bias}, but model '{settings.model}' "
            f"{'always' if always else 'never'} has one: leave it out, or take mf, gmf or neumf."
        )


def takes_item_bias(model: str, wanted: bool | None) -> bool:
    """Whether a model can be with an item bias, or without one, as wanted."""
    fixed = False if is_solved(model) else trait(model, "fixed_item_bias", None)
    return wanted is None or fixed is None or wanted == fixed


def check_prior(settings: Any, task: str) -> None:
    """Refuse a prior that is no model of the task, nor a council or an object that was given."""
    if settings.prior not in (None, settings.model, OWN["prior"]):
        check_model(settings.prior, task, COUNCIL, what="prior")


def usual_method(model: Any, task: str) -> str:
    """The method where none is named: that of the settings, or normal for a model that learns without gradients."""
    return OF_TASK[task].model_fields["method"].default if has_gradients(model) else "normal"


def has_gradients(model: Any) -> bool:
    """Whether a model, by name or as an object, learns by gradients."""
    if is_estimator(model) or is_scorer(model):
        return False
    return not (is_solved(model) or (isinstance(model, nn.Module) and is_frozen(model)))
