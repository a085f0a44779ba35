"""What a command answers: tables for people, or with --json one object for programs."""

from __future__ import annotations

import functools
import inspect
import json
import math
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from accord.cli import ui
from accord.errors import harmless

Command = Callable[..., Any]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, on standard output.")]


class App(typer.Typer):
    """An app whose every command takes --json; a command returns what it answers, a mapping."""

    def command(self, *names: Any, **words: Any) -> Callable[[Command], Command]:
        register = super().command(*names, **words)

        def added(command: Command) -> Command:
            register(with_json(command))
            return command

        return added


def with_json(command: Command) -> Command:
    """The command with the option; then nothing but its answer is printed."""

    @functools.wraps(command)
    def answering(*, json: bool, **typed: Any) -> None:
        with ui.muted(json):
            answer = command(**typed)
        if json:
            said = as_json(answer)
            print(harmless(said) if sys.stdout.isatty() else said)

    hints = get_type_hints(command, include_extras=True)
    own = [one.replace(annotation=hints[name]) for name, one in inspect.signature(command).parameters.items()]
    option = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JSON)
    answering.__signature__ = inspect.Signature([*own, option])  # pyright: ignore[reportAttributeAccessIssue]
    answering.__annotations__ = {**hints, "json": JSON, "return": None}
    return answering


def as_json(answer: Any) -> str:
    """One line of JSON; a number that JSON does not have is null.

    >>> as_json({"auc": float("nan"), "ks": (5, 20)})
    '{"auc": null, "ks": [5, 20]}'
    """
    return json.dumps(_plain({} if answer is None else answer), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Paths, arrays and times as JSON has them."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return _plain(value.tolist())
    return str(value)
