"""Labelled examples of several runs as one: inputs that they share, each run with its own part and labels.

All runs have as many examples, so that their batches have one length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor, nn

from accord.data.augmentation import Draws
from accord.data.chunks import PartsChunk
from accord.data.labelled import BLOCK, FROZEN_NUMBERS, LabelledData, autocast, logits_with

PIXELS = 1 << 23
"""Most pixels of a run that are looked at together without gradients."""


@dataclass(frozen=True)
class StackedLabelledBatch:
    """Batches of R runs as one: ``rows`` and ``labels`` (R, B)."""

    rows: Tensor
    labels: Tensor
    of: StackedLabels
    down: Tensor | None = None
    right: Tensor | None = None
    flip: Tensor | None = None
    """How each image is cropped and flipped."""
    chunk: PartsChunk[StackedLabelledBatch] | None = None
    index: int = 0
    """Which batch of its chunk this is."""
    runs: Tensor | None = None
    """Where these are batches of some runs: which."""

    def __len__(self) -> int:
        return self.labels.shape[1]

    @cached_property
    def _outputs(self) -> dict[nn.Module, tuple[Tensor, Tensor]]:
        return {}

    @cached_property
    def _inputs(self) -> Tensor:
        draws = None
        if self.down is not None and self.right is not None and self.flip is not None:
            draws = Draws(self.down.flatten(), self.right.flatten(), self.flip.flatten())
        return self.of.prepared(self.rows, draws, self.runs)

    def of_runs(self, runs: Tensor) -> StackedLabelledBatch:
        """The batches of some runs."""
        parts = {name: getattr(self, name) for name in ("rows", "labels", "down", "right", "flip")}
        own = {name: part.index_select(0, runs) for name, part in parts.items() if part is not None}
        return StackedLabelledBatch(of=self.of, runs=runs, **own)

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

    def logits_with(self, network: nn.Module, parameters: dict[str, Tensor]) -> Tensor:
        """The logits that networks would give with other parameters; their running averages are left alone."""
        return logits_with(network, parameters, self._inputs, self.of.precision)

    @torch.no_grad()
    def frozen_logits(self, network: Any) -> Tensor:
        """Runs for which one network answers have the same batches: it is asked once, and where examples stay as
        they are, once for all epochs."""
        speakers = network.speakers
        own = self if speakers is None else self.of_runs(speakers.asked)
        table = self.of.frozen_table(network)
        if table is None:
            said = own.logits(network)
        else:
            said = table.gather(1, own.rows[..., None].expand(-1, -1, table.shape[2]))
        return said if speakers is None else said.index_select(0, speakers.by)

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,)."""
        return losses.mean(1)


def on_shared_inputs(each: Sequence[LabelledData]) -> list[LabelledData]:
    """The same sets on inputs that all share: unlike ones are laid end to end, and a set knows its start."""
    distinct = {id(data.inputs): data.inputs for data in each}
    if len(distinct) == 1:
        return list(each)
    starts, length = dict[int, int](), 0
    for key, inputs in distinct.items():
        starts[key], length = length, length + len(inputs)
    whole = torch.cat(list(distinct.values()))
    return [replace(data, inputs=whole, start=starts[id(data.inputs)]) for data in each]


