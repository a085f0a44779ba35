"""A trained recommender against the truth: how it ranks, and how it finds noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import Clicks, pair_keys
from accord.data.interactions import Interactions
from accord.errors import DataError
from accord.evaluation import RankingTask, detection_by_kind, detection_metrics, flag_metrics, mean_metrics
from accord.evaluation.ranking import Scorer

Pairs = tuple[np.ndarray, np.ndarray, pa.Table]
"""Row numbers of users and items, −1 where unknown, and the table they stood in."""


def measure_ranking(scorer: Scorer, truth: Pairs, seen: Interactions, ks: Sequence[int]) -> dict[str, float]:
    """Mean metrics over the users of the truth, and what was left out."""
    users, items, _ = truth
    known = users >= 0
    if not known.any():
        raise DataError("No user of the truth is known to the model; are these the same ids as in the log?")
    reachable = known & (items >= 0)
    missed = np.bincount(users[known & ~reachable], minlength=seen.n_users)
    task = RankingTask.from_pairs(users[reachable], items[reachable], [seen], missed=missed)
    return mean_metrics(scorer, task, list(ks)) | {
        "users": len(task.users),
        "pairs": int(known.sum()),
        "unknown_user_pairs": int((~known).sum()),
        "unknown_items": int((known & ~reachable).sum()),
    }


def measure_issues(truth: Pairs, clicks: Clicks, quality: np.ndarray, flagged: np.ndarray) -> dict[str, Any]:
    """Detection by quality and by the flag, for each kind of noise, beside item popularity."""
    users, items, table = truth
    if "is_noise" not in table.column_names:
        raise DataError(f"The truth has no column is_noise (it has {', '.join(table.column_names)}).")
    keys, wanted = clicks.keys, pair_keys(users, items, len(clicks.item_ids))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    known = (users >= 0) & (items >= 0) & (keys[at] == wanted)
    if not known.any():
        raise DataError("No pair of the truth is a click of the log; are these the same ids?")
    noise, at = _as_bool(table["is_noise"])[known], at[known]
    popularity = np.bincount(clicks.items)[clicks.items[at]].astype(float)
    kinds = np.asarray(table["kind"].to_pylist())[known] if "kind" in table.column_names else "noise"
    kinds = np.where(noise, kinds, "clean")
    return {
        **detection_metrics(quality[at], noise),
        **flag_metrics(flagged[at], noise),
        "clicks": int(known.sum()),
        "noise_share": float(noise.mean()),
        "by_kind": detection_by_kind(quality[at], kinds, "clean"),
        "popularity_by_kind": detection_by_kind(popularity, kinds, "clean"),
    }


def _as_bool(column: pa.ChunkedArray) -> np.ndarray:
    """is_noise as booleans, whether it came as true/false, 1/0 or text."""
    values = [str(value).strip().lower() for value in column.unique().to_pylist()]
    meaning = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    unknown = [value for value in values if value not in meaning]
    if unknown:
        raise DataError(f"Column is_noise holds '{unknown[0]}'; it must be true or false.")
    return np.array([meaning[str(value).strip().lower()] for value in column.to_pylist()])
