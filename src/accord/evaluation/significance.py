"""Is a difference more than chance? Paired bootstrap over users, corrected for the number of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES = 5000
OVER = "over"
"""Says in a summary what a p-value is over that is not of users or examples."""


def paired_bootstrap(ours: np.ndarray, theirs: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value for the mean difference of two metrics on the same users.

    Rows are seeds and columns users. Users are resampled; all seeds of a user go together.
    """
    difference = ours.mean(0) - theirs.mean(0)
    rng = np.random.default_rng([seed, 0xB007])
    means = np.empty(resamples)
    for start in range(0, resamples, 250):  # in blocks, for memory
        count = min(250, resamples - start)
        drawn = rng.integers(0, len(difference), (count, len(difference)))
        means[start : start + count] = difference[drawn].mean(1)
    tail = min((means <= 0).sum(), (means >= 0).sum())
    return float(min(1.0, 2 * (tail + 1) / (resamples + 1)))


def over_seeds(ours: Mapping[str, float], theirs: Mapping[str, float], seeds: int) -> float | None:
    """Two-sided p-value by Welch's t-test over seeds, given means and deviations; none where nothing varies.

    >>> one, other = {"mean": 0.85, "std": 0.01}, {"mean": 0.80, "std": 0.01}
    >>> round(over_seeds(one, other, seeds=3), 4)
    0.0036
    """
    from scipy.stats import ttest_ind_from_stats

    if seeds < 2 or not (ours["std"] or theirs["std"]):
        return None
    test = ttest_ind_from_stats(
        ours["mean"], ours["std"], seeds, theirs["mean"], theirs["std"], seeds, equal_var=False
    )
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, k in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[k]))
        corrected[k] = round(highest, 12)
    return corrected
