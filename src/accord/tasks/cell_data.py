"""What a cell is trained on: the log as it is, its clean rows alone, or with false clicks added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import Clicks, load_clicks, match_pairs, pair_keys
from accord.data.interactions import Interactions
from accord.data.splits import holdout_mask
from accord.errors import DataError
from accord.estimators.measuring import as_bool
from accord.training import stream

NEEDS_TRUTH = "The oracle row needs to know which clicks are clean: give a truth with a column is_noise."


@dataclass(frozen=True)
class ClickData:
    """A log, its validation clicks, ids to know, and what is known of its noise."""

    log: Any
    valid: Any = None
    known: Any = None
    noise: Any = None
    """A table of clicks with is_noise."""
    seen: Any = None
    """Pairs that are not to be recommended, besides the log and its validation clicks."""


def clean_only(data: ClickData, clean: Any) -> ClickData:
    """The `oracle` row: the truly clean rows, which no method can have; the others stay seen, as for every row."""
    if clean is not None:
        known = data.log if data.known is None else data.known
        return replace(data, log=clean, known=known, seen=data.log)
    if data.noise is None:
        raise DataError(NEEDS_TRUTH)
    clicks = load_clicks(data.log)
    marked = match_pairs(data.noise, clicks.user_ids, clicks.item_ids, clicks.columns)
    noisy = as_bool(marked.table["is_noise"])
    bad = pair_keys(marked.users, marked.items, len(clicks.item_ids))[noisy & marked.known]
    clean_log = clicks.subset(~np.isin(clicks.keys, bad)).to_table()
    return replace(data, log=clean_log, known=_pairs(clicks), seen=_pairs(clicks))


def with_false_clicks(
    data: ClickData,
    share: float,
    columns: dict[str, Any],
    seed: int,
    split_share: float,
    spared: Sequence[Any] = (),
) -> ClickData:
    """Random false clicks added to training alone, ``share`` of its size; which they are is known exactly.

    No pair of the log or of the tables ``spared`` is one of them: such as are tested by are true.
    """
    clicks = load_clicks(data.log, known=data.known, **columns)
    valid = data.valid
    train = clicks
    if valid is None:
        held = holdout_mask(clicks, split_share, seed=seed, by="random" if clicks.times is None else "time")
        train, valid = clicks.subset(~held), _pairs(clicks.subset(held))
    added = _false_clicks(clicks, train, [valid, *spared], round(share * len(train)), seed)
    own, false = _pairs(train), _pairs(added)
    log = pa.concat_tables([own, false])
    noise = log.append_column("is_noise", pa.array([False] * len(own) + [True] * len(false)))
    return ClickData(log, valid, _pairs(clicks) if data.known is None else data.known, noise)


def _false_clicks(clicks: Clicks, train: Clicks, spared: Sequence[Any], count: int, seed: int) -> Clicks:
    """Distinct pairs that are neither in the log nor in other tables; users as active as they are."""
    n_items = len(clicks.item_ids)
    ids = clicks.user_ids, clicks.item_ids, clicks.columns
    held = [match_pairs(table, *ids, allow_unknown=True) for table in spared]
    keys = [pair_keys(pairs.users, pairs.items, n_items)[pairs.known] for pairs in held]
    taken = np.unique(np.concatenate([clicks.keys, *keys]))
    drawn_for = Interactions.from_pairs(train.users, train.items, len(clicks.user_ids), n_items)
    generator = stream(drawn_for.device, seed, "false clicks")
    chosen = np.empty(0, np.int64)
    for _ in range(50):
        users, items = drawn_for.sample_pairs(count, generator)
        fresh = np.setdiff1d(pair_keys(users.numpy(), items.numpy(), n_items), taken)
        chosen = np.union1d(chosen, fresh)
        if len(chosen) >= count:
            break
    chosen = np.sort(np.random.default_rng(seed).permutation(chosen)[:count])
    return replace(
        clicks.subset(np.zeros(len(clicks), bool)),
        users=(chosen // n_items).astype(np.int32),
        items=(chosen % n_items).astype(np.int32),
        times=None,
        first_rows=None,
        weights=None,
        marks=None,
    )


def _pairs(clicks: Clicks) -> pa.Table:
    return pa.table({"user": clicks.user_ids.take(clicks.users), "item": clicks.item_ids.take(clicks.items)})
