"""Labelled examples of R runs as tensors on a device: images or rows of a table, batched by index.

Batches are prepared many at a time into one buffer: crops and flips, scaling, the logits of networks that do
not learn. The buffer stays where it is, so that a step captured once is replayed over all batches. All runs of a
stack have as many examples, so that their batches have one length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from accord.batches.chunks import cut
from accord.data.augmentation import Augmentation, Draws
from accord.models.stack import as_stack

CHUNK_BYTES, CHUNK_BATCHES = 1 << 26, 64
"""At most so many bytes and batches are prepared at a time."""
SCALING_BLOCK = 1 << 20
SAME = 1e-7
"""Numbers that differ by less than this share of themselves are the same in float32."""
BLOCK = 2048
"""Examples of a forward pass without gradients."""
PIXELS = 1 << 23
"""Most pixels of a run that are looked at together without gradients."""
FROZEN_NUMBERS = 1 << 26
"""Most logits of networks that do not learn that are kept from epoch to epoch."""


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[Any]:
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


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
        # A column that varies by less than its numbers' precision counts as constant.
        changes = (std > SAME * mean.abs()) & (std > torch.finfo(torch.float32).tiny)
        return Scaling(mean.float(), torch.where(changes, std, torch.ones_like(std)).float())

    @staticmethod
    def none(width: int) -> Scaling:
        """Examples as they are."""
        return Scaling(torch.zeros(width), torch.ones(width))

    def to(self, device: torch.device) -> Scaling:
        return Scaling(self.mean.to(device), self.std.to(device))


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


@dataclass(eq=False)
class LabelBatch:
    """Inputs (R, B, …) as networks take them, and their given labels (R, B)."""

    inputs: Tensor
    labels: Tensor
    rows: Tensor
    """Which rows of the runs' examples they are, (R, B)."""
    precision: torch.dtype = torch.float32
    chunk: LabelChunk | None = None
    index: int = 0
    """Which batch of its chunk this is."""
    frozen: Any = None
    """Gives the logits of a network that does not learn, where they are prepared with the chunk."""
    targets: Tensor | None = None
    """Probabilities (R, B, classes) to learn in place of the labels."""
    weights: Tensor | None = None
    """By how much each example's loss is multiplied, (R, B)."""
    _outputs: dict[nn.Module, tuple[Tensor, Tensor]] = field(default_factory=dict)

    inside = None

    def __len__(self) -> int:
        return self.labels.shape[1]

    @property
    def count(self) -> int:
        return len(self)

    @property
    def taught(self) -> Tensor:
        """What plain training learns: the given labels, or the probabilities in their place."""
        return self.labels if self.targets is None else self.targets

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,)."""
        return (losses if self.weights is None else losses * self.weights).mean(1)

    def logits(self, network: nn.Module) -> Tensor:
        """(R, B, classes)."""
        return self._forward(network)[1]

    def features(self, network: nn.Module) -> Tensor:
        """The penultimate features (R, B, width), from the same pass as the logits."""
        return self._forward(network)[0]

    def _forward(self, network: nn.Module) -> tuple[Tensor, Tensor]:
        if network not in self._outputs:
            one: Any = as_stack(network)
            with autocast(self.inputs.device, self.precision):
                features, logits = one.outputs(self.inputs)
            self._outputs[network] = features.float(), logits.float()
        return self._outputs[network]

    def logits_with(self, network: nn.Module, parameters: dict[str, Tensor]) -> Tensor:
        """The logits networks would give with other parameters; their buffers are left alone."""
        buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        with autocast(self.inputs.device, self.precision):
            return functional_call(network, {**parameters, **buffers}, (self.inputs,)).float()

    @torch.no_grad()
    def frozen_logits(self, network: nn.Module) -> Tensor:
        """The logits of a network that does not learn."""
        return self.logits(network) if self.frozen is None else self.frozen(network)

    def of_runs(self, runs: Tensor) -> LabelBatch:
        """The batches of some runs."""
        inputs, labels, rows = (one.index_select(0, runs) for one in (self.inputs, self.labels, self.rows))
        targets = None if self.targets is None else self.targets.index_select(0, runs)
        weights = None if self.weights is None else self.weights.index_select(0, runs)
        return LabelBatch(inputs, labels, rows, self.precision, targets=targets, weights=weights)


def as_network_input(values: Tensor) -> Tensor:
    """Images (R, B, …) with channels last in memory and first in shape; tables as they are."""
    return values.permute(0, 1, 4, 2, 3) if values.dim() == 5 else values


class LabelChunk:
    """A buffer of prepared batches (batches, R, B, …)."""

    def __init__(self, feed: LabelFeed, batch_size: int) -> None:
        inputs, runs = feed.inputs, len(feed.each)
        shape, device = inputs.shape[1:], inputs.device
        self.feed, self.batch_size = feed, batch_size
        bytes_each = runs * batch_size * max(1, shape.numel()) * 4
        self.held = max(1, min(CHUNK_BATCHES, CHUNK_BYTES // bytes_each))
        """Batches there is room for."""
        size = self.held, runs, batch_size
        self.inputs = torch.empty(*size, *shape, dtype=feed.input_type, device=device)
        self.labels = torch.empty(size, dtype=torch.int64, device=device)
        self.rows = torch.empty(size, dtype=torch.int64, device=device)
        classes = feed.target_classes
        self.targets = None if classes is None else torch.empty(*size, classes, device=device)
        self.weights = torch.empty(size, device=device) if feed.has_weights else None
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.filled, self.last = 0, batch_size
        self._frozen: dict[nn.Module, Tensor] = {}

    def fill(self, rows: Tensor, last: int, draws: Draws | None, shares: Tensor | None = None) -> None:
        """Prepare these rows (batches, R, B), of which the last batch has ``last``, and all frozen logits.

        With ``shares`` (batches, R) each example gets so much of its partner in the batch.
        """
        self.filled, self.last = len(rows), last
        self.rows[: self.filled].copy_(rows)
        self.labels[: self.filled].copy_(self.feed.labels_of(rows))
        if self.weights is not None:
            self.weights[: self.filled].copy_(self.feed.weights_of(rows))
        inputs = self.feed.prepared(rows, draws)
        self.inputs[: self.filled].copy_(inputs if shares is None else mixed(inputs, shares, last))
        if self.targets is not None:
            targets = self.feed.targets_of(rows)
            self.targets[: self.filled].copy_(targets if shares is None else mixed(targets, shares, last))
        for network in self._frozen:
            self._fill_frozen(network)

    @torch.no_grad()
    def _fill_frozen(self, network: Any) -> None:
        said, shared = self._said(network), as_stack(network).shared
        said = said if shared is None else said.index_select(1, shared.by)
        if network not in self._frozen:
            self._frozen[network] = said.new_zeros(self.held, *said.shape[1:])
        self._frozen[network][: self.filled].copy_(said)

    def _said(self, network: Any) -> Tensor:
        """The logits of every member that answers, (batches, members, B, classes)."""
        shared = as_stack(network).shared
        rows, inputs = self.rows[: self.filled], self.inputs[: self.filled]
        if shared is not None:
            rows, inputs = rows.index_select(1, shared.asked), inputs.index_select(1, shared.asked)
        table = self.feed.frozen_table(network)
        if table is not None:
            first = torch.arange(table.shape[0], device=rows.device)[:, None] * table.shape[1]
            taken = table.flatten(0, 1).index_select(0, (rows + first).flatten())
            return taken.view(*rows.shape, table.shape[2])
        members, count = rows.shape[1], (self.filled - 1) * self.batch_size + self.last
        side_by_side = inputs.transpose(0, 1).flatten(1, 2)[:, :count]
        labels = rows.transpose(0, 1).flatten(1, 2)[:, :count]
        blocks = zip(side_by_side.split(BLOCK, 1), labels.split(BLOCK, 1), strict=True)
        batches = (LabelBatch(as_network_input(x), own, own, self.feed.precision) for x, own in blocks)
        logits = torch.cat([batch.logits(network) for batch in batches], 1)
        whole = logits.new_zeros(members, self.filled * self.batch_size, logits.shape[2])
        whole[:, :count] = logits
        return whole.view(members, self.filled, self.batch_size, -1).transpose(0, 1)

    def frozen_of(self, network: nn.Module) -> Tensor:
        if network not in self._frozen:
            self._fill_frozen(network)
        return self._frozen[network]

    def batches(self) -> Iterator[LabelBatch]:
        """The prepared batches, as views of the buffer."""
        for k in range(self.filled):
            size = self.last if k == self.filled - 1 else self.batch_size
            yield self._batch(lambda held, k=k, size=size: held[k, :, :size], k)

    def moving(self) -> LabelBatch:
        """The whole batch that ``position`` points to when a captured step is replayed."""
        return self._batch(lambda held: held.index_select(0, self.position).squeeze(0), 0)

    def _batch(self, pick: Any, index: int) -> LabelBatch:
        return LabelBatch(
            as_network_input(pick(self.inputs)),
            pick(self.labels),
            pick(self.rows),
            self.feed.precision,
            self,
            index,
            lambda network: pick(self.frozen_of(network)),
            None if self.targets is None else pick(self.targets),
            None if self.weights is None else pick(self.weights),
        )


def mixed(values: Tensor, shares: Tensor, last: int) -> Tensor:
    """Values (batches, R, B, …), each with a share (batches, R) of its partner: the first with the last, and so on.

    The order within a batch is random already. Of the last batch only the first ``last`` count.
    """
    partners = values.flip(2)
    partners[-1, :, :last] = values[-1, :, :last].flip(1)
    return values.lerp(partners, shares.view(*shares.shape, *[1] * (values.dim() - 2)))


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
