"""What a person typed, as settings and values; nothing heavy is imported."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

from accord.errors import SettingError


def names_of(words: str) -> list[str]:
    return [name.strip() for name in words.split(",") if name.strip()]


def refuse_broken(words: list[str]) -> None:
    """Refuse bytes that are no letters, or none that this process can have."""
    for word in words:
        if word.isprintable() or not any("\udc80" <= letter <= "\udcff" for letter in word):
            continue
        try:
            meant = os.fsencode(word).decode("utf-8")
        except ValueError:
            raise SettingError(
                f"{word!r} is no UTF-8; rename the file, or type the id as it is in the log."
            ) from None
        here = sys.getfilesystemencoding()
        raise SettingError(f"'{meant}' has letters that Python does not know here ({here}); set PYTHONUTF8=1.")


def refuse_given(why: str, **words: object) -> None:
    """Options that say nothing here, where they were given."""
    given = [
        f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}" for name, value in words.items() if value
    ]
    if given:
        raise SettingError(f"{' and '.join(given)} {why}.")


def space_of(words: list[str] | None) -> dict[str, tuple[object, ...]]:
    """NAME=V1,V2 words as values to search; numbers are read as numbers."""
    space: dict[str, tuple[object, ...]] = {}
    for word in words or []:
        name, equals, values = word.partition("=")
        if not equals or not name or not values:
            raise SettingError(f"'--space {word}' is not NAME=V1,V2; write for example --space c1=1,10.")
        space[name.strip()] = tuple(_number(value.strip()) for value in values.split(","))
    return space


def _number(word: str) -> object:
    try:
        value = float(word)
    except ValueError:
        return word
    return value


def settings_of(words: list[str] | None) -> dict[str, object]:
    """NAME=VALUE words as settings."""
    values: dict[str, object] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"'--set {word}' is not NAME=VALUE; write for example --set alpha=0.5.")
        values[name.strip()] = value.strip()
    return values


KEYWORD = re.compile(
    r"(?<![\w.'/?&])(?<!\.\.\., )(?P<name>[a-z_]+)="
    r"(?:\{'(?P<key>[^']*)': \((?P<values>[^)]*)\)\}|\[(?P<several>[^\]]*)\]"
    r"|'(?P<text>[^']*)'|(?P<plain>[\w./-]*\w)|)"
)
"""A keyword argument of Python in a message, with a value or without."""


def as_options(message: str, flags: Mapping[str, str]) -> str:
    """A message of the library for people at a shell: its keyword arguments as the options of these names.

    >>> as_options("pass overwrite=True, or out='run'", {"overwrite": "--overwrite", "out": "--out"})
    'pass --overwrite, or --out run'
    """

    def option(found: re.Match[str]) -> str:
        if found["name"] not in flags:
            return found[0]
        words = [flags[found["name"]]]
        if found["key"] is not None:
            words.append(f"{found['key']}={found['values'].replace(' ', '')}")
        elif found["several"] is not None:
            words.append(",".join(shlex.split(found["several"].replace(",", " "))))
        elif found["text"] is not None:
            words.append(shlex.quote(found["text"]))
        elif found["plain"] not in (None, "True"):
            words.append(found["plain"])
        return " ".join(words)

    return KEYWORD.sub(option, message)
