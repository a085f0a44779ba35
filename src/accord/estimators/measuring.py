"""A trained recommender against the truth: how it ranks, and how it finds noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import Clicks, MatchedPairs, pair_keys
from accord.data.ids import Ids, encode, pc
from accord.data.interactions import Interactions
from accord.errors import DataError
from accord.evaluation import RankingTask, detection_by_kind, detection_metrics, flag_metrics, ranking_metrics
from accord.evaluation.ranking import Scorer


@dataclass(frozen=True)
class Ranked:
    """Metrics of every user of the truth."""

    users: pa.Array
    """Raw ids."""
    warm: np.ndarray
    """True for users who have a training click."""
    metrics: dict[str, np.ndarray]
    left_out: dict[str, int]

    def means(self) -> dict[str, float]:
        """Over all users, and over the warm ones alone where there are others."""
        result: dict[str, float] = {name: float(values.mean()) for name, values in self.metrics.items()}
        if not self.warm.all() and self.warm.any():
            result |= {f"warm {name}": float(values[self.warm].mean()) for name, values in self.metrics.items()}
        return result | {"users": len(self.warm), "warm_users": int(self.warm.sum()), **self.left_out}

    def table(self) -> pa.Table:
        return pa.table({"user": self.users, "warm": self.warm, **self.metrics})


def measure_ranking(
    scorer: Scorer,
    truth: MatchedPairs,
    user_ids: Ids,
    seen: Interactions,
    training: Interactions,
    ks: Sequence[int],
    unknown_users: bool,
) -> Ranked:
    """Metrics over the users of the truth.

    With ``unknown_users``, users unknown to the model stay in, with row numbers after those of the known, and the
    scorer must rank for them; without, they are left out. Unknown items stay in as misses.
    """
    users = truth.users.copy()
    names = user_ids.values
    if unknown_users and (users < 0).any():
        codes, ids = encode(
            truth.table[truth.columns.user].filter(pa.array(users < 0)), "user", "the truth", "user"
        )
        users[users < 0] = codes.astype(np.int64) + len(names)
        names = pa.concat_arrays([pc.cast(names, pa.string()), pc.cast(ids.values, pa.string())])
    kept = users >= 0
    if not kept.any():
        raise DataError("No user of the truth is known to the model; are these the same ids as in the log?")
    reachable = kept & (truth.items >= 0)
    if not reachable.any():
        raise DataError("No item of the truth is known to the model; are these the same ids as in the log?")
    missed = np.bincount(users[kept & ~reachable], minlength=len(names))
    everyone = seen.with_users(len(names))
    task = RankingTask.from_pairs(users[reachable], truth.items[reachable], [everyone], missed=missed)
    per_user = {name: values.cpu().numpy() for name, values in ranking_metrics(scorer, task, list(ks)).items()}
    given = pair_keys(users[reachable], truth.items[reachable], everyone.n_items)
    held = pair_keys(everyone.users.cpu().numpy(), everyone.items.cpu().numpy(), everyone.n_items)
    left_out = {
        "pairs": int(kept.sum()),
        "seen_pairs": int(np.isin(given, held).sum()),
        "unknown_user_pairs": int((~kept).sum()),
        "unknown_items": int((kept & ~reachable).sum()),
    }
    warm = (training.with_users(len(names)).degrees[task.users] > 0).cpu().numpy()
    return Ranked(names.take(pa.array(task.users.cpu().numpy())), warm, per_user, left_out)


def measure_issues(truth: MatchedPairs, clicks: Clicks, quality: np.ndarray, flagged: np.ndarray) -> dict[str, Any]:
    """Detection by quality and by the flag, for each kind of noise, and that of item popularity."""
    users, items, table = truth.users, truth.items, truth.table
    if "is_noise" not in table.column_names:
        raise DataError(f"The truth has no column is_noise (it has {', '.join(table.column_names)}).")
    keys, wanted = clicks.keys, pair_keys(users, items, len(clicks.item_ids))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    known = truth.known & (keys[at] == wanted)
    if not known.any():
        raise DataError("No pair of the truth is a click of the log; are these the same ids?")
    noise, at = as_bool(table["is_noise"])[known], at[known]
    popularity = np.bincount(clicks.items)[clicks.items[at]].astype(float)
    kinds = ["noise"] * len(table)
    if "kind" in table.column_names:
        kinds = ["noise" if kind is None else str(kind) for kind in table["kind"].to_pylist()]
    kinds = np.where(noise, np.asarray(kinds)[known], "clean")
    return {
        **detection_metrics(quality[at], noise),
        **flag_metrics(flagged[at], noise),
        "clicks": int(known.sum()),
        "noise_share": float(noise.mean()),
        "by_kind": detection_by_kind(quality[at], kinds, "clean"),
        "popularity_by_kind": detection_by_kind(popularity, kinds, "clean"),
    }


def as_bool(column: pa.ChunkedArray) -> np.ndarray:
    """is_noise as booleans, whether it came as true/false, 1/0 or text."""
    values = [str(value).strip().lower() for value in column.unique().to_pylist()]
    meaning = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    unknown = [value for value in values if value not in meaning]
    if unknown:
        raise DataError(f"Column is_noise holds '{unknown[0]}'; it must be true or false.")
    return np.array([meaning[str(value).strip().lower()] for value in column.to_pylist()])
