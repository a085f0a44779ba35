"""The settings of an estimator as its signature and its docstring show them."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from accord.estimators.naming import OWN
from accord.estimators.settings import fields_of

SETTINGS_TITLE = "Settings\n--------"
OBJECTS = ("members", *OWN)
"""Settings that take objects besides names."""


def signature_of(task: str, own: list[inspect.Parameter]) -> inspect.Signature:
    """An estimator's signature with every setting, for `help`, editors and scikit-learn."""
    first = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.annotation)
        for name, f in fields_of(task).items()
        if name not in {parameter.name for parameter in first}
    ]
    return inspect.Signature([*first, *keywords])


def annotation_of(name: str, field: Any) -> str:
    """The type of a setting in words, as in source code.

    >>> from accord.estimators.settings import settings_class
    >>> annotation_of("epochs", settings_class("clicks").model_fields["epochs"])
    'int'
    """
    if name in OBJECTS:
        return "Sequence[Any] | str | None" if name == "members" else "Any"
    return _spelled_type(field.annotation)


def _spelled_type(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _spelled_type(args[0])
    if origin is Literal:
        return f"Literal[{', '.join(json.dumps(one) for one in args)}]"
    if origin in (Union, UnionType):
        return " | ".join(_spelled_type(one) for one in args)
    if origin is not None:
        return f"{origin.__name__}[{', '.join('...' if one is ... else _spelled_type(one) for one in args)}]"
    return "None" if kind is NoneType else kind.__name__


def parameters_of(task: str, own: Iterable[str]) -> str:
    """The settings of a task with their types, defaults and texts, as docstrings list parameters."""
    lines = [SETTINGS_TITLE]
    for name, field in fields_of(task).items():
        if name not in own:
            lines.append(f"{name} : {annotation_of(name, field)}, default {field.default!r}")
            lines += textwrap.wrap(field.description or "", 100, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
