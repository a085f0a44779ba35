"""Labelled examples as tensors on a device: images or rows of a table, batched by index.

Batches are prepared many at a time into one buffer: crops and flips, scaling, and the logits of networks that do
not learn. The buffer stays where it is, so that a step captured once can be replayed over all batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from accord.data.augmentation import Augmentation, Draws

CHUNK_BYTES, CHUNK_BATCHES = 1 << 26, 64
"""At most this much is prepared at a time."""
SCALING_BLOCK = 1 << 20
SAME = 1e-7
"""Numbers that differ by less than this share of themselves are one in float32."""
BLOCK = 2048
"""Examples of a forward pass without gradients."""
FROZEN_NUMBERS = 1 << 26
"""Most logits of networks that do not learn that are kept from epoch to epoch."""


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[Any]:
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


def logits_with(
    network: nn.Module, parameters: dict[str, Tensor], inputs: Tensor, precision: torch.dtype
) -> Tensor:
    """The logits a network, or a stack of them, would give with other parameters; its buffers are left alone."""
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    with autocast(inputs.device, precision):
        return functional_call(network, {**parameters, **buffers}, (inputs,)).float()


@dataclass
class LabelledBatch:
    """Inputs as networks take them, and their given labels."""

    inputs: Tensor
    labels: Tensor
    precision: torch.dtype = torch.float32
    frozen: Callable[[nn.Module], Tensor] | None = None
    chunk: Chunk | None = None
    index: int = 0
    """Which batch of its chunk this is."""
    _outputs: dict[nn.Module, tuple[Tensor, Tensor]] = field(default_factory=dict)

    inside = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def count(self) -> int:
        return len(self)

    def logits(self, network: nn.Module) -> Tensor:
        return self._forward(network)[1]

    def features(self, network: nn.Module) -> Tensor:
        """The penultimate features, from the same pass as the logits."""
        return self._forward(network)[0]

    def _forward(self, network: nn.Module) -> tuple[Tensor, Tensor]:
        if network not in self._outputs:
            with autocast(self.inputs.device, self.precision):
                features, logits = network.outputs(self.inputs)  # pyright: ignore[reportCallIssue]
            self._outputs[network] = features.float(), logits.float()
        return self._outputs[network]

    def logits_with(self, network: nn.Module, parameters: dict[str, Tensor]) -> Tensor:
        """The logits a network would give with other parameters; its running averages are left alone."""
        return logits_with(network, parameters, self.inputs, self.precision)

    @torch.no_grad()
    def frozen_logits(self, network: nn.Module) -> Tensor:
        return self.logits(network) if self.frozen is None else self.frozen(network)

    def mean(self, losses: Tensor) -> Tensor:
        return losses.mean()


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each channel or column, of the training examples."""

    mean: Tensor
    std: Tensor

    @staticmethod
    def of(values: Tensor) -> Scaling:
        """Over all but the last dimension; a column that never changes is only centred."""
        blocks = values.reshape(-1, values.shape[-1]).split(SCALING_BLOCK)  # in double, but never all at once
        count = sum(len(block) for block in blocks)
        mean = torch.stack([block.double().sum(0) for block in blocks]).sum(0) / count
        square = torch.stack([(block.double() - mean).square().sum(0) for block in blocks]).sum(0) / count
        std = square.sqrt()
        # What changes less than the column's own numbers can be told apart does not change.
        changes = (std > SAME * mean.abs()) & (std > torch.finfo(torch.float32).tiny)
        return Scaling(mean.float(), torch.where(changes, std, torch.ones_like(std)).float())

    def to(self, device: torch.device) -> Scaling:
        return Scaling(self.mean.to(device), self.std.to(device))

    def __call__(self, values: Tensor) -> Tensor:
        return (values.float() - self.mean) / self.std


