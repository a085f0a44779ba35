"""Batches of whole rows, for models that read all clicks of a user at once.

A pass takes the users in random order and cuts their clicks into as many batches as `batch_size` asks for, at rows'
beginnings: a row belongs to the batch in which its first click falls. What is left out of a row when it is read
(the corruption of a denoising auto-encoder) is drawn with the batch, from the run's own stream, so that a model has
no randomness of its own. Several runs are cut alike and padded to one width: what pads counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from accord.data.batches import ClickBatch, StackedClickBatch
from accord.data.chunks import PartsChunk

if TYPE_CHECKING:
    from accord.data.interactions import Interactions, Negatives

CORRUPTION = 0.5
"""Share of a row's clicks that is hidden from a model while it learns to give the row back."""


class _OfRows(ClickBatch):
    """A model that reads rows gets the rows' contents, corrupted while it learns; others get the pairs."""

    rows: Tensor
    position: Tensor
    kept: Tensor
    whole: Tensor | None = None
    """How much each click counts in its row; nothing where each counts one."""

    @property
    def corrupted(self) -> Tensor:
        """The same while a model learns."""
        return self.kept / (1 - CORRUPTION)

    def logits(self, network: Any) -> Tensor:
        if not getattr(network, "reads_rows", False):
            return super().logits(network)
        weights = self.corrupted if network.training else self.whole
        return network.logits_of_rows(self.rows, self.position, self.items, weights)


@dataclass(frozen=True)
class RowBatch(_OfRows):
    """All clicks of the users ``rows``: ``users`` (B,) and ``items`` (2, B), each with a sampled non-click."""

    users: Tensor
    items: Tensor
    labels: Tensor
    rows: Tensor
    position: Tensor
    """The place of each of ``users`` among ``rows``."""
    kept: Tensor
    """True for a click that a learning model gets to see."""

    inside = None

    def mean(self, losses: Tensor) -> Tensor:
        """Mean over the positives plus mean over the negatives: there are as many of each."""
        return losses.sum() / len(self)


