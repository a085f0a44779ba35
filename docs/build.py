"""Writes what is made from the code and from results: the pages of settings and of all numbers, typed keywords.

Tests compare them with what they are made from.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from accord.estimators.settings import OF_TASK, fields_of, settings_class
from accord.estimators.signatures import annotation_of
from accord.methods import METHODS, MethodSettings, methods_of
from accord.models import MODELS, models_of, settings_of
from accord.reproduction.overview import write_overview

HERE = Path(__file__).parent
PAGE = HERE / "reference" / "settings.md"
KEYWORDS = HERE.parent / "src" / "accord" / "estimators" / "keywords.py"
INTRODUCTION = """\
# Settings

Each setting is a keyword of `Recommender(...)` or `Classifier(...)`, and a name that `--set NAME=VALUE` takes. In
`accord compare`, `--set METHOD.NAME=VALUE` sets it for one method alone.

A setting belongs to a task, to some methods or to some models. Others ignore it. Each setting is declared, with
its text on this page, in one class: for a task in `accord.estimators.settings`, for a method or a model in its own
file.
"""
TITLES = {"clicks": "The recommender", "labels": "The classifier"}
TASK_TEXTS = {
    "clicks": "These settings hold for every method of `Recommender`:",
    "labels": "These settings hold for every method of `Classifier`:",
}


def owners_of(task: str) -> dict[str, list[str]]:
    """accord's own methods or models that each setting belongs to; none where it belongs to the task."""
    owners: dict[str, list[str]] = {name: [] for name in settings_class(task).model_fields}
    for method in (name for name in methods_of(task) if METHODS.find(name).__module__.startswith("accord.")):
        own = METHODS.find(method).settings_of(task)
        for name in own.model_fields if own is not MethodSettings else ():
            owners[name].append(method)
    for model in (name for name in models_of(task) if MODELS.find(name).__module__.startswith("accord.")):
        own = settings_of(model)
        for name in own.model_fields if own is not None else ():
            owners[name].append(model)
    return owners


def default_of(task: str, name: str, methods: list[str]) -> str:
    """A setting's default; where it is None, what each of its methods takes."""
    value = settings_class(task).model_fields[name].default
    if value is not None or not all(method in METHODS for method in methods):
        return f"`{value}`"
    taken = {method: METHODS.find(method).defaults.get(name) for method in methods}
    taken = {method: value for method, value in taken.items() if value is not None}
    if len(set(taken.values())) == 1 and len(taken) == len(methods):
        return f"`{next(iter(taken.values()))}`"
    return ", ".join(f"`{value}` ({method})" for method, value in taken.items()) or "see text"


def rows(task: str, names: list[str]) -> list[str]:
    owners, fields = owners_of(task), settings_class(task).model_fields
    lines = []
    for name in names:
        text = " ".join((fields[name].description or "").split()).replace("|", "\\|")
        whose = ", ".join(f"`{method}`" for method in owners[name])
        cells = [f"`{name}`", *([whose] if whose else []), default_of(task, name, owners[name]), text]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def settings_page() -> str:
    lines = [INTRODUCTION.rstrip()]
    for task, title in TITLES.items():
        owners = owners_of(task)
        common = [name for name in OF_TASK[task].model_fields if name in owners]
        own = [name for name, methods in owners.items() if methods]
        lines += ["", f"## {title}", "", TASK_TEXTS[task], "", "| setting | default | meaning |", "|---|---|---|"]
        lines += rows(task, common)
        lines += ["", "These belong to some methods or models:", ""]
        lines += ["| setting | of | default | meaning |", "|---|---|---|---|", *rows(task, own)]
    return "\n".join(lines) + "\n"


KEYWORDS_HEAD = '''"""Keywords of the estimators, for type checkers; docs/build.py writes them from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict
'''


def keywords_module() -> str:
    """Typed dictionaries of all settings, by which pyright knows `epochs` and refuses `epoch`."""
    lines = [KEYWORDS_HEAD.rstrip()]
    for task, name in {"clicks": "RecommenderKeywords", "labels": "ClassifierKeywords"}.items():
        lines += ["", "", f"class {name}(TypedDict, total=False):"]
        for setting, field in fields_of(task).items():
            if setting in ("model", "method"):
                continue  # parameters of their own
            text = "\n    ".join(textwrap.wrap(" ".join((field.description or "").split()), 108))
            lines += [f"    {setting}: {annotation_of(setting, field)}", f'    """{text}"""']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
    KEYWORDS.write_text(keywords_module(), encoding="utf-8")
    write_overview(HERE / "results")
