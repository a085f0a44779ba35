"""All flagged labels as data inside a page, up to a stated size, for the table that sorts and filters them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from accord.report.rendering import as_data

if TYPE_CHECKING:
    from accord.estimators import Classifier

MOST_ROWS, MOST_BYTES, MOST_PICTURE_BYTES = 5_000, 2_000_000, 2_000_000
"""What a page holds of flagged labels, the worst first: rows, bytes of their text, and bytes of their pictures."""
LONGEST = 500
"""Letters of a cell, beyond which it is cut."""
MOST_COLUMNS = 6
"""Columns of the data that are shown beside its labels."""
OF_DATA = "data:"
"""What their names begin with on the way to the page."""
TITLES = {
    "index": "index",
    "file": "file",
    "source_index": "row name",
    "user": "user",
    "item": "item",
    "given_label": "given label",
    "predicted_label": "predicted label",
    "label_quality": "label quality",
    "votes": "members that believe it",
    "voters": "of members",
    "agreement": "agreement",
}
"""What is shown of a table of issues, in this order, and how it is headed."""
PLACES = {"label_quality": 4, "votes": 0, "voters": 0, "agreement": 2}
"""Columns of numbers, and their decimal places; all others are text."""
CLASSES, RANGES = ("given_label", "predicted_label"), ("label_quality", "votes")
"""Columns that are filtered by a value, and by a lowest and a highest one."""


def with_rows(issues: pa.Table, clf: Classifier, data: Any) -> pa.Table:
    """The flagged ones of a table of issues, up to the stated size, each with its row of the data, as text."""
    only = issues.filter(issues["is_label_issue"])
    first = only.slice(0, MOST_ROWS)
    rows = clf.rows_of_table(np.asarray(first["index"]), data)
    rest = pa.nulls(only.num_rows - first.num_rows, pa.string())
    for name in rows.column_names[:MOST_COLUMNS]:
        words = pa.array(["" if one is None else str(one) for one in rows[name].to_pylist()], pa.string())
        only = only.append_column(f"{OF_DATA}{name}", pa.chunked_array([words, rest]))
    return only


def flagged_rows(
    issues: pa.Table, what: str, pictures: Iterable[tuple[int, str]] = (), shown: int = 0, of: int | None = None
) -> dict[str, Any] | None:
    """What a template needs for the table of flagged labels; None where nothing is flagged.

    ``issues`` has the worst first. ``pictures`` are of rows of the data by index, of which the first ``shown`` are
    elsewhere in the page. Where the table is but the beginning, ``of`` are flagged.
    """
    only = issues.filter(issues["is_label_issue"])
    if not only.num_rows:
        return None
    names = [name for name in TITLES if name in only.column_names]
    if "file" in names and "index" in names:
        names.remove("index")
    names += [name for name in only.column_names if name.startswith(OF_DATA)]
    rows, cut = _within(only.select(names).slice(0, MOST_ROWS), names)
    columns = [_column(k, name, rows) for k, name in enumerate(names)]
    at = {} if "index" not in only.column_names else _places(only["index"], len(rows))
    data = {
        "columns": {"named": sum(one["kind"] == "text" for one in columns), "all": columns},
        "rows": rows,
        "pictures": _pictures(pictures, at, shown),
        "file": f"flagged-{what}.csv",
    }
    return {
        "what": what,
        "columns": columns,
        "rows": len(rows),
        "of": only.num_rows if of is None else of,
        "cut": cut,
        "at": at,
        "data": as_data(data),
    }


def _column(number: int, name: str, rows: list[list[Any]]) -> dict[str, Any]:
    title = TITLES.get(name) or name.removeprefix(OF_DATA)[:LONGEST]
    column: dict[str, Any] = {"number": number, "name": name if name in TITLES else title, "title": title}
    column["kind"] = "words" if name not in TITLES else "text"
    if name in PLACES:
        column |= {"kind": "number", "places": PLACES[name], "ranged": name in RANGES}
    if name in CLASSES:
        counts: dict[str, int] = {}
        for row in rows:
            counts[row[number]] = counts.get(row[number], 0) + 1
        names = sorted(counts, key=_natural)
        column |= {"choices": names, "counts": [counts[one] for one in names]}
    return column


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers by size, then words."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (False, number, name) if math.isfinite(number) else (True, 0.0, name)


def _within(table: pa.Table, names: list[str]) -> tuple[list[list[Any]], bool]:
    """The first rows, as many as there is room for; and whether a text among them was cut."""
    kept: list[list[Any]] = []
    room, cut = MOST_BYTES, False
    columns = [_values(table[name], name) for name in names]
    for row in zip(*columns, strict=True):
        short = [one[: LONGEST - 1] + "…" if isinstance(one, str) and len(one) > LONGEST else one for one in row]
        room -= len(json.dumps(short, ensure_ascii=False).encode(errors="replace"))
        if room < 0:
            break
        kept.append(short)
        cut = cut or short != list(row)
    return kept, cut


def _values(column: Any, name: str) -> list[Any]:
    """Numbers as short as they can be written; all else as text, since a script knows no large whole numbers."""
    if name not in PLACES:
        return ["" if one is None else str(one) for one in column.to_pylist()]
    if pa.types.is_floating(column.type):
        return [float(str(one)) for one in column.to_numpy()]
    return column.to_pylist()


def _places(index: Any, count: int) -> dict[int, int]:
    return {int(one): place for place, one in enumerate(np.asarray(index)[:count])}


def _pictures(pictures: Iterable[tuple[int, str]], at: Mapping[int, int], shown: int) -> dict[int, str]:
    """Pictures by row of the table, as many as there is room for; not those that are elsewhere in the page."""
    kept: dict[int, str] = {}
    room = MOST_PICTURE_BYTES
    for number, (index, address) in enumerate(pictures):
        room -= len(address)
        if room < 0:
            break
        if number >= shown and index in at:
            kept[at[index]] = address
    return kept
