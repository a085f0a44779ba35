"""Labelled examples of R runs as tensors on a device: images or rows of a table, batched by index.

All runs of a stack have as many examples, so that their batches have one length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from accord.batches.chunks import cut
from accord.batches.label_batches import BLOCK, LabelBatch, LabelChunk, as_network_input
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation, Draws
from accord.models.stack import as_stack

PIXELS = 1 << 23
"""Most pixels of a run that are looked at together without gradients."""
FROZEN_NUMBERS = 1 << 26
"""Most logits of networks that do not learn that are kept from epoch to epoch."""


@dataclass
class LabelData:
    """Examples of one run: some rows of ``inputs``, which may be shared with other runs, and their given labels."""

    inputs: Tensor
    """(N, columns), or images (N, height, width, channels). Tables of int64, such as token ids, stay so."""
    labels: Tensor
    """(N,) class numbers."""
    rows: Tensor
    """The rows to train on."""
    scaling: Scaling
    augmentation: Augmentation | None = None
    precision: torch.dtype = torch.float32
    start: int = 0
    """Where its own inputs begin, where those of several sets are laid end to end."""
    targets: Tensor | None = None
    """(N, classes) probabilities to learn in place of the given labels."""
    mixup: float = 0.0
    """How strongly examples of a batch are mixed in pairs: up to half of this of the other one. Needs targets."""
    weights: Tensor | None = None
    """(N,) by how much each example's loss is multiplied; their mean is 1 over the rows to train on."""

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def __len__(self) -> int:
        return len(self.rows)

    def same_as(self, other: LabelData) -> bool:
        """Whether both are the same rows of the same inputs, with the same labels, prepared in the same way."""
        if self.inputs is not other.inputs or self.start != other.start or len(self) != len(other):
            return False
        if (self.augmentation, self.precision, self.mixup) != (other.augmentation, other.precision, other.mixup):
            return False
        if self.targets is not other.targets or (self.weights is None) != (other.weights is None):
            return False
        pairs = [(self.rows, other.rows), (self.labels[self.rows], other.labels[other.rows])]
        pairs += [(self.scaling.mean, other.scaling.mean), (self.scaling.std, other.scaling.std)]
        pairs += [] if self.weights is None or other.weights is None else [(self.weights, other.weights)]
        return all(torch.equal(a, b) for a, b in pairs)

    def measure(self, target: Any, which: Sequence[int], sets: Sequence[LabelData]) -> dict[str, Tensor]:
        """The share of given labels that these members of a stack predict, each on a set of its own.

        An example counts by its weight, where there are weights.
        """
        own = dict(zip(which, sets, strict=True))
        each = [own.get(k, sets[0]) for k in range(len(target))]  # a run that has stopped may have any set
        longest = max(map(len, each))
        counted = torch.stack([data.counted(longest) for data in each])
        right, seen = torch.zeros(len(target), device=self.device), 0
        for batch in LabelFeed([data.padded(longest) for data in each]).in_order():
            own = counted[:, seen : seen + len(batch)]
            right += ((batch.logits(target).argmax(2) == batch.labels) * own).sum(1)
            seen += len(batch)
        return {"accuracy": (right / counted.sum(1))[list(which)]}

    def counted(self, length: int) -> Tensor:
        """How much each of its examples counts in a measurement, and 0 for those it is padded with."""
        own = torch.ones(len(self), device=self.device)
        if self.weights is not None and (weights := self.weights[self.rows]).any():
            own = weights
        return nn.functional.pad(own, (0, length - len(self)))

    def padded(self, length: int) -> LabelData:
        """The same examples with the first row repeated, so that sets of unlike sizes fit into one batch."""
        lacking = length - len(self)
        return self if not lacking else replace(self, rows=torch.cat([self.rows, self.rows[:1].expand(lacking)]))

    def shuffled(self, batch_size: int, generator: torch.Generator, positions: Tensor | None = None) -> Tensor:
        """The rows of an epoch, or those at ``positions`` among them, in random order."""
        rows = self.rows if positions is None else self.rows.index_select(0, positions)
        order = rows[torch.randperm(len(rows), generator=generator, device=self.device)]
        alone = len(rows) > 1 and len(rows) % batch_size == 1  # one example alone has no batch statistics
        return order[:-1] if alone else order


