"""Labelled examples of several runs as one: inputs that they share, each run with its own part and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn

from accord.data.chunks import PartsChunk
from accord.data.labelled import BLOCK, LabelledData, autocast


@dataclass(frozen=True)
class StackedLabelledBatch:
    """Batches of R runs as one: ``rows`` and ``labels`` (R, B); shorter ones are padded."""

    rows: Tensor
    labels: Tensor
    inside: Tensor
    """True where there is an example, False in the padding."""
    of: StackedLabels
    chunk: PartsChunk[StackedLabelledBatch] | None = None
    index: int = 0
    """Which batch of its chunk this is."""

    def __len__(self) -> int:
        return self.labels.shape[1]

    @cached_property
    def count(self) -> Tensor:
        """Examples of each run's batch, (R, 1)."""
        return self.inside.sum(1, keepdim=True)

    @cached_property
    def _outputs(self) -> dict[nn.Module, tuple[Tensor, Tensor]]:
        return {}

    @cached_property
    def _inputs(self) -> Tensor:
        return self.of.prepared(self.rows)

    def logits(self, network: nn.Module) -> Tensor:
        return self._forward(network)[1]

    def features(self, network: nn.Module) -> Tensor:
        """The penultimate features, from the same pass as the logits."""
        return self._forward(network)[0]

    def _forward(self, network: Any) -> tuple[Tensor, Tensor]:
        if network not in self._outputs:
            with autocast(self.rows.device, self.of.precision):
                features, logits = network.outputs(self._inputs)
            self._outputs[network] = features.float(), logits.float()
        return self._outputs[network]

    @torch.no_grad()
    def frozen_logits(self, network: nn.Module) -> Tensor:
        return self.logits(network)

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,)."""
        return torch.where(self.inside, losses, 0.0).sum(1) / self.count.squeeze(1)


class StackedLabels:
    """The training or validation sets of R runs, on inputs that they share."""

    def __init__(self, each: Sequence[LabelledData]) -> None:
        self.each = each
        self.inputs, self.precision = each[0].inputs, each[0].precision
        spread = (len(each), 1, *[1] * (self.inputs.dim() - 2), -1)
        self._mean = torch.stack([data.scaling.mean for data in each]).view(spread)
        self._std = torch.stack([data.scaling.std for data in each]).view(spread)

    def prepared(self, rows: Tensor) -> Tensor:
        """Scaled examples (R, B, …), each run by its own measure; images with channels first."""
        taken = self.inputs.index_select(0, rows.flatten()).view(*rows.shape, *self.inputs.shape[1:])
        scaled = ((taken.float() - self._mean) / self._std).to(self.precision)
        return scaled.permute(0, 1, 4, 2, 3) if scaled.dim() == 5 else scaled

    def epoch(
        self, batch_size: int, generators: Sequence[torch.Generator]
    ) -> Iterator[PartsChunk[StackedLabelledBatch]]:
        """Every run's examples once, in random orders of their own."""
        each = zip(self.each, generators, strict=True)
        orders = [data.shuffled(batch_size, generator) for data, generator in each]
        batches = ceil(max(len(order) for order in orders) / batch_size)
        yield self._padded(orders, batches, batch_size)

    def in_order(self) -> Iterator[StackedLabelledBatch]:
        """Every example once, as it is, in its own order."""
        longest = max(len(data) for data in self.each)
        size = max(1, min(longest, BLOCK // len(self.each)))
        yield from self._padded([data.rows for data in self.each], ceil(longest / size), size).batches()

    def _padded(self, rows: Sequence[Tensor], batches: int, size: int) -> PartsChunk[StackedLabelledBatch]:
        shape = batches, size, len(rows)
        parts = {
            "rows": torch.zeros(len(rows), batches * size, dtype=torch.int64, device=self.inputs.device),
            "labels": torch.zeros(len(rows), batches * size, dtype=torch.int64, device=self.inputs.device),
            "inside": torch.zeros(len(rows), batches * size, dtype=torch.bool, device=self.inputs.device),
        }
        for r, (data, own) in enumerate(zip(self.each, rows, strict=True)):
            parts["rows"][r, : len(own)] = own
            parts["labels"][r, : len(own)] = data.labels.index_select(0, own)
            parts["inside"][r, : len(own)] = True
        cut = {name: part.t().reshape(shape).transpose(1, 2).contiguous() for name, part in parts.items()}
        return PartsChunk(cut, partial(StackedLabelledBatch, of=self))
