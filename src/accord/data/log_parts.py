"""A click log divided into tables: to train on, to choose by, and to test by, perhaps by a clean signal.

Every distinct pair of a user and an item belongs to one part. A condition on the rows, such as ``rating>=4``, says
which are clean. It decides which pairs of the test are kept, and nothing else: training and validation see every
click, and their tables do not hold the columns that the condition looks at. A pair of several rows is clean where
all of its rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import Clicks, load_clicks, locate, pair_keys
from accord.data.conditions import Condition, read_condition
from accord.data.reading import filtered, read_table
from accord.data.splits import WAYS, chosen_way, fold_numbers, holdout_mask
from accord.errors import DataError, SettingError

TRAIN, VALID, TEST = range(3)
NAMES = ("train", "valid", "test")


@dataclass(frozen=True)
class LogParts:
    """The parts of a log, as tables of its own columns; rows are in their order."""

    train: pa.Table
    valid: pa.Table
    test: pa.Table
    """One row for each pair; where a condition was given, of clean pairs alone."""
    clicks: pa.Table | None
    """Where a condition was given: user, item and is_noise of every pair that is not tested by, to judge by."""
    notes: dict[str, Any]
    """Counts of pairs, and how they were chosen."""


def split_log(
    log: Any,
    *,
    by: str = "auto",
    valid: float = 0.1,
    test: float = 0.1,
    clean: str | None = None,
    seed: int = 0,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
) -> LogParts:
    """Divide a log once: ``by`` is auto, random, time, global-time or leave-one-out.

    ``valid`` and ``test`` are shares of the clicks; of leave-one-out it is one click of each user for either, and a
    user of two clicks has one to test by. ``clean`` is a condition on the rows, such as ``"rating>=4"``.
    """
    if not (valid >= 0 and test > 0 and valid + test < 1):
        raise SettingError(
            f"Shares of {valid:g} for validation and {test:g} for the test leave nothing, or test nothing: give "
            "for example valid=0.1 and test=0.1."
        )
    read = _Read.of(log, clean, user, item, time)
    way = chosen_way(by, read.clicks)
    part = np.full(len(read.clicks), TRAIN, np.int8)
    in_test = holdout_mask(read.clicks, test, seed=seed, by=way)
    part[in_test] = TEST
    if valid:
        rest = read.clicks.subset(~in_test)
        held = holdout_mask(rest, valid / (1 - test), seed=seed + 1, by=way)
        part[np.flatnonzero(~in_test)[held]] = VALID
    return read.parts(part, {"by": way, "how": WAYS[way], "seed": seed})


def fold_log(
    log: Any,
    folds: int,
    *,
    valid: float = 0.1,
    clean: str | None = None,
    seed: int = 0,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
) -> list[LogParts]:
    """Divide a log so often that every click is tested by once; ``valid`` is a share of the others, at random."""
    if not 0 <= valid < 0.9:
        raise SettingError(f"A share of {valid:g} for validation makes no sense; give for example valid=0.1.")
    read = _Read.of(log, clean, user, item, time)
    numbers = fold_numbers(read.clicks, folds, seed=seed)
    made = []
    for k in range(folds):
        in_test = numbers == k
        part = np.where(in_test, TEST, TRAIN).astype(np.int8)
        if valid:
            held = holdout_mask(read.clicks.subset(~in_test), valid, seed=seed + 1 + k, by="random")
            part[np.flatnonzero(~in_test)[held]] = VALID
        how = f"fold {k + 1} of {folds}, at random within each user"
        made.append(read.parts(part, {"by": "folds", "how": how, "seed": seed}))
    return made


@dataclass(frozen=True)
class _Read:
    """A log that was read: its rows, its distinct pairs, and which of these each row is, −1 for none."""

    table: pa.Table
    clicks: Clicks
    pair_of: np.ndarray
    condition: Condition | None
    clean: np.ndarray
    """True for the clean pairs."""

    @staticmethod
    def of(log: Any, clean: str | None, user: str | None, item: str | None, time: str | None) -> _Read:
        condition = None if clean is None else read_condition(clean)
        table, where = read_table(log)
        clicks = load_clicks(table, user=user, item=item, time=time)
        columns = clicks.columns
        users, items = clicks.user_ids.find(table[columns.user]), clicks.item_ids.find(table[columns.item])
        known = (users >= 0) & (items >= 0)
        at, found = locate(clicks.keys, pair_keys(users, items, len(clicks.item_ids)), known)
        pair_of = np.where(found, at, -1)
        is_clean = np.ones(len(clicks), bool)
        if condition is not None:
            met = condition.met(table, where)
            is_clean[pair_of[found & ~met]] = False
            if not is_clean.any() or is_clean.all():
                how = "every" if is_clean.all() else "no"
                raise DataError(f"By '{clean}' {how} click of {where} is clean, so it tells nothing apart.")
        return _Read(table, clicks, pair_of, condition, is_clean)

    def parts(self, part: np.ndarray, notes: dict[str, Any]) -> LogParts:
        counts = {name: int((part == code).sum()) for code, name in enumerate(NAMES)}
        tested = (part == TEST) & self.clean
        for name, count in (("train on", counts["train"]), ("test by", int(tested.sum()))):
            if not count:
                raise DataError(f"Nothing is left to {name}; give other shares, or another way to split.")
        own = {self.clicks.columns.user, self.clicks.columns.item, self.clicks.columns.time}
        signal = [name for name in (self.condition.columns if self.condition else []) if name not in own]
        shown = self.table.drop_columns(signal)
        first = np.zeros(len(self.pair_of), bool)
        first[self.clicks.first_rows] = True  # pyright: ignore[reportArgumentType]
        train, valid = (filtered(shown, self._rows(part == code)) for code in (TRAIN, VALID))
        counts["test"] = int(tested.sum())
        notes = {**notes, **counts, "merged": self.clicks.merged}
        if self.condition is not None:
            notes |= {"clean": self.condition.words, "not_clean_in_test": int(((part == TEST) & ~self.clean).sum())}
        test = filtered(self.table, self._rows(tested) & first)
        return LogParts(train, valid, test, self._judged(part != TEST), notes)

    def _rows(self, pairs: np.ndarray) -> np.ndarray:
        """True for the rows of some pairs."""
        return (self.pair_of >= 0) & pairs[self.pair_of]

    def _judged(self, pairs: np.ndarray) -> pa.Table | None:
        if self.condition is None:
            return None
        some, columns = self.clicks.subset(pairs), self.clicks.columns
        ids: Sequence[pa.Array] = (some.user_ids.take(some.users), some.item_ids.take(some.items))
        return pa.table({columns.user: ids[0], columns.item: ids[1], "is_noise": pa.array(~self.clean[pairs])})


__all__ = ["LogParts", "fold_log", "split_log"]
