"""Batches whose clicks are drawn in shards: each shard of the users has an order and negatives of its own.

Several ranks that have a shard each, and one process that has all of them, make the same batches. A pass has as
many steps as the batch size asks for, and every step takes a like share of every shard, so that shards of unlike
sizes end together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from accord.batches.clicks import AT_ONCE, ClickBatch, labels_of
from accord.data.interactions import Interactions, Negatives

LARGEST_SEED = 2**62


class ShardedFeed:
    """The training clicks of one run, batch by batch, from some of the shards of their users."""

    def __init__(
        self,
        each: Sequence[Interactions],
        batch_size: int,
        by_rows: bool,
        capturing: bool,
        *,
        sizes: Sequence[int],
        own: int | None,
        from_all: Callable[[Tensor], Tensor] | None = None,
        per_click: int = 1,
    ) -> None:
        """``sizes`` are the clicks that an epoch draws of each shard. ``own`` is the shard that the clicks are;
        without it they are those of all, and users keep their numbers."""
        (data,) = each
        self.batch_size, self.sizes, self.own, self._from_all = batch_size, list(sizes), own, from_all
        shards = len(self.sizes)
        self.parts = [data.of_users(k, shards) for k in range(shards)] if own is None else [data]
        self.total = sum(self.sizes)
        self.count = -(-self.total // batch_size)
        """Steps of an epoch."""
        self.per_click = per_click
        self._labels = labels_of(per_click, data.device)

    def __len__(self) -> int:
        return self.total

    def steps(self, sampling: dict[str, Any]) -> int:
        """Steps of an epoch."""
        return self.count

    def epoch(
        self, generators: Sequence[torch.Generator], negatives: Negatives = "uniform"
    ) -> Iterator[ClickBatch]:
        """Every click once, each with new non-clicks; users without a non-click are left out."""
        (generator,) = generators
        drawn = torch.randint(LARGEST_SEED, (len(self.sizes),), generator=generator, device=generator.device)
        seeds = drawn.tolist()
        numbers = range(len(self.sizes)) if self.own is None else [self.own]
        passes = [
            self._pass(part, shard, seeds[shard], negatives)
            for part, shard in zip(self.parts, numbers, strict=True)
        ]
        for k, pieces in enumerate(zip(*passes, strict=True)):
            joined = [torch.cat(one, -1) for one in zip(*pieces, strict=True)]
            of_all = sum(self._end(k + 1, size) - self._end(k, size) for size in self.sizes)
            users, items, weights = joined[0], joined[1], joined[2] if len(joined) > 2 else None
            batch = ClickBatch(users, items, self._labels, weights=weights, of_all=of_all)
            batch.from_all = self._from_all
            yield batch

    def _end(self, steps: int, size: int) -> int:
        """Clicks of a shard that so many steps take."""
        return steps * size // self.count

    def _pass(
        self, part: Interactions, shard: int, seed: int, negatives: Negatives
    ) -> Iterator[tuple[Tensor, ...]]:
        """Users (1, b), items (1 + N, 1, b) and weights, if there are some, of every step."""
        generator = torch.Generator(part.device).manual_seed(seed)
        at_once = max(1, AT_ONCE // self.batch_size)
        marks = [*range(0, self.count, at_once), self.count] if self.count else [0]
        ends = [self._end(k, self.sizes[shard]) for k in range(self.count + 1)]
        blocks = [ends[b] - ends[a] for a, b in pairwise(marks)]
        drawn = part.draw_pairs(blocks, [generator], negatives, self.per_click)
        for (first, last), (users, *more) in zip(pairwise(marks), drawn, strict=True):
            items, weights = torch.stack(more[: 1 + self.per_click]), more[1 + self.per_click :]
            users = users if self.own is not None else users * len(self.sizes) + shard
            for a, b in pairwise(ends[first : last + 1]):
                own = slice(a - ends[first], b - ends[first])
                yield users[:, own], items[..., own], *(one[:, own] for one in weights)
