"""LightGCN: vectors averaged over the neighbourhoods of the click graph."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from accord.models.graph_product import graph_product
from accord.models.pairwise import SPREAD, pair_logits

LAYERS = 3


class _Propagate(torch.autograd.Function):
    """Mean over k = 0…L of A^k E, A the normalised bipartite adjacency; users and items apart, (R, rows, width).

    The map is linear and symmetric, so its gradient is the same map of the gradient.
    """

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, graph: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        ctx.graph, ctx.back = graph, back
        return propagate(users, items, graph, back)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_users: Tensor, to_items: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return *propagate(to_users, to_items, ctx.graph, ctx.back), None, None


def propagate(users: Tensor, items: Tensor, graph: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """L rounds of averaging over neighbours, and the mean of all rounds, by Horner's rule: E + A(E + A(E + …))."""
    of_users, of_items = users, items
    for layer in range(LAYERS):
        scale = 1.0 if layer < LAYERS - 1 else 1 / (LAYERS + 1)
        of_users, of_items = (
            graph_product(graph, of_items, users, scale),
            graph_product(back, of_users, items, scale),
        )
    return of_users, of_items


def _sparse(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR tensors a beta, once
        return torch.sparse_csr_tensor(starts.int(), columns.int(), values, shape, check_invariants=True)


class LightGCN(nn.Module):
    """He et al. (2020): 64 dims, three layers, no dropout. It must be bound to the training clicks."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 64, item_bias: bool = False, spread: float = SPREAD
    ) -> None:
        super().__init__()
        self.users = nn.Parameter(torch.empty(n_users, dims).normal_(std=spread))
        self.items = nn.Parameter(torch.empty(n_items, dims).normal_(std=spread))
        self.register_buffer("graph", None, persistent=False)
        self.register_buffer("back", None, persistent=False)
        self._cache: tuple[Tensor, Tensor] | None = None

    def bind(self, starts: Tensor, items: Tensor) -> None:
        """The training clicks: user u's are ``items[starts[u]:starts[u+1]]``, each once."""
        n_users, n_items = len(self.users), len(self.items)
        degree = starts.diff()
        users = torch.arange(n_users, device=items.device).repeat_interleave(degree)
        popularity = torch.bincount(items, minlength=n_items)
        value = (degree[users] * popularity[items.long()]).float().rsqrt()
        forward = _sparse(starts, items, value, (n_users, n_items))
        order = torch.argsort(items, stable=True)
        columns = torch.cat([starts[:1], popularity.cumsum(0)])
        back = _sparse(columns, users[order], value[order], (n_items, n_users))
        self.graph, self.back = forward, back

    def _final(self) -> tuple[Tensor, Tensor]:
        """Propagated vectors; in evaluation mode they are computed once."""
        if self.training:
            final: Any = _Propagate.apply(self.users[None], self.items[None], self.graph, self.back)
            return final[0][0], final[1][0]
        if self._cache is None:
            users, items = propagate(self.users.detach()[None], self.items.detach()[None], self.graph, self.back)
            self._cache = users[0], items[0]
        return self._cache

    def train(self, mode: bool = True) -> LightGCN:
        """Every call forgets the vectors. (Fused optimisers change parameters without a version.)"""
        self._cache = None
        return super().train(mode)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        of_users, of_items = self._final()
        return pair_logits(of_users, of_items, None, None, None, users, items)

    def scores(self, users: Tensor) -> Tensor:
        of_users, of_items = self._final()
        return of_users[users] @ of_items.T

    def user_vectors(self) -> Tensor:
        return self._final()[0]

    def item_vectors(self) -> Tensor:
        return self._final()[1]
