"""Rows of clicks and tables of vectors: what recommenders and their stacks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from accord.kernels.segment_sum import cached_on, gather, segment_sum
from accord.models.recommenders.pairwise import pair_logits
from accord.models.recommenders.rows import clicks_of
from accord.models.stack import JoinedStack

AT_ONCE = 1 << 22
"""Numbers that are gathered, or dense rows that are held, at a time."""
DENSE, DENSE_SPEED = 1 << 25, 500
"""Most users × items of a log that is held as a dense matrix; and products of dense matrices in the time in which
one pair of a user's clicks is found and added."""


def transposed(starts: Tensor, clicked: Tensor, n_items: int) -> tuple[Tensor, Tensor]:
    """The same clicks item by item: where those of each item begin, and their users."""
    users = torch.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())
    counts = torch.bincount(clicked, minlength=n_items)
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return ends, users[torch.argsort(clicked, stable=True)]


def blocks_of_clicks(rows: Tensor, starts: Tensor, most: int) -> list[slice]:
    """Users (B,), or other rows, cut into blocks, each with about ``most`` clicks."""
    sizes = (starts[rows + 1] - starts[rows]).cumsum(0)
    total = int(sizes[-1]) if len(sizes) else 0
    bounds = torch.tensor(range(most, total, most), dtype=sizes.dtype, device=rows.device)
    cuts = sorted({0, *torch.searchsorted(sizes, bounds).tolist(), len(rows)})
    return [slice(a, b) for a, b in pairwise(cuts)] or [slice(0, 0)]


def sums_over_common_users(
    starts: Tensor, clicked: Tensor, n_items: int, weights: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """XᵀWX, a block of items at a time: the items, and their rows (B, number of items).

    X are the clicks and W how much each user counts. The sums are over the pairs of each user's clicks; of a small
    log with many clicks of a user, they are products of dense matrices.
    """
    n_users, blocks = (
        len(starts) - 1,
        torch.arange(n_items, device=clicked.device).split(max(1, AT_ONCE // n_items)),
    )
    degrees = starts.diff().double()
    dense_is_less = n_users * n_items**2 < DENSE_SPEED * float(degrees.square().sum())
    if dense_is_less and n_users * n_items <= DENSE:
        clicks = weights.new_zeros(n_users, n_items)
        clicks[clicks_of(torch.arange(n_users, device=clicked.device), starts, clicked)] = 1
        weighted = clicks * weights[:, None]
        for block in blocks:
            yield block, clicks[:, block].T @ weighted
        return
    of_items, whose = transposed(starts, clicked, n_items)
    for block in blocks:
        total = weights.new_zeros(len(block) * n_items)
        row, user = clicks_of(block, of_items, whose)
        for some in blocks_of_clicks(user, starts, AT_ONCE):
            place, item = clicks_of(user[some], starts, clicked)
            total += segment_sum(row[some][place] * n_items + item, weights[user[some]][place], len(total))
        yield block, total.view(len(block), n_items)


def rows_in_all(table: Tensor, index: Tensor) -> Tensor:
    """Row numbers in all members' tables laid end to end: (R, B) as (R·B), (n, R, B) as (n, R·B)."""

    def make() -> Tensor:
        shift = torch.arange(len(table), device=index.device)[:, None] * table.shape[1]
        return (index + shift).flatten(-2)

    return cached_on(index, ("rows", table.shape[1]), make)


def taken_rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows (R·B, d) of every member's own table (R, rows, d)."""
    return gather(table.flatten(0, 1), rows_in_all(table, index))


def products(users_table: Tensor, items_table: Tensor, bias: Tensor | None, users: Tensor, items: Tensor) -> Tensor:
    """`pair_logits` of every member at once: one model in which each has users and items of its own."""
    flat = pair_logits(
        users_table.flatten(0, 1),
        items_table.flatten(0, 1),
        None,
        None if bias is None else bias.flatten(),
        None,
        rows_in_all(users_table, users),
        rows_in_all(items_table, items),
    )
    return flat.view(items.shape)


def all_scores(of_users: Tensor, of_items: Tensor, offsets: list[Tensor]) -> Tensor:
    """Scores (R, B, items) of vectors (R, B, d) and (R, items, d), and what is added to them."""
    scores = torch.bmm(of_users, of_items.transpose(1, 2))
    for offset in offsets:
        scores += offset[:, None]
    return scores


def of_some(table: Tensor, which: Sequence[int]) -> Tensor:
    """Some members' part of a table; all of them without a copy."""
    return table if list(which) == list(range(len(table))) else table[list(which)]


class FactorStack(JoinedStack):
    """MF and GMF."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        bias = self.of("item_bias") if "item_bias" in self.names else None
        logits = products(self._weighted(), self.of("items"), bias, users, items)
        return logits + self.of("bias") if "bias" in self.names else logits

    def _weighted(self) -> Tensor:
        table = self.of("users")  # on the table, which has fewer rows than a batch
        return table * self.of("weight")[:, None] if "weight" in self.names else table

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        of_users = of_some(self._weighted(), which).index_select(1, users)
        offsets = [of_some(self.of(name), which) for name in ("item_bias", "bias") if name in self.names]
        return all_scores(of_users, of_some(self.of("items"), which), offsets)
