"""Tables out: a result is the kind of table that the data came in as."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pyarrow as pa

from accord.errors import SettingError, nearest
from accord.extras import needed

TableKind = Literal["arrow", "pandas", "polars"]
FRAMES: tuple[TableKind, ...] = ("pandas", "polars")


def kind_of_table(*sources: Any) -> TableKind:
    """The kind of the first source that is a frame or a column of one; Arrow for files, arrays and all else.

    >>> kind_of_table("clicks.csv", {"user": ["u1"]})
    'arrow'
    """
    for source in sources:
        for kind in FRAMES:
            if any(base.__module__.partition(".")[0] == kind for base in type(source).__mro__):
                return kind
    return "arrow"


def as_kind(table: pa.Table, kind: TableKind) -> Any:
    """An Arrow table as a table of a kind."""
    if kind == "pandas":
        needed("pandas", "A pandas table")
        return table.to_pandas()
    if kind == "polars":
        return needed("polars", "A polars table").from_arrow(table)
    return table


def check_table_kind(kind: TableKind) -> TableKind:
    """Refuse a kind that does not exist, or whose library is not installed."""
    if kind not in get_args(TableKind):
        raise SettingError(f"Unknown kind of table '{kind}': {nearest(str(kind), get_args(TableKind))}")
    if kind in FRAMES:
        needed(kind, f"A {kind} table")
    return kind
