"""What a person typed, as settings and values; nothing heavy is imported."""

from __future__ import annotations

from accord.errors import SettingError


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


def settings_of(words: list[str] | None) -> dict[str, object]:
    """NAME=VALUE words as settings."""
    values: dict[str, object] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"'--set {word}' is not NAME=VALUE; write for example --set alpha=0.5.")
        values[name.strip()] = value.strip()
    return values
