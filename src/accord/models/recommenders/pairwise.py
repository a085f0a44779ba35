"""What every recommender model offers, and the product of user and item vectors that MF and GMF share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from accord.kernels.segment_sum import flattened, marked, segment_sum, table_gradient
from accord.models.recommenders.newcomers import learned_rows, with_users
from accord.ranks.tables import fetched, fresh_table

INIT_STD = 0.1
"""Standard deviation of fresh vectors. The NCF paper's program has 0.01 (He et al., 2017), with which products
of vectors grow so slowly that early stopping ends the training at the popularity ranking."""


@runtime_checkable
class PairModel(Protocol):
    """Any ``torch.nn.Module`` with these two methods can be trained by every method of accord."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Log-odds that each user likes each item; ``users`` (B,) broadcasts with ``items`` (B,) or (n, B)."""
        ...

    def scores(self, users: Tensor) -> Tensor:
        """Log-odds for every item of the catalogue: (B, number of items)."""
        ...


class _PairLogits(torch.autograd.Function):
    """Σ_d w_d · U[u]_d · V[i]_d + b_i + b with a hand-written backward; weight and biases may be None.

    A user is in a batch once for all its candidate items, so its vector is gathered once and its
    gradient is scattered once; autograd's own backward would do each per pair.
    """

    @staticmethod
    def forward(
        ctx: Any,
        user_table: Tensor,
        item_table: Tensor,
        weight: Tensor | None,
        item_bias: Tensor | None,
        bias: Tensor | None,
        users: Tensor,
        items: Tensor,
        by_rows: tuple[bool, bool],
    ) -> Tensor:
        flat = flattened(items)
        of_users = user_table.index_select(0, users)
        of_items = item_table.index_select(0, flat).view(*items.shape, -1)
        factors = of_users if weight is None else of_users * weight
        ctx.save_for_backward(of_users, of_items, factors, weight)
        ctx.index = users, flat  # no inputs of a graph: kept as they are, with what was made of them
        ctx.rows = len(user_table), len(item_table)
        ctx.by_rows = by_rows
        ctx.biased = item_bias is not None, bias is not None
        logits = (factors * of_items).sum(-1)
        if item_bias is not None:
            logits += item_bias.index_select(0, flat).view_as(logits)
        return logits if bias is None else logits.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        of_users, of_items, factors, weight = ctx.saved_tensors
        users, flat = ctx.index
        n_users, n_items = ctx.rows
        width = of_users.shape[-1]
        has_item_bias, has_bias = ctx.biased
        to_item_bias = segment_sum(flat, grad.reshape(-1), n_items) if has_item_bias else None
        to_bias = grad.sum().view(1) if has_bias else None
        grad = grad.unsqueeze(-1)
        to_items = table_gradient(flat, (grad * factors).view(-1, width), n_items, ctx.by_rows[1])
        to_factors = _sum_over_candidates(grad, of_items)
        to_weight = None
        if weight is not None:
            to_weight = (to_factors * of_users).sum(0)
            to_factors *= weight
        to_users = table_gradient(users, to_factors, n_users, ctx.by_rows[0])
        return to_users, to_items, to_weight, to_item_bias, to_bias, None, None, None


def _sum_over_candidates(grad: Tensor, of_items: Tensor) -> Tensor:
    """Σ_n grad[n] · of_items[n] without the (n, B, d) product in between."""
    if of_items.dim() == 2:
        return grad * of_items
    total = grad[0] * of_items[0]
    for k in range(1, len(of_items)):
        total.addcmul_(grad[k], of_items[k])
    return total


def pair_logits(
    user_table: Tensor,
    item_table: Tensor,
    weight: Tensor | None,
    item_bias: Tensor | None,
    bias: Tensor | None,
    users: Tensor,
    items: Tensor,
) -> Tensor:
    """Σ_d w_d · U[u]_d · V[i]_d + b_i + b for ``users`` (B,) and ``items`` (B,) or (n, B)."""
    return _PairLogits.apply(  # pyright: ignore[reportReturnType]
        user_table, item_table, weight, item_bias, bias, users, items, (marked(user_table), marked(item_table))
    )


class FactorModel(nn.Module):
    """User and item vectors whose weighted product, plus an optional item bias, is the log-odds of a like."""

    divides = True
    """Whether ranks may divide its tables: they are made by `fresh_table` and read by `fetched`."""
    user_tables = ("users",)
    """Those whose rows are users."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 32, item_bias: bool = False, init_std: float = INIT_STD
    ) -> None:
        super().__init__()
        self.users = fresh_table(n_users, dims, init_std)
        self.items = fresh_table(n_items, dims, init_std)
        self.item_bias = fresh_table(n_items, None) if item_bias else None
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        table, at = fetched(self.items, items)
        item_bias = None if self.item_bias is None else fetched(self.item_bias, items)[0]
        return pair_logits(self.users, table, self.weight, item_bias, self.bias, users, at)

    def scores(self, users: Tensor) -> Tensor:
        of_users = self.users.index_select(0, users)
        if self.weight is not None:
            of_users = of_users * self.weight
        offsets = [bias for bias in (self.item_bias, self.bias) if bias is not None]
        if not offsets:
            return of_users @ self.items.T
        offset = torch.stack(torch.broadcast_tensors(*offsets)).sum(0) if len(offsets) > 1 else offsets[0]
        return torch.addmm(offset, of_users, self.items.T)

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> FactorModel:
        """The same model for users it has never seen, by their clicks."""
        (rows,) = learned_rows([self.users], self._logits_of, starts, clicked, len(self.items))
        return with_users(self, users=rows)

    @torch.no_grad()
    def score_vectors(self) -> tuple[Tensor, Tensor]:
        """Vectors of users and of items whose products are the scores, biases and all."""
        users, items = self.users, self.item_vectors()
        offsets = [bias for bias in (self.item_bias, self.bias) if bias is not None]
        if not offsets:
            return users, items
        offset = sum(offsets, torch.zeros(len(items)))
        return torch.cat([users, torch.ones(len(users), 1)], 1), torch.cat([items, offset[:, None]], 1)

    def _logits_of(self, rows: Sequence[Tensor], items: Tensor) -> Tensor:
        (row,) = rows
        logits = ((row if self.weight is None else row * self.weight.detach()) * self.items.detach()[items]).sum(-1)
        for bias in (None if self.item_bias is None else self.item_bias[items], self.bias):
            logits = logits if bias is None else logits + bias.detach()
        return logits

    def tables(self) -> list[nn.Parameter]:
        """Tables of which a batch touches a few rows."""
        return [self.users, self.items]

    def user_vectors(self) -> Tensor:
        return self.users

    def item_vectors(self) -> Tensor:
        """Vectors whose inner product with `user_vectors` is the logit, less the biases."""
        return self.items if self.weight is None else self.items * self.weight
