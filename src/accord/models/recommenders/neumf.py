"""NeuMF: generalised matrix factorisation and a three-layer perceptron, joined by one dense layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from accord.kernels.scores import can_score_pairs, score_pairs
from accord.kernels.segment_sum import cached_on, flattened, gather, marked
from accord.models.recommenders.newcomers import learned_rows, with_users
from accord.models.recommenders.pairwise import INIT_STD
from accord.models.recommenders.programs import Asked
from accord.models.recommenders.tables import rows_in_all, taken_rows
from accord.models.stack import JoinedStack
from accord.ranks.tables import fetched, fresh_table

SCORE_BLOCK = {"cpu": 1 << 19, "cuda": 1 << 27}
"""Numbers of the first layer that go through the perceptron at a time when all items are scored: on a CPU they stay
in the cache, on a GPU there are not too many launches."""

OTHERS = 512
"""Items by which the rows of users are found whom the model has never seen: each goes through the perceptron."""


class NeuMFStack(JoinedStack):
    """NeuMF: the layers of all members as batched products."""

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        part_u, part_i = self.of("first.weight").chunk(2, dim=2)
        candidates, runs, batch = items.shape
        of_users = self._first("mlp_users", part_u, users)
        side_by_side = cached_on(
            items, "side by side", lambda: items.data.transpose(0, 1).reshape(runs, candidates * batch)
        )
        of_items = self._first("mlp_items", part_i, side_by_side)
        of_users = of_users + self.of("first.bias")[:, None]
        hidden = (of_users.repeat(1, candidates, 1) + of_items).relu()
        for layer in ("second", "third"):
            hidden = torch.baddbmm(
                self.of(f"{layer}.bias")[:, None], hidden, self.of(f"{layer}.weight").transpose(1, 2)
            ).relu()
        wide = self._take(self.of("users"), users).repeat(1, candidates, 1)
        wide = wide * self._take(self.of("items"), side_by_side)
        out = self.of("out.weight").transpose(1, 2)
        logits = torch.bmm(torch.cat([wide, hidden], 2), out).squeeze(2) + self.of("out.bias")
        if "item_bias" in self.names:
            table = self.of("item_bias")
            logits = logits + gather(table.flatten(), rows_in_all(table, side_by_side)).view_as(logits)
        return logits.view(runs, candidates, batch).transpose(0, 1)

    def _first(self, name: str, part: Tensor, index: Tensor) -> Tensor:
        """A side's part of the first layer, computed for whole tables where that is the smaller product."""
        table = self.of(name)
        if table.shape[1] <= index.shape[1]:
            return self._take(torch.bmm(table, part.transpose(1, 2)), index)
        return torch.bmm(self._take(table, index), part.transpose(1, 2))

    def _take(self, table: Tensor, index: Tensor) -> Tensor:
        return taken_rows(table, index).view(*index.shape, -1)


