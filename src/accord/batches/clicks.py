"""Batches of clicks of R runs as one, each click with a sampled non-click, or with several.

Most models read a click at a time. Some read all clicks of a user at once: then a batch is whole rows. A pass takes
the users in random order and cuts their clicks into as many batches as the batch size asks for, at the beginnings
of rows: a row belongs to the batch in which its first click falls. What is left out of a row when it is read (the
corruption of a denoising auto-encoder) is drawn with the batch, from the run's own stream, so that a model has no
randomness of its own. Batches of several runs are padded to one width: padding counts as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from accord.batches.chunks import Chunk, cut
from accord.data.interactions import Interactions, Negatives
from accord.models.stack import Single, as_stack

CORRUPTION = 0.5
"""Share of a row's clicks that is hidden from a model while it learns to give the row back."""
AT_ONCE = 1 << 17
"""Clicks whose batches are drawn together: enough to amortise the calls, few enough to stay in the cache."""


@dataclass(eq=False)
class ClickBatch:
    """Users (R, B) and, for each, a clicked item and N sampled ones: items (1 + N, R, B), labels (1 + N, 1, 1)."""

    users: Tensor
    items: Tensor
    labels: Tensor
    rows: Tensor | None = None
    """Of whole rows: their users, (R, U)."""
    position: Tensor | None = None
    """The position of each of ``users`` among ``rows``, (R, B)."""
    kept: Tensor | None = None
    """True for a click that a learning model gets to see, (R, B)."""
    inside: Tensor | None = None
    """Where batches are padded to one width: True where there is a click, (R, B)."""
    weights: Tensor | None = None
    """How much the loss of each click counts, (R, B); those of non-clicks count once."""
    chunk: Chunk[ClickBatch] | None = None
    index: int = 0
    """Which batch of its chunk this is."""
    of_all: int | None = None
    """Where this is one rank's part of a batch: the clicks of the whole batch."""
    from_all: Callable[[Tensor], Tensor] | None = None
    """Numbers of its clicks, (R, B), beside those of the other ranks' parts."""

    def __len__(self) -> int:
        return self.users.shape[-1]

    @property
    def count(self) -> int | Tensor:
        """How many clicks there are; of padded batches, of each run, (R, 1)."""
        return self._length if self.inside is None else self._counts

    @property
    def _length(self) -> int:
        return len(self) if self.of_all is None else self.of_all

    @cached_property
    def _counts(self) -> Tensor:
        return torch.empty(0) if self.inside is None else self.inside.sum(1, keepdim=True)

    @property
    def taught(self) -> Tensor:
        """What plain training learns."""
        return self.labels

    def mean(self, losses: Tensor) -> Tensor:
        """The loss of each run, (R,): mean over its clicks, each times its weight, plus mean over its non-clicks,
        of which each click has as many. Losses (1, R, B) are of clicks alone. Of a part of a batch, its share of
        the loss: the shares add up to it."""
        if self.weights is not None:
            losses = torch.cat([losses[:1] * self.weights.to(losses.dtype), losses[1:]])
        if len(losses) > 2:
            losses = torch.cat([losses[:1], losses[1:].mean(0, keepdim=True)])
        if self.inside is None:
            return losses.sum((0, 2)) / self._length
        return torch.where(self.inside, losses, 0.0).sum((0, 2)) / self._counts.squeeze(1)

    def logits(self, network: nn.Module) -> Tensor:
        """A network's logits, (1 + N, R, B)."""
        one: Any = as_stack(network)
        if isinstance(one, Single):
            return self._of_first(one.module)[:, None]
        if self.rows is None or not getattr(one, "reads_rows", False):
            return one.logits(self.users, self.items)
        return one.logits_of_rows(self.rows, self.position, self.items, self._weights(one))

    def _of_first(self, module: Any) -> Tensor:
        """The only run's logits (1 + N, B). Its tensors are cut out once: much is cached with them."""
        users, items = self._first
        if self.rows is None or self.position is None or not getattr(module, "reads_rows", False):
            return module.logits(users, items)
        weights = self._weights(module)
        return module.logits_of_rows(*self._first_rows, items, None if weights is None else weights[0])

    @cached_property
    def _first(self) -> tuple[Tensor, Tensor]:
        return self.users[0], self.items[:, 0]

    @cached_property
    def _first_rows(self) -> tuple[Tensor, Tensor]:
        return self.rows[0], self.position[0]  # pyright: ignore[reportOptionalSubscript]

    def _weights(self, network: nn.Module) -> Tensor | None:
        """How much each click counts in its row: while a network learns, some are hidden from it."""
        if network.training and self.kept is not None:
            return self.kept / (1 - CORRUPTION)
        return None if self.inside is None else self.inside.float()

    def with_others(self, items: Tensor) -> ClickBatch:
        """The same clicks beside other items, (N, R, B), in place of the sampled ones."""
        return replace(self, items=torch.cat([self.items[:1], items]), chunk=None)

    @torch.no_grad()
    def frozen_logits(self, network: nn.Module) -> Tensor:
        """The logits of a network that does not learn; where runs share members, each member computes them once."""
        shared = as_stack(network).shared
        if shared is None:
            return self.logits(network)
        return self._of_runs(shared.asked).logits(network).index_select(1, shared.by)

    def _of_runs(self, runs: Tensor) -> ClickBatch:
        names = ("users", "rows", "position", "kept", "inside", "weights")
        columns = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        own = {name: column.index_select(0, runs) for name, column in columns.items()}
        return ClickBatch(items=self.items.index_select(1, runs), labels=self.labels, **own)


