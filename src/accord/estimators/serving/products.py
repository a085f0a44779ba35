"""The best items where scores are products of vectors: no row of scores is ever whole in memory.

Items are gone through in tiles that stay in the processor's cache. Of each group of items in a tile only the
maximum is kept. The members of the k groups with the largest maxima, which hold the k best items, are scored again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from accord.data.interactions import Interactions
from accord.training import computes_here

T = TypeVar("T")
STRIDE = 16
"""Items of a group."""
TILE = 1 << 13
"""Items of a tile; a power of two and a multiple of the group."""
USERS, TOGETHER = 256, 16
"""Users of a block, and those whose candidates are scored together."""
LEAST = 1 << 15
"""Items from which on this is faster than whole rows of scores."""


@dataclass(frozen=True)
class Products:
    """Vectors of users (U, d) and of items (I, d) whose products are scores."""

    users: Tensor
    items: Tensor

    def worth(self, k: int) -> bool:
        """Whether it is faster than a search through whole rows, and exact: there must be more groups than k."""
        return len(self.items) >= max(LEAST, 8 * k * STRIDE)

    def best(
        self, users: Tensor, k: int, seen: Interactions | None, forbidden: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The k best items of some users and their scores, best first; −∞ where there are fewer."""
        vectors, count = self.users[users], len(self.items)
        maxima = vectors.new_empty(len(users), -(-count // TILE) * (TILE // STRIDE))
        scores = vectors.new_empty(len(users), TILE)
        rows, items = _masked(users, seen)
        bounds = torch.searchsorted(items, torch.arange(0, count + TILE, TILE)).tolist()
        for number, first in enumerate(range(0, count, TILE)):
            last = min(first + TILE, count)
            torch.mm(vectors, self.items[first:last].T, out=scores[:, : last - first])
            scores[:, last - first :] = -torch.inf
            own = slice(bounds[number], bounds[number + 1])
            scores[rows[own], items[own] - first] = -torch.inf
            if forbidden is not None:
                scores[:, : last - first].masked_fill_(forbidden[first:last], -torch.inf)
            groups = slice(number * (TILE // STRIDE), (number + 1) * (TILE // STRIDE))
            torch.amax(scores.unflatten(1, (STRIDE, -1)), 1, out=maxima[:, groups])
        return self._among(users, vectors, maxima.topk(k, sorted=False).indices, k, seen, forbidden)

    def _among(
        self,
        users: Tensor,
        vectors: Tensor,
        groups: Tensor,
        k: int,
        seen: Interactions | None,
        forbidden: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The k best items among those of some groups (B, k)."""
        width = TILE // STRIDE
        first = groups // width * TILE + groups % width
        items = (first[:, :, None] + torch.arange(0, TILE, width)).flatten(1)
        there = items < len(self.items)
        items = items.clamp_(max=len(self.items) - 1)
        scores = vectors.new_empty(items.shape)
        vectors_of_some = self.items.new_empty(min(TOGETHER, len(items)) * items.shape[1], self.items.shape[1])
        for rows in torch.arange(len(items)).split(TOGETHER):  # one piece of memory for all of them
            own = items[rows].flatten()
            some = torch.index_select(self.items, 0, own, out=vectors_of_some[: len(own)])
            scores[rows] = torch.bmm(some.view(len(rows), -1, some.shape[1]), vectors[rows, :, None])[:, :, 0]
        if seen is not None:
            there &= ~_are_seen(users, items, seen)
        if forbidden is not None:
            there &= ~forbidden[items]
        top = scores.masked_fill_(~there, -torch.inf).topk(k)
        return top.values, items.gather(1, top.indices)


def _masked(users: Tensor, seen: Interactions | None) -> tuple[Tensor, Tensor]:
    """What these users have seen, by item: the position of the user, and the item."""
    if seen is None:
        return users[:0], users[:0]
    rows, items, _ = seen.rows_of(users)
    items, order = items.sort()
    return rows[order], items


def _are_seen(users: Tensor, items: Tensor, seen: Interactions) -> Tensor:
    """Which of the items (B, n) the users (B,) have seen."""
    rows, own, _ = seen.rows_of(users)
    keys = rows * seen.n_items + own  # increasing
    if not len(keys):
        return torch.zeros_like(items, dtype=torch.bool)
    wanted = torch.arange(len(users))[:, None] * seen.n_items + items
    return keys[torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)] == wanted


def side_by_side(work: Callable[[Tensor], T], blocks: Sequence[Tensor]) -> Iterator[T]:
    """Blocks worked at by as many threads as torch has, each block by one; answered in their order.

    A block is many small products, for each of which all threads would have to meet.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(blocks) == 1:
        yield from map(work, blocks)
        return
    waiting: deque[Future[T]] = deque()
    try:
        with ThreadPoolExecutor(threads, initializer=_one_thread) as pool:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(threads)


def _one_thread() -> None:
    computes_here()
    torch.set_num_threads(1)
