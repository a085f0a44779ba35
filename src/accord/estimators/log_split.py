"""How a log is divided into training, validation and seen clicks, and functions over many pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.clicks import Clicks, match_pairs, pair_keys
from accord.data.ids import Ids
from accord.data.interactions import Interactions
from accord.data.marks import RIGHT, UNKNOWN, WRONG
from accord.data.reading import Columns
from accord.data.splits import WAYS, Way, chosen_way, holdout_mask
from accord.errors import DataError, SettingError
from accord.evaluation.ranking import Scorer
from accord.ranks.group import ALONE, Ranks
from accord.stored import Growing, blocks, is_stored, like, release, slices, slices_of_users, tally

PAIR_BLOCK = 1 << 14
"""Pairs scored at a time."""
RELEASED = 64
"""Blocks of pairs after which the memory of files is given back."""
TRAIN, VALID, VALID_FILE, SEEN = range(4)
"""The use of a click: trained on, held out for choosing the epoch, from a validation file, or only seen."""


@dataclass(frozen=True)
class SplitLog:
    """A log, divided."""

    clicks: Clicks
    part: np.ndarray
    """The use of each click."""
    notes: dict[str, Any]
    """Counts, and how validation clicks were chosen."""
    ranks: Ranks = ALONE
    """Those that have the clicks of the other users."""
    digest: str | None = None
    """Where there are such ranks, what identifies all clicks and their use."""

    @property
    def user_ids(self) -> Ids:
        return self.clicks.user_ids

    @property
    def item_ids(self) -> Ids:
        return self.clicks.item_ids

    @cached_property
    def held_users(self) -> int:
        """Users of clicks that are not trained on."""
        there = np.zeros(len(self.user_ids), bool)
        for users, part in blocks(self.clicks.users, self.part):
            there[users[part != TRAIN]] = True
        return int(there.sum())


def split_log(
    clicks: Clicks,
    valid: Any,
    seen: Any,
    settings: Any,
    before: np.ndarray | None = None,
    places: tuple[np.ndarray, int] | None = None,
) -> SplitLog:
    """Hold out a part of a log, or take the pairs of ``valid``, for choosing the epoch.

    ``before`` is the use of each click by an earlier model that is continued, −1 for new clicks. ``places`` says
    where clicks of some users are among all clicks, and how many these are.
    """
    if len(clicks.user_ids) < 2 or len(clicks.item_ids) < 2:
        raise DataError(
            f"The log has {len(clicks.user_ids)} user(s) and {len(clicks.item_ids)} item(s); "
            "a recommender needs at least two of each."
        )
    part = like(clicks.users, np.int8)
    dropped = clicks.origin.dropped if clicks.origin is not None else 0
    notes: dict[str, Any] = {"clicks": len(clicks), "merged": clicks.merged}
    notes |= {"dropped": dropped} if dropped else {}
    if valid is None:
        way = chosen_way(settings.split, clicks)
        held = _held_out(clicks, settings, way, before, places)
        for rows in slices(len(part)):
            part[rows][held[rows]] = VALID
            release(part, held)
        notes["split"] = WAYS[way]
    else:
        clicks, part = with_validation(clicks, part, valid, notes)
    if clicks.marks is not None:
        part[clicks.marks == WRONG] = SEEN
        if not tally(part, SEEN + 1)[TRAIN]:
            raise DataError("Every training click is marked as wrong, so there is nothing to learn from.")
        notes |= {
            "trusted": {"right": int((clicks.marks == RIGHT).sum()), "wrong": int((clicks.marks == WRONG).sum())}
        }
    if seen is not None:
        clicks, part = with_seen(clicks, part, seen)
    counts = tally(part, SEEN + 1)
    notes |= {"users": len(clicks.user_ids), "items": len(clicks.item_ids)}
    notes |= {"train": counts[TRAIN], "valid": counts[VALID] + counts[VALID_FILE]}
    return SplitLog(clicks, part, notes)


def _held_out(clicks: Clicks, settings: Any, way: Way, before: np.ndarray | None, places: Any) -> np.ndarray:
    """True for the clicks to hold out. What an earlier model was trained on would tell nothing: what it held out
    stays held out, and a share of the new clicks joins it."""
    if before is None:
        return holdout_mask(clicks, settings.valid_share, seed=settings.seed, by=way, places=places)
    new = before < 0
    held = (before == VALID) | (before == VALID_FILE)
    if new.any():
        own = clicks.subset(new)
        if way == "global-time" and own.times is not None and own.times.min() == own.times.max():
            way = "random"  # none of them is the latest, and older clicks are left before them
        held[new] = holdout_mask(own, settings.valid_share, seed=settings.seed, by=way)
    return held


LONGEST_LIST = 1_000_000
"""Items: metrics hold a number for each rank."""


def whole_k(k: Any) -> int:
    """The length of a list, or an error."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise SettingError(f"k is {k}; ask for a whole number of items, at least one.")
    if k > LONGEST_LIST:
        raise SettingError(f"k is {k}; a list has at most {LONGEST_LIST} items.")
    return int(k)