def labels_of(per_click: int, device: torch.device) -> Tensor:
    """The labels of a click and of its non-clicks, (1 + N, 1, 1)."""
    return torch.tensor([1.0] + [0.0] * per_click, device=device).view(-1, 1, 1)


def positives(users: Tensor, items: Tensor) -> ClickBatch:
    """Pairs (B,) that are asked about as clicks."""
    return ClickBatch(users[None], items[None, None], torch.ones(1, 1, 1, device=users.device))


class ClickFeed:
    """The training clicks of R runs, batch by batch."""

    def __init__(
        self, each: Sequence[Interactions], batch_size: int, by_rows: bool, capturing: bool, per_click: int = 1
    ) -> None:
        """``per_click`` non-clicks are drawn for each click; whole rows take one."""
        self.each, self.batch_size, self.by_rows, self.per_click = list(each), batch_size, by_rows, per_click
        self.shares = all(data is each[0] for data in each)
        """Whether all runs learn from the same clicks."""
        self.capturing = capturing
        self._labels = labels_of(per_click, each[0].device)
        self._chunk: Chunk[ClickBatch] | None = None

    def __len__(self) -> int:
        return len(self.each[0])

    def steps(self, sampling: dict[str, Any]) -> int:
        """Steps of an epoch, roughly."""
        return -(-len(self) // self.batch_size)

    def epoch(
        self, generators: Sequence[torch.Generator], negatives: Negatives = "uniform"
    ) -> Iterator[ClickBatch]:
        """Every click once in random order, each with new non-clicks; users without a non-click are left out."""
        if self.by_rows and len(self.each) == 1 and not self.capturing:
            yield from RowCuts.of(self.each[0], self.batch_size).epoch(generators[0], negatives, self._labels)
            return
        for chunk in (self._row_chunks if self.by_rows else self._pair_chunks)(generators, negatives):
            if self.capturing and self._chunk is not None:
                self._chunk.fill(chunk)  # a captured step reads it where it is
            else:
                self._chunk = chunk
            yield from self._chunk.batches()

    def _pair_chunks(
        self, generators: Sequence[torch.Generator], negatives: Negatives
    ) -> Iterator[Chunk[ClickBatch]]:
        step, count = max(self.batch_size, AT_ONCE // self.batch_size * self.batch_size), self.per_click
        if self.shares:
            drawn = self.each[0].draw_pairs(step, generators, negatives, count)
        else:
            each = zip(self.each, generators, strict=True)
            own = [data.draw_pairs(step, [one], negatives, count) for data, one in each]
            drawn = (map(torch.cat, zip(*each, strict=True)) for each in zip(*own, strict=True))
        make = partial(ClickBatch, labels=self._labels)
        for users, *more in drawn:
            items, weights = more[: 1 + count], more[1 + count :]
            columns = {
                "users": cut(users, self.batch_size),
                "items": torch.stack([cut(one, self.batch_size) for one in items], 1),
            }
            if weights:
                columns["weights"] = cut(weights[0], self.batch_size)
            last = users.shape[1] - (len(columns["users"]) - 1) * self.batch_size
            yield Chunk(columns, make, self.batch_size, last, {"items": 2})

    def _row_chunks(
        self, generators: Sequence[torch.Generator], negatives: Negatives
    ) -> Iterator[Chunk[ClickBatch]]:
        cuts = [RowCuts.of(data, self.batch_size) for data in self.each]
        shape = max(own.shape[0] for own in cuts), max(own.shape[1] for own in cuts)
        if all(own is cuts[0] for own in cuts):
            yield from cuts[0].stacked(generators, negatives, shape, self._labels)
            return
        own = [one.stacked([g], negatives, shape, self._labels) for one, g in zip(cuts, generators, strict=True)]
        yield from map(Chunk.joined, zip(*own, strict=True))


class RowCuts:
    """How the rows of a training set are cut into batches."""

    def __init__(self, data: Interactions, batch_size: int) -> None:
        self.data = data
        self.some = ((data.degrees > 0) & ~data.full_users).nonzero().squeeze(1)
        """Users with something to learn and something to sample."""
        self.total = int(data.degrees[self.some].sum())
        self.longest = int(data.degrees[self.some].max()) if len(self.some) else 0
        self.batches = -(-self.total // batch_size)
        width = -(-self.total // max(1, self.batches)) + self.longest
        self.chunk = max(1, AT_ONCE // max(1, -(-self.total // max(1, self.batches))))
        """Batches that are drawn together."""
        self.shape = width, min(len(self.some), width)
        """Most clicks and most rows a batch can have."""

    @staticmethod
    def of(data: Interactions, batch_size: int) -> RowCuts:
        """Made once for each training set and batch size."""
        kept: dict[int, RowCuts] = data.row_cuts
        if batch_size not in kept:
            kept[batch_size] = RowCuts(data, batch_size)
        return kept[batch_size]

    @property
    def even(self) -> bool:
        """Whether every pass has the same number of batches: no row is as long as a batch."""
        return self.longest * self.batches <= self.total

    def epoch(self, generator: torch.Generator, negatives: Negatives, labels: Tensor) -> Iterator[ClickBatch]:
        """The batches of one run, each as long as it is; one transfer to the host for all of them."""
        if not self.total:
            return
        plan = _Plan(self, [generator])
        clicks, rows = plan.clicks[0].tolist(), plan.rows[0].tolist()
        for first, last, flat in self._drawn(plan, [generator], negatives):
            for k in range(first, last):
                own = slice(clicks[k] - clicks[first], clicks[k + 1] - clicks[first])
                if own.start < own.stop:
                    names = [n for n in ("users", "position", "kept", "weights") if n in flat]
                    columns: dict[str, Any] = {n: flat[n][own][None] for n in names}
                    items = torch.stack([flat["clicked"][own], flat["unclicked"][own]])[:, None]
                    users = plan.order[rows[k] : rows[k + 1]][None]
                    yield ClickBatch(items=items, labels=labels, rows=users, **columns)

    def stacked(
        self, generators: Sequence[torch.Generator], negatives: Negatives, shape: tuple[int, int], labels: Tensor
    ) -> Iterator[Chunk[ClickBatch]]:
        """The batches of R runs, each drawn from a stream of its own and padded to a shape."""
        plan, runs, (width, users) = _Plan(self, generators), len(generators), shape
        device, n = self.data.device, len(self.some)
        order = plan.order.view(runs, n)
        for first, last, flat in self._drawn(plan, generators, negatives):
            run, batch = flat.pop("run"), flat.pop("batch")
            at = ((batch - first) * runs + run) * width + flat.pop("place")
            columns = {}
            for name, values in flat.items():
                padded = torch.zeros((last - first) * runs * width, dtype=values.dtype, device=device)
                columns[name] = padded.index_copy_(0, at, values).view(last - first, runs, width)
            columns["items"] = torch.stack([columns.pop("clicked"), columns.pop("unclicked")], 1)
            counts = plan.clicks.diff(dim=1)[:, first:last].t()
            columns["inside"] = torch.arange(width, device=device) < counts[:, :, None]
            places = plan.rows[:, first:last, None] + torch.arange(users, device=device)
            rows = order.gather(1, places.clamp_(max=n - 1).flatten(1)).view(places.shape)
            columns["rows"] = rows.transpose(0, 1).contiguous()
            yield Chunk(columns, partial(ClickBatch, labels=labels), width, example_dims={"items": 2})

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

    def __init__(self, of: RowCuts, generators: Sequence[torch.Generator]) -> None:
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
        at = data.starts[users] + click + run * self.of.total - self.first[row]
        clicked = data.items[at].long()
        batch = self.batch.flatten()[row]
        position = row - run * len(self.of.some) - self.rows[run, batch]
        place = click - self.clicks[run, batch]
        weights = {} if data.weights is None else {"weights": data.weights[at]}
        return weights | {
            "users": users, "clicked": clicked, "position": position, "run": run, "batch": batch, "place": place,
        }  # fmt: skip
