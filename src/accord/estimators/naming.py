"""Names of what was given as an object in place of a name, and of a network with settings of its own."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from torch import nn

from accord.errors import SettingError
from accord.methods import Method
from accord.models import settings_of

OWN = {name: f"own-{name}" for name in ("prior", "auxiliary", "noise_model")}
"""Settings that take a module or an estimator too, and what it is called there."""


def spelled(estimator: Any) -> str:
    """A member's model and its own settings as one line, by which its network is built again.

    >>> from accord import Recommender
    >>> spelled(Recommender(model="gmf", method="normal", dims=64))
    'gmf {"dims": 64}'
    """
    if estimator.settings.model == "custom":
        raise SettingError(
            "A council that serves itself needs members that have names: register your own model with "
            "accord.models.register_model(name, model), or let a student serve (serve='student')."
        )
    method = estimator.settings.method_class
    if method.target is not Method.target or not method.needs_model:
        raise SettingError(
            "A council that serves itself needs members that are one network of their model, and one by "
            f"'{method.name}' is not; fit it with method='normal', or let a student serve (serve='student')."
        )
    shape = {"dims", "item_bias", "init_std", *(getattr(settings_of(estimator.settings.model), "model_fields", ()))}
    own = {name: value for name, value in estimator.changed_settings().items() if name in shape}
    return " ".join([estimator.settings.model, *([json.dumps(own)] if own else [])])


def unspelled(text: str) -> dict[str, Any]:
    """What `spelled` wrote, as settings."""
    model, _, own = text.partition(" ")
    settings = json.loads(own or "{}")
    if not isinstance(settings, dict):
        raise ValueError("a member's settings have no names")
    return {"model": model, "method": "normal", **settings}


def named_objects(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings in which everything has a name, and the objects that were given, by their names."""
    named, objects = dict(settings), {}
    for name, word in OWN.items():
        if not isinstance(settings.get(name), str | None):
            named[name], objects[word] = word, settings[name]
    members = settings.get("members")
    if members is not None and not isinstance(members, str):
        words = [one if isinstance(one, str) else f"own-{k}" for k, one in enumerate(members, 1)]
        own = {word: one for word, one in zip(words, members, strict=True) if not isinstance(one, str)}
        objects |= own
        named |= {"members": words} if own else {}
    return named, objects


def with_objects(settings: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the objects in place of their names."""
    given = dict(settings)
    given |= {name: objects.get(given[name], given[name]) for name in OWN if name in given}
    if given.get("members") is not None:
        given["members"] = [objects.get(one, one) for one in given["members"]]
    return given


def is_estimator(given: Any) -> bool:
    """Whether it is a classifier of scikit-learn's kind."""
    return hasattr(given, "get_params") and hasattr(given, "predict_proba") and hasattr(given, "fit")


def has_factors(given: Any) -> bool:
    """Whether it is a recommender of the vectors of users and items, as of implicit."""
    return hasattr(given, "user_factors") and hasattr(given, "item_factors")


def is_scorer(given: Any) -> bool:
    """Whether it is an object, and no class or module, that scores pairs of users and items."""
    if isinstance(given, str | type | nn.Module) or inspect.isroutine(given) or is_estimator(given):
        return False
    return has_factors(given) or any(callable(getattr(given, name, None)) for name in ("predict", "score"))


def is_own(architecture: str) -> bool:
    """Whether a network is of a module that was given as an object: no run folder can build it again."""
    return architecture.rpartition(" ")[2] in OWN.values()


def object_of(word: str, objects: Mapping[str, Any]) -> Any:
    """What a name stands for: an object that was given, or the name itself."""
    if word in OWN.values() and word not in objects:
        name = word.removeprefix("own-")
        raise SettingError(
            f"Setting '{name}' was given as an object, which no run folder holds; give it again, or a name."
        )
    return objects.get(word, word)
