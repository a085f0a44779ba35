"""Ranks that are threads of one process: what goes between them is the same, and tests are fast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from accord.ranks.group import Ranks

T = TypeVar("T")
SECONDS = 30
"""After which a rank that waits for another gives up."""


class Thread(Ranks):
    """A rank that talks with the others by a board on which all write."""

    def __init__(self, rank: int, size: int, board: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(rank, size)
        self._board, self._barrier = board, barrier

    def _all(self, own: Any) -> list[Any]:
        """What every rank has written."""
        self._board[self.rank] = own
        self._barrier.wait(SECONDS)
        found = list(self._board)
        self._barrier.wait(SECONDS)
        return found

    def exchange(self, values: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        each = self._all(values.split(list(send)))
        pieces = [parts[self.rank] for parts in each]
        assert [len(piece) for piece in pieces] == list(receive)
        return torch.cat(pieces)

    def each(self, values: Tensor) -> Tensor:
        return torch.stack(self._all(values.clone()))

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        each = self._all([one.clone() for one in tensors])
        for k, own in enumerate(tensors):
            own.copy_(torch.stack([its[k] for its in each]).sum(0))

    def spread(self, values: Tensor, source: int) -> Tensor:
        return values.copy_(self._all(values.clone())[source])

    def texts(self, text: str) -> list[str]:
        return self._all(text)


def by_ranks(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """What each of so many ranks makes of its work; an error of any of them is raised."""
    board, barrier = [None] * size, threading.Barrier(size)

    def one(rank: int) -> T:
        try:
            return work(Thread(rank, size, board, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        started = [pool.submit(one, rank) for rank in range(size)]
    errors = [found for each in started if (found := each.exception()) is not None]
    if errors:
        raise next((one for one in errors if not isinstance(one, threading.BrokenBarrierError)), errors[0])
    return [each.result() for each in started]