class NeuMF(nn.Module):
    """He et al. (2017), section 3.4: with 32 dims the perceptron is 256-128-64-32, as in their program.

    The first layer reads a user's and an item's vector, so it is the sum of a user's part and an item's part:
    each is computed once per user and once per item, never per pair.
    """

    stack_class = NeuMFStack
    divides = True
    user_tables = ("users", "mlp_users")
    numbers_per_dim = 5
    """Numbers of a user or an item for each dimension: 1 of the product, 4 of the perceptron."""

    def __init__(
        self, n_users: int, n_items: int, dims: int = 32, item_bias: bool = False, init_std: float = INIT_STD
    ) -> None:
        super().__init__()
        wide = 4 * dims
        self.users = fresh_table(n_users, dims, init_std)
        self.items = fresh_table(n_items, dims, init_std)
        self.mlp_users = fresh_table(n_users, wide, init_std)
        self.mlp_items = fresh_table(n_items, wide, init_std)
        self.first = nn.Linear(2 * wide, wide)
        self.second = nn.Linear(wide, 2 * dims)
        self.third = nn.Linear(2 * dims, dims)
        self.out = nn.Linear(2 * dims, 1)
        for layer in (self.first, self.second, self.third):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.kaiming_uniform_(self.out.weight, a=1, nonlinearity="sigmoid")
        nn.init.zeros_(self.out.bias)
        self.item_bias = fresh_table(n_items, None) if item_bias else None

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        part_u, part_i = self._parts()
        of_users = self._first(self.mlp_users, part_u, users) + self.first.bias
        table, at = fetched(self.mlp_items, items)
        of_items = self._first(table, part_i, flattened(at)).view(*items.shape, -1)
        deep = self._deep((of_users + of_items).relu_())
        table, at = fetched(self.items, items)
        wide = gather(self.users, users) * gather(table, flattened(at)).view(*items.shape, -1)
        logits = self._join(wide, deep)
        if self.item_bias is None:
            return logits
        table, at = fetched(self.item_bias, items)
        return logits + gather(table, flattened(at)).view(items.shape)

    def scores(self, users: Tensor) -> Tensor:
        part_u, part_i = self._parts()
        of_users = self.mlp_users[users] @ part_u.T + self.first.bias
        of_items = self.mlp_items @ part_i.T
        weight_wide, weight_deep = self.out.weight[0].chunk(2)
        wide = (self.users[users] * weight_wide) @ self.items.T + self.out.bias
        if self.item_bias is not None:
            wide = wide + self.item_bias
        if can_score_pairs(of_users, self.third):
            return wide + score_pairs(of_users, of_items, self.second, self.third, weight_deep)
        held = SCORE_BLOCK.get(users.device.type, SCORE_BLOCK["cpu"])
        rows = max(1, held // max(1, of_items.numel()))
        deep = [
            self._deep((block[:, None] + of_items).relu_()).matmul(weight_deep) for block in of_users.split(rows)
        ]
        return wide + torch.cat(deep)

    def _parts(self) -> tuple[Tensor, ...]:
        """The first layer's weights for the user and for the item."""
        return self.first.weight.chunk(2, dim=1)

    def _first(self, table: Tensor, part: Tensor, index: Tensor) -> Tensor:
        """A side's part of the first layer, computed for the whole table where that is the smaller product."""
        if len(table) <= len(index) and not marked(table):
            return gather(table @ part.T, index)
        return gather(table, index) @ part.T

    def _deep(self, first: Tensor) -> Tensor:
        return self.third(self.second(first).relu_()).relu_()

    def _join(self, wide: Tensor, deep: Tensor) -> Tensor:
        weight_wide, weight_deep = self.out.weight[0].chunk(2)
        return wide.matmul(weight_wide) + deep.matmul(weight_deep) + self.out.bias

    def program(self) -> Asked:
        """The model as a program that torch can export."""
        every = torch.arange(len(self.items))
        return Asked(
            self, lambda users: self._logits_of([self.users[users, None], self.mlp_users[users, None]], every)
        )

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> NeuMF:
        """The same model for users it has never seen, by their clicks."""
        tables = [self.users, self.mlp_users]
        users, mlp_users = learned_rows(tables, self._logits_of, starts, clicked, len(self.items), others=OTHERS)
        return with_users(self, users=users, mlp_users=mlp_users)

    def _logits_of(self, rows: Sequence[Tensor], items: Tensor) -> Tensor:
        user, mlp_user = rows
        part_u, part_i = self._parts()
        deep = self._deep((mlp_user @ part_u.T + self.first.bias + self.mlp_items[items] @ part_i.T).relu())
        logits = self._join(user * self.items[items], deep)
        return logits if self.item_bias is None else logits + self.item_bias[items]

    def tables(self) -> list[nn.Parameter]:
        """Tables of which a batch touches a few rows."""
        return [self.users, self.items, self.mlp_users, self.mlp_items]

    def user_vectors(self) -> Tensor:
        return self.users

    def item_vectors(self) -> Tensor:
        return self.items
