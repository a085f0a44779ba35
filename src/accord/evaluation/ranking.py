"""Ranking metrics over the whole catalogue, exact in expectation when scores tie.

Items with equal scores are thought of as shuffled, and each metric is its mean over all shuffles: the order
of item ids never decides, and a constant scorer scores as chance. Scores that are no numbers never count as hits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.data.interactions import Interactions
from accord.kernels.segment_sum import segment_sum

Scorer = Callable[[Tensor], Tensor]
"""Scores (B, items) of a block of users (B,)."""
METRICS = ("ndcg", "recall", "precision", "hit", "mrr")
"""What `ranking_metrics` measures at each k."""
StackedScorer = Callable[[Tensor], Tensor]
"""Scores (R, B, items) of R models for a block of users."""
BLOCK, GPU_BLOCK = 1 << 22, 1 << 28
"""Scores held at a time: a block of users is as long as fits."""


@dataclass(frozen=True)
class RankingTask:
    """Which items should rank high for which users, and which are left out because they were seen."""

    users: Tensor
    """Distinct users, (T,)."""
    relevant: Interactions
    """Relevant pairs; its rows number the users of the catalogue."""
    seen: tuple[Interactions, ...] = ()
    missed: Tensor | None = None
    """For each user of the catalogue, relevant items outside it."""
    settled: Settled | None = None
    """Further users, whom no model ranks for; `mean_metrics` and `stacked_means` count them."""

    @staticmethod
    def from_pairs(
        users: np.ndarray,
        items: np.ndarray,
        seen: Sequence[Interactions],
        *,
        missed: np.ndarray | None = None,
        max_users: int | None = None,
        seed: int = 0,
    ) -> RankingTask:
        """Pairs in any order, repeats merged; at most ``max_users`` users, drawn at random.

        ``missed`` counts each user's relevant items that are not in the catalogue: they can never be found.
        """
        train = seen[0]
        keys = np.unique(np.asarray(users, np.int64) * train.n_items + items)
        users, items = keys // train.n_items, keys % train.n_items
        ranked = np.unique(users if missed is None else np.concatenate([users, np.flatnonzero(missed)]))
        if max_users is not None and len(ranked) > max_users:
            ranked = np.sort(np.random.default_rng([seed, 0xEA1]).choice(ranked, max_users, replace=False))
            kept = np.isin(users, ranked)
            users, items = users[kept], items[kept]
        relevant = Interactions.from_pairs(users, items, train.n_users, train.n_items, train.device)
        lost = None if missed is None else torch.from_numpy(missed).to(train.device)
        return RankingTask(torch.from_numpy(ranked).to(train.device), relevant, tuple(seen), lost)

    def same_as(self, other: RankingTask) -> bool:
        """Whether both are the same task."""
        return self is other

    def of_users(self, first: int, step: int) -> RankingTask:
        """The task of every so manieth user from one on, whose numbers are counted anew; those that were settled
        are users like others."""
        everyone = self.users if self.settled is None else torch.cat([self.users, self.settled.users]).sort()[0]
        own = everyone[everyone % step == first] // step
        seen = tuple(one.of_users(first, step) for one in self.seen)
        return RankingTask(own, self.relevant.of_users(first, step), seen)

    def measure(self, target: Any, which: Sequence[int], tasks: Sequence[RankingTask]) -> dict[str, Tensor]:
        """Metrics at 20 of these members of a stack, each on a task of its own; those that share one, together."""
        found: dict[str, Tensor] = {}
        for key, task in {id(task): task for task in tasks}.items():
            own = [k for k, other in enumerate(tasks) if id(other) == key]
            members = [which[k] for k in own]
            means = stacked_means(lambda users, m=members: target.scores(users, m), task, [20], len(own))
            for name, values in means.items():
                found.setdefault(name, values.new_empty(len(which)))[own] = values
        return found

    def with_settled(self, which: Tensor, scorer: Scorer) -> RankingTask:
        """The same, where a scorer ranks for some of its users, ``which`` (T,), whatever the model."""
        if not bool(which.any()):
            return self
        settled = Settled(replace(self, users=self.users[which]), scorer)
        return replace(self, users=self.users[~which], settled=settled)


class Settled:
    """Users of a task who are ranked for in one way whatever the model."""

    def __init__(self, task: RankingTask, scorer: Scorer) -> None:
        self._task, self._scorer = task, scorer
        self._sums: dict[tuple[int, ...], dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.users)

    @property
    def users(self) -> Tensor:
        return self._task.users

    def sums(self, ks: Sequence[int]) -> dict[str, Tensor]:
        """Each metric at each k, added up over these users; found once."""
        wanted = tuple(ks)
        if wanted not in self._sums:
            each = ranking_metrics(self._scorer, self._task, wanted)
            self._sums[wanted] = {name: values.sum() for name, values in each.items()}
        return self._sums[wanted]


@torch.no_grad()
def ranking_metrics(scorer: Scorer, task: RankingTask, ks: Sequence[int]) -> dict[str, Tensor]:
    """``{"ndcg@20": (T,), …}``: each metric at each k for each user of the task."""
    found = stacked_metrics(lambda users: scorer(users)[None], task, ks, 1)
    return {name: values[0] for name, values in found.items()}


@torch.no_grad()
def stacked_metrics(scorer: StackedScorer, task: RankingTask, ks: Sequence[int], runs: int) -> dict[str, Tensor]:
    """The metrics of several models at once, each (R, T)."""
    held = BLOCK if task.users.device.type == "cpu" else GPU_BLOCK
    rows = max(1, held // (task.relevant.n_items * runs))
    blocks = [_block_metrics(scorer(users), task, users, ks) for users in task.users.split(rows)]
    return {name: torch.cat([block[name] for block in blocks], 1) for name in blocks[0]} if blocks else {}


def stacked_means(scorer: StackedScorer, task: RankingTask, ks: Sequence[int], runs: int) -> dict[str, Tensor]:
    """The metrics of several models, averaged over all users of the task, each (R,)."""
    per_user = stacked_metrics(scorer, task, ks, runs)
    if task.settled is None:
        return {name: values.mean(1) for name, values in per_user.items()}
    settled, users = task.settled.sums(ks), len(task.users) + len(task.settled)
    own = {name: values.sum(1) for name, values in per_user.items()}
    return {name: (own.get(name, value.new_zeros(runs)) + value) / users for name, value in settled.items()}


def mean_metrics(scorer: Scorer, task: RankingTask, ks: Sequence[int]) -> dict[str, float]:
    """Metrics averaged over users, with one transfer to the host."""
    found = stacked_means(lambda users: scorer(users)[None], task, ks, 1)
    means = torch.stack([values[0] for values in found.values()]).tolist()
    return dict(zip(found, means, strict=True))


def _block_metrics(scores: Tensor, task: RankingTask, users: Tensor, ks: Sequence[int]) -> dict[str, Tensor]:
    """Metrics (R, B) of scores (R, B, items), which are masked in place: every model's users are users apart."""
    for seen in task.seen:
        seen.mask_seen(scores, users)
    rows, items, sizes = task.relevant.rows_of(users)
    if task.missed is not None:
        sizes = sizes + task.missed[users]
    runs = len(scores)
    rows = (rows + torch.arange(runs, device=rows.device)[:, None] * len(users)).flatten()
    found = _Positions.of(scores.flatten(0, 1), rows, items.repeat(runs), sizes.repeat(runs), depth=max(ks))
    result: dict[str, Tensor] = {}
    for k in ks:
        result |= found.metrics(k)
    return {name: values.view(runs, len(users)) for name, values in result.items()}


