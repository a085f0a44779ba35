"""Which labels to call wrong, and in which order to look at them.

The rule is that of confident learning (Northcutt, Jiang & Chuang, 2021), for clicks: a click is an issue when
its quality is below the mean quality of non-clicks. Such a click looks no more like a preference than an item
the user never touched. The mean is taken over non-clicks drawn for the training clicks, so the threshold comes
from the training log alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.errors import SettingError


def flag_share(quality: np.ndarray, share: float) -> np.ndarray:
    """True for the given share of lowest quality."""
    if not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
        raise SettingError(f"A share of {share} makes no sense: give a number from 0 to 1.")
    flagged = np.zeros(len(quality), bool)
    flagged[np.argsort(quality, kind="stable")[: round(share * len(quality))]] = True
    return flagged


def worst_first(table: pa.Table) -> pa.Table:
    """Sorted by label quality, worst first."""
    order = np.argsort(np.asarray(table["label_quality"]), kind="stable")
    return table.take(pa.array(order))
