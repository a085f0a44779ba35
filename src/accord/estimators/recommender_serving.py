"""Answers of a trained recommender: the best items of users, and items that are close to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.data.interactions import Interactions
from accord.errors import AccordError
from accord.estimators.log_split import whole_k, with_popularity_for_cold_users
from accord.estimators.serving.lists import Wanted, best_lists, joined
from accord.evaluation.ranking import Scorer

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


@torch.no_grad()
def recommend(rec: Recommender, users: Any, k: int, exclude_seen: bool, items: Any) -> pa.Table:
    """The k best items of each user: user, rank, item, score."""
    wanted = Wanted.of(rec, k, exclude_seen, items)
    codes = rec.user_ids_.require(users)
    scorer = scorer_of(rec, rec._training())
    blocks = best_lists(scorer, torch.from_numpy(codes), len(rec.item_ids_), wanted, rec._seen())
    found = joined([best for _, best in blocks])
    return found.table(rec.user_ids_.take(codes), rec.item_ids_)


def scorer_of(rec: Recommender, training: Interactions) -> Scorer:
    """Scores of users' items; users without a training click get popularity, unless the model is to rank."""
    if rec.settings.cold_users == "model":
        return rec._target.scores
    return with_popularity_for_cold_users(rec._target.scores, training)


@torch.no_grad()
def similar_items(rec: Recommender, items: Any, k: int) -> pa.Table:
    """The k closest items of each item: item, rank, similar_item, score."""
    k = whole_k(k)
    codes = rec.item_ids_.require(items)
    own = torch.from_numpy(codes)
    scores = _similarities(rec, own)
    scores[torch.arange(len(own)), own] = -torch.inf
    top = scores.topk(min(k, scores.shape[1] - 1))
    row, rank = (top.values > -torch.inf).nonzero(as_tuple=True)
    return pa.table(
        {
            "item": rec.item_ids_.take(codes[row.numpy()]),
            "rank": rank.numpy() + 1,
            "similar_item": rec.item_ids_.take(top.indices[row, rank].numpy()),
            "score": top.values[row, rank].numpy(),
        }
    )


def _similarities(rec: Recommender, items: Tensor) -> Tensor:
    """How close every item is to each of these: (B, number of items)."""
    target = rec._target
    if hasattr(target, "similarities"):
        return target.similarities(items)
    if not hasattr(target, "item_vectors"):
        raise AccordError("This model has no item vectors: give it a method item_vectors().")
    vectors = nn.functional.normalize(target.item_vectors(), dim=1)
    return vectors[items] @ vectors.T