class StackedLabels:
    """The training or validation sets of R runs, on inputs that they share."""

    def __init__(self, each: Sequence[LabelledData]) -> None:
        self._take(each)

    def _take(self, each: Sequence[LabelledData]) -> None:
        self.each = each
        self.inputs, self.precision = each[0].inputs, each[0].precision
        spread = (len(each), 1, *[1] * (self.inputs.dim() - 2), -1)
        self._mean = torch.stack([data.scaling.mean for data in each]).view(spread)
        self._std = torch.stack([data.scaling.std for data in each]).view(spread)
        starts = [data.start for data in each]
        self._starts = torch.tensor(starts, device=self.inputs.device)[:, None] if any(starts) else None
        self._round: tuple[Tensor, Tensor] | None = None
        """Rows and labels of every run, to walk round."""

    def __len__(self) -> int:
        """Examples of a run."""
        return len(self.each[0])

    def prepared(self, rows: Tensor, draws: Draws | None = None, runs: Tensor | None = None) -> Tensor:
        """Scaled examples (R, B, …) of all runs or some, each by its own measure; images with channels first."""
        augmentation = self.each[0].augmentation
        mean, std, starts = self._mean, self._std, self._starts
        if runs is not None:
            mean, std = mean.index_select(0, runs), std.index_select(0, runs)
            starts = None if starts is None else starts.index_select(0, runs)
        places = (rows if starts is None else rows + starts).flatten()
        if draws is None or augmentation is None:
            taken = self.inputs.index_select(0, places)
        else:
            taken = augmentation.take(self.inputs, places, draws)
        taken = taken.view(*rows.shape, *self.inputs.shape[1:])
        scaled = ((taken.float() - mean) / std).to(self.precision)
        return scaled.permute(0, 1, 4, 2, 3) if scaled.dim() == 5 else scaled

    def epoch(
        self, batch_size: int, generators: Sequence[torch.Generator], *, positions: Tensor | None = None
    ) -> Iterator[PartsChunk[StackedLabelledBatch]]:
        """Every run's examples once, in random orders of their own, or those at its ``positions`` (R, n)."""
        orders, draws = [], []
        for r, (data, generator) in enumerate(zip(self.each, generators, strict=True)):
            own = None if positions is None else positions[r]
            orders.append(data.shuffled(batch_size, generator, own))
            if data.augmentation is not None:
                draws.append(data.augmentation.draw(len(data) if own is None else len(own), generator))
        yield self._cut(orders, batch_size, draws)

    def in_order(self) -> Iterator[StackedLabelledBatch]:
        """Every example once, as it is, in its own order."""
        # On a GPU as many for each run, up to a limit of pixels: it is the number of launches that counts.
        pixels = self.inputs.shape[1:3].numel() if self.inputs.dim() == 4 else 1
        size = min(BLOCK, PIXELS // pixels) if self.inputs.is_cuda else BLOCK // len(self.each)
        size = min(len(self), max(1, size))
        yield from self._cut([data.rows for data in self.each], size).batches()

    def frozen_table(self, network: Any) -> Tensor | None:
        """What members that do not learn say of every example, (members, examples, classes) by row; None where
        examples never come twice alike, or where they are too many."""
        if self.each[0].augmentation is not None:
            return None
        return network.made_once(("said of", *map(id, self.each)), lambda: self._asked(network))

    def _asked(self, network: Any) -> Tensor | None:
        table: Tensor | None = None
        for batch in self.in_order():
            own = batch if network.speakers is None else batch.of_runs(network.speakers.asked)
            said = own.logits(network)
            if table is None:
                shape = len(said), len(self.each[0].labels), said.shape[2]
                if prod(shape) > FROZEN_NUMBERS:
                    return None
                table = said.new_zeros(shape)
            table.scatter_(1, own.rows[..., None].expand_as(said), said)
        return table

    def at(self, step: int | Tensor, size: int) -> StackedLabelledBatch:
        """Batches that walk round and round the rows of every run: the same for the same step."""
        if self._round is None:
            labels = [data.labels[data.rows] for data in self.each]
            self._round = torch.stack([data.rows for data in self.each]), torch.stack(labels)
        places = (torch.arange(size, device=self.inputs.device) + step * size) % len(self)
        rows, labels = (part.index_select(1, places) for part in self._round)
        return StackedLabelledBatch(rows, labels, self)

    def keep(self, runs: Tensor) -> None:
        """Go on with these runs alone."""
        self._take([self.each[r] for r in runs.tolist()])

    def _cut(
        self, rows: Sequence[Tensor], size: int, draws: Sequence[Draws] = ()
    ) -> PartsChunk[StackedLabelledBatch]:
        """The rows of every run, in batches; what fills up the last one is left out when it is taken."""
        length = len(rows[0])
        batches = ceil(length / size)
        each = zip(self.each, rows, strict=True)
        parts = {"rows": torch.stack(list(rows)), "labels": torch.stack([data.labels[own] for data, own in each])}
        for name in ("down", "right", "flip") if draws else ():
            parts[name] = torch.stack([getattr(one, name)[:length] for one in draws])

        def cut(part: Tensor) -> Tensor:
            """(R, examples) as (batches, R, size)."""
            whole = part.new_zeros(len(rows), batches * size)
            whole[:, :length] = part
            return whole.view(len(rows), batches, size).transpose(0, 1).contiguous()

        made = partial(StackedLabelledBatch, of=self)
        return PartsChunk(
            {name: cut(part) for name, part in parts.items()}, made, size, length - (batches - 1) * size
        )
