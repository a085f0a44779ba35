"""What a fitted recommender is asked for in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from accord.errors import DataError
from accord.estimators import recommender_serving
from accord.estimators.log_split import over_pairs
from accord.estimators.serving.everyone import AllLists
from accord.estimators.serving.lists import Wanted

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


class Served:
    """The questions that a `Recommender` answers once it is fitted."""

    def recommend(
        self: Recommender, users: Any, k: int = 10, *, exclude_seen: bool = True, items: Any = None
    ) -> Any:
        """The k best items of each user as a table: user, rank, item, score (log-odds of a like).

        Users without a training click get the items with most clicks, scored log(1 + clicks).
        ``items`` narrows the choice to a subset of the catalogue.
        """
        self._require_fit()
        return self._shown(recommender_serving.recommend(self, users, k, exclude_seen, items))

    def recommend_all(
        self: Recommender,
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

    @torch.no_grad()
    def predict(self: Recommender, users: Any, items: Any) -> np.ndarray:
        """Scores (log-odds of a like) of pairs: two sequences of one length."""
        self._require_fit()
        user_codes, item_codes = self.user_ids_.require(users), self.item_ids_.require(items)
        if len(user_codes) != len(item_codes):
            raise DataError(
                f"{len(user_codes)} users and {len(item_codes)} items do not pair up; give as many of each."
            )
        return over_pairs(self._target.logits, user_codes, item_codes)

    def similar_items(self: Recommender, items: Any, k: int = 10) -> Any:
        """The k closest items: item, rank, similar_item, score.

        They are closest by the angle between their vectors; in a model from items to items, by its weights. There
        an item may have fewer than k.
        """
        self._require_fit()
        return self._shown(recommender_serving.similar_items(self, items, k))
