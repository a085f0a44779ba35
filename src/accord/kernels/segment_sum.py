"""Sums of rows by index that give the same bytes every time, on every device.

On a GPU `index_add_` adds in whatever order its threads arrive. Here the index is sorted, once for all tables that
a batch reads with it, and a small Triton kernel adds up each row's values in their order; without Triton torch's
`index_put_` does the same, which sorts anew for every table.
"""

# Triton may be missing, and what it makes of a function, pyright cannot see:
# pyright: reportPossiblyUnboundVariable=false, reportIndexIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]
except ImportError:  # as on a machine without CUDA
    triton = None

TILE, WIDEST = 512, 128
"""Numbers that a program of the kernel adds up at a time, and most columns of them."""

if triton is not None:

    @triton.jit
    def _sum_kernel(starts, order, values, out, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # pyright: ignore
        row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        first = tl.load(starts + row, mask=row < rows, other=0)
        count = tl.load(starts + row + 1, mask=row < rows, other=0) - first
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for k in range(0, tl.max(count)):
            entry = tl.load(order + first + k, mask=k < count, other=0)
            at = entry[:, None] * width + column[None, :]
            total += tl.load(values + at, mask=(k < count)[:, None] & (column < width)[None, :], other=0.0)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        tl.store(out + row[:, None] * width + column[None, :], total, mask=inside)


MADE = "_made"


def remembered(index: Tensor, name: Any, make: Callable[[], Any]) -> Any:
    """What is made of an index, kept with it: every table that a batch reads by this index needs the same.

    It must be no view of the index: the two would keep each other alive.
    """
    name = (name, index._version)
    kept: dict[Any, Any] | None = getattr(index, MADE, None)
    if kept is None:
        kept = {}
        setattr(index, MADE, kept)
    if name not in kept:
        kept[name] = make()
    return kept[name]


def flattened(index: Tensor) -> Tensor:
    """An index as one row."""
    return index if index.dim() == 1 else remembered(index, "flat", lambda: index.data.reshape(-1))


def segments(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Where the entries of each row begin among all entries in order of their row, and this order."""

    def make() -> tuple[Tensor, Tensor]:
        in_order, order = torch.sort(index.int() if rows < 2**31 else index, stable=True)
        wanted = torch.arange(rows + 1, device=index.device, dtype=in_order.dtype)
        return torch.searchsorted(in_order, wanted), order

    return remembered(index, ("segments", rows), make)


@cache
def kernels_work(device: torch.device) -> bool:
    """Whether Triton can make kernels here: it is installed with torch, but also needs a C compiler."""
    if triton is None or device.type != "cuda":
        return False
    try:
        index = torch.zeros(1, dtype=torch.int64, device=device)
        own_sum_rows(index, torch.zeros(1, 1, device=device), 1)
    except Exception:  # whatever a compiler that is not there, or does not fit, brings about
        return False
    return True


def sum_rows(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """Row r of the result is the sum of the values whose index is r."""
    if values.device.type != "cuda":
        return values.new_zeros(rows, *values.shape[1:]).index_add_(0, index, values)
    if values.dtype != torch.float32 or not kernels_work(values.device):
        return values.new_zeros(rows, *values.shape[1:]).index_put_((index,), values, accumulate=True)
    return own_sum_rows(index, values, rows)


def own_sum_rows(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """The same by our own kernel."""
    starts, order = segments(index, rows)
    out = torch.empty(rows, *values.shape[1:], dtype=values.dtype, device=values.device)
    width = max(1, out[:1].numel())
    columns = min(WIDEST, triton.next_power_of_2(width))
    tall = max(1, TILE // columns)
    grid = (triton.cdiv(rows, tall), triton.cdiv(width, columns))
    _sum_kernel[grid](starts, order, values.contiguous(), out, rows, width, ROWS=tall, COLUMNS=columns)
    return out


BY_ROWS = "by_rows"
"""Mark of a table whose gradient is wanted as rows and values, not as a whole table."""


def marked(table: Tensor) -> bool:
    return getattr(table, BY_ROWS, False)


def table_gradient(index: Tensor, values: Tensor, rows: int, by_rows: bool) -> Tensor:
    """The gradient of gathering rows of a table: summed into a whole table, or left as rows and values."""
    if not by_rows:
        return sum_rows(index, values, rows)
    shape = (rows, *values.shape[1:])
    return torch.sparse_coo_tensor(index[None], values, shape, check_invariants=False)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, by_rows: bool) -> Tensor:
        ctx.index = index  # no input of a graph: kept as it is, with what was made of it
        ctx.rows, ctx.by_rows = len(table), by_rows
        return table.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return table_gradient(ctx.index, grad, ctx.rows, ctx.by_rows), None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, index: Tensor, values: Tensor, rows: int) -> Tensor:
        ctx.index = index
        return sum_rows(index, values, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return None, grad.index_select(0, ctx.index), None


def gather(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, with a gradient that gives the same bytes every time."""
    return _Gather.apply(table, index, marked(table))  # pyright: ignore[reportReturnType]


def summed(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """`sum_rows` with a gradient."""
    return _Sum.apply(index, values, rows)  # pyright: ignore[reportReturnType]
