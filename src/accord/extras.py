"""Libraries that are not needed for fitting, recommending and auditing: imported when they are, from an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from accord.errors import AccordError

EXTRA_OF = {
    "optuna": "search",
    "pandas": "tables",
    "polars": "tables",
    "PIL": "images",
    "pooch": "datasets",
    "duckdb": "databases",
    "psycopg": "databases",
    "sqlalchemy": "databases",
    "skops": "models",
    "starlette": "review",
    "uvicorn": "review",
    "usearch": "index",
}
"""The extra of pyproject.toml that each library comes with, by the name it is imported by."""
NAMES = {"PIL": "Pillow"}


class MissingExtraError(AccordError, ImportError):
    """A library that is not installed; the message says how to install it."""


def needed(module: str, for_what: str) -> Any:
    """A library, or one sentence with the command that installs it.

    >>> needed("json", "Reading").loads("1")
    1
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(module, for_what) from error


def missing(module: str, for_what: str) -> MissingExtraError:
    """The sentence that says how to install a library."""
    name = module.partition(".")[0]
    library = NAMES.get(name, name)
    command = f"pip install 'accord-labels[{EXTRA_OF[name]}]'" if name in EXTRA_OF else f"pip install {library}"
    return MissingExtraError(f"{for_what} needs {library}, which is not installed: {command}.")
