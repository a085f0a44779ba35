"""Training methods behind one small interface. A new method is one file and one line here, or `register_method`."""

from __future__ import annotations

from typing import Any

from accord.errors import SettingError
from accord.methods.base import Batch, Build, Method, MethodSettings, PerRun, Phase, Setup, Space, StepInfo
from accord.methods.council import Council
from accord.methods.deca import DeCA
from accord.methods.deca_p import DeCAp
from accord.methods.ensemble import Ensemble
from accord.methods.itlm import ITLM
from accord.methods.mw_net import MWNet
from accord.methods.normal import Normal
from accord.methods.popularity import Popularity
from accord.methods.r_ce import ReweightedCE
from accord.methods.t_ce import TruncatedCE
from accord.methods.wbpr import WBPR
from accord.registry import Registry


def _wrong(method: Any) -> str | None:
    if not (isinstance(method, type) and issubclass(method, Method)):
        return "a method is a subclass of accord.methods.Method"
    return None if method.name and method.tasks else "it needs a name and tasks"


METHODS: Registry[type[Method]] = Registry("method", "accord.methods", _wrong)
"""Every method by its name: accord's own, and those that were registered."""
for _method in (Normal, WBPR, TruncatedCE, ReweightedCE, Ensemble, MWNet, ITLM, DeCA, DeCAp, Council, Popularity):
    METHODS.register(_method.name, _method)


def register_method(method: type[Method]) -> type[Method]:
    """Let a method be chosen by its name; also a decorator."""
    return METHODS.register(getattr(method, "name", str(method)), method)


def methods_of(task: str) -> list[str]:
    """Names of the methods of a task."""
    return [name for name in METHODS if task in METHODS.find(name).tasks]


def method_of(name: str, task: str) -> type[Method]:
    """The method of a name, for a task."""
    method = METHODS.find(name)
    if task not in method.tasks:
        raise SettingError(f"Method '{name}' is not for {task}: choose from {', '.join(methods_of(task))}.")
    return method


def is_method(given: Any) -> bool:
    """Whether it is a method's class or object."""
    return issubclass(given if isinstance(given, type) else type(given), Method)


def chosen_method(given: Any, task: str) -> tuple[str, dict[str, Any]]:
    """The name of a method, and settings that came with it: given by name, as a class or as an object."""
    if isinstance(given, str):
        return given, {}
    if not is_method(given):
        raise SettingError(f"{given!r} is no method; give a name, or a class or object of accord.methods.Method.")
    if isinstance(given, type):
        given = given()
    register_method(type(given))
    return method_of(given.name, task).name, dict(given.chosen)


__all__ = [
    "METHODS",
    "Batch",
    "Build",
    "Method",
    "MethodSettings",
    "PerRun",
    "Phase",
    "Setup",
    "Space",
    "StepInfo",
    "chosen_method",
    "is_method",
    "method_of",
    "methods_of",
    "register_method",
]
