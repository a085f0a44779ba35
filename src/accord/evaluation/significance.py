"""Is a difference more than chance? Intervals over seeds and users together, and Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from accord.errors import DataError, SettingError

LEVEL = 0.95
OVER_SEEDS = "seeds"
"""What an interval is over where nothing is at hand of each user."""
REMOVED, WEIGHT = 0.7, 10.0
"""Both are chosen by simulated coverage, `benchmarks/coverage.py`: how much of the chance that seeds and users both
count is taken off, and how much more than its size the part of the seeds counts in the degrees of freedom."""


class Difference(NamedTuple):
    """How far one method's mean is ahead of another's, and what chance makes of it."""

    difference: float
    low: float
    high: float
    p: float
    """Two-sided. Below 1 - level exactly where zero is outside the interval."""
    over: str
    """What chance draws: ``seeds and users``, ``users`` or ``seeds``."""


class _Parts(NamedTuple):
    """The variance of a difference of means, by what it comes from; a mean square each."""

    seeds: float
    users: float
    both: float
    """What seeds and users share: it is in each of the other two as well."""
    seeds_freedom: float
    users_freedom: float


def difference(
    ours: Any, theirs: Any, *, paired: bool = True, units: str = "users", level: float = LEVEL
) -> Difference:
    """The difference of two methods' means, with an interval for other seeds and other users.

    ``ours`` and ``theirs`` have one row for each seed and one column for each user (or image): a metric of that
    user. One row alone may be a plain list. Columns are the same users in the same order. Rows with the same number
    are of the same seed, and so of the same validation split and the same drawn noise. Where they are not, say
    ``paired=False``; then the two may have different numbers of seeds.

    The interval is over seeds and users together. With one seed it is over users alone, with one user over seeds
    alone; ``over`` says which. Take three seeds or more: two tell little of how far seeds lie apart.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> normal = rng.random((5, 400))
    >>> better = normal + rng.normal(0.02, 0.1, (5, 400))
    >>> found = difference(better, normal)
    >>> f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}] over {found.over}"
    '+0.020 [+0.014, +0.026] over seeds and users'
    >>> difference(better[0], normal[0], units="images").over
    'images'
    """
    one, other = _table(ours, "ours"), _table(theirs, "theirs")
    if one.shape[1] != other.shape[1]:
        raise DataError(
            f"'ours' has {one.shape[1]} {units} and 'theirs' has {other.shape[1]}; give both for the same {units}."
        )
    if paired and len(one) != len(other):
        raise DataError(
            f"'ours' has {len(one)} seeds and 'theirs' has {len(other)}; give both for the same seeds, or say "
            "paired=False."
        )
    if not 0 < level < 1:
        raise SettingError(f"An interval of level {level:g} makes no sense; give for example level=0.95.")
    tables = [one - other] if paired else [one, other]
    seeds = min(len(one), len(other))
    if len(one) != len(other) and seeds == 1:
        raise DataError("One of the two has one seed and the other has more; give at least two of each.")
    if seeds == 1 and one.shape[1] == 1:
        raise DataError(f"One seed and one of the {units} say nothing about chance; give more of one or both.")
    gain = float(one.mean(0).mean() - other.mean(0).mean())
    over = units if seeds == 1 else OVER_SEEDS if one.shape[1] == 1 else f"seeds and {units}"
    variance, freedom = _variance(_parts(tables, one.mean(0) - other.mean(0)))
    return _interval(gain, variance, freedom, over, level)


def _table(values: Any, name: str) -> np.ndarray:
    table = np.atleast_2d(np.asarray(values, float))
    if table.ndim > 2 or not table.size:
        shape = np.shape(values)
        raise DataError(f"'{name}' has the shape {shape}; give one row for each seed and one column for each user.")
    if not np.isfinite(table).all():
        raise DataError(f"'{name}' holds values that are no finite numbers; leave those users out of both.")
    return table


def _parts(tables: Sequence[np.ndarray], by_user: np.ndarray) -> _Parts:
    """Of tables whose seeds are drawn one by one; ``by_user`` is each user's difference."""
    users = len(by_user)
    of_seeds, freedoms, both = list[float](), list[int](), 0.0
    for table in (one for one in tables if len(one) > 1):
        count = len(table)
        of_seeds.append(float(table.mean(1).var(ddof=1)) / count)
        freedoms.append(count - 1)
        if users > 1:
            rest = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
            both += float((rest**2).sum()) / ((count - 1) * (users - 1) * count * users)
    total = sum(of_seeds)
    squares = sum(part**2 / freedom for part, freedom in zip(of_seeds, freedoms, strict=True))
    own = float(by_user.var(ddof=1)) / users if users > 1 else 0.0
    return _Parts(total, own, both, total**2 / squares if squares else 0.0, users - 1)


def _variance(parts: _Parts) -> tuple[float, float]:
    """Of the difference, and the degrees of freedom that its estimate has.

    It is never less than over users alone. Where seeds lie no further apart than chance within users makes them,
    they add nothing. Satterthwaite's degrees of freedom take the part of the seeds as it was estimated. Of few
    seeds it is more often too small than too large, and then they would be too many. So it counts ``WEIGHT`` times.
    """
    seeds = max(parts.seeds - REMOVED * parts.both, 0.0)
    variance = seeds + parts.users
    if not seeds or not variance:
        return variance, parts.users_freedom
    if not parts.users_freedom:
        return variance, parts.seeds_freedom
    share = WEIGHT * seeds / (WEIGHT * seeds + parts.users)
    freedom = 1 / (share**2 / parts.seeds_freedom + (1 - share) ** 2 / parts.users_freedom)
    return variance, min(freedom, parts.users_freedom)  # so that seeds never make an interval narrower


def _interval(gain: float, variance: float, freedom: float, over: str, level: float = LEVEL) -> Difference:
    """Student's; where nothing varies it has no width, and zero is in it or not."""
    from scipy.stats import t as student

    if not variance:
        return Difference(gain, gain, gain, float(not gain), over)
    error = sqrt(variance)
    reach = float(student.ppf((1 + level) / 2, freedom)) * error
    return Difference(gain, gain - reach, gain + reach, float(2 * student.sf(abs(gain) / error, freedom)), over)


def over_seeds(ours: Mapping[str, float], theirs: Mapping[str, float], seeds: int) -> Difference | None:
    """Welch's interval and t-test over seeds alone, given means and deviations; none where nothing varies.

    >>> one, other = {"mean": 0.85, "std": 0.01}, {"mean": 0.80, "std": 0.01}
    >>> round(over_seeds(one, other, seeds=3).p, 4)
    0.0036
    """
    variances = [one["std"] ** 2 / seeds for one in (ours, theirs)]
    if seeds < 2 or not any(variances):
        return None
    freedom = sum(variances) ** 2 * (seeds - 1) / sum(v**2 for v in variances)
    return _interval(ours["mean"] - theirs["mean"], sum(variances), freedom, OVER_SEEDS)


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


def holm_by_family(found: Sequence[Difference]) -> list[float]:
    """Holm's correction, for each kind of test by itself: what is over other things is another family.

    >>> [one, other] = [Difference(0, 0, 0, 0.03, over) for over in ("seeds", "users")]
    >>> holm_by_family([one, other, one])
    [0.06, 0.03, 0.06]
    """
    corrected = [0.0] * len(found)
    for over in {one.over for one in found}:
        members = [k for k, one in enumerate(found) if one.over == over]
        for k, p in zip(members, holm([found[k].p for k in members]), strict=True):
            corrected[k] = p
    return corrected