def as_network_input(values: Tensor) -> Tensor:
    """Images with channels last in memory and first in shape; tables as they are."""
    return values.permute(0, 3, 1, 2) if values.dim() == 4 else values


class Chunk:
    """A buffer of prepared batches."""

    def __init__(self, data: LabelledData, batch_size: int) -> None:
        shape = data.inputs.shape[1:]
        self.data, self.batch_size = data, batch_size
        bytes_each = batch_size * max(1, shape.numel()) * 4
        self.batches_held = max(1, min(CHUNK_BATCHES, CHUNK_BYTES // bytes_each))
        device = data.device
        self.inputs = torch.empty(self.batches_held, batch_size, *shape, dtype=data.precision, device=device)
        self.labels = torch.empty(self.batches_held, batch_size, dtype=torch.int64, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.filled = 0
        self._rows: Tensor | None = None
        self._frozen: dict[nn.Module, Tensor] = {}

    def fill(self, rows: Tensor, draws: Draws | None) -> None:
        """Prepare these rows, and what the frozen networks say to them."""
        self.filled, self._rows = len(rows), rows if draws is None else None
        self.inputs.flatten(0, 1)[: len(rows)].copy_(self.data.prepared(rows, draws))
        self.labels.flatten()[: len(rows)].copy_(self.data.labels.index_select(0, rows))
        for network in self._frozen:
            self._fill_frozen(network)

    @torch.no_grad()
    def _fill_frozen(self, network: nn.Module) -> None:
        table = None if self._rows is None else self.data.frozen_table(network)
        if table is None or self._rows is None:
            inputs = as_network_input(self.inputs.flatten(0, 1)[: self.filled])
            blocks = (LabelledBatch(block, block, self.data.precision) for block in inputs.split(BLOCK))
            logits = torch.cat([block.logits(network) for block in blocks])
        else:
            logits = table.index_select(0, self._rows)
        if network not in self._frozen:
            self._frozen[network] = logits.new_zeros(self.batches_held, self.batch_size, logits.shape[1])
        self._frozen[network].flatten(0, 1)[: self.filled].copy_(logits)

    def frozen_of(self, network: nn.Module) -> Tensor:
        if network not in self._frozen:
            self._fill_frozen(network)
        return self._frozen[network]

    def forget(self) -> None:
        """Let go of the frozen networks: their phase is over."""
        self._frozen.clear()

    def batches(self) -> Iterator[LabelledBatch]:
        """The prepared batches, as views of the buffer."""
        for k, start in enumerate(range(0, self.filled, self.batch_size)):
            size = min(self.batch_size, self.filled - start)
            yield self._batch(lambda held, k=k, size=size: held[k, :size], k)

    def moving(self) -> LabelledBatch:
        """The whole batch that ``position`` points to when a captured step is replayed."""
        return self._batch(lambda held: held.index_select(0, self.position).squeeze(0), 0)

    def _batch(self, pick: Callable[[Tensor], Tensor], index: int) -> LabelledBatch:
        return LabelledBatch(
            as_network_input(pick(self.inputs)),
            pick(self.labels),
            self.data.precision,
            lambda network: pick(self.frozen_of(network)),
            self,
            index,
        )


@dataclass
class LabelledData:
    """A training set: some rows of ``inputs``, which may be shared with other runs, and their given labels."""

    inputs: Tensor
    """(N, columns), or images (N, height, width, channels)."""
    labels: Tensor
    """(N,) class numbers."""
    rows: Tensor
    """The rows to train on."""
    scaling: Scaling
    augmentation: Augmentation | None = None
    precision: torch.dtype = torch.float32
    start: int = 0
    """Where its own inputs begin, where those of several sets are laid end to end."""
    _chunk: Chunk | None = None
    _said: dict[nn.Module, Tensor | None] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def __len__(self) -> int:
        return len(self.rows)

    def same_as(self, other: LabelledData) -> bool:
        """Whether both are the same rows of the same inputs, with the same labels, prepared in the same way."""
        if self.inputs is not other.inputs or self.start != other.start or len(self) != len(other):
            return False
        if (self.augmentation, self.precision) != (other.augmentation, other.precision):
            return False
        pairs = [(self.rows, other.rows), (self.labels[self.rows], other.labels[other.rows])]
        pairs += [(self.scaling.mean, other.scaling.mean), (self.scaling.std, other.scaling.std)]
        return all(torch.equal(a, b) for a, b in pairs)

    def prepared(self, rows: Tensor, draws: Draws | None = None) -> Tensor:
        """Scaled examples, cropped and flipped where draws are given."""
        rows = rows + self.start if self.start else rows
        if draws is not None and self.augmentation is not None:
            return self.scaling(self.augmentation.take(self.inputs, rows, draws))
        return self.scaling(self.inputs.index_select(0, rows))

    def epoch(
        self, batch_size: int, generator: torch.Generator, *, positions: Tensor | None = None
    ) -> Iterator[LabelledBatch]:
        """Every example once in random order, or those at ``positions`` among the rows."""
        batch_size = min(batch_size, max(1, len(self.rows)))
        order = self.shuffled(batch_size, generator, positions)
        count = len(self.rows) if positions is None else len(positions)
        draws = None if self.augmentation is None else self.augmentation.draw(count, generator)
        if self._chunk is None or self._chunk.batch_size != batch_size:
            self._chunk = Chunk(self, batch_size)
        chunk = self._chunk
        step = chunk.batches_held * batch_size
        for start in range(0, len(order), step):
            part = order[start : start + step]
            chunk.fill(part, None if draws is None else draws.part(start, start + len(part)))
            yield from chunk.batches()

    def shuffled(self, batch_size: int, generator: torch.Generator, positions: Tensor | None = None) -> Tensor:
        """The rows of an epoch, in random order."""
        rows = self.rows if positions is None else self.rows.index_select(0, positions)
        order = rows[torch.randperm(len(rows), generator=generator, device=self.device)]
        alone = len(rows) > 1 and len(rows) % batch_size == 1  # one example alone has no batch statistics
        return order[:-1] if alone else order

    def steps_in_epoch(self, batch_size: int) -> int:
        whole, rest = divmod(len(self.rows), min(batch_size, max(1, len(self.rows))))
        return whole + (rest > 1)

    def in_order(self, block: int = BLOCK) -> Iterator[LabelledBatch]:
        """Every example once, as it is, in its own order."""
        for rows in self.rows.split(block):
            yield self._plain(rows)

    def at(self, step: int | Tensor, size: int) -> LabelledBatch:
        """A batch that walks round and round the rows: the same for the same step."""
        places = (torch.arange(size, device=self.device) + step * size) % len(self.rows)
        return self._plain(self.rows.index_select(0, places))

    def _plain(self, rows: Tensor) -> LabelledBatch:
        inputs = as_network_input(self.prepared(rows).to(self.precision))
        return LabelledBatch(inputs, self.labels.index_select(0, rows), self.precision)

    def frozen_table(self, network: nn.Module) -> Tensor | None:
        """What a network that does not learn says of every row as it is, asked once in a phase; by row number.

        None where that is too much to keep.
        """
        if network not in self._said:
            self._said[network] = self._asked(network)
        return self._said[network]

    @torch.no_grad()
    def _asked(self, network: nn.Module) -> Tensor | None:
        blocks = (batch.logits(network) for batch in self.in_order())
        first = next(blocks)
        shape = len(self.labels), first.shape[1]
        if prod(shape) > FROZEN_NUMBERS:
            return None
        return first.new_zeros(shape).index_copy_(0, self.rows, torch.cat([first, *blocks]))

    def finish_phase(self) -> None:
        """Let go of what belongs to a phase that is over."""
        self._said.clear()
        if self._chunk is not None:
            self._chunk.forget()
