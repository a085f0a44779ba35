"""The labels of a run as columns: sorted, filtered and searched, a hundred thousand of them without a wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pydantic import BaseModel, ConfigDict, Field

from accord.errors import SettingError, nearest

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
WORST = "worst"
"""The usual order: those that are flagged before the others, each by their quality."""
NOTHING, KEEP, FIX, DROP, UNSURE = range(5)
CODES = {"keep": KEEP, "fix": FIX, "drop": DROP, "unsure": UNSURE}
"""Decisions as numbers; 0 where nothing was decided."""


class Query(BaseModel):
    """Which labels are asked for, and in which order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    given: int | None = Field(default=None, ge=0)
    """The given class, by its number."""
    predicted: int | None = Field(default=None, ge=0)
    lowest: float | None = Field(default=None, allow_inf_nan=False)
    """Quality at least this, and at most ``highest``."""
    highest: float | None = Field(default=None, allow_inf_nan=False)
    fewest_votes: int | None = None
    most_votes: int | None = None
    flagged: bool | None = None
    decided: bool | None = None
    """Whether this reviewer has decided."""
    action: Literal["keep", "fix", "drop", "unsure"] | None = None
    text: str = Field(default="", max_length=200)
    """In a name, an id, a title, a class or a text; or a label's number."""
    sort: str = Field(default=WORST, max_length=40)
    descending: bool = False


@dataclass(frozen=True)
class Words:
    """Text that can be searched: one for each label, or one for each code."""

    values: pa.Array
    codes: np.ndarray | None = None

    @staticmethod
    def of(values: Any, codes: np.ndarray | None = None) -> Words:
        """Any column of Arrow, or a list, as words in small letters."""
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return Words(pc.utf8_lower(pc.cast(array, pa.large_string())), codes)

    def holding(self, text: str) -> np.ndarray:
        """True for each label whose words hold a text."""
        found = pc.fill_null(pc.match_substring(self.values, text.lower()), False)
        mask = np.asarray(found)
        return mask if self.codes is None else mask[self.codes]


@dataclass(frozen=True)
class Items:
    """What a run says of every label; arrays over all positions of the run."""

    what: str
    """Labels or clicks."""
    own: np.ndarray
    """True for what can be decided."""
    quality: np.ndarray
    flagged: np.ndarray
    given: np.ndarray | None = None
    """Class numbers; clicks have none."""
    predicted: np.ndarray | None = None
    classes: Sequence[str] = ()
    votes: dict[str, np.ndarray] = field(default_factory=dict)
    """What a council said, if one was asked: votes, voters and agreement."""
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """Further columns that can be sorted by, as numbers."""
    words: Sequence[Words] = ()
    _orders: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    _found: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """How many can be decided."""
        return int(self.own.sum())

    @property
    def size(self) -> int:
        """How many positions the run has."""
        return len(self.own)

    @property
    def sorts(self) -> list[str]:
        """By what they can be sorted."""
        known = {"given": self.given, "predicted": self.predicted, **self.votes, **self.keys}
        return [WORST, "quality", *(name for name, column in known.items() if column is not None), "number"]

    def select(self, query: Query, mine: np.ndarray) -> np.ndarray:
        """The positions that were asked for, in order; ``mine`` holds what was decided, as numbers."""
        order = self._order(query.sort)
        found = order[self._mask(query, mine)[order]]
        return found[::-1] if query.descending else found

    def _mask(self, query: Query, mine: np.ndarray) -> np.ndarray:
        mask = self.own.copy()
        for wanted, column in ((query.given, self.given), (query.predicted, self.predicted)):
            if wanted is not None:
                mask &= _known(column, "Clicks have no classes") == wanted
        if query.lowest is not None:
            mask &= self.quality >= query.lowest
        if query.highest is not None:
            mask &= self.quality <= query.highest
        if query.flagged is not None:
            mask &= self.flagged == query.flagged
        if query.fewest_votes is not None or query.most_votes is not None:
            votes = _known(self.votes.get("votes"), "This run holds no votes")
            mask &= votes >= (query.fewest_votes or 0)
            mask &= votes <= (np.iinfo(votes.dtype).max if query.most_votes is None else query.most_votes)
        if query.decided is not None:
            mask &= (mine != NOTHING) == query.decided
        if query.action is not None:
            mask &= mine == CODES[query.action]
        if query.text.strip():
            mask &= self._holding(query.text.strip())
        return mask

    def _holding(self, text: str) -> np.ndarray:
        """Where a text is; the last one is kept, since it is asked for page by page."""
        found = self._found.get(text)
        if found is None:
            found = np.zeros(self.size, bool)
            for words in self.words:
                found |= words.holding(text)
            number = text.removeprefix("#")
            if number.isascii() and number.isdigit() and len(number) < 18 and int(number) < self.size:
                found[int(number)] = True
            self._found.clear()
            self._found[text] = found
        return found

    def _order(self, name: str) -> np.ndarray:
        """All positions by a column, and where that is the same by quality; kept once it was asked for."""
        if name not in self._orders:
            self._orders[name] = self._sorted(name).astype(np.int32 if self.size < 2**31 else np.int64)
        return self._orders[name]

    def _sorted(self, name: str) -> np.ndarray:
        if name == "number":
            return np.arange(self.size)
        if name == "quality":
            return np.argsort(self.quality, kind="stable")
        known: dict[str, Any] = {"given": self.given, "predicted": self.predicted, **self.votes, **self.keys}
        column = ~self.flagged if name == WORST else known.get(name)
        if column is None:
            raise SettingError(f"Labels cannot be sorted by '{name}': {nearest(name, self.sorts)}")
        return np.lexsort((self.quality, column))


def _known(column: np.ndarray | None, sentence: str) -> np.ndarray:
    if column is None:
        raise SettingError(f"{sentence}; leave that filter out.")
    return column


__all__ = ["CODES", "NOTHING", "WORST", "Items", "Query", "Words"]
