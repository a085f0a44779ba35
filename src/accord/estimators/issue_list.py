"""The clicks of a log in files, worst first, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from accord.data.clicks import Clicks
from accord.estimators.issues import worst_order
from accord.stored import Positions, blocks


@dataclass(frozen=True)
class IssueList:
    """What a table of issues holds, without the table."""

    clicks: Clicks
    quality: np.ndarray
    flagged: np.ndarray
    rows_at: Callable[[np.ndarray], pa.Table]
    """The rows of the table for clicks at some positions."""

    @property
    def num_rows(self) -> int:
        return len(self.clicks)

    @cached_property
    def count(self) -> int:
        """How many are flagged."""
        return sum(int(some.sum()) for (some,) in blocks(self.flagged))

    def parts(self) -> Iterator[pa.Table]:
        """All rows, worst first."""
        for positions in worst_order(self.quality):
            yield self.rows_at(positions)

    def slice(self, start: int, count: int) -> pa.Table:
        """Some rows of the table."""
        wanted, before = [], 0
        for positions in worst_order(self.quality):
            wanted.append(positions[max(0, start - before) : max(0, start + count - before)])
            before += len(positions)
            if before >= start + count:
                break
        return self.rows_at(np.concatenate(wanted))

    def first_flagged(self, count: int) -> pa.Table:
        """The rows of the worst that are flagged."""
        wanted: list[np.ndarray] = []
        for positions in worst_order(self.quality):
            wanted.append(positions[Positions(positions).of(self.flagged)][:count])
            count -= len(wanted[-1])
            if count <= 0:
                break
        return self.rows_at(np.concatenate(wanted))

    def most_flagged(self, column: str) -> tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]:
        """Ids of users or of items; of each, how many clicks are flagged, how many there are, and their quality."""
        of_users = column == "user"
        ids = self.clicks.user_ids if of_users else self.clicks.item_ids
        flagged, clicks, quality = (np.zeros(len(ids)) for _ in range(3))
        codes = self.clicks.users if of_users else self.clicks.items
        for code, is_issue, value in blocks(codes, self.flagged, self.quality):
            clicks += np.bincount(code, minlength=len(ids))
            flagged += np.bincount(code, is_issue, len(ids))
            quality += np.bincount(code, value, len(ids))
        there = np.flatnonzero(clicks)
        return ids.take(there), flagged[there], clicks[there], quality[there] / clicks[there]
