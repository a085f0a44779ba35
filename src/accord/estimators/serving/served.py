"""What a fitted recommender is asked for in use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from accord.errors import DataError
from accord.estimators import recommender_serving
from accord.estimators.log_split import over_pairs
from accord.estimators.serving.everyone import AllLists
from accord.estimators.serving.judging import Judged, OnUnknown, judge
from accord.estimators.serving.lists import Wanted
from accord.estimators.serving.newcomers import recommend_for

if TYPE_CHECKING:
    from accord.estimators.export.writing import Export


class Served:
    """The questions that a `Recommender` answers once it is fitted."""

    def recommend(self: Any, users: Any, k: int = 10, *, exclude_seen: bool = True, items: Any = None) -> Any:
        """The k best items of each user as a table: user, rank, item, score (log-odds of a like).

        Users without a training click get the items with most clicks, scored log(1 + clicks).
        ``items`` narrows the choice to a subset of the catalogue.
        """
        self._require_fit()
        return self._shown(recommender_serving.recommend(self, users, k, exclude_seen, items))

    def recommend_all(
        self: Any,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Any = None,
        rank: int = 0,
        world: int = 1,
    ) -> AllLists:
        """The k best items of every user: what `recommend` gives, in blocks that fit into memory.

        A loop over it gives one table after another, ``to_table()`` all in one, and ``write(path)`` writes a
        Parquet file that is resumed where a killed call stopped. Of ``world`` processes that share the work,
        each gets the users of its ``rank``.
        """
        self._require_fit()
        return AllLists(self, Wanted.of(self, k, exclude_seen, items), rank, world)

    def recommend_for(self: Any, history: Any, k: int = 10, *, exclude_seen: bool = True, items: Any = None) -> Any:
        """The k best items for people whom the model has never seen, by what they clicked: user, rank, item, score.

        ``history`` is a list of item ids, or a list of such lists; then ``user`` counts them from 0. It may also be
        a file or a table with a user and an item column. Nothing of the model changes, and equal histories give
        equal lists. Who clicked nothing gets the items with most clicks. Items that are not in the log are refused.
        """
        self._require_fit()
        return self._shown(recommend_for(self, history, k, exclude_seen, items))

    @torch.no_grad()
    def predict(self: Any, users: Any, items: Any) -> np.ndarray:
        """Scores (log-odds of a like) of pairs: two sequences of one length."""
        self._require_fit()
        user_codes, item_codes = self.user_ids_.require(users), self.item_ids_.require(items)
        if len(user_codes) != len(item_codes):
            raise DataError(
                f"{len(user_codes)} users and {len(item_codes)} items do not pair up; give as many of each."
            )
        return over_pairs(self._target.logits, user_codes, item_codes)

    def similar_items(self: Any, items: Any, k: int = 10) -> Any:
        """The k closest items: item, rank, similar_item, score.

        They are closest by the angle between their vectors; in a model from items to items, by its weights. There
        an item may have fewer than k.
        """
        self._require_fit()
        return self._shown(recommender_serving.similar_items(self, items, k))

    def judge(self: Any, log: Any, share: float | None = None, *, on_unknown: OnUnknown = "refuse") -> Any:
        """New clicks, worst first: user, item, label_quality, is_label_issue, new_user, row and rows.

        They are judged by what was learned, and flagged by the run's own threshold; ``share`` flags that share of
        them instead. Users that the model has never seen are taken in by these clicks. Clicks on unknown items are
        refused, or left out with ``on_unknown="skip"``.
        """
        return self._shown(self.judged_log(log, share, on_unknown=on_unknown).table)

    def judged_log(self: Any, log: Any, share: float | None = None, *, on_unknown: str = "refuse") -> Judged:
        """What `judge` says, as an Arrow table, with the threshold and counts."""
        self._require_fit()
        return judge(self, log, share, on_unknown)

    def export(self: Any, path: str | Path, *, index: bool = False, overwrite: bool = False) -> Export:
        """Write a folder from which other programs recommend without accord.

        It holds ids, clicks, vectors as Parquet and .npy where the model has vectors, weights from item to item
        where it has these, a program of ``torch.export``, and ``how_to.py``, which shows how they are used.
        ``index`` adds an index of nearest neighbours (usearch). Every file is read back and compared.
        """
        self._require_fit()
        from accord.estimators.export.writing import export

        return export(self, path, index, overwrite)
