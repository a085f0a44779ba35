"""CDAE: a user's row of clicks, corrupted, goes through a narrow layer and comes back as preferences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from accord.kernels.segment_sum import flattened, gather, segment_sum
from accord.models.recommenders.newcomers import mean_rows, with_users
from accord.models.recommenders.pairwise import INIT_STD, pair_logits
from accord.models.recommenders.rows import clicks_of
from accord.models.recommenders.tables import all_scores, of_some, rows_in_all, taken_rows
from accord.models.stack import JoinedStack

AT_ONCE_USERS = 4096
"""Users whose rows are encoded together."""


class CDAEStack(JoinedStack):
    """CDAE: the rows of all members' batches are one long table."""

    reads_rows = True

    def logits_of_rows(self, rows: Tensor, position: Tensor, items: Tensor, weights: Tensor) -> Tensor:
        """Logits (n, R, B) of rows (R, U), the place of each click among them (R, B), and items (n, R, B)."""
        runs, most = rows.shape
        at = (position + torch.arange(runs, device=rows.device)[:, None] * most).flatten()
        inputs = taken_rows(self.of("items_in"), items[0]) * weights.flatten()[:, None]
        before = segment_sum(at, inputs, runs * most) + taken_rows(self.of("users"), rows)
        hidden = torch.sigmoid(before.view(runs, most, -1) + self.of("hidden_bias")[:, None]).flatten(0, 1)
        flat = pair_logits(
            hidden, self.of("items").flatten(0, 1), None, self.of("item_bias").flatten(), None,
            at, rows_in_all(self.of("items"), items),
        )  # fmt: skip
        return flat.view(items.shape)

    def scores(self, users: Tensor, which: Sequence[int]) -> Tensor:
        clicked = {id(self._members[r].clicked) for r in which}
        if len(clicked) > 1:  # logs of their own
            return super().scores(users, which)
        member: Any = self._members[which[0]]
        contents = self.of("items").new_zeros(len(users), self.of("items").shape[1])  # smaller than the scores
        contents.index_put_(member.contents(users), contents.new_ones(()))
        before = torch.matmul(contents, of_some(self.of("items_in"), which))
        before += of_some(self.of("users"), which).index_select(1, users)
        hidden = torch.sigmoid(before + of_some(self.of("hidden_bias"), which)[:, None])
        return all_scores(hidden, of_some(self.of("items"), which), [of_some(self.of("item_bias"), which)])


class CDAE(nn.Module):
    """Wu, DuBois, Zheng & Ester (2016): a node per user, half of the input left out, sigmoid hidden layer.

    It reads rows: a training batch is whole rows, and the clicks of the batch are the rows' contents, so that
    nothing of the size users × items ever exists; what is left out of them is drawn with the batch. It must be
    bound to the training clicks.
    """

    reads_rows = True
    stack_class = CDAEStack
    fixed_item_bias = True
    """Whether it always has an item bias, or never."""
    starts: Tensor
    clicked: Tensor

    def __init__(
        self, n_users: int, n_items: int, dims: int = 32, item_bias: bool = True, init_std: float = INIT_STD
    ) -> None:
        super().__init__()
        self.users = nn.Parameter(torch.empty(n_users, dims).normal_(std=init_std))
        self.items_in = nn.Parameter(torch.empty(n_items, dims).normal_(std=init_std))
        self.hidden_bias = nn.Parameter(torch.zeros(dims))
        self.items = nn.Parameter(torch.empty(n_items, dims).normal_(std=init_std))
        self.item_bias = nn.Parameter(torch.zeros(n_items))
        self.register_buffer("starts", None, persistent=False)
        self.register_buffer("clicked", None, persistent=False)

    def bind(self, starts: Tensor, items: Tensor) -> None:
        self.starts, self.clicked = starts, items

    def encode(self, rows: Tensor, position: Tensor, clicked: Tensor, weights: Tensor | None = None) -> Tensor:
        """Hidden layer of some users, whose clicked items are at their ``position`` in ``rows``."""
        inputs = gather(self.items_in, clicked)
        if weights is not None:
            inputs = inputs * weights[:, None]
        return torch.sigmoid(segment_sum(position, inputs, len(rows)) + gather(self.users, rows) + self.hidden_bias)

    def logits_of_rows(
        self, rows: Tensor, position: Tensor, items: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """A training batch: ``items[0]`` are the contents of the rows, each with its weight; others are not."""
        hidden = gather(self.encode(rows, position, items[0], weights), position)
        return self._decode(hidden, items)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        distinct, position = users.unique(return_inverse=True)  # each row is read once
        return self._decode(gather(self._hidden(distinct), position), items)

    def scores(self, users: Tensor) -> Tensor:
        return torch.addmm(self.item_bias, self._hidden(users), self.items.T)

    def contents(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """The clicks of some users: the position of each in ``users``, and its item."""
        return clicks_of(users, self.starts, self.clicked)

    def _hidden(self, users: Tensor) -> Tensor:
        return self.encode(users, *self.contents(users))

    def _decode(self, hidden: Tensor, items: Tensor) -> Tensor:
        flat = flattened(items)
        products = (hidden * gather(self.items, flat).view(*items.shape, -1)).sum(-1)
        return products + gather(self.item_bias, flat).view(items.shape)

    @torch.no_grad()
    def score_vectors(self) -> tuple[Tensor, Tensor]:
        """Vectors of users and of items whose products are the scores: hidden layers, and the bias as a column."""
        hidden = torch.cat([self._hidden(some) for some in torch.arange(len(self.users)).split(AT_ONCE_USERS)])
        items = torch.cat([self.items, self.item_bias[:, None]], 1)
        return torch.cat([hidden, torch.ones(len(hidden), 1)], 1), items

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> CDAE:
        """The same model for users it has never seen: clicks are encoded with the users' mean node."""
        return with_users(self, users=mean_rows(self.users, len(starts) - 1), starts=starts, clicked=clicked)

    def tables(self) -> list[nn.Parameter]:
        """Tables of which a batch touches a few rows."""
        return [self.users, self.items_in, self.items]

    def item_vectors(self) -> Tensor:
        return self.items
