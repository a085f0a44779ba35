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
    total = values.new_zeros((rows, *values.shape[1:]))
    if values.device.type == "cuda":
        return total.index_put_((index,), values, accumulate=True)
    return total.index_add_(0, index, values)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return table.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return sum_rows(ctx.saved_tensors[0], grad, ctx.rows), None


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
    return _Gather.apply(table, index)  # pyright: ignore[reportReturnType]


def summed(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """`sum_rows` with a gradient."""
    return _Sum.apply(index, values, rows)  # pyright: ignore[reportReturnType]
