"""Sums of rows by index that give the same bytes every time, on every device.

On a GPU `index_add_` adds in whatever order its threads arrive. Here the index is sorted, once for all tables that
a batch reads with it, and a small Triton kernel adds up each row's values in their order. Without Triton torch's
`index_put_` does the same, but it sorts anew for every table.
"""

# Triton may be missing, so that its types are variables:
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accord.kernels._triton import jit, kernels_work, tl, triton

TILE, WIDEST = 512, 128
"""Numbers that a program of the kernel adds up at a time, and most columns of them."""


@jit
def _sum_kernel(starts, order, values, out, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
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


CACHE = "_cached_on"
"""The attribute of an index that holds what was made of it."""


def cached_on(index: Tensor, name: Any, make: Callable[[], Any]) -> Any:
    """What `make` makes of an index, cached on the index: every table that a batch reads by it needs the same.

    It must not be a view of the index: the two would keep each other alive.
    """
    name = (name, index._version)
    cached: dict[Any, Any] | None = getattr(index, CACHE, None)
    if cached is None:
        cached = {}
        setattr(index, CACHE, cached)
    if name not in cached:
        cached[name] = make()
    return cached[name]


def flattened(index: Tensor) -> Tensor:
    """An index as one row."""
    return index if index.dim() == 1 else cached_on(index, "flat", lambda: index.data.reshape(-1))


def segments(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Where the entries of each row begin among all entries in order of their row, and this order."""

    def make() -> tuple[Tensor, Tensor]:
        in_order, order = torch.sort(index.int() if rows < 2**31 else index, stable=True)
        wanted = torch.arange(rows + 1, device=index.device, dtype=in_order.dtype)
        return torch.searchsorted(in_order, wanted), order

    return cached_on(index, ("segments", rows), make)


def segment_sum(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """Row r of the result is the sum of the values whose index is r; differentiable once with respect to them."""
    if values.requires_grad and torch.is_grad_enabled():
        return _SegmentSum.apply(index, values, rows)  # pyright: ignore[reportReturnType]
    return _segment_sum(index, values, rows)


def _segment_sum(index: Tensor, values: Tensor, rows: int) -> Tensor:
    if values.device.type != "cuda":
        return values.new_zeros(rows, *values.shape[1:]).index_add_(0, index, values)
    if values.dtype != torch.float32 or not kernels_work(values.device):
        return values.new_zeros(rows, *values.shape[1:]).index_put_((index,), values, accumulate=True)
    return triton_segment_sum(index, values, rows)


def triton_segment_sum(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """The same by the kernel."""
    starts, order = segments(index, rows)
    out = torch.empty(rows, *values.shape[1:], dtype=values.dtype, device=values.device)
    width = max(1, out[:1].numel())
    columns = min(WIDEST, triton.next_power_of_2(width))
    height = max(1, TILE // columns)
    grid = (triton.cdiv(rows, height), triton.cdiv(width, columns))
    _sum_kernel[grid](starts, order, values.contiguous(), out, rows, width, ROWS=height, COLUMNS=columns)
    return out


BY_ROWS = "by_rows"
"""Mark of a table whose gradient is wanted as rows and values, not as a whole table."""


def marked(table: Tensor) -> bool:
    return getattr(table, BY_ROWS, False)


def table_gradient(index: Tensor, values: Tensor, rows: int, by_rows: bool) -> Tensor:
    """The gradient of gathering rows of a table: summed into a whole table, or left as rows and values."""
    if not by_rows:
        return segment_sum(index, values, rows)
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


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, index: Tensor, values: Tensor, rows: int) -> Tensor:
        ctx.index = index
        return _segment_sum(index, values, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return None, grad.index_select(0, ctx.index), None


def gather(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, with a gradient that gives the same bytes every time."""
    return _Gather.apply(table, index, marked(table))  # pyright: ignore[reportReturnType]