@dataclass(frozen=True)
class StackedRowBatch(_OfRows, StackedClickBatch):
    """Batches of R runs as one: ``users`` (R, B), ``items`` (2, R, B), ``rows`` (R, U); shorter ones are padded."""

    users: Tensor
    clicked: Tensor
    unclicked: Tensor
    rows: Tensor
    position: Tensor
    kept: Tensor
    inside: Tensor
    """True where there is a click, False in the padding."""
    labels: Tensor
    chunk: PartsChunk[StackedRowBatch] | None = None
    index: int = 0
    """Which batch of its chunk this is."""

    @cached_property
    def items(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return torch.stack([self.clicked, self.unclicked])

    @cached_property
    def count(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Clicks of each run's batch, (R, 1)."""
        return self.inside.sum(1, keepdim=True)

    def of_runs(self, runs: Tensor) -> StackedRowBatch:
        names = ("users", "clicked", "unclicked", "rows", "position", "kept", "inside")
        own = {name: getattr(self, name).index_select(0, runs) for name in names}
        return StackedRowBatch(labels=self.labels, **own)

    @property
    def whole(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inside.float()

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,)."""
        return torch.where(self.inside, losses, 0.0).sum((0, 2)) / self.count.squeeze(1)


class RowBatches:
    """How the rows of a training set are cut into batches."""

    def __init__(self, data: Interactions, batch_size: int, at_once: int) -> None:
        self.data = data
        self.some = ((data.degrees > 0) & ~data.full_users).nonzero().squeeze(1)
        """Users with something to learn and something to sample."""
        self.total = int(data.degrees[self.some].sum())
        self.longest = int(data.degrees[self.some].max()) if len(self.some) else 0
        self.batches = -(-self.total // batch_size)
        width = -(-self.total // max(1, self.batches)) + self.longest
        self.chunk = max(1, at_once // max(1, -(-self.total // max(1, self.batches))))
        """Batches that are drawn together, with about ``at_once`` clicks."""
        self.shape = width, min(len(self.some), width)
        """Most clicks and most rows a batch can have."""

    @property
    def even(self) -> bool:
        """Whether every pass has the same number of batches: no row is as long as a batch."""
        return self.longest * self.batches <= self.total

    def epoch(self, generator: torch.Generator, negatives: Negatives) -> Iterator[RowBatch]:
        """The batches of one run; one transfer to the host for all of them."""
        if not self.total:
            return
        labels = torch.tensor([[1.0], [0.0]], device=self.data.device)
        plan = _Plan(self, [generator])
        clicks, rows = plan.clicks[0].tolist(), plan.rows[0].tolist()
        for first, last, flat in self._drawn(plan, [generator], negatives):
            for k in range(first, last):
                part = slice(clicks[k] - clicks[first], clicks[k + 1] - clicks[first])
                if part.start < part.stop:
                    own = {name: flat[name][part] for name in ("users", "position", "kept")}
                    items = torch.stack([flat["clicked"][part], flat["unclicked"][part]])
                    yield RowBatch(items=items, labels=labels, rows=plan.order[rows[k] : rows[k + 1]], **own)

    def stacked(
        self, generators: Sequence[torch.Generator], negatives: Negatives, shape: tuple[int, int]
    ) -> Iterator[PartsChunk[StackedRowBatch]]:
        """The batches of R runs, each drawn from a stream of its own and padded to a shape."""
        plan, runs, (width, users) = _Plan(self, generators), len(generators), shape
        device, n = self.data.device, len(self.some)
        labels = torch.tensor([1.0, 0.0], device=device).view(2, 1, 1)
        order = plan.order.view(runs, n)
        for first, last, flat in self._drawn(plan, generators, negatives):
            run, batch = flat.pop("run"), flat.pop("batch")
            at = ((batch - first) * runs + run) * width + flat.pop("place")
            parts = {}
            for name, values in flat.items():
                padded = torch.zeros((last - first) * runs * width, dtype=values.dtype, device=device)
                parts[name] = padded.index_copy_(0, at, values).view(last - first, runs, width)
            counts = plan.clicks.diff(dim=1)[:, first:last].t()
            parts["inside"] = torch.arange(width, device=device) < counts[:, :, None]
            places = plan.rows[:, first:last, None] + torch.arange(users, device=device)
            rows = order.gather(1, places.clamp_(max=n - 1).flatten(1)).view(places.shape)
            parts["rows"] = rows.transpose(0, 1).contiguous()
            yield PartsChunk(parts, partial(StackedRowBatch, labels=labels), parts["inside"].shape[2])

    def _drawn(
        self, plan: _Plan, generators: Sequence[torch.Generator], negatives: Negatives
    ) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
        """(first batch, end, the clicks of these batches, run after run), many batches at a time."""
        marks = [*range(0, self.batches, self.chunk), self.batches]
        bounds = plan.clicks[:, marks].tolist()
        for k, (first, last) in enumerate(pairwise(marks)):
            flat = plan.clicks_between([own[k] for own in bounds], [own[k + 1] for own in bounds])
            users, sizes = flat["users"], [own[k + 1] - own[k] for own in bounds]
            flat["unclicked"] = self.data.negatives_of(users, sizes, generators, negatives)
            each = zip(sizes, generators, strict=True)
            kept = [torch.rand(m, generator=g, device=users.device) >= CORRUPTION for m, g in each]
            yield first, last, flat | {"kept": torch.cat(kept)}


class _Plan:
    """A pass of R runs: the order of their users and where their batches begin."""

    def __init__(self, of: RowBatches, generators: Sequence[torch.Generator]) -> None:
        self.of, self.runs = of, len(generators)
        device, n = of.data.device, len(of.some)
        permutations = [torch.randperm(n, generator=g, device=device) for g in generators]
        self.order = of.some[torch.cat(permutations)]
        """The users of all runs, run after run."""
        degrees = of.data.degrees[self.order]
        self.ends = degrees.cumsum(0)
        self.first = self.ends - degrees
        own = self.first.view(self.runs, n) - torch.arange(self.runs, device=device)[:, None] * of.total
        self.batch = own * of.batches // of.total
        """The batch of each row, (R, n)."""
        wanted = torch.arange(of.batches + 1, device=device).expand(self.runs, -1).contiguous()
        self.rows = torch.searchsorted(self.batch, wanted)
        """Where the rows of each batch begin, (R, batches + 1)."""
        ends = self.ends.view(self.runs, n) - torch.arange(self.runs, device=device)[:, None] * of.total
        self.clicks = torch.cat([torch.zeros_like(ends[:, :1]), ends], 1).gather(1, self.rows)
        """Where their clicks begin."""

    def clicks_between(self, low: list[int], high: list[int]) -> dict[str, Tensor]:
        """The clicks of every run from one of its clicks to another."""
        device, data = self.ends.device, self.of.data
        sizes = torch.tensor([b - a for a, b in zip(low, high, strict=True)], device=device)
        count = sum(high) - sum(low)
        run = torch.arange(self.runs, device=device).repeat_interleave(sizes, output_size=count)
        shift = torch.tensor(low, device=device) - (sizes.cumsum(0) - sizes)
        click = torch.arange(count, device=device) + shift[run]
        row = torch.searchsorted(self.ends, click + run * self.of.total, right=True)
        users = self.order[row]
        clicked = data.items[data.starts[users] + click + run * self.of.total - self.first[row]].long()
        batch = self.batch.flatten()[row]
        position = row - run * len(self.of.some) - self.rows[run, batch]
        place = click - self.clicks[run, batch]
        return {
            "users": users, "clicked": clicked, "position": position, "run": run, "batch": batch, "place": place,
        }  # fmt: skip
