"""The settings of a run with their meaning: those that differ from the default, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SYMBOLS = {
    "λ": "how strongly large weights are penalised",
    "κ": "the price of disagreement between the members",
    "hφ": "the noise model: how likely a given label is where the truth is known",
    "ỹ": "the label as given",
    "KL": "KL(a‖b) is how far the answers of a are from those of b, 0 where they agree; "
    "f is the model that is trained, f′ its prior, g the second network of DeCA",
}
"""Signs in the texts of settings, and what they stand for."""


def differing(settings: Mapping[str, Any], task: str, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    """Settings that are not as they are by default; a list is as good as a tuple. Unknown ones have no default."""
    from accord.estimators.settings import fields_of

    fields = fields_of(task)
    return {
        name: value
        for name, value in settings.items()
        if name not in leave and (name not in fields or _plain(value) != _plain(fields[name].default))
    }


def meanings(names: Iterable[str], task: str) -> dict[str, str]:
    """What the settings of these names are, where it is known."""
    from accord.estimators.settings import fields_of

    fields = fields_of(task)
    return {name: _text_of(fields[name]) for name in names if name in fields}


def symbols_in(texts: Iterable[str]) -> dict[str, str]:
    """What the signs in some texts stand for.

    >>> list(symbols_in(["The paper's λ", "mean − κ · deviation"]))
    ['λ', 'κ']
    """
    whole = " ".join(texts)
    return {sign: words for sign, words in SYMBOLS.items() if sign in whole}


def _text_of(field: Any) -> str:
    return " ".join((field.description or "").split())


def in_words(value: Any) -> str:
    """A setting's value as it is typed.

    >>> in_words(None), in_words((1.0, 2.5)), in_words(True), in_words(0.003)
    ('not set', '1, 2.5', 'yes', '0.003')
    """
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def settings_table(settings: Mapping[str, Any], task: str) -> dict[str, Any]:
    """For a template: rows that differ from the default, the rest, and the signs that their texts have."""
    from accord.estimators.settings import fields_of

    fields = fields_of(task)
    changed = differing(settings, task)

    def row(name: str) -> dict[str, str]:
        field = fields.get(name)
        text = "" if field is None else _text_of(field)
        default = "" if field is None else in_words(field.default)
        return {"name": name, "value": in_words(settings[name]), "default": default, "text": text}

    order = [*(name for name in fields if name in settings), *(name for name in settings if name not in fields)]
    rows = [row(name) for name in order]
    return {
        "changed": [one for one in rows if one["name"] in changed],
        "rest": [one for one in rows if one["name"] not in changed],
        "symbols": symbols_in(one["text"] for one in rows),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
