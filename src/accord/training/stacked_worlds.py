"""What the runs of a stack learn from: clicks, or labelled examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from accord.data.chunks import PartsChunk
from accord.data.interactions import StackedChunk
from accord.data.labelled_stack import StackedLabelledBatch, StackedLabels
from accord.methods.base import Phase
from accord.training.stacking import StackedRun

StackedScorer = Callable[[Tensor], Tensor]
Measure = Callable[[StackedScorer, Any, int], Mapping[str, Tensor]]
"""(scores of R runs, a task, R) to each run's metrics, (R,)."""


class Clicks:
    """Each run learns from `Interactions`, which runs may share; so may be what they are measured on."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure

    def chunks(
        self, runs: Sequence[StackedRun], generators: Sequence[torch.Generator], phase: Phase, epoch: int
    ) -> Iterator[Any]:
        negatives = phase.sampling(None, epoch).get("negatives", "uniform")
        size = runs[0].options.batch_size
        by_rows = any(getattr(network, "reads_rows", False) for network in phase.networks.values())
        return (_drawn_rows if by_rows else _drawn)(runs, generators, size, negatives)

    def steps(self, run: StackedRun) -> int:
        return -(-run.data.drawn_in_an_epoch // run.options.batch_size)

    def same(self, one: StackedRun, other: StackedRun) -> bool:
        return all(getattr(one, name) is getattr(other, name) for name in ("data", "task", "watched"))

    def measured(self, target: Any, places: Sequence[int], tasks: Sequence[Any]) -> list[dict[str, float]]:
        """Those that share a task are measured together."""
        metrics: list[dict[str, float]] = [{} for _ in places]
        for key, task in {id(task): task for task in tasks}.items():
            own = [k for k, other in enumerate(tasks) if id(other) == key]
            members = [places[k] for k in own]
            found = self.measure(lambda users, m=members: target.scores(users, m), task, len(own))
            rows = torch.stack(list(found.values()), 1).tolist()
            for k, row in zip(own, rows, strict=True):
                metrics[k] = dict(zip(found, row, strict=True))
        return metrics


def _drawn(
    runs: Sequence[StackedRun], generators: Sequence[torch.Generator], size: int, negatives: Any
) -> Iterator[StackedChunk]:
    shared = runs[0].data
    if all(run.data is shared for run in runs):
        for users, items in shared.stacked_chunks(size, generators, negatives):
            yield StackedChunk(users, items, size)
        return
    parts = [r.data.chunks(size, g, negatives) for r, g in zip(runs, generators, strict=True)]
    for drawn in zip(*parts, strict=True):
        users, items = torch.stack([users for users, _ in drawn]), torch.stack([items for _, items in drawn], 1)
        yield StackedChunk(users, items, size)


def _drawn_rows(
    runs: Sequence[StackedRun], generators: Sequence[torch.Generator], size: int, negatives: Any
) -> Iterator[PartsChunk[Any]]:
    cut = [run.data.row_batches(size) for run in runs]
    shape = max(own.shape[0] for own in cut), max(own.shape[1] for own in cut)
    if all(own is cut[0] for own in cut):
        yield from cut[0].stacked(generators, negatives, shape)
        return
    parts = [own.stacked([g], negatives, shape) for own, g in zip(cut, generators, strict=True)]
    yield from map(PartsChunk.joined, zip(*parts, strict=True))


class Labels:
    """Each run learns from `LabelledData` on inputs that all share, and is measured by the labels it foresees."""

    def __init__(self) -> None:
        self._chosen: int | None = None
        """Examples of the epoch at hand, where the method has chosen among them."""

    def chunks(
        self, runs: Sequence[StackedRun], generators: Sequence[torch.Generator], phase: Phase, epoch: int
    ) -> Iterator[PartsChunk[StackedLabelledBatch]]:
        size = min(runs[0].options.batch_size, max(len(run.data) for run in runs))
        data = StackedLabels([run.data for run in runs])
        sampling = phase.sampling(data, epoch)
        self._chosen = sampling["positions"].shape[1] if "positions" in sampling else None
        return data.epoch(size, generators, **sampling)

    def steps(self, run: StackedRun) -> int:
        return -(-(self._chosen or len(run.data)) // run.options.batch_size)

    def same(self, one: StackedRun, other: StackedRun) -> bool:
        pairs = [(getattr(one, name), getattr(other, name)) for name in ("data", "task", "watched")]
        return all(a is b or (None not in (a, b) and a.same_as(b)) for a, b in pairs)

    def measured(self, target: Any, places: Sequence[int], tasks: Sequence[Any]) -> list[dict[str, float]]:
        where = dict(zip(places, tasks, strict=True))
        each = [where.get(place, tasks[0]) for place in range(len(target))]  # those that stopped are not asked
        right = torch.zeros(len(target), device=each[0].device)
        for batch in StackedLabels(each).in_order():
            right += (batch.logits(target).argmax(2) == batch.labels).sum(1)
        accuracy = (right / len(each[0])).tolist()
        return [{"accuracy": accuracy[place]} for place in places]
