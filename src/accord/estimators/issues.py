"""Which labels to call wrong, and in which order to look at them.

The rule is that of confident learning (Northcutt, Jiang & Chuang, 2021), for clicks: a click is an issue when
its quality is below the mean quality of non-clicks. Such a click looks no more like a preference than an item
the user never touched. The mean is taken over non-clicks drawn for the training clicks, so the threshold comes
from the training log alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from accord.errors import SettingError
from accord.stored import AT_ONCE, blocks, is_stored, like, release, scattered, slices, trim

PART = 1 << 20
"""Positions that are given at a time, of those that are found in files."""


def flag_share(quality: np.ndarray, share: float) -> np.ndarray:
    """True for the given share of lowest quality."""
    if not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
        raise SettingError(f"A share of {share} makes no sense: give a number from 0 to 1.")
    flagged, wanted = like(quality, bool), round(share * len(quality))
    for positions in worst_order(quality):
        flagged[positions[: max(0, wanted)]] = True
        wanted -= len(positions)
        release(flagged)
    return flagged


def worst_first(table: pa.Table) -> pa.Table:
    """Sorted by label quality, worst first."""
    order = np.argsort(np.asarray(table["label_quality"]), kind="stable")
    return table.take(pa.array(order))


def worst_order(quality: np.ndarray) -> Iterator[np.ndarray]:
    """Positions by quality, the lowest first and equal ones in their order; at once where they are in memory.

    Positions of qualities in a file are thrown into buckets of similar quality, each of which is sorted.
    """
    if not is_stored(quality):
        yield np.argsort(quality, kind="stable")
        return
    counts = np.zeros(1 << 16, np.int64)
    for (some,) in blocks(quality):
        counts += np.bincount(_leading(some), minlength=len(counts))
    _, bucket = np.unique((counts.cumsum() - counts) // AT_ONCE, return_inverse=True)
    sizes = np.bincount(bucket, counts).astype(np.int64)
    thrown = scattered({"quality": quality}, lambda own: bucket[_leading(own["quality"])], sizes)
    start = 0
    for size in sizes.tolist():
        own = slice(start, start + size)
        order = thrown["rows"][own][np.argsort(thrown["quality"][own], kind="stable")]
        release(*thrown.values())
        for part in slices(size, PART):
            yield order[part]
        start += size
        trim()


def _leading(quality: np.ndarray) -> np.ndarray:
    """The leading bits of numbers of at least 0, by which they are ordered."""
    return ((np.asarray(quality, np.float32) + 0.0).view(np.uint32) >> 16).astype(np.int64)
