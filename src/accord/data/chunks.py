"""A buffer of many batches of R runs, drawn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

B = TypeVar("B")


class PartsChunk(Generic[B]):
    """Batches that are rows of several tensors (batches, R, …). It stays where it is, so that a step captured once
    serves all of them."""

    def __init__(
        self, parts: dict[str, Tensor], batch: Callable[..., B], batch_size: int, last: int | None = None
    ) -> None:
        self.parts, self._batch, self.batch_size = parts, batch, batch_size
        first = next(iter(parts.values()))
        self.filled = len(first)
        self.last = batch_size if last is None else last
        """How long the last batch is, for every run."""
        self.position = torch.zeros(1, dtype=torch.int64, device=first.device)

    @staticmethod
    def joined(chunks: Sequence[PartsChunk[B]]) -> PartsChunk[B]:
        """The batches of all their runs side by side."""
        first = chunks[0]
        parts = {name: torch.cat([chunk.parts[name] for chunk in chunks], 1) for name in first.parts}
        return PartsChunk(parts, first._batch, first.batch_size)

    def fill(self, other: PartsChunk[Any]) -> None:
        """Other batches in the same place, or fewer."""
        self.filled, self.last = other.filled, other.last
        for name, buffer in self.parts.items():
            buffer[: self.filled].copy_(other.parts[name])

    def batches(self) -> Iterator[B]:
        for k in range(self.filled):
            parts = {name: part[k] for name, part in self.parts.items()}
            if k == self.filled - 1 and self.last < self.batch_size:
                parts = {name: part[:, : self.last] for name, part in parts.items()}
            yield self._batch(chunk=self, index=k, **parts)

    def moving(self) -> B:
        """The batch that ``position`` points to when a captured step is replayed."""
        return self._batch(**{name: part.index_select(0, self.position)[0] for name, part in self.parts.items()})
