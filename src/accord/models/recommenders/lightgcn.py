"""LightGCN: vectors averaged over the neighbourhoods of the click graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from accord.kernels.segment_sum import cached_on, segment_sum
from accord.kernels.spmm import spmm
from accord.models.recommenders.newcomers import learned_rows, with_users
from accord.models.recommenders.pairwise import INIT_STD, pair_logits
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.tables import all_scores, of_some, products
from accord.models.stack import JoinedStack

LAYERS = 3
PAIRS, ROW = 32, 8
"""Pairs of clicks for each click, beyond which steps from item to item are not looked at; and what it costs to read
and write a row of the larger table, in rows of the smaller that are read."""


class _Propagate(torch.autograd.Function):
    """Mean over k = 0…L of A^k E, A the normalised bipartite adjacency; users and items apart, (R, rows, width).

    The map is linear and symmetric, so its gradient is the same map of the gradient.
    """

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, *graphs: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.graphs = graphs
        return propagate(users, items, *graphs)  # pyright: ignore[reportArgumentType]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_users: Tensor, to_items: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        return *propagate(to_users, to_items, *ctx.graphs), *(None for _ in ctx.graphs)


def propagate(
    users: Tensor, items: Tensor, graph: Tensor, back: Tensor, steps: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L rounds of averaging over neighbours, and the mean of all rounds.

    ``steps`` are those of two rounds on the smaller side, from item to item or from user to user. With them the
    larger side is read once there and once back; without them, by Horner's rule: E + A(E + A(E + …)).
    """
    if steps is None:
        return _horner(users, items, graph, back)
    if users.shape[1] < items.shape[1]:
        of_items, of_users = _by_steps(items, users, back, graph, steps)
        return of_users, of_items
    return _by_steps(users, items, graph, back, steps)


