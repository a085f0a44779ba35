"""What a person typed, as settings, values and places; nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from accord.errors import SettingError
from accord.files import standing

if TYPE_CHECKING:
    from accord.cli.labelled import Words


FOR_CLICKS = "cannot be given with labelled data; for these see --noise and --truth"
FOR_LABELS = "is for labelled data; for clicks see accord compare --inject"


def names_of(words: str) -> list[str]:
    return [name.strip() for name in words.split(",") if name.strip()]


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


def labelled_words(
    data: Path, label: str | None, labels: Path | None, size: int | None, ignore: list[str] | None
) -> Words | None:
    """What was typed, where it means labelled data and not a click log."""
    from accord.data.datasets.names import LABELLED_NAMES

    named = str(data) in LABELLED_NAMES and not data.exists()
    if not (named or data.is_dir() or label is not None or labels is not None):
        return None
    from accord.cli.labelled import Words

    return Words(data, label, labels, size, ignore or [])


def holds_classifier(run: Path) -> bool:
    """Looks at the kind of a run without loading it; what is no run folder is refused by the command itself."""
    try:
        config = json.loads((standing(run) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("kind") == "classifier"


def settings_of(words: list[str] | None) -> dict[str, object]:
    """NAME=VALUE words as settings."""
    values: dict[str, object] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"'--set {word}' is not NAME=VALUE; write for example --set alpha=0.5.")
        values[name.strip()] = value.strip()
    return values
