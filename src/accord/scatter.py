"""Sums of rows by index that give the same bytes every time, on every device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def sum_rows(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """Row r of the result is the sum of the values whose index is r.

    On a GPU `index_add_` adds in whatever order its threads arrive; `index_put_` sorts the indices first.
    """
    total = values.new_zeros(rows, *values.shape[1:])
    if values.device.type == "cuda":
        return total.index_put_((index,), values, accumulate=True)
    return total.index_add_(0, index, values)


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
        ctx.save_for_backward(index)
        ctx.rows, ctx.by_rows = len(table), by_rows
        return table.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return table_gradient(ctx.saved_tensors[0], grad, ctx.rows, ctx.by_rows), None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, index: Tensor, values: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(index)
        return sum_rows(index, values, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return None, grad.index_select(0, ctx.saved_tensors[0]), None


def gather(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, with a gradient that gives the same bytes every time."""
    return _Gather.apply(table, index, marked(table))  # pyright: ignore[reportReturnType]


def summed(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """`sum_rows` with a gradient."""
    return _Sum.apply(index, values, rows)  # pyright: ignore[reportReturnType]