@dataclass(frozen=True)
class _Positions:
    """Where each relevant item lands: after ``above`` better items, among ``tied`` equal ones (itself counted)."""

    rows: Tensor
    above: Tensor
    tied: Tensor
    sizes: Tensor
    """Relevant items of each user of the block."""

    @staticmethod
    def of(scores: Tensor, rows: Tensor, items: Tensor, sizes: Tensor, depth: int) -> _Positions:
        n_items = scores.shape[1]
        best_first = scores.topk(min(depth + 1, n_items), sorted=True).values
        top, further = best_first[:, :depth], best_first[:, depth:]
        last = top[:, -1]
        own = scores.view(-1).index_select(0, rows * n_items + items)
        best = top.index_select(0, rows)
        above = (~(best <= own[:, None])).sum(1)  # what is no number stands before all others
        # Ties inside the top are all in `top`; items with its last score may also be below it.
        at_last = (top == last[:, None]).sum(1)
        goes_on = (further == last[:, None]).any(1).nonzero().squeeze(1)
        if len(goes_on):
            at_last[goes_on] = (scores[goes_on] == last[goes_on, None]).sum(1)
        tied = torch.where(own == last[rows], at_last[rows], (best == own[:, None]).sum(1)).clamp_(min=1)
        # A masked item can never be recommended, however few are left; nor is one found whose score is no number.
        above = torch.where(own > -torch.inf, above, n_items + depth)
        return _Positions(rows, above, tied, sizes)

    def metrics(self, k: int) -> dict[str, Tensor]:
        """Expected metrics at k of each user."""
        hits = self._per_user(((k - self.above) / self.tied).clamp(0, 1))
        gains = torch.cat([torch.zeros(1), 1 / torch.log2(torch.arange(k) + 2.0)]).cumsum(0).to(self.rows.device)
        start, end = self.above.clamp(max=k), (self.above + self.tied).clamp(max=k)
        dcg = self._per_user((gains[end] - gains[start]) / self.tied)
        first = self._first_hit(k)
        ranks = torch.arange(1, k + 1, device=self.rows.device)
        return {
            f"ndcg@{k}": dcg / gains[self.sizes.clamp(max=k)],
            f"recall@{k}": hits / self.sizes,
            f"precision@{k}": hits / k,
            f"hit@{k}": first.sum(1),
            f"mrr@{k}": (first / ranks).sum(1),
        }

    def _per_user(self, values: Tensor) -> Tensor:
        return segment_sum(self.rows, values.float(), len(self.sizes))

    def _first_hit(self, k: int) -> Tensor:
        """P(the first relevant item stands at rank r), r = 1…k, for each user.

        Only the best group of ties matters: ``hits`` relevant among ``tied`` items after ``above`` others.
        Going down its ranks, the chance of a first hit at the next place is hits / places left.
        """
        users = len(self.sizes)
        start = torch.full((users,), torch.iinfo(self.above.dtype).max, device=self.above.device)
        start = start.scatter_reduce(0, self.rows, self.above, "amin")
        in_best = self.above == start[self.rows]
        hits = torch.zeros_like(start).index_add_(0, self.rows, in_best.long())
        tied = torch.ones_like(start).scatter_reduce(0, self.rows, self.tied * in_best, "amax")
        place = torch.arange(k, device=self.above.device) - start[:, None]
        inside = (place >= 0) & (place < tied[:, None])
        hazard = torch.where(inside, hits[:, None] / (tied[:, None] - place).clamp(min=1), 0.0).clamp(max=1)
        survived = torch.cumprod(1 - hazard, 1)
        before = torch.cat([torch.ones(users, 1, device=survived.device), survived[:, :-1]], 1)
        return before * hazard
