"""Names of a council's members: of those given as objects, and of a network with settings of its own."""

from __future__ import annotations

import json
from typing import Any

from accord.errors import SettingError
from accord.methods import Method
from accord.models import settings_of


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


def named_members(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings in which all members have names, and the objects that were given in their place."""
    given = settings.get("members")
    if given is None or isinstance(given, str) or not any(not isinstance(one, str) for one in given):
        return settings, {}
    objects = {f"own-{k}": one for k, one in enumerate(given, 1) if not isinstance(one, str)}
    names = iter(objects)
    return {**settings, "members": [one if isinstance(one, str) else next(names) for one in given]}, objects
