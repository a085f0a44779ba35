"""Batches of labelled examples of R runs, and the buffer in which many are prepared at a time.

What is prepared: crops and flips, scaling, the logits of networks that do not learn. The buffer stays where it is,
so that a step captured once is replayed over all batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from accord.data.augmentation import Draws
from accord.models.stack import as_stack

if TYPE_CHECKING:
    from accord.batches.labels import LabelFeed

CHUNK_BYTES, CHUNK_BATCHES = 1 << 26, 64
"""At most so many bytes and batches are prepared at a time."""
BLOCK = 2048
"""Examples of a forward pass without gradients."""


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[Any]:
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


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

    def mirrored(self) -> LabelBatch:
        """The same images, left and right exchanged."""
        return LabelBatch(self.inputs.flip(-1), self.labels, self.rows, self.precision)

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