def on_shared_inputs(each: Sequence[LabelData]) -> list[LabelData]:
    """The same sets on inputs that all share: unlike ones are laid end to end, and a set knows its start."""
    distinct = {id(data.inputs): data.inputs for data in each}
    if len(distinct) == 1:
        return list(each)
    starts, length = dict[int, int](), 0
    for key, inputs in distinct.items():
        starts[key], length = length, length + len(inputs)
    whole = torch.cat(list(distinct.values()))
    return [replace(data, inputs=whole, start=starts[id(data.inputs)]) for data in each]


class LabelFeed:
    """The examples of R runs, on inputs that they share."""

    def __init__(
        self, each: Sequence[LabelData], batch_size: int = BLOCK, by_rows: bool = False, capturing: bool = False
    ) -> None:
        self.each, self.batch_size = list(each), min(batch_size, max(1, len(each[0])))
        self.inputs, self.precision = each[0].inputs, each[0].precision
        self.input_type = torch.int64 if self.inputs.dtype == torch.int64 else self.precision
        wide = (len(each), 1, *[1] * (self.inputs.dim() - 2), -1)
        self._mean = torch.stack([data.scaling.mean for data in each]).view(wide)
        self._std = torch.stack([data.scaling.std for data in each]).view(wide)
        starts = [data.start for data in each]
        self._starts = torch.tensor(starts, device=self.inputs.device)[:, None] if any(starts) else None
        self._labels = torch.stack([data.labels for data in each]) if self._one_length() else None
        self.target_classes = None if each[0].targets is None else each[0].targets.shape[1]
        self.has_weights = each[0].weights is not None
        self._chunk: LabelChunk | None = None
        self._tables: dict[nn.Module, Tensor | None] = {}
        self._round: tuple[Tensor, Tensor] | None = None
        """Rows and labels of every run, for `at`."""

    def _one_length(self) -> bool:
        return len({len(data.labels) for data in self.each}) == 1

    def __len__(self) -> int:
        """Examples of a run."""
        return len(self.each[0])

    def keep(self, runs: Tensor) -> LabelFeed:
        """The examples of these runs alone."""
        return LabelFeed([self.each[r] for r in runs.tolist()], self.batch_size)

    def steps(self, sampling: dict[str, Any]) -> int:
        """Steps of an epoch."""
        count = sampling["positions"].shape[1] if "positions" in sampling else len(self)
        return -(-count // self.batch_size)

    def labels_of(self, rows: Tensor) -> Tensor:
        """The given labels of rows (…, R, B)."""
        if self._labels is not None and len(self.each) == 1:
            return self._labels[0].index_select(0, rows.flatten()).view(rows.shape)
        each = [data.labels.index_select(0, rows[..., r, :].flatten()) for r, data in enumerate(self.each)]
        return torch.stack([own.view(*rows.shape[:-2], rows.shape[-1]) for own in each], -2)

    def targets_of(self, rows: Tensor) -> Tensor:
        """The probabilities to learn of rows (batches, R, B)."""
        each = [data.targets[rows[:, r]] for r, data in enumerate(self.each) if data.targets is not None]
        return torch.stack(each, 1)

    def weights_of(self, rows: Tensor) -> Tensor:
        """The weights of rows (batches, R, B)."""
        each = [data.weights[rows[:, r]] for r, data in enumerate(self.each) if data.weights is not None]
        return torch.stack(each, 1)

    def prepared(self, rows: Tensor, draws: Draws | None = None) -> Tensor:
        """Scaled examples (…, R, B, …) of rows (…, R, B), each run's by its own measure; augmented where draws are
        given."""
        augmentation = self.each[0].augmentation
        places = (rows if self._starts is None else rows + self._starts).flatten()
        if draws is None or augmentation is None:
            taken = self.inputs.index_select(0, places)
        else:
            taken = augmentation.take(self.inputs, places, draws)
        taken = taken.view(*rows.shape, *self.inputs.shape[1:])
        if self.input_type == torch.int64:
            return taken
        scaled = (taken.float() - self._mean) / self._std
        return scaled if draws is None or augmentation is None else augmentation.disturb(scaled, draws)

    def epoch(self, generators: Sequence[torch.Generator], positions: Tensor | None = None) -> Iterator[LabelBatch]:
        """Every run's examples once, in random orders of their own, or those at its ``positions`` (R, n)."""
        orders, draws, strength = [], [], self.each[0].mixup
        for r, (data, generator) in enumerate(zip(self.each, generators, strict=True)):
            own = None if positions is None else positions[r]
            orders.append(data.shuffled(self.batch_size, generator, own))
            if data.augmentation is not None:
                draws.append(data.augmentation.draw(len(data) if own is None else len(own), generator))
        rows, length = cut(torch.stack(orders), self.batch_size), len(orders[0])
        drawn = Draws.joined(draws, lambda each: cut(each[:, :length], self.batch_size)) if draws else None
        shares = None
        if strength:
            each = [torch.rand(len(rows), generator=own, device=rows.device) for own in generators]
            shares = torch.stack(each, 1) * (strength / 2)
        if self._chunk is None:
            self._chunk = LabelChunk(self, self.batch_size)
        chunk = self._chunk
        for start in range(0, len(rows), chunk.held):
            own = rows[start : start + chunk.held]
            last = min(self.batch_size, length - (start + len(own) - 1) * self.batch_size)
            chunk.fill(
                own,
                last,
                None if drawn is None else drawn.part(start, start + len(own)),
                None if shares is None else shares[start : start + len(own)],
            )
            yield from chunk.batches()

    def in_order(self) -> Iterator[LabelBatch]:
        """Every example once, as it is, in its own order."""
        # On a GPU as many for each run, up to a limit of pixels: it is the number of launches that counts.
        pixels = self.inputs.shape[1:3].numel() if self.inputs.dim() == 4 else 1
        size = min(BLOCK, PIXELS // pixels) if self.inputs.is_cuda else BLOCK // len(self.each)
        rows = torch.stack([data.rows for data in self.each])
        for own in rows.split(max(1, size), 1):
            yield self._plain(own)

    def at(self, step: int | Tensor, size: int) -> LabelBatch:
        """Batches that walk round and round the rows of every run: the same step has the same batch."""
        if self._round is None:
            rows = torch.stack([data.rows for data in self.each])
            self._round = rows, self.labels_of(rows)
        places = (torch.arange(size, device=self.inputs.device) + step * size) % len(self)
        rows, labels = (column.index_select(1, places) for column in self._round)
        return self._plain(rows, labels)

    def _plain(self, rows: Tensor, labels: Tensor | None = None) -> LabelBatch:
        inputs = as_network_input(self.prepared(rows).to(self.input_type))
        return LabelBatch(inputs, self.labels_of(rows) if labels is None else labels, rows, self.precision)

    def frozen_table(self, network: nn.Module) -> Tensor | None:
        """The logits of a network that does not learn, for every example as it is, computed once: (members, N,
        classes), by row. None where examples are augmented, or where that is too much to keep."""
        if self.each[0].augmentation is not None or not self._one_length():
            return None
        if network not in self._tables:
            self._tables[network] = self._asked(network)
        return self._tables[network]

    @torch.no_grad()
    def _asked(self, network: Any) -> Tensor | None:
        table: Tensor | None = None
        shared = as_stack(network).shared
        for batch in self.in_order():
            own = batch if shared is None else batch.of_runs(shared.asked)
            said = own.logits(network)
            if table is None:
                shape = len(said), len(self.each[0].labels), said.shape[2]
                if prod(shape) > FROZEN_NUMBERS:
                    return None
                table = said.new_zeros(shape)
            table.scatter_(1, own.rows[..., None].expand_as(said), said)
        return table
