"""Was a click meant? What can be told from clicks alone, without a single clean label.

A meant click is more likely the better the item suits the user; one that was not meant (a slip, the crowd, a push)
does not ask for taste. So of all who click an item, those who meant it lie high in personal fit, and the others lie
like any user who did not click it. With z the council's log-odds of a pair less the item's mean over users,

    density of z among clicks  =  density among non-clicks of the same items · ((1 − ε) · g(z) + ε),
    g(z) = exp(a · z), scaled to mean 1 among the non-clicks.

ε, the share of clicks that were not meant, and a are smooth functions of the item's popularity: random clicks are a
large share of those on rare items, those that follow the crowd of those on popular ones. They are fitted by maximum
likelihood on clicks that no member has seen. Then P(meant) = (1 − ε) · g / ((1 − ε) · g + ε).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from accord.methods.assembly import FARTHEST

STRATA = 12
"""Groups of items of like popularity, in each of which g has mean 1 among non-clicks."""
RIDGE = 1e-3
"""A small pull of ε's log-odds towards an even chance, where the clicks do not say."""


class Meant(NamedTuple):
    """The fitted mixture: five numbers, and the scale of popularity."""

    theta: Tensor
    centre: float
    spread: float
    low: float
    high: float
    """The range of popularity in which clicks were seen; beyond it the nearest end counts."""

    def of_items(self, popularity: Tensor) -> tuple[Tensor, Tensor]:
        """For items of so many clicks, how steeply fit counts (a), and the log-odds of ε."""
        t = self._scaled(popularity)
        return _slope(self.theta, t), _doubt(self.theta, t)

    def _scaled(self, popularity: Tensor) -> Tensor:
        t = (torch.log1p(popularity.double()) - self.centre) / self.spread
        return t.clamp(self.low, self.high)


def fit_meant(clicks: Tensor, others: Tensor, click_popularity: Tensor, other_popularity: Tensor) -> Meant:
    """Fit the mixture to the fit z of clicks and of non-clicks of the same items, given the items' popularity."""
    logs = torch.log1p(click_popularity.double())
    centre, spread = float(logs.mean()), float(logs.std(correction=0).clamp(min=1e-6))
    seen = (logs - centre) / spread
    low, high = (float(seen.quantile(q)) for q in (0.01, 0.99))
    made = Meant(torch.zeros(5), centre, spread, low, high)
    t, u = made._scaled(click_popularity), made._scaled(other_popularity)
    edges = t.quantile(torch.linspace(0, 1, STRATA + 1, dtype=torch.float64)[1:-1])
    of_clicks, of_others = torch.bucketize(t, edges), torch.bucketize(u, edges)
    count = torch.bincount(of_others, minlength=STRATA).clamp(min=1)
    z, far = clicks.double(), others.double()

    def loss(theta: Tensor) -> Tensor:
        exponents = (_slope(theta, u) * far).clamp(-FARTHEST, FARTHEST)
        total = torch.zeros(STRATA, dtype=torch.float64).index_add(0, of_others, exponents.exp())
        scale = (total / count).clamp(min=1e-30).log()[of_clicks]
        own = (_slope(theta, t) * z).clamp(-FARTHEST, FARTHEST) - scale
        doubt = _doubt(theta, t)
        mixed = torch.logaddexp(torch.nn.functional.logsigmoid(-doubt) + own, torch.nn.functional.logsigmoid(doubt))
        return -mixed.mean() + RIDGE * (theta[:3] ** 2).sum()

    found = []
    for start in (-1.0, -3.0):
        theta = torch.tensor([start, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([theta], max_iter=100, line_search_fn="strong_wolfe")

        def closure(theta: Tensor = theta, optimiser: torch.optim.LBFGS = optimiser) -> Tensor:
            optimiser.zero_grad()
            value = loss(theta)
            value.backward()
            return value

        optimiser.step(closure)  # pyright: ignore[reportArgumentType]
        with torch.no_grad():
            found.append((float(loss(theta)), theta.detach()))
    return made._replace(theta=min(found, key=lambda one: one[0])[1])


def scale_of(fits: Tensor, slope: Tensor) -> Tensor:
    """The logarithm of the mean of exp(a · z) over users (users, items), for each item."""
    return ((slope * fits).clamp(-FARTHEST, FARTHEST).exp().mean(0)).clamp(min=1e-30).log()


def _doubt(theta: Tensor, t: Tensor) -> Tensor:
    return theta[0] + theta[1] * t + theta[2] * t**2


def _slope(theta: Tensor, t: Tensor) -> Tensor:
    return (theta[3] + theta[4] * t).clamp(-5, 5).exp()
