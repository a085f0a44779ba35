"""Clicks in files as tensors: an epoch takes them in blocks of whole users.

Clicks lie user after user and are cut into pages, each of some users that follow one another. An epoch takes the
pages in random order. So many of them are a block, whose clicks are read and shuffled. So every click is drawn
once, and a batch holds clicks of users from all over the log; but the clicks of a user are all drawn within one
block, and users of a page always come together. Non-clicks are exact: a block has all clicks of its users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from accord.data.interactions import Interactions, Negatives
from accord.errors import DataError
from accord.stored import Growing, Positions, blocks, chosen, release

PAGE, PAGES = 1 << 15, 64
"""Clicks of a page, and pages of a block."""
SOUGHT = 1 << 12
"""Non-clicks that are sought together."""


@dataclass(frozen=True)
class StoredInteractions(Interactions):
    """Distinct pairs in files, in CSR order."""

    files: tuple[np.ndarray, ...] = ()
    """The arrays behind the tensors."""

    @staticmethod
    def of(
        users: np.ndarray,
        items: np.ndarray,
        n_users: int,
        n_items: int,
        rows: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> StoredInteractions:
        """Pairs in files that are distinct and sorted, or those at which a mask is true; weights are divided by
        their mean."""
        if rows is not None:
            users, items = chosen(users, rows), chosen(items, rows)
        degrees = np.zeros(n_users, np.int64)
        for (some,) in blocks(users):
            degrees += np.bincount(some, minlength=n_users)
        starts = torch.from_numpy(np.concatenate(([0], np.cumsum(degrees))))
        files, own = (users, items), None
        if weights is not None:
            own = _of_mean_one(weights if rows is None else chosen(weights, rows))
            files = *files, own
        tensors = [torch.from_numpy(np.asarray(one)) for one in files]
        return StoredInteractions(
            tensors[0], tensors[1], starts, n_users, n_items, None if own is None else tensors[2], files
        )

    def to(self, device: torch.device) -> Interactions:
        if device == self.device:
            return self
        own = Interactions(self.users, self.items, self.starts, self.n_users, self.n_items, self.weights)
        return own.to(device)

    @cached_property
    def popularity(self) -> Tensor:
        counts = np.zeros(self.n_items, np.int64)
        for (items,) in blocks(self.files[1]):
            counts += np.bincount(items, minlength=self.n_items)
        return torch.from_numpy(counts)

    @property
    def drawn_in_an_epoch(self) -> int:
        return int(self.degrees[~self.full_users].sum())

    def _at(self, rows: Tensor, column: Literal["users", "items"]) -> Tensor:
        file = self.files[0] if column == "users" else self.files[1]
        return torch.from_numpy(Positions(rows.numpy()).of(file)).long()

    def _find(self, users: Tensor, uniform: Tensor, negatives: Negatives) -> Tensor:
        found = torch.empty_like(users, dtype=torch.int64)
        for some in users.argsort().split(SOUGHT):  # so that few pages are looked at together
            found[some] = super()._find(users[some], uniform[some], negatives)
            release(*self.files)
        return found

    @cached_property
    def _pages(self) -> list[tuple[int, int]]:
        """The first user of each page, and the one after the last."""
        marks = torch.arange(0, max(1, len(self)), PAGE)
        first = torch.searchsorted(self.starts[:-1], marks).unique().tolist()
        first = [0, *(user for user in first if 0 < user < self.n_users)]
        return list(zip(first, [*first[1:], self.n_users], strict=True))

    def draw_pairs(
        self,
        at_once: int | list[int],
        generators: Sequence[torch.Generator],
        negatives: Negatives = "uniform",
        per_click: int = 1,
    ) -> Iterator[tuple[Tensor, ...]]:
        if not isinstance(at_once, int):
            raise NotImplementedError("a log in files is passed through in batches of one size")
        runs = [self._run(at_once, generator, negatives, per_click) for generator in generators]
        for each in zip(*runs, strict=True):  # all have as many clicks
            yield tuple(torch.stack(column) for column in zip(*each, strict=True))

    def _run(
        self, at_once: int, generator: torch.Generator, negatives: Negatives, per_click: int
    ) -> Iterator[list[Tensor]]:
        """A pass of one run: users, clicked and unclicked items, and weights if there are any; (m,) each."""
        waiting: list[Tensor] = []
        for pages in torch.randperm(len(self._pages), generator=generator).split(PAGES):
            block, users = self._block(sorted(pages.tolist()))
            for drawn in block.draw_pairs(at_once, [generator], negatives, per_click):
                own = [users[drawn[0][0]], *(column[0] for column in drawn[1:])]
                waiting = [torch.cat(pair) for pair in zip(waiting, own, strict=True)] if waiting else own
                while len(waiting[0]) >= at_once:
                    yield [column[:at_once] for column in waiting]
                    waiting = [column[at_once:] for column in waiting]
        if waiting and len(waiting[0]):
            yield waiting

    def _block(self, pages: Sequence[int]) -> tuple[Interactions, Tensor]:
        """All clicks of the users of some pages, and these users, by whose place in the block it calls them."""
        bounds = [self._pages[page] for page in pages]
        users = torch.cat([torch.arange(first, last) for first, last in bounds])
        degrees = self.degrees[users]
        rows = [slice(int(self.starts[first]), int(self.starts[last])) for first, last in bounds]
        columns = [torch.cat([tensor[own] for own in rows]) for tensor in (self.items, *self._own_weights)]
        release(*self.files)
        owner = torch.arange(len(users), dtype=torch.int32).repeat_interleave(degrees)
        starts = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
        weights = columns[1] if len(columns) > 1 else None
        block = Interactions(owner, columns[0], starts, len(users), self.n_items, weights)
        block.__dict__["popularity"] = self.popularity  # by which non-clicks may be drawn: that of the whole log
        return block, users

    @property
    def _own_weights(self) -> list[Tensor]:
        return [] if self.weights is None else [self.weights]


def _of_mean_one(weights: np.ndarray) -> np.ndarray:
    """Weights, divided by their mean."""
    total = sum(float(some.sum(dtype=np.float64)) for (some,) in blocks(weights))
    if not total:
        raise DataError("Every training click has the weight 0, so there is nothing to learn.")
    file, mean = Growing(np.float32), total / len(weights)
    for (some,) in blocks(weights):
        file.append(some / mean)
    return file.array()
