"""Adam and SGD, with the L2 term of the target as weight decay; Adam over whole tensors or rows a batch touched.

A step of dense Adam reads and writes every row of every table; on a log with a few clicks for each of very many
users that is nearly all of the work. `RowAdam` is the lazy form: moments, L2 term and update of a table's row
happen in the steps whose batch holds that row. Bias correction counts all steps, as in torch's SparseAdam.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from accord.kernels.segment_sum import BY_ROWS, segment_sum
from accord.methods.base import optimiser_tensors, restore_optimiser

BETAS, EPSILON = (0.9, 0.999), 1e-8
MANY_ROWS = 4
"""A table with more rows than this many batches of clicks is updated by rows, where that is left to accord."""

ROWS = "rows "
"""Mark of the state of tables that are updated by rows."""
Updates = Literal["auto", "dense", "rows"]


class Optimiser(Protocol):
    """What the loop asks of an optimiser."""

    def clear(self) -> None:
        """Forget the gradients."""
        ...

    def step(self) -> None:
        """Update what has a gradient; a network without one in this sub-task is not stepped at all."""
        ...

    def set_rate(self, rate: float) -> None: ...

    def release(self) -> None:
        """Let go of gradients and moments."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Moments and counters, for a checkpoint."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None: ...


class RowAdam:
    """Lazy Adam for tables whose gradients come as (rows, values)."""

    def __init__(self, tables: list[tuple[nn.Parameter, float]], learning_rate: float) -> None:
        self.tables, self.learning_rate = tables, learning_rate
        self.moments = [(torch.zeros_like(table), torch.zeros_like(table)) for table, _ in tables]
        self.own_steps = [0] * len(tables)

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
            spread = square.div_(1 - BETAS[1] ** self.own_steps[k]).sqrt_().add_(EPSILON)
            table.index_copy_(0, rows, values.addcdiv_(mean, spread, value=-size))

    def state(self) -> dict[str, Tensor]:
        moments = {f"{k} {n}": t for k, pair in enumerate(self.moments) for n, t in enumerate(pair)}
        return moments | {"steps": torch.tensor(self.own_steps)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.own_steps = state["steps"].tolist()
        for k, pair in enumerate(self.moments):
            for n, moment in enumerate(pair):
                moment.copy_(state[f"{k} {n}"])


def touched(grad: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a sparse gradient and the sum of each."""
    rows, position = grad._indices()[0].unique(return_inverse=True)
    return rows, segment_sum(position, grad._values(), len(rows))


class _Torch:
    """What a `torch.optim` optimiser over some networks shares with any other."""

    parameters: list[nn.Parameter]
    dense: torch.optim.Optimizer | None

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        if self.dense is not None:
            self.dense.step()

    def set_rate(self, rate: float) -> None:
        for group in self.dense.param_groups if self.dense is not None else []:
            if isinstance(group["lr"], Tensor):  # a captured step reads it where it is
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def release(self) -> None:
        self.clear()
        if self.dense is not None:
            self.dense.state.clear()

    def state(self) -> dict[str, Tensor]:
        return {} if self.dense is None else optimiser_tensors(self.dense)

    def restore(self, state: dict[str, Tensor]) -> None:
        if self.dense is not None:
            restore_optimiser(self.dense, state)


class Adam(_Torch):
    """All networks of a phase: fused dense Adam, and `RowAdam` for the tables chosen for it."""

    def __init__(
        self,
        groups: Iterable[tuple[nn.Module, float]],
        learning_rate: float | Tensor,
        batch_size: int,
        updates: Updates,
    ) -> None:
        dense: dict[float, list[nn.Parameter]] = {}  # few groups: each costs a call
        by_rows: list[tuple[nn.Parameter, float]] = []
        for network, decay in groups:
            chosen = {id(table) for table in _row_tables(network, batch_size, updates)}
            for parameter in network.parameters():
                setattr(parameter, BY_ROWS, id(parameter) in chosen)
                if id(parameter) in chosen:
                    by_rows.append((parameter, decay))
                else:
                    dense.setdefault(decay, []).append(parameter)
        self.parameters = [p for group in dense.values() for p in group] + [p for p, _ in by_rows]
        options = [{"params": group, "weight_decay": decay} for decay, group in dense.items()]
        captured = isinstance(learning_rate, Tensor)
        self.dense = (
            torch.optim.Adam(options, lr=learning_rate, betas=BETAS, eps=EPSILON, fused=True, capturable=captured)
            if dense
            else None
        )
        self.rows = RowAdam(by_rows, float(learning_rate)) if by_rows else None

    def step(self) -> None:
        super().step()
        if self.rows is not None:
            self.rows.step()

    def set_rate(self, rate: float) -> None:
        super().set_rate(rate)
        if self.rows is not None:
            self.rows.learning_rate = rate

    def release(self) -> None:
        super().release()
        if self.rows is not None:
            self.rows.moments.clear()

    def state(self) -> dict[str, Tensor]:
        own = {} if self.rows is None else self.rows.state()
        return super().state() | {f"{ROWS}{name}": tensor for name, tensor in own.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore({name: tensor for name, tensor in state.items() if not name.startswith(ROWS)})
        if self.rows is not None:
            self.rows.restore({n.removeprefix(ROWS): t for n, t in state.items() if n.startswith(ROWS)})


MOMENTUM = 0.9


class SGD(_Torch):
    """Fused SGD with momentum over all networks of a phase; gradients longer than ``clip`` are cut to it."""

    def __init__(
        self, groups: Iterable[tuple[nn.Module, float]], learning_rate: float | Tensor, clip: float | None = None
    ) -> None:
        by_decay: dict[float, list[nn.Parameter]] = {}
        for network, decay in groups:
            by_decay.setdefault(decay, []).extend(network.parameters())
        self.parameters = [p for group in by_decay.values() for p in group]
        options = [{"params": group, "weight_decay": decay} for decay, group in by_decay.items()]
        self.dense = torch.optim.SGD(options, lr=learning_rate, momentum=MOMENTUM, fused=True)
        self.clip = clip

    def step(self) -> None:
        if self.clip is not None:
            clip_grad_norm_(self.parameters, self.clip, foreach=True)
        super().step()


def _row_tables(network: nn.Module, batch_size: int, updates: Updates) -> list[nn.Parameter]:
    """Tables to be updated by rows: none on a GPU, where a dense step is quick and rows would cost a sync."""
    tables: list[nn.Parameter] = list(getattr(network, "tables", list)())
    if updates == "dense" or any(table.device.type != "cpu" for table in tables):
        return []
    return [table for table in tables if updates == "rows" or len(table) > MANY_ROWS * batch_size]
