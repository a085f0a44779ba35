"""`accord fit`: from what was typed to a training, begun or gone on with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accord.cli.unfinished import Keeping, words_of
from accord.cli.words import FOR_CLICKS, FOR_LABELS, labelled_words, refuse_given, settings_of
from accord.errors import DataError

PLACES = ("data", "out", "valid", "labels", "clean")
"""Words that name a file or a folder."""


def begin(typed: dict[str, Any], seconds: float) -> None:
    """A new training. What was typed is kept with it, with whole paths, until it is done."""
    words = {name: str(value) if isinstance(value, Path) else value for name, value in typed.items()}
    for name in PLACES:
        if words[name] is not None and (name != "data" or os.path.exists(words[name])):
            words[name] = os.path.abspath(words[name])
    _fit(typed, Keeping(words, seconds=seconds))


def go_on(out: Path, seconds: float) -> None:
    """The training that was interrupted on its way to a place."""
    words = words_of(out)
    try:
        typed = {**words, **{name: None if words[name] is None else Path(words[name]) for name in PLACES}}
        # What stands at its place, if anything does, was written by this run, just before it was killed.
        typed |= {"out": out, "overwrite": True}
        _fit(typed, Keeping(words, resume=True, seconds=seconds))
    except (KeyError, TypeError) as error:
        raise DataError(f"The unfinished run on its way to '{out}' does not say what was asked for.") from error


def _fit(typed: dict[str, Any], keeping: Keeping) -> None:
    values = {name: typed[name] for name in ("method", "seed", "device", "model", "epochs")}
    values = {name: value for name, value in values.items() if value is not None} | settings_of(typed["settings"])
    data, noise, clean = typed["data"], typed["noise"], typed["clean"]
    words = labelled_words(data, *(typed[name] for name in ("label", "labels", "size", "ignore")))
    if words is not None:
        from accord.cli.labelled import run_fit as fit_labelled

        refuse_given(FOR_CLICKS, **{name: typed[name] for name in ("user", "item", "time", "valid")})
        overwrite = typed["overwrite"]
        fit_labelled(words, typed["out"], values, noise, typed["noise_kind"], clean, overwrite, keeping)
        return
    from accord.cli.commands import run_fit

    refuse_given(FOR_LABELS, noise=noise, clean=clean)
    columns = {name: typed[name] for name in ("user", "item", "time")}
    run_fit(data, typed["out"], {"model": "gmf"} | values, columns, typed["valid"], typed["overwrite"], keeping)
