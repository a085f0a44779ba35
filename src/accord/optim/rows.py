"""Lazy Adam for large tables: moments, L2 term and update of a row happen in the steps whose batch holds that row.

A step of dense Adam reads and writes every row of every table; on a log with a few clicks for each of very many
users that is nearly all of the work. Bias correction counts all steps, as in torch's SparseAdam.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from accord.kernels.segment_sum import segment_sum
from accord.ranks.tables import rows_of
from accord.stored import release, stored

BETAS, EPSILON = (0.9, 0.999), 1e-8
MANY_ROWS = 4
"""A table with more rows than this many batches of clicks is updated by rows, where that is left to accord."""
LARGE = 1 << 24
"""Numbers of a table whose moments may be worth a file."""
RELEASED = 128
"""Steps after which pages of files are given back."""
ROWS = "rows "
"""Prefix of the state of tables that are updated by rows."""
Updates = Literal["auto", "dense", "rows"]


def updated_by_rows(network: nn.Module, batch_size: int, updates: Updates) -> list[nn.Parameter]:
    """Tables to be updated by rows: none on a GPU, where a dense step is quick and rows would cost a sync."""
    tables: list[nn.Parameter] = list(getattr(network, "tables", list)())
    if updates == "dense" or any(table.device.type != "cpu" for table in tables):
        return []
    return [table for table in tables if updates == "rows" or rows_of(table) > MANY_ROWS * batch_size]


class RowAdam:
    """Lazy Adam for tables whose gradients come as (rows, values).

    With ``in_files`` the moments of very large tables lie in files: where users come block by block, few of their
    pages are needed at a time.
    """

    def __init__(
        self, tables: list[tuple[nn.Parameter, float]], learning_rate: float, in_files: bool = False
    ) -> None:
        self.tables, self.learning_rate = tables, learning_rate
        self.files: list[np.ndarray] = []
        self.moments = [(self._zeros(table, in_files), self._zeros(table, in_files)) for table, _ in tables]
        self.own_steps = [0] * len(tables)

    def _zeros(self, table: nn.Parameter, in_files: bool) -> Tensor:
        if not in_files or table.numel() < LARGE or table.dtype != torch.float32:
            return torch.zeros_like(table)
        self.files.append(stored(table.numel(), np.float32))
        return torch.from_numpy(np.asarray(self.files[-1])).view_as(table)

    def clear(self) -> None:
        """Let go of the moments."""
        self.moments.clear()
        self.files.clear()

    @torch.no_grad()
    def step(self) -> None:
        for k, ((table, decay), (first, second)) in enumerate(zip(self.tables, self.moments, strict=True)):
            if table.grad is None:
                continue
            self.own_steps[k] += 1
            rows, grad = touched(table.grad)
            values = table.index_select(0, rows)
            if decay:
                grad = grad.add(values, alpha=decay)
            mean = first.index_select(0, rows).lerp_(grad, 1 - BETAS[0])
            square = second.index_select(0, rows).mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
            first.index_copy_(0, rows, mean)
            second.index_copy_(0, rows, square)
            size = self.learning_rate / (1 - BETAS[0] ** self.own_steps[k])
            root = square.div_(1 - BETAS[1] ** self.own_steps[k]).sqrt_().add_(EPSILON)
            table.index_copy_(0, rows, values.addcdiv_(mean, root, value=-size))
        if self.files and sum(self.own_steps) % RELEASED == 0:
            release(*self.files)

    def state_dict(self) -> dict[str, Tensor]:
        moments = {f"{k} {n}": t for k, pair in enumerate(self.moments) for n, t in enumerate(pair)}
        return moments | {"steps": torch.tensor(self.own_steps)}


def touched(grad: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a sparse gradient and the sum of each."""
    rows, position = grad._indices()[0].unique(return_inverse=True)
    return rows, segment_sum(position, grad._values(), len(rows))
