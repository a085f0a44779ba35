"""Columns as numbers that a network learns from. What they need to know of the training is plain data.

A column is encoded without a look at the labels. Numbers stay as they are, with the median where one is missing;
words of few kinds become a column each (one-hot); words of many kinds and short texts become the leading directions
of their letters (hashed n-grams, weighted by how rare they are); dates become a day and its places in the year, the
week and the day. Where something was missing in training, a further column says where.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from accord.data.column_values import days, numbers, words
from accord.data.ids import pc

ONE_HOT = 40
"""Words of at most so many kinds become a column each."""
RARE = 0.002
"""What is found in a smaller share of the rows, or in one row alone, has no column of its own."""
HASHED = 2048
"""Places for the n-grams of a text."""
DIRECTIONS = 30
"""Columns that a text becomes, at most."""
LONGEST_TEXT = 2000
"""Letters of a text that are read."""
TURNS = {"year": 365.2425, "week": 7.0, "day": 1.0}
"""What a date has a place in, and how many days it takes."""


@dataclass
class Encoder(ABC):
    """One column's way to numbers."""

    name: str
    marked: bool
    """Whether a further column says where it is missing."""
    kind: ClassVar[str]

    @abstractmethod
    def values(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of numbers, and where the column is missing."""

    def encode(self, column: pa.ChunkedArray) -> np.ndarray:
        values, missing = self.values(column)
        return np.column_stack([values, missing]) if self.marked else values

    @property
    @abstractmethod
    def width(self) -> int:
        """How many columns of numbers it makes, besides that of what is missing."""

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    def arrays(self) -> dict[str, np.ndarray]:
        """What of it is no JSON."""
        return {}

    @abstractmethod
    def check(self) -> None:
        """Refuse a state that makes no sense, with a ValueError."""


@dataclass
class Numbers(Encoder):
    median: float
    kind: ClassVar[str] = "number"

    @staticmethod
    def learn(name: str, column: pa.ChunkedArray) -> Numbers:
        values = numbers(column, name)
        known = values[~np.isnan(values)]
        return Numbers(name, _many(len(values) - len(known), len(values)), float(np.median(known)))

    def values(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        values = numbers(column, self.name)
        missing = np.isnan(values)
        return np.where(missing, self.median, values)[:, None], missing

    @property
    def width(self) -> int:
        return 1

    def check(self) -> None:
        _finite(self.median)


@dataclass
class Dates(Encoder):
    middle: float
    turns: list[str]
    kind: ClassVar[str] = "date"

    @staticmethod
    def learn(name: str, column: pa.ChunkedArray) -> Dates:
        values = days(column)
        known = values[~np.isnan(values)]
        # Not the place in a year of dates of few months, nor that in a day of dates without a time.
        turns = [turn for turn, length in TURNS.items() if np.ptp(known) > length and np.ptp(known % length) > 0]
        return Dates(name, _many(len(values) - len(known), len(values)), float(np.median(known)), turns)

    def values(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        values = days(column)
        missing = np.isnan(values)
        values = np.where(missing, self.middle, values)
        angles = [2 * math.pi * (values % TURNS[turn]) / TURNS[turn] for turn in self.turns]
        return np.column_stack([values - self.middle, *(f(a) for a in angles for f in (np.sin, np.cos))]), missing

    @property
    def width(self) -> int:
        return 1 + 2 * len(self.turns)

    def check(self) -> None:
        _finite(self.middle)
        if not isinstance(self.turns, list) or not all(turn in TURNS for turn in self.turns):
            raise ValueError("a date has no such turns")


@dataclass
class Categories(Encoder):
    known: list[str]
    """The words that have a column; all others have nothing but zeros."""
    kind: ClassVar[str] = "category"

    @staticmethod
    def learn(name: str, column: pa.ChunkedArray) -> Categories:
        text = words(column)
        counted = pc.value_counts(pc.drop_null(text))
        counts = {row["values"]: row["counts"] for row in counted.to_pylist()}
        known = sorted(word for word, count in counts.items() if _many(count, len(column)))
        known = known or sorted(counts)
        if len(known) == len(counts) == 2 and not text.null_count:
            known = known[1:]  # the other is where it is not
        return Categories(name, _many(text.null_count, len(column)), known)

    def values(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        text = words(column)
        at = np.asarray(pc.fill_null(pc.index_in(text, value_set=pa.array(self.known, text.type)), -1))
        return (at[:, None] == np.arange(len(self.known))).astype(np.float32), np.asarray(pc.is_null(text))

    @property
    def width(self) -> int:
        return len(self.known)

    def check(self) -> None:
        known = self.known
        if not isinstance(known, list) or not known or not all(isinstance(word, str) for word in known):
            raise ValueError("the words of a column are none")


@dataclass
class Texts(Encoder):
    rarity: np.ndarray
    """(places,): how much an n-gram counts."""
    directions: np.ndarray
    """(columns, places)."""
    kind: ClassVar[str] = "text"

    @staticmethod
    def learn(name: str, column: pa.ChunkedArray) -> Texts:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfTransformer

        text = words(column)
        grams = _grams(text)
        weights = TfidfTransformer().fit(grams)
        most = min(DIRECTIONS, grams.shape[0] - 1)
        svd = TruncatedSVD(max(1, most), random_state=0).fit(weights.transform(grams))
        kept = np.asarray(svd.explained_variance_) > 1e-9
        kept[0] = True
        rarity, directions = np.asarray(weights.idf_, np.float32), np.asarray(svd.components_, np.float32)[kept]
        return Texts(name, _many(text.null_count, len(column)), rarity, directions)

    def values(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.preprocessing import normalize

        text = words(column)
        weighted = normalize(_grams(text).multiply(self.rarity).tocsr())
        return np.asarray(weighted @ self.directions.T), np.asarray(pc.is_null(text))

    @property
    def width(self) -> int:
        return len(self.directions)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "marked": self.marked}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"rarity": self.rarity, "directions": self.directions}

    def check(self) -> None:
        sound = self.rarity.shape == (HASHED,) and self.directions.ndim == 2 and len(self.directions)
        sound = sound and self.directions.shape[1] == HASHED
        if not sound or not np.isfinite(self.rarity).all() or not np.isfinite(self.directions).all():
            raise ValueError("the weights of a text do not fit together")


def _grams(text: pa.ChunkedArray) -> Any:
    """(rows, places): how often each n-gram of letters is there, words with a blank at both ends."""
    from sklearn.feature_extraction.text import HashingVectorizer

    how: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 4), "norm": None, "dtype": np.float32}
    hashed = HashingVectorizer(n_features=HASHED, alternate_sign=False, **how)
    return hashed.transform((value or "")[:LONGEST_TEXT] for value in text.to_pylist())


def _many(count: int, rows: int) -> bool:
    """Whether so many of the rows are worth a column of their own."""
    return count >= max(2, RARE * rows)


def _finite(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("a number of a column is none")


KINDS: dict[str, type[Encoder]] = {one.kind: one for one in (Numbers, Dates, Categories, Texts)}
