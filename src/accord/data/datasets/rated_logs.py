"""Rated logs: every rating is a click, and what it says decides over the clean test alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import load_clicks, match_pairs, pair_keys
from accord.data.ids import pc
from accord.data.reading import read_table
from accord.data.splits import three_way
from accord.errors import DataError

COLUMNS = ("user", "item", "rating", "part")
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Repeats:
    """Rows of one pair, of which the first part that holds the pair counts."""

    rows: int = 0
    """Rows beyond the first of their pair."""
    in_parts: int = 0
    """Pairs that stand in more than one part."""
    differing: int = 0
    """Pairs whose rows have different ratings."""


@dataclass(frozen=True)
class RatedLog:
    """The pairs of a rated log, each in one part, with its rating."""

    pairs: pa.Table
    """user, item and rating; a pair of several rows in its part has the lowest of their ratings."""
    part: np.ndarray
    """Of each pair, the position of its part in ``PARTS``."""
    repeats: Repeats

    def of(self, part: str, from_rating: float | None = None) -> pa.Table:
        """User and item of a part's pairs; of those with at least a rating, where one is given."""
        kept = self.part == PARTS.index(part)
        if from_rating is not None:
            kept &= np.asarray(self.pairs["rating"]) >= from_rating
        return self.pairs.filter(pa.array(kept)).select(["user", "item"])

    def rated(self, part: str) -> pa.Table:
        """A part's pairs with their ratings, to judge by and nothing else."""
        return self.pairs.filter(pa.array(self.part == PARTS.index(part)))


def read_divided(path: Path) -> RatedLog:
    """A table of ratings that says of each row whether it is for training, validation or the test.

    A pair counts once, in the first part that holds it. Where its rows in that part differ, its rating is the
    lowest: it is clean only if all of them are.
    """
    table, where = read_table(path)
    for name in COLUMNS:
        if name not in table.column_names:
            raise DataError(f"{where} has no column '{name}'; give {', '.join(COLUMNS[:-1])} and {COLUMNS[-1]}.")
        if table[name].null_count:
            raise DataError(f"{where} has {table[name].null_count} rows without a {name}; leave them out.")
    if not table.num_rows:
        raise DataError(f"{where} holds no rows.")
    rating, part = _ratings(table, where), _parts(table, where)
    users, items = (_codes(table[name]) for name in ("user", "item"))
    keys = users * (int(items.max()) + 1) + items
    _, pair = np.unique(keys, return_inverse=True)
    first = np.full(pair.max() + 1, len(PARTS))
    np.minimum.at(first, pair, part)
    counts = part == first[pair]
    lowest = np.full(len(first), np.inf)
    np.minimum.at(lowest, pair[counts], rating[counts])
    kept = np.zeros(len(pair), bool)
    rows = np.flatnonzero(counts)
    kept[rows[np.unique(pair[rows], return_index=True)[1]]] = True
    pairs = table.select(["user", "item"]).filter(pa.array(kept))
    pairs = pairs.append_column("rating", pa.array(lowest[pair[kept]]))
    return RatedLog(pairs, part[kept], _repeats(pair, part, rating))


def _repeats(pair: np.ndarray, part: np.ndarray, rating: np.ndarray) -> Repeats:
    distinct = int(pair.max()) + 1
    held = np.unique(pair * len(PARTS) + part) // len(PARTS)
    highest, lowest = np.full(distinct, -np.inf), np.full(distinct, np.inf)
    np.maximum.at(highest, pair, rating)
    np.minimum.at(lowest, pair, rating)
    several = int((np.bincount(held) > 1).sum())
    return Repeats(len(pair) - distinct, several, int((highest > lowest).sum()))


def _ratings(table: pa.Table, where: str) -> np.ndarray:
    try:
        rating = np.asarray(table["rating"].cast(pa.float64()))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"The column 'rating' of {where} holds something that is no number.") from error
    if not np.isfinite(rating).all():
        raise DataError(f"The column 'rating' of {where} holds values that are no finite numbers.")
    return rating


def _parts(table: pa.Table, where: str) -> np.ndarray:
    found = other = None
    try:
        words = table["part"].cast(pa.string())
        found = pc.index_in(words, value_set=pa.array(PARTS))
        other = repr(words.filter(pc.is_null(found))[0].as_py()) if found.null_count else None
    except (pa.ArrowException, TypeError):
        other = "no words"
    if other is not None:
        raise DataError(f"The column 'part' of {where} holds {other}; its values are train, valid and test.")
    return np.asarray(found).astype(np.int64)


def _codes(column: Any) -> np.ndarray:
    """Numbers of ids, by their first appearance."""
    return np.asarray(pc.dictionary_encode(column.combine_chunks()).indices).astype(np.int64)


def read_by_time(path: Path) -> RatedLog:
    """A table of ratings with times: each user's rows by time, 8:1:1."""
    table, where = read_table(path)
    clicks = load_clicks(table)
    if "rating" not in table.column_names:
        raise DataError(f"{where} has no column 'rating'; give user, item, rating and time.")
    if clicks.merged:
        raise DataError(f"{where} holds {clicks.merged} pairs more than once; give one rating for each.")
    rows = match_pairs(table, clicks.user_ids, clicks.item_ids)
    order = np.argsort(pair_keys(rows.users, rows.items, len(clicks.item_ids)))
    part = np.zeros(len(clicks), np.int64)
    splits = three_way(clicks, (0.1, 0.1), seed=0, by="time")
    for k, split in enumerate(splits):
        part[np.searchsorted(clicks.keys, split.keys)] = k
    whole = clicks.to_table()
    pairs = pa.table({"user": whole.column(0), "item": whole.column(1)})
    return RatedLog(pairs.append_column("rating", pa.array(_ratings(table, where)[order])), part, Repeats())
