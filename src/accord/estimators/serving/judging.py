"""New clicks, judged by a recommender that was trained before they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import torch

from accord.data.clicks import Clicks, columns_alike, load_clicks
from accord.data.interactions import Interactions
from accord.errors import AccordError, DataError, SettingError
from accord.estimators.issues import flag_share, worst_first
from accord.estimators.log_split import over_pairs
from accord.estimators.recommender_judging import non_click_quality, quality_by
from accord.estimators.serving.newcomers import networks_for

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

OnUnknown = Literal["refuse", "skip"]
"""What is done with clicks on items that the model does not know."""


@dataclass(frozen=True)
class Judged:
    """New clicks and what is said of them."""

    table: pa.Table
    """Worst first."""
    threshold: float
    skipped: int
    """Clicks that were left out, as their items are not known."""
    unknown: list[str]
    """These items, each once."""
    new_users: int


@torch.no_grad()
def judge(rec: Recommender, log: Any, share: float | None, on_unknown: str) -> Judged:
    """The quality of every click of a log, and which are flagged."""
    if on_unknown not in ("refuse", "skip"):
        raise SettingError(f"on_unknown is '{on_unknown}'; choose refuse or skip.")
    named: dict[str, Any] = columns_alike(rec.columns_, log)
    clicks = load_clicks(log, **named)
    items = rec.item_ids_.find(clicks.item_ids.values)[clicks.items]
    known = items >= 0
    unknown = [] if known.all() else rec.item_ids_.unknown(clicks.item_ids.values)
    if unknown and on_unknown == "refuse":
        rec.item_ids_.require(clicks.item_ids.values)
    if not known.any():
        raise DataError("No item of these clicks is known to the model; are these the same ids as in its log?")
    clicks, items = clicks.subset(known), items[known]
    users = rec.user_ids_.find(clicks.user_ids.values)[clicks.users]
    quality = np.empty(len(items), np.float32)
    new = users < 0
    quality[~new] = over_pairs(quality_by(rec, rec.networks_), users[~new], items[~new])
    quality[new] = _of_newcomers(rec, clicks.users[new], items[new])
    if not np.isfinite(quality).all():
        raise AccordError("Some of these clicks have no quality, as the model diverged; fit it again.")
    # A council heard more than what serves now, so that its own threshold is of another scale.
    threshold = rec.threshold_ if rec.votes_ is None else non_click_quality(rec)
    flagged = quality < threshold if share is None else flag_share(quality, share)
    table = _table(clicks, quality, flagged, new)
    return Judged(table, threshold, int((~known).sum()), unknown, len(np.unique(clicks.users[new])))


def _of_newcomers(rec: Recommender, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The quality of clicks of users that the model does not know: these clicks are their history."""
    if not len(users):
        return np.zeros(0, np.float32)
    distinct, rows = np.unique(users, return_inverse=True)
    order = np.lexsort((items, rows))
    sizes = len(distinct), len(rec.item_ids_)
    history = Interactions.from_pairs(rows[order], items[order], *sizes)
    return over_pairs(quality_by(rec, networks_for(rec, history)), rows, items)


def _table(clicks: Clicks, quality: np.ndarray, flagged: np.ndarray, new: np.ndarray) -> pa.Table:
    columns = {
        "user": clicks.user_ids.take(clicks.users),
        "item": clicks.item_ids.take(clicks.items),
        "label_quality": quality,
        "is_label_issue": flagged,
        "new_user": new,
        "row": np.asarray(clicks.first_rows).astype(np.int64),
        "rows": clicks.counts.astype(np.int64),
    }
    return worst_first(pa.table(columns))