def over_pairs(score: Callable[[Tensor, Tensor], Tensor], users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Apply a function of pairs block by block."""
    out = like(users, np.float32)
    for k, rows in enumerate(slices(len(users), PAIR_BLOCK)):
        pairs = (torch.from_numpy(codes[rows].astype(np.int64)) for codes in (users, items))
        out[rows] = score(*pairs).float().numpy()
        if k % RELEASED == 0:
            release(users, items, out)
    return out


def with_validation(
    clicks: Clicks, part: np.ndarray, valid: Any, notes: dict[str, Any]
) -> tuple[Clicks, np.ndarray]:
    """The log joined with the pairs of a validation file; pairs in both stay in training."""
    joined, parts, added, given = _joined(clicks, part, valid, VALID_FILE)
    if not added:
        raise DataError("No validation pair has a known user and item that is not in the log already.")
    notes |= {"split": "a validation file", "valid_left_out": given - added}
    return joined, parts


def with_seen(clicks: Clicks, part: np.ndarray, seen: Any) -> tuple[Clicks, np.ndarray]:
    """The log joined with pairs that are never recommended, and are used for nothing else."""
    joined, parts, _, _ = _joined(clicks, part, seen, SEEN)
    return joined, parts


def _joined(clicks: Clicks, part: np.ndarray, source: Any, code: int) -> tuple[Clicks, np.ndarray, int, int]:
    """Clicks and parts with the new pairs of a table, how many were new, and how many were given."""
    pairs = match_pairs(source, clicks.user_ids, clicks.item_ids, clicks.columns, allow_unknown=code == SEEN)
    n_items, given = len(clicks.item_ids), len(pairs.users)
    wanted = np.unique(pair_keys(pairs.users[pairs.known], pairs.items[pairs.known], n_items))
    filled = {"counts": 1, "times": 0, "first_rows": -1, "weights": 1, "marks": UNKNOWN}
    columns = {name: values for name in filled if (values := getattr(clicks, name)) is not None} | {"part": part}
    made: dict[str, list[np.ndarray] | Growing] = {}
    added = 0
    for rows, keys, new in _new_pairs(clicks, wanted):
        merged = np.concatenate([keys, new])
        order = np.argsort(merged, kind="stable")
        merged, added = merged[order], added + len(new)
        some = {"users": (merged // n_items).astype(np.int32), "items": (merged % n_items).astype(np.int32)}
        for name, values in columns.items():
            more = np.full(len(new), filled.get(name, code), values.dtype)
            some[name] = np.concatenate([values[rows], more])[order]
        for name, values in some.items():
            if name not in made:
                made[name] = Growing(values.dtype) if is_stored(clicks.users) else []
            made[name].append(values)
        release(*columns.values())
    if not added:
        return clicks, part, 0, given
    found = {name: own.array() if isinstance(own, Growing) else own[0] for name, own in made.items()}
    parts = found.pop("part")
    return replace(clicks, **found), parts, added, given


def _new_pairs(clicks: Clicks, wanted: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Rows of some whole users, their pairs, and which wanted pairs of these users they are not; in order."""
    n_items, done = len(clicks.item_ids), 0
    for rows in slices_of_users(clicks.users):
        keys = pair_keys(clicks.users[rows], clicks.items[rows], n_items)
        last = rows.stop == len(clicks)
        end = len(wanted) if last else int(np.searchsorted(wanted, int(clicks.users[rows.stop]) * n_items))
        yield rows, keys, np.setdiff1d(wanted[done:end], keys)
        done = end


def clicks_from(
    table: Mapping[str, np.ndarray], user_ids: Ids, item_ids: Ids, columns: Columns, time_type: pa.DataType | None
) -> Clicks:
    """The clicks of a run's folder, whose columns go by the names that they have there."""
    for users, items in blocks(table["user"], table["item"]):
        if not (
            users.min() >= 0 and users.max() < len(user_ids) and items.min() >= 0 and items.max() < len(item_ids)
        ):
            raise DataError("The run's clicks name rows beyond its ids; the folder is damaged, fit it again.")
    kept = {"time": "times", "row": "first_rows", "trusted": "marks"}
    more: dict[str, Any] = {own: table[name] for name, own in kept.items() if name in table}
    ids = {"user_ids": user_ids, "item_ids": item_ids, "columns": columns, "time_type": time_type}
    return Clicks(users=table["user"], items=table["item"], counts=table["count"], **ids, **more)


def by_popularity(training: Interactions) -> Scorer:
    """A scorer that ranks the items by their clicks for everybody."""
    popularity = torch.log1p(training.popularity.float())
    return lambda users: popularity.expand(len(users), -1).clone()


def with_popularity_for_cold_users(scorer: Scorer, training: Interactions) -> Scorer:
    """A scorer that ranks by item popularity for users without a training click, or beyond the known ones."""
    popularity = by_popularity(training)

    @torch.no_grad()
    def scores(users: Tensor) -> Tensor:
        warm = users < training.n_users
        warm &= training.degrees[users.clamp(max=training.n_users - 1)] > 0
        if warm.all():
            return scorer(users)
        ranked = popularity(users)
        if warm.any():
            ranked[warm] = scorer(users[warm])
        return ranked

    return scores


def refuse_other_ids(own: Ids, of_log: Ids, what: str, ids: str) -> None:
    """A fitted member or prior must know the users and items of the log, in the same order."""
    if not own.values.equals(of_log.values):
        raise DataError(
            f"The fitted {what} was fitted on other {ids} than those of the log; fit it on the same log, or name "
            "its model to have it fitted here."
        )
