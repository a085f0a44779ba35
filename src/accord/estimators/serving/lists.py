"""Lists of the best items, block by block of users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.interactions import Interactions
from accord.estimators.log_split import whole_k
from accord.estimators.serving.best import best
from accord.estimators.serving.products import USERS, Products, side_by_side
from accord.evaluation.ranking import BLOCK, Scorer

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

AT_LEAST, LARGEST = 128, 1 << 25
"""Users of a block, however large the catalogue is, for the sake of fast products; and the most scores of one."""


@dataclass(frozen=True)
class Wanted:
    """What lists are to hold."""

    k: int
    exclude_seen: bool = True
    items: np.ndarray | None = None
    """Row numbers of the items to choose from, increasing; all where it is None."""

    @staticmethod
    def of(rec: Recommender, k: int, exclude_seen: bool, items: Any) -> Wanted:
        """What was asked for, checked."""
        codes = None if items is None else np.unique(rec.item_ids_.require(items))
        return Wanted(whole_k(k), exclude_seen, codes)


@dataclass(frozen=True)
class Best:
    """The lists of some users, one entry after another."""

    users: np.ndarray
    """The position of each entry's user among those asked for."""
    ranks: np.ndarray
    items: np.ndarray
    scores: np.ndarray

    def table(self, users: pa.Array, item_ids: Any) -> pa.Table:
        """user, rank, item, score; ``users`` are those asked for, in their order."""
        columns = {"user": users.take(pa.array(self.users)), "rank": self.ranks + 1}
        return pa.table(columns | {"item": item_ids.take(self.items), "score": self.scores})


@torch.no_grad()
def best_lists(
    scorer: Scorer | Products, users: Tensor, n_items: int, wanted: Wanted, seen: Interactions | None
) -> Iterator[tuple[int, Best]]:
    """The lists of users (U,), in blocks: how many users are done, and their lists."""
    seen = seen if wanted.exclude_seen else None
    forbidden = None
    if wanted.items is not None:
        forbidden = torch.ones(n_items, dtype=torch.bool)
        forbidden[torch.from_numpy(wanted.items)] = False

    def of_products(block: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(scorer, Products)
        with torch.no_grad():
            return scorer.best(block, wanted.k, seen, forbidden)

    def of_scores(block: Tensor) -> tuple[Tensor, Tensor]:
        assert not isinstance(scorer, Products)
        return _best_of_all(scorer(block), block, wanted.k, seen, forbidden)

    if isinstance(scorer, Products):
        blocks = users.split(USERS)
        answers = side_by_side(of_products, blocks)
    else:
        blocks = users.split(block_of(n_items))
        answers = map(of_scores, blocks)
    first = 0
    for block, (values, indices) in zip(blocks, answers, strict=True):
        row, rank = (values > -torch.inf).nonzero(as_tuple=True)
        found = ((row + first).numpy(), rank.numpy(), indices[row, rank].numpy(), values[row, rank].numpy())
        first += len(block)
        yield first, Best(*found)


def _best_of_all(
    scores: Tensor, users: Tensor, k: int, seen: Interactions | None, forbidden: Tensor | None
) -> tuple[Tensor, Tensor]:
    if seen is not None:
        seen.mask_seen(scores, users)
    if forbidden is not None:
        scores.masked_fill_(forbidden, -torch.inf)
    return best(scores, k)


def block_of(n_items: int) -> int:
    """How many users are ranked for at a time."""
    return max(1, BLOCK // n_items, min(AT_LEAST, LARGEST // n_items))


def joined(parts: list[Best]) -> Best:
    """The lists of several blocks as one."""
    names = ("users", "ranks", "items", "scores")
    return Best(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
