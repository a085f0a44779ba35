"""Which labels to call wrong: the rule, and the tables made from it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.errors import SettingError


def two_group_threshold(scores: np.ndarray, bins: int = 512) -> float:
    """The cut that best separates a set of numbers into two groups (Otsu, 1979).

    It maximises the variance between the groups' means; only the numbers themselves are used.

    >>> bool(1 < two_group_threshold(np.array([0.9, 1.0, 4.0, 4.1, 4.2])) < 4)
    True
    """
    counts, edges = np.histogram(scores, bins=bins)
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    mass = np.cumsum(counts * centres)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = mass / below - (mass[-1] - mass) / above
    between = np.where((below > 0) & (above > 0), below * above * gap**2, -1.0)
    best = np.flatnonzero(between == between.max())
    return float(edges[best[len(best) // 2] + 1])


def flag_share(quality: np.ndarray, share: float) -> np.ndarray:
    """True for the given share of lowest quality."""
    if not 0 <= share <= 1:
        raise SettingError(f"A share of {share:g} makes no sense: give a number from 0 to 1.")
    flagged = np.zeros(len(quality), bool)
    flagged[np.argsort(quality, kind="stable")[: round(share * len(quality))]] = True
    return flagged


def worst_first(table: pa.Table) -> pa.Table:
    """Sorted by label quality, the least believable first."""
    order = np.argsort(np.asarray(table["label_quality"]), kind="stable")
    return table.take(pa.array(order))