def _by_steps(large: Tensor, small: Tensor, graph: Tensor, back: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Three rounds written out. With X large, Y small, A the graph from Y to X and S = AᵀA: the rounds of Y are
    Y, AᵀX, SY and SAᵀX, those of X are X, AY, AAᵀX and ASY."""
    first = spmm(back, large, small)
    return (
        spmm(graph, spmm(steps, small, first), large, 1 / (LAYERS + 1)),
        spmm(steps, first, first, 1 / (LAYERS + 1)),
    )


def _horner(users: Tensor, items: Tensor, graph: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    of_users, of_items = users, items
    for layer in range(LAYERS):
        scale = 1.0 if layer < LAYERS - 1 else 1 / (LAYERS + 1)
        of_users, of_items = (
            spmm(graph, of_items, users, scale),
            spmm(back, of_users, items, scale),
        )
    return of_users, of_items


def _sparse(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR tensors a beta, once
        return torch.sparse_csr_tensor(starts.int(), columns.int(), values, shape, check_invariants=True)


def _graphs(
    starts: Tensor, items: Tensor, shape: tuple[int, int], kind: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """From items to users, from users to items, and two rounds at once where that is less work."""
    n_users, n_items = shape
    items = items.detach()  # another tensor of the same numbers: a graph must not keep what remembers it
    degree = starts.diff()
    users = torch.arange(n_users, device=items.device).repeat_interleave(degree)
    popularity = torch.bincount(items, minlength=n_items)
    value = (degree[users] * popularity[items.long()]).to(kind).rsqrt()
    forward = _sparse(starts, items, value, shape)
    order = torch.argsort(items, stable=True)
    columns = torch.cat([starts[:1], popularity.cumsum(0)])
    back = _sparse(columns, users[order], value[order], (n_items, n_users))
    return forward, back, _steps(forward, back)


def _steps(graph: Tensor, back: Tensor) -> Tensor | None:
    """Two rounds on the smaller side as one matrix; None where that is more work than the rounds themselves.

    That is so where many users have clicked many items, as with MovieLens: then nearly every item is two steps
    from every other.
    """
    if len(graph) < len(back):
        graph, back = back, graph
    clicks, degree = graph.values().numel(), graph.crow_indices().diff().long()
    if int((degree * degree).sum()) > PAIRS * clicks:
        return None
    there, and_back = (one.cpu().to_sparse_coo() for one in (graph, back))  # one order of sums on every device
    made = torch.sparse.mm(and_back, there).coalesce()
    if 2 * made.values().numel() > 4 * clicks + 2 * ROW * len(graph):
        return None
    rows, columns = made.indices()
    starts = torch.searchsorted(rows, torch.arange(len(back) + 1))
    return _sparse(starts, columns, made.values(), (len(back), len(back))).to(graph.device)


class LightGCNStack(JoinedStack):
    """LightGCN on one graph: the members' vectors are averaged together."""

    def _final(self) -> tuple[Tensor, Tensor]:
        first: Any = self._members[0]
        final: Any = _Propagate.apply(self.of("users"), self.of("items"), *first.graphs())
        return final

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return products(*self._averaged(), None, users, items)

    def _averaged(self) -> tuple[Tensor, Tensor]:
        return self.cached("averaged", self._final)

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        of_users, of_items = self._averaged()
        return all_scores(of_some(of_users, which).index_select(1, users), of_some(of_items, which), [])


class LightGCN(nn.Module):
    """He et al. (2020): 64 dims, three layers, no dropout. It must be bound to the training clicks."""

    stack_class = LightGCNStack
    fixed_item_bias = False
    usual_dims = 64
    usual_rate, usual_l2 = 1e-2, 1e-3  # averaging shrinks its vectors, so they must be free to grow
    one_graph = True
    """Whether the runs of a stack must learn from the same clicks."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 64, item_bias: bool = False, init_std: float = INIT_STD
    ) -> None:
        super().__init__()
        self.users = nn.Parameter(torch.empty(n_users, dims).normal_(std=init_std))
        self.items = nn.Parameter(torch.empty(n_items, dims).normal_(std=init_std))
        self.register_buffer("graph", None, persistent=False)
        self.register_buffer("back", None, persistent=False)
        self.register_buffer("steps", None, persistent=False)
        self._cache: tuple[Tensor, Tensor] | None = None
        self._layers: Tensor | None = None

    def bind(self, starts: Tensor, items: Tensor) -> None:
        """The training clicks: user u's are ``items[starts[u]:starts[u+1]]``, each once.

        Networks that are bound to the same clicks share their graphs.
        """
        shape, kind = (len(self.users), len(self.items)), self.users.dtype
        made = cached_on(items, ("graphs", shape, kind), lambda: (starts, _graphs(starts, items, shape, kind)))
        same = made[0] is starts or torch.equal(made[0], starts)
        self.graph, self.back, self.steps = made[1] if same else _graphs(starts, items, shape, kind)

    def graphs(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """What `propagate` goes by."""
        return self.graph, self.back, self.steps

    def _final(self) -> tuple[Tensor, Tensor]:
        """Propagated vectors; in evaluation mode they are computed once."""
        if self.training:
            final: Any = _Propagate.apply(self.users[None], self.items[None], *self.graphs())
            return final[0][0], final[1][0]
        if self._cache is None:
            users, items = propagate(self.users.detach()[None], self.items.detach()[None], *self.graphs())
            self._cache = users[0], items[0]
        return self._cache

    def train(self, mode: bool = True) -> LightGCN:
        """Every call forgets the vectors. (Fused optimisers change parameters without a version.)"""
        self._cache = self._layers = None
        return super().train(mode)

    def score_vectors(self) -> tuple[Tensor, Tensor]:
        """Vectors of users and of items whose products are the scores."""
        users, items = self._final()
        return users.detach(), items.detach()

    @torch.no_grad()
    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> LightGCN:
        """The same model for users it has never seen: each layer averages the items of a history, as propagation
        does, and the layer of the user's own vector is learned."""
        around = self._around(starts, clicked)

        def logits(rows: Sequence[Tensor], items: Tensor) -> Tensor:
            own, averaged = rows
            return ((own / (LAYERS + 1) + averaged) * of_items[items]).sum(-1)

        of_items = self._final()[1].detach()
        (own,) = learned_rows([self.users], logits, starts, clicked, len(self.items), [around])
        made = with_users(self, users=own)
        made._cache = own / (LAYERS + 1) + around, of_items
        return made

    def _around(self, starts: Tensor, clicked: Tensor) -> Tensor:
        """What a user's final vector is besides its own first one."""
        if self._layers is None:
            users, items = self.users.detach()[None], self.items.detach()[None]
            total = items
            for _ in range(LAYERS - 1):
                users, items = (
                    spmm(self.graph, items, torch.zeros_like(users)),
                    spmm(self.back, users, torch.zeros_like(items)),
                )
                total = total + items
            self._layers = total[0]
        popularity = self.back.crow_indices().diff().clamp(min=1)
        position, items = clicks_of(torch.arange(len(starts) - 1), starts, clicked)
        weights = (starts.diff()[position] * popularity[items]).to(self._layers.dtype).rsqrt()
        return segment_sum(position, self._layers[items] * weights[:, None], len(starts) - 1) / (LAYERS + 1)

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
