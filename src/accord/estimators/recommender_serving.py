"""Answers of a trained recommender: the best items of users, and items that are close to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.data.interactions import Interactions
from accord.errors import AccordError
from accord.estimators.log_split import whole_k, with_popularity_for_cold_users
from accord.evaluation.ranking import BLOCK, Scorer

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


@torch.no_grad()
def recommend(rec: Recommender, users: Any, k: int, exclude_seen: bool, items: Any) -> pa.Table:
    """The k best items of each user: user, rank, item, score."""
    k = whole_k(k)
    codes = rec.user_ids_.require(users)
    allowed = None if items is None else torch.from_numpy(rec.item_ids_.require(items))
    seen = rec._seen() if exclude_seen else None
    blocks = torch.from_numpy(codes).split(max(1, BLOCK // len(rec.item_ids_)))
    scorer = scorer_of(rec, rec._training())
    parts = [_top(scorer, block, k, seen, allowed) for block in blocks]
    row, rank, item, score = (torch.cat([part[n] for part in parts]).numpy() for n in range(4))
    offsets = np.repeat(np.cumsum([0] + [len(b) for b in blocks[:-1]]), [len(p[0]) for p in parts])
    return pa.table(
        {
            "user": rec.user_ids_.take(codes[row + offsets]),
            "rank": pa.array(rank + 1),
            "item": rec.item_ids_.take(item),
            "score": score,
        }
    )


def _top(
    scorer: Scorer, users: Tensor, k: int, seen: Interactions | None, allowed: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best items of a block of users: which user, which rank, which item, and its score."""
    scores = scorer(users)
    if seen is not None:
        seen.mask_seen(scores, users)
    if allowed is not None:
        forbidden = torch.ones(scores.shape[1], dtype=torch.bool)
        forbidden[allowed] = False
        scores.masked_fill_(forbidden, -torch.inf)
    top = scores.topk(min(k, scores.shape[1]))
    row, rank = (top.values > -torch.inf).nonzero(as_tuple=True)
    return row, rank, top.indices[row, rank], top.values[row, rank]


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
