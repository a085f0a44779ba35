"""Paths that a command was given: bad input leaves nothing behind in them."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from accord.errors import AccordError, DataError
from accord.estimators.run_folder import kind_of
from accord.locks import locked, owner_of
from accord.plain import refuse_links

CHECKPOINTS = "checkpoints"
"""The folder in which comparisons and searches keep checkpoints of trainings that run."""

LOCK = ".lock"
"""The file that a comparison locks in its folder."""


@contextmanager
def nothing_left(out: Path, worth: Callable[[], bool]) -> Iterator[None]:
    """Where what was asked for fails before anything of worth is done, the folders that were made for it go."""
    new = topmost_new(out)
    try:
        yield
    except (AccordError, OSError) as error:
        begun = out / CHECKPOINTS
        if new is not None and not worth() and not (begun.is_dir() and any(begun.iterdir())):
            shutil.rmtree(out, ignore_errors=True)
            remove_empty(out.parent, new)
        if isinstance(error, OSError):
            raise cannot_write(out, error) from error
        raise


def cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(f"'{path}' cannot be written: {error.strerror or error}; choose another path.")


def topmost_new(path: Path) -> Path | None:
    """The highest folder that has to be made for a path; None where it is there."""
    new = None
    while not path.exists():
        new = path
        if path.parent == path:
            break
        path = path.parent
    return new


@contextmanager
def alone(out: Path, what: str) -> Iterator[None]:
    """No other process makes such a thing in this folder meanwhile."""
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / LOCK) as ours:
        if not ours:
            owner = owner_of(out / LOCK) or "another process"
            raise DataError(
                f"The {what} in '{out}' is being made by {owner}; wait for its end, or choose another path."
            )
        try:
            yield
        finally:
            (out / LOCK).unlink(missing_ok=True)


def remove_empty(path: Path, top: Path) -> None:
    """Remove folders that are empty again, from a path up to the highest that was made for it."""
    try:
        while path != top.parent:
            path.rmdir()
            path = path.parent
    except OSError:
        pass  # somebody has put something there


def refuse_others(out: Path, what: str, own: Collection[str]) -> None:
    """A comparison or a search goes into an empty folder, or where one of its kind has been begun.

    ``own`` are names of what such a one leaves there.
    """
    if out.is_dir():
        refuse_links(out)
    found = kind_of(out)
    if found is not None:
        raise DataError(f"'{out}' holds a {found}; choose another path.")
    there = [path.name for path in out.iterdir() if not path.name.startswith(".")] if out.is_dir() else []
    if there and not any(name in own for name in there):
        raise DataError(f"'{out}' holds '{min(there)}' and no {what}, so it is left alone; choose another path.")


def quoted(path: Path) -> str:
    """A path as it can be typed."""
    return shlex.quote(str(path))
