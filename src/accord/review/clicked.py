"""The clicks of a recommender's run for review: columns, the user's other clicks, titles and pictures of items."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import ITEM_NAMES, listed
from accord.data.reading import read_table
from accord.errors import DataError
from accord.review.items import Items, Words
from accord.review.pictures import FilePictures
from accord.review.shown import FIELD, Shown, worded

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
IDS = ("id", *ITEM_NAMES)
TITLES = ("title", "name", "item_title", "item_name", "product", "headline", "label", "description")
PICTURES = ("picture", "image", "poster", "cover", "photo", "file", "filename", "file_name", "path", "image_path")
HISTORY = 100
"""Other clicks of a user that are shown."""
SECONDS, MILLISECONDS = (1e8, 4.1e9), (1e11, 4.1e12)
"""Times that are taken for seconds or milliseconds since 1970: from 1973 to 2099."""


class ItemsFile:
    """A table of items: their ids, titles, pictures in the folder of the file, and whatever else it holds."""

    def __init__(self, path: Path, ids: Any, column: str) -> None:
        table, where = read_table(path)
        by_name = {name.lower(): name for name in reversed(table.column_names)}
        own = _first(by_name, (column.lower(), *IDS))
        if own is None:
            raise DataError(
                f"No column of item ids in {where} (it has {listed(table.column_names)}); call it '{column}'."
            )
        codes = ids.find(table[own].combine_chunks())
        known = np.flatnonzero(codes >= 0)
        if not len(known):
            raise DataError(f"No id in column '{own}' of {where} is an item of this run; give those of its log.")
        self.table = table
        self.rows = np.full(len(ids), -1, np.int64)
        self.rows[codes[known][::-1]] = known[::-1]  # the first row of each item
        title = _first(by_name, TITLES)
        self.titles = None if title in (None, own) else table[title]
        picture = _first(by_name, PICTURES)
        names = None if picture in (None, own, title) else table[picture].to_pylist()
        self.pictures = None if names is None else FilePictures(path.parent, names)
        shown = (own, title, picture if self.pictures is not None else None)
        self.others = [name for name in table.column_names if name not in shown]

    def title(self, code: int) -> str | None:
        row = self.rows[code]
        return None if row < 0 or self.titles is None else worded(self.titles[int(row)].as_py()) or None

    def fields(self, code: int) -> list[list[str]]:
        row = int(self.rows[code])
        return [] if row < 0 else [[worded(n), worded(self.table[n][row].as_py(), FIELD)] for n in self.others]

    def words(self, codes: np.ndarray) -> list[Words]:
        """The titles, to be searched."""
        if self.titles is None:
            return []
        rows = pa.array(self.rows, mask=self.rows < 0)
        return [Words.of(self.titles.combine_chunks().take(rows), codes)]


def _first(by_name: dict[str, str], usual: tuple[str, ...]) -> str | None:
    return next((by_name[name] for name in usual if name in by_name), None)


class ShownClicks(Shown):
    """Clicks of a recommender's log."""

    def __init__(self, rec: Any, items: Path | None = None) -> None:
        super().__init__()
        self.rec, self.clicks = rec, rec.clicks_
        self.items = None if items is None else ItemsFile(items, rec.item_ids_, rec.columns_.item)
        self.judged = rec.judged_clicks()
        self.of_log = rec._of_log
        self.clicked = np.bincount(self.clicks.items, minlength=len(rec.item_ids_))
        self.starts = np.searchsorted(self.clicks.users, np.arange(len(rec.user_ids_) + 1))
        times = self.clicks.times
        self.columns = ("user", "item", *(() if times is None else ("time",)))
        self.unit = None if times is None or self.clicks.time_type is not None else _unit(times)
        self.grid = self.items is not None and self.items.pictures is not None
        if items is None:
            self.notices.append("Items are shown by their ids; give their titles and pictures with items=FILE.")

    def title(self, at: int) -> str:
        return self._title(int(self.clicks.items[at]))

    def _title(self, code: int) -> str:
        own = None if self.items is None else self.items.title(code)
        return own or worded(self.rec.item_ids_.values[code].as_py())

    def _id(self, ids: Any, code: int) -> str:
        return worded(ids.values[code].as_py())

    def cells(self, at: int) -> list[str]:
        clicks, rec = self.clicks, self.rec
        time = [] if clicks.times is None else [self.time(at)]
        return [self._id(rec.user_ids_, clicks.users[at]), self._id(rec.item_ids_, clicks.items[at]), *time]

    def time(self, at: int) -> str:
        """When a click was, as a date if it can be one."""
        value = self.clicks.times[at]
        if self.clicks.time_type is not None:
            date = pc.cast(pa.array([value]), self.clicks.time_type)[0]
            return worded(date.as_py() if date.is_valid else None)
        if self.unit is None:
            return worded(value.item())
        date = datetime.fromtimestamp(float(value) / self.unit, UTC)
        return date.isoformat(" ", "seconds").removesuffix("+00:00")

    def details(self, at: int) -> dict[str, Any]:
        clicks, user, item = self.clicks, int(self.clicks.users[at]), int(self.clicks.items[at])
        own = dict(zip(self.columns, self.cells(at), strict=True))
        fields = [["user", own["user"]], ["item", own["item"]]]
        fields += [["time", own["time"]]] if "time" in own else []
        fields.append(["times in the log", str(clicks.counts[at])])
        if clicks.first_rows is not None and clicks.first_rows[at] >= 0:
            fields.append(["first row in the log", str(clicks.first_rows[at])])
        fields.append(["users with this item", f"{self.clicked[item]:,}"])
        fields += [] if self.items is None else self.items.fields(item)
        return {"fields": fields, **self._history(at, user)}

    def _history(self, at: int, user: int) -> dict[str, Any]:
        """The user's other clicks: those nearest in time, or those of least quality."""
        rows = np.arange(self.starts[user], self.starts[user + 1])
        rows = rows[self.of_log[rows] & (rows != at)]
        times, quality = self.clicks.times, self.judged["label_quality"]
        if times is None:
            shown = rows[np.argsort(quality[rows], kind="stable")[:HISTORY]]
        else:
            apart = np.abs(times[rows].astype(np.float64) - float(times[at]))
            shown = rows[np.argsort(apart, kind="stable")[:HISTORY]]
            shown = shown[np.argsort(times[shown], kind="stable")]
        told = [
            {
                "at": int(one),
                "title": self._title(int(self.clicks.items[one])),
                "quality": round(float(quality[one]), 4),
                "flagged": bool(self.judged["is_label_issue"][one]),
                "time": "" if times is None else self.time(int(one)),
            }
            for one in shown
        ]
        return {"history": told, "clicks": len(rows)}

    def picture(self, at: int, largest: int) -> bytes | None:
        if self.items is None or self.items.pictures is None:
            return None
        row = int(self.items.rows[self.clicks.items[at]])
        return None if row < 0 else self.items.pictures.png(row, largest)

    def words(self) -> list[Words]:
        clicks, rec = self.clicks, self.rec
        found = [Words.of(rec.user_ids_.values, clicks.users), Words.of(rec.item_ids_.values, clicks.items)]
        return found + ([] if self.items is None else self.items.words(clicks.items))


def _unit(times: np.ndarray) -> float | None:
    """How many of the log's numbers are a second, if they are seconds or milliseconds since 1970."""
    for (low, high), unit in ((SECONDS, 1.0), (MILLISECONDS, 1000.0)):
        if len(times) and low <= times.min() and times.max() <= high:
            return unit
    return None


def _rank(ids: Any) -> np.ndarray:
    """The place of each id in the order of ids."""
    ranks = np.empty(len(ids), np.int64)
    ranks[np.asarray(pc.sort_indices(ids.values))] = np.arange(len(ids))
    return ranks


def clicks_to_review(rec: Any, items: Path | None = None) -> tuple[Items, Shown]:
    """The columns of a recommender's clicks, and what is shown of each."""
    shown = ShownClicks(rec, items)
    clicks = rec.clicks_
    keys = {"user": _rank(rec.user_ids_)[clicks.users], "item": _rank(rec.item_ids_)[clicks.items]}
    keys |= {} if clicks.times is None else {"time": clicks.times}
    return (
        Items(
            "clicks",
            shown.of_log,
            shown.judged["label_quality"],
            shown.judged["is_label_issue"],
            votes=dict(rec.votes_ or {}),
            keys=keys,
            words=shown.words(),
        ),
        shown,
    )
