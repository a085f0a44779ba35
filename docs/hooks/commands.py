"""Pages of the command line, made from its own commands: every argument and every option of each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from accord.cli.main import app

TYPES = {int: "a whole number", float: "a number", Path: "a path"}


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words of each command, such as ("decisions", "show"), and the command, in the order of the help."""
    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # pyright: ignore[reportAttributeAccessIssue]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield (name,), command
        else:
            yield from (((name, below), one) for below, one in inner.items())


def command_pages() -> dict[str, str]:
    """Markdown by the path of its page."""
    return {f"command-line/{'-'.join(words)}.md": _page(words, command) for words, command in every_command()}


def list_of_commands() -> str:
    """The table of all commands."""
    lines = ["| command | what it does |", "|---|---|"]
    for words, command in every_command():
        lines.append(f"| [`accord {' '.join(words)}`]({'-'.join(words)}.md) | {_cell(_summary(command))} |")
    return "\n".join(lines)


def _page(words: tuple[str, ...], command: Any) -> str:
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    options = [one for one in command.params if one.opts[0].startswith("-")]
    typed = " ".join([*words, *(_argument(one) for one in arguments)])
    lines = [f"# accord {' '.join(words)}", "", " ".join((command.help or "").split()), ""]
    lines += ["```text", f"accord {typed} [OPTIONS]", "```", ""]
    if command.epilog:
        shown = command.epilog.replace("\b", "").removeprefix("Example:").strip().removeprefix("Examples:")
        lines += [
            "## Examples",
            "",
            "```console",
            *(line.strip() for line in shown.strip().splitlines()),
            "```",
            "",
        ]
    if arguments:
        lines += ["## Arguments", "", "| argument | meaning |", "|---|---|"]
        lines += [f"| `{_argument(one)}` | {_cell(one.help)} |" for one in arguments] + [""]
    lines += ["## Options", "", "| option | takes | default | meaning |", "|---|---|---|---|"]
    lines += [_row(one) for one in options if not one.hidden]
    lines += ["| `--help`, `-h` | | | Show the help and end. |", ""]
    lines += ["Every command, and what holds for all of them: [the command line](index.md).", ""]
    return "\n".join(lines)


def _summary(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0]


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    name = f"{name}…" if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _row(param: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    takes = "" if param.is_flag or param.count else _takes(param)
    if param.multiple:
        takes += "; may be given again"
    return f"| {names} | {takes} | {_default(param)} | {_cell(param.help)} |"


def _takes(param: Any) -> str:
    kind = param.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return " or ".join(f"`{word}`" for word in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"`{word.value}`" for word in kind)
    return TYPES.get(kind, "text")


def _default(param: Any) -> str:
    if param.required:
        return "**must be given**"
    if param.is_flag or param.default is None or param.default in ("", [], ()):
        return ""
    value = param.default
    return f"`{' '.join(map(str, value)) if isinstance(value, list | tuple) else value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
