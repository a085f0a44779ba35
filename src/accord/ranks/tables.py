"""Tables of vectors whose rows are dealt out to the ranks: row i belongs to rank i mod N, as its row i div N."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from accord.kernels.segment_sum import cached_on, flattened, marked, table_gradient
from accord.ranks.group import Ranks, divided_by

DIVISION = "_division"
"""The attribute of a table that holds how it is divided."""
AT_ONCE = 1 << 22
"""Numbers of a table that are drawn or sent at a time."""
UNIT = 16
"""torch draws normal numbers in groups of so many: blocks of whole groups give the numbers of one draw."""


@dataclass(frozen=True)
class Division:
    """How a table is divided."""

    rows: int
    """Of the whole table."""
    ranks: Ranks


def fresh_table(rows: int, dims: int | None, std: float = 0.0) -> nn.Parameter:
    """A table of normal numbers, (rows, dims), or of zeros, (rows,).

    Where tables are divided, it has the rows of this rank: the same numbers as they have in one whole table.
    """
    ranks = divided_by()
    if ranks is None:
        return nn.Parameter(torch.zeros(rows) if dims is None else torch.empty(rows, dims).normal_(std=std))
    own = torch.zeros(own_count(rows, ranks)) if dims is None else _drawn(rows, dims, std, ranks)
    table = nn.Parameter(own)
    setattr(table, DIVISION, Division(rows, ranks))
    return table


def own_count(rows: int, ranks: Ranks) -> int:
    """How many of so many rows this rank has."""
    return len(range(ranks.rank, rows, ranks.size))


def _drawn(rows: int, dims: int, std: float, ranks: Ranks) -> Tensor:
    """This rank's rows of a table that is drawn block by block."""
    own = torch.empty(own_count(rows, ranks), dims)
    block = max(1, AT_ONCE // dims // UNIT) * UNIT
    first = 0
    while first < rows:
        last = min(rows, first + block)
        if 0 < (rows - last) * dims < UNIT:  # too few to be drawn by themselves
            last = rows
        drawn = torch.empty(last - first, dims).normal_(std=std)
        skip = (ranks.rank - first) % ranks.size
        mine = drawn[skip :: ranks.size]
        at = (first + skip) // ranks.size
        own[at : at + len(mine)] = mine
        first = last
    return own


def is_divided(table: Any) -> bool:
    return getattr(table, DIVISION, None) is not None


def rows_of(table: Tensor) -> int:
    """Rows of the whole table."""
    division: Division | None = getattr(table, DIVISION, None)
    return len(table) if division is None else division.rows


# -- rows of others ------------------------------------------------------------------------------------------


class _Plan:
    """Which rows a rank asks of each other one for an index, and which ones are asked of it."""

    def __init__(self, index: Tensor, division: Division) -> None:
        self.ranks, size = division.ranks, division.ranks.size
        most = -(-division.rows // size)
        keys, self.place = (index % size * most + index // size).unique(return_inverse=True)
        """Where each entry of the index is among the rows that come."""
        self.send = torch.bincount(keys // most, minlength=size).tolist()
        counts = torch.tensor(self.send, device=index.device)
        self.receive = self.ranks.exchange(counts, [1] * size, [1] * size).tolist()
        kind = torch.int32 if most < 2**31 else torch.int64
        self.wanted = self.ranks.exchange((keys % most).to(kind), self.send, self.receive).long()
        """Own rows that were asked for, rank after rank."""


def rows_of_others(table: Tensor, index: Tensor, rows: int, ranks: Ranks) -> tuple[Tensor, Tensor]:
    """Rows of a divided table of so many that does not learn, and where each entry of an index is among them; all
    ranks ask at the same time."""
    plan = _Plan(index, Division(rows, ranks))
    return ranks.exchange(table.index_select(0, plan.wanted), plan.receive, plan.send), plan.place


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, plan: _Plan, by_rows: bool) -> Tensor:
        ctx.plan, ctx.rows, ctx.by_rows = plan, len(table), by_rows
        return plan.ranks.exchange(table.index_select(0, plan.wanted), plan.receive, plan.send)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        plan: _Plan = ctx.plan
        own = plan.ranks.exchange(grad, plan.send, plan.receive)
        return table_gradient(plan.wanted, own, ctx.rows, ctx.by_rows), None, None


def fetched(table: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """A table and an index into it: of a divided table, the rows that the index names, and where each is in them.

    All ranks ask at the same time. Each row is sent once; gradients go back to its rank, where they are added up.
    """
    division: Division | None = getattr(table, DIVISION, None)
    if division is None:
        return table, index
    flat = flattened(index)
    plan = cached_on(index, ("rows of others", division.rows), lambda: _Plan(flat, division))
    rows: Tensor = _Fetch.apply(table, plan, marked(table))  # pyright: ignore[reportAssignmentType]
    return rows, cached_on(index, ("places", division.rows), lambda: plan.place.view(index.shape))


# -- the whole table -----------------------------------------------------------------------------------------


@torch.no_grad()
def all_rows(table: Tensor, everywhere: bool = True) -> Tensor | None:
    """The whole table, sent in blocks; on every rank, or on the first one alone."""
    division: Division = getattr(table, DIVISION)
    ranks, rows = division.ranks, division.rows
    whole = table.new_empty(rows, *table.shape[1:]) if everywhere or ranks.leads else None
    step = max(1, AT_ONCE // max(1, table[:1].numel()))
    for first in range(0, -(-rows // ranks.size), step):
        own = table[first : first + step]
        if not everywhere:
            for rank, part in enumerate(ranks.at_first(own)):
                _fill(whole, rank + first * ranks.size, ranks.size, part)
            continue
        for rank in range(ranks.size):
            count = len(range(rank + first * ranks.size, rows, ranks.size)[:step])
            part = own.detach().clone() if rank == ranks.rank else table.new_empty(count, *table.shape[1:])
            _fill(whole, rank + first * ranks.size, ranks.size, ranks.spread(part, rank))
    return whole


def _fill(whole: Tensor | None, first: int, step: int, part: Tensor) -> None:
    if whole is not None and len(part):
        whole[first : first + step * len(part) : step] = part


@torch.no_grad()
def whole_network(network: nn.Module, users: bool, everywhere: bool = True) -> nn.Module:
    """A network beside this one whose tables are whole, and that shares the rest with it.

    Without ``users``, the tables of users stay as they are: each rank asks about its own users.
    """
    made = copy.copy(network)
    made._parameters, made._buffers = dict(network._parameters), dict(network._buffers)
    of_users = set(getattr(network, "user_tables", ()))
    for name, table in network._parameters.items():
        if table is not None and is_divided(table) and (users or name not in of_users):
            whole = all_rows(table, everywhere)
            made._parameters[name] = nn.Parameter(table[:0] if whole is None else whole, requires_grad=False)
    buffers: dict[str, int] = getattr(network, "divided_buffers", {})
    wanted = {name: rows for name, rows in buffers.items() if users or name not in of_users}
    for name, rows in wanted.items():
        own: Any = network._buffers[name]
        setattr(own, DIVISION, Division(rows, network.ranks))  # pyright: ignore[reportArgumentType]
        whole = all_rows(own, everywhere)
        made._buffers[name] = own[:0] if whole is None else whole
    if wanted:
        vars(made)["divided_buffers"] = {name: rows for name, rows in buffers.items() if name not in wanted}
    return made
