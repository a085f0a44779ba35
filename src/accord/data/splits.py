"""Disjoint splits: of a click log, at random, by time, or one click of each user; of labels, class by class."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from accord.data.clicks import Clicks
from accord.errors import DataError, SettingError, nearest
from accord.stored import like, release, slices, slices_of_users

Way = Literal["random", "time", "global-time", "leave-one-out"]
WAYS: dict[str, str] = {
    "random": "random clicks",
    "time": "each user's latest clicks",
    "global-time": "the latest clicks of all",
    "leave-one-out": "one click of each user",
}
"""How clicks are held out, in words. Of leave-one-out it is the latest one, where times are known."""


def chosen_way(by: str, clicks: Clicks) -> Way:
    """A way by its name; ``auto`` takes each user's latest clicks where times are known."""
    if by == "auto":
        return "random" if clicks.times is None else "time"
    if by not in WAYS:
        raise SettingError(f"Unknown split '{by}': {nearest(by, ['auto', *WAYS])}")
    way: Any = by
    return way


def holdout_mask(
    clicks: Clicks, share: float, *, seed: int, by: Way, places: tuple[np.ndarray, int] | None = None
) -> np.ndarray:
    """True for the clicks to hold out. A user's only click stays in training, unless the time of all decides.

    Where these are the clicks of some users alone, ``places`` says where each is among all clicks, and how many
    there are: so it is held out if it would be held out among all. (The time of all asks for all.)
    """
    if by in ("time", "global-time") and clicks.times is None:
        raise DataError("A split by time needs a time column; name it with time=COLUMN, or split at random.")
    if by == "global-time":
        return _latest_of_all(clicks, share)
    rng = np.random.default_rng([seed, 0x5B117])
    mask = like(clicks.users, bool)
    timed = clicks.times is not None and by != "random"
    for rows in slices_of_users(clicks.users):  # in memory all at once; of a log in files, some users at a time
        count = rows.stop - rows.start
        users, drawn = clicks.users[rows], rng.random(count) if places is None else _drawn_at(*places, rng)
        keys = (drawn, users) if not timed or clicks.times is None else (drawn, clicks.times[rows], users)
        mask[rows] = _last(users, np.lexsort(keys), None if by == "leave-one-out" else share)
        release(clicks.users, clicks.times, mask)
    return mask


def _drawn_at(places: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Of so many random numbers, those at some increasing places."""
    found = np.empty(len(places))
    for rows in slices(count):
        first, last = np.searchsorted(places, [rows.start, rows.stop])
        found[first:last] = rng.random(rows.stop - rows.start)[places[first:last] - rows.start]
    return found


def _latest_of_all(clicks: Clicks, share: float) -> np.ndarray:
    """Mark the last ``share`` of all clicks, and what came at the same time as the first of these."""
    times = np.asarray(clicks.times)
    held = int(np.ceil(np.round(len(times) * share, 9) - 0.5))
    mask = like(clicks.users, bool)
    if not held:
        return mask
    since = np.partition(times, len(times) - held)[len(times) - held]
    if since == times.min():
        raise DataError("So many clicks came at one time that none would be left before it; split at random.")
    mask[:] = times >= since
    return mask


def _last(users: np.ndarray, order: np.ndarray, share: float | None) -> np.ndarray:
    """Mark the last ``share`` of each user's rows in ``order``, or the last one; fractions round half down, so that
    a user with too few clicks keeps them all."""
    _, start, size = np.unique(users, return_index=True, return_counts=True)
    # 50 × 0.07 is 3.5, though not in floating point
    wanted = np.ones(len(size)) if share is None else np.round(size * share, 9)
    held = np.minimum(np.ceil(wanted - 0.5).astype(np.int64), size - 1)
    rank = np.arange(len(users)) - np.repeat(start, size)
    mask = np.zeros(len(users), dtype=bool)
    mask[order] = rank >= np.repeat(size - held, size)
    return mask


def fold_numbers(clicks: Clicks, folds: int, *, seed: int) -> np.ndarray:
    """A fold for each click, at random: the folds of one user's clicks differ in size by one at most."""
    if not 2 <= folds <= max(2, len(clicks)):
        raise SettingError(f"{folds} folds of {len(clicks)} clicks make no test; give a number from 2 on.")
    rng = np.random.default_rng([seed, 0xF01D5])
    order = np.lexsort((rng.random(len(clicks)), clicks.users))
    _, start, size = np.unique(clicks.users, return_index=True, return_counts=True)
    rank = np.arange(len(clicks)) - np.repeat(start, size)
    numbers = np.empty(len(clicks), np.int64)
    numbers[order] = (rank + np.repeat(rng.integers(0, folds, len(size)), size)) % folds
    return numbers


def stratified_mask(labels: np.ndarray, share: float, *, seed: int) -> np.ndarray:
    """True for the examples to hold out: ``share`` of all, and of every class as nearly as whole numbers allow.

    How many that are depends on the number of examples alone, unless classes are too small: the only example of a
    class stays.
    """
    rng = np.random.default_rng([seed, 0x5B118])
    order = np.lexsort((rng.random(len(labels)), labels))
    _, start, size = np.unique(labels[order], return_index=True, return_counts=True)
    held = np.minimum(np.floor(size * share).astype(np.int64), size - 1)
    lacking = np.where(held < size - 1, size * share - held, 0.0)
    neediest = np.lexsort((rng.random(len(size)), -lacking))  # among equals, at random
    neediest = neediest[lacking[neediest] > 0][: max(0, round(len(labels) * share) - int(held.sum()))]
    held[neediest] += 1
    rank = np.arange(len(labels)) - np.repeat(start, size)
    mask = np.zeros(len(labels), dtype=bool)
    mask[order] = rank >= np.repeat(size - held, size)
    return mask


def stratified_folds(labels: np.ndarray, rows: np.ndarray, folds: int, *, seed: int) -> list[np.ndarray]:
    """Rows cut at random into parts in which every class has its share."""
    order = np.random.default_rng([seed, 0xF01D]).permutation(rows)
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[k::folds]) for k in range(folds)]


CLEAN_EXAMPLES = 1000
"""Examples with clean labels for the methods that learn from some."""


def clean_apart(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which examples to take out before noise is added, a tenth at most, and which remain."""
    order = np.random.default_rng([seed, 0xC1EA]).permutation(count)
    taken = min(CLEAN_EXAMPLES, count // 10)
    return order[:taken], np.sort(order[taken:])


def three_way(clicks: Clicks, shares: tuple[float, float], *, seed: int, by: Way) -> tuple[Clicks, Clicks, Clicks]:
    """Train, validation and test, e.g. ``shares=(0.1, 0.1)`` for 8:1:1."""
    valid, test = shares
    in_test = holdout_mask(clicks, test, seed=seed, by=by)
    rest = clicks.subset(~in_test)
    in_valid = holdout_mask(rest, valid / (1 - test), seed=seed + 1, by=by)
    return rest.subset(~in_valid), rest.subset(in_valid), clicks.subset(in_test)
