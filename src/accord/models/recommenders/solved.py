"""Recommenders that are computed from the clicks, with no gradient; what they share.

Such a model is bound to the training clicks and solved in sweeps (`solve`). It gives an affinity to pairs, on any
scale that ranks the items of a user. Affinities are sums over a user's clicks, so those of users with many clicks
are larger: they are divided by the root of the clicks. (Of MovieLens-100K with 30 % random clicks, EASE then finds
the false ones with a ROC-AUC of .915, and with .802 without.) Two numbers, fitted by logistic regression of clicks
against as many non-clicks of the same users, turn them into log-odds, as every other model gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from accord.models.recommenders.newcomers import with_users
from accord.models.recommenders.popularity import appeal_of
from accord.ranks.group import ALONE, Ranks, divided_by

ROUNDS = 50
"""Most rounds of Newton's method; some ten are enough."""
RIDGE = 1e-4
"""A small pull of the scale towards zero, so that it is finite where affinities separate clicks from others."""
CONSTANT = 1e-12
"""Affinities that differ by less than this share of them are all the same."""
PAIRS_AT_ONCE = 1 << 16
"""Pairs whose affinities are computed at a time when a model is brought to log-odds."""


class SolvedModel(nn.Module):
    """A model that is solved. A subclass adds `solve`, `affinity` and `affinities`.

    Users without a training click are scored by item popularity: no row of theirs says anything.
    """

    scale: Tensor
    offset: Tensor
    starts: Tensor
    clicked: Tensor
    appeal: Tensor
    ranks: Ranks
    """Those that solve it together, each bound to the clicks of its own users; alone it has all of them."""
    sweeps: ClassVar[int | None] = 1
    """The most sweeps; None for as many as the setting ``epochs`` says."""
    divided_tables: ClassVar[bool] = False
    """Whether each of several ranks holds its own rows of the tables, not all of them."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.n_users, self.n_items = n_users, n_items
        self.ranks = divided_by() or ALONE
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(()))
        for name in ("starts", "clicked", "appeal"):
            self.register_buffer(name, None, persistent=False)

    def bind(self, starts: Tensor, items: Tensor) -> None:
        """The training clicks: user u's are ``items[starts[u]:starts[u + 1]]``, each once."""
        self.starts, self.clicked = starts, items
        self.appeal = appeal_of(items, self.n_items)

    def for_newcomers(self, starts: Tensor, clicked: Tensor) -> SolvedModel:
        """The same model for users it has never seen, by their clicks."""
        return with_users(self, starts=starts, clicked=clicked)

    def solve(self, sweep: int) -> Iterator[float]:
        """One sweep; gives the share that is done. The model changes at the end of the sweep, all at once."""
        raise NotImplementedError

    def affinity(self, users: Tensor, items: Tensor) -> Tensor:
        """Of pairs (P,). That of a training click does not count the click itself, where the model can do so."""
        raise NotImplementedError

    def affinities(self, users: Tensor) -> Tensor:
        """Of some users with every item: (B, number of items)."""
        raise NotImplementedError

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(users.shape, items.shape)
        users, items = users.expand(shape).reshape(-1), items.expand(shape).reshape(-1)
        clicks = self._clicks(users)
        logits = self.affinity(users, items) * (self.scale * _damping(clicks)) + self.offset
        return torch.where(clicks == 0, self.appeal[items], logits).view(shape)

    def scores(self, users: Tensor) -> Tensor:
        clicks = self._clicks(users)
        scores = self.affinities(users).mul_((self.scale * _damping(clicks))[:, None]).add_(self.offset)
        cold = clicks == 0
        return torch.where(cold[:, None], self.appeal, scores) if bool(cold.any()) else scores

    def _clicks(self, users: Tensor) -> Tensor:
        """How many each user has."""
        return self.starts[users + 1] - self.starts[users]

    def calibrate(self, users: Tensor, clicked: Tensor, unclicked: Tensor) -> float:
        """Fit the scale and the offset; gives the loss, as of a model that learns: of clicks plus of non-clicks."""
        damping = _damping(self._clicks(users)).double()
        affinities = []
        for items in (clicked, unclicked):
            pairs = zip(users.split(PAIRS_AT_ONCE), items.split(PAIRS_AT_ONCE), strict=True)
            own = damping * torch.cat([self.affinity(*some) for some in pairs])
            affinities.append(self.ranks.joined_rows(own))
        scale, offset, loss = logistic_fit(*affinities)
        self.scale.fill_(scale)
        self.offset.fill_(offset)
        return loss

    def check_loaded(self) -> None:
        """Refuse what no training can have made, with a ValueError."""
        if not float(self.scale) > 0:
            raise ValueError("the scale of the log-odds is not positive")


def _damping(clicks: Tensor) -> Tensor:
    """What the affinities of users with so many clicks are multiplied by."""
    return clicks.clamp(min=1).float().rsqrt()


def logistic_fit(clicks: Tensor, others: Tensor) -> tuple[float, float, float]:
    """Scale > 0 and offset so that sigmoid(scale · x + offset) is the chance of a click, and the loss: the mean of
    the clicks plus the mean of the others. Newton's method, on affinities of mean 0 and deviation 1."""
    x = torch.cat([clicks, others])
    y = torch.cat([torch.ones_like(clicks), torch.zeros_like(others)])
    mean, spread = x.mean(), x.std(correction=0)
    if float(spread) <= CONSTANT * float(x.abs().max()):  # all the same: nothing says how large a difference is
        spread = torch.ones_like(spread)
    features = torch.stack([(x - mean) / spread, torch.ones_like(x)], 1)
    ridge = RIDGE * len(x) * torch.diag(features.new_tensor([1.0, 0.0]))
    theta = features.new_zeros(2)
    for _ in range(ROUNDS):
        p = torch.sigmoid(features @ theta)
        curvature = (features * (p * (1 - p)).clamp(min=1e-12)[:, None]).T @ features + ridge
        step = torch.linalg.solve(curvature, features.T @ (y - p) - ridge @ theta)
        theta = theta + step.clamp(-2, 2)
        if float(step.abs().max()) < 1e-10:
            break
    slope = theta[0].clamp(min=1e-6)  # the ranking stays, whatever the clicks say
    logits = slope * features[:, 0] + theta[1]
    losses = nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
    loss = losses[: len(clicks)].mean() + losses[len(clicks) :].mean()
    scale = float(slope / spread)
    return scale, float(theta[1] - slope * mean / spread), float(loss)
