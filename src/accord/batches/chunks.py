"""A buffer of many batches of R runs, drawn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

B = TypeVar("B")


class Chunk(Generic[B]):
    """Batches that are slices of several tensors (batches, …). The tensors stay where they are, so that a step
    captured once serves all batches."""

    def __init__(
        self,
        columns: dict[str, Tensor],
        make: Callable[..., B],
        batch_size: int,
        last: int | None = None,
        example_dims: Mapping[str, int] | None = None,
    ) -> None:
        self.columns, self._make, self.batch_size = columns, make, batch_size
        self.example_dims = example_dims or {}
        """Which dimension of a batch counts its examples, where it is not dimension 1, after the runs."""
        first = next(iter(columns.values()))
        self.filled = len(first)
        self.last = batch_size if last is None else last
        """Length of the last batch, for every run."""
        self.position = torch.zeros(1, dtype=torch.int64, device=first.device)

    @staticmethod
    def joined(chunks: Sequence[Chunk[B]]) -> Chunk[B]:
        """The batches of all their runs, next to one another."""
        first = chunks[0]
        columns = {name: torch.cat([chunk.columns[name] for chunk in chunks], -2) for name in first.columns}
        return Chunk(columns, first._make, first.batch_size, example_dims=first.example_dims)

    def fill(self, other: Chunk[Any]) -> None:
        """Copy the batches of another chunk that has as many or fewer."""
        self.filled, self.last = other.filled, other.last
        for name, buffer in self.columns.items():
            buffer[: self.filled].copy_(other.columns[name][: self.filled])

    def batches(self) -> Iterator[B]:
        for k in range(self.filled):
            columns = {name: column[k] for name, column in self.columns.items()}
            if k == self.filled - 1 and self.last < self.batch_size:
                columns = {n: c.narrow(self.example_dims.get(n, 1), 0, self.last) for n, c in columns.items()}
            yield self._make(chunk=self, index=k, **columns)

    def moving(self) -> B:
        """The batch that ``position`` points to when a captured step is replayed."""
        return self._make(**{n: column.index_select(0, self.position)[0] for n, column in self.columns.items()})


def cut(examples: Tensor, size: int) -> Tensor:
    """(R, examples) as (batches, R, size); zeros fill up the last batch."""
    runs, length = examples.shape
    batches = -(-length // size)
    if length == batches * size:
        return examples.view(runs, batches, size).transpose(0, 1).contiguous()
    whole = examples.new_zeros(runs, batches * size)
    whole[:, :length] = examples
    return whole.view(runs, batches, size).transpose(0, 1).contiguous()
