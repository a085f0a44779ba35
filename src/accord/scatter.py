"""Sums of rows by index that give the same bytes every time, on every device."""

from __future__ import annotations

from torch import Tensor


def sum_rows(index: Tensor, values: Tensor, rows: int) -> Tensor:
    """Row r of the result is the sum of the values whose index is r.

    On a GPU `index_add_` adds in whatever order its threads arrive; `index_put_` sorts the indices first.
    """
    total = values.new_zeros((rows, *values.shape[1:]))
    if values.device.type == "cuda":
        return total.index_put_((index,), values, accumulate=True)
    return total.index_add_(0, index, values)
