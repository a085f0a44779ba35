"""Rows for users whom a model has never seen: what is known of the items stays, and each row is found alone.

A row begins at the mean of the trained users' rows. So many steps of Adam move it by the losses of the user's
clicks and of a fixed sample of other items, as in training; a normal distribution, fitted to the trained rows,
holds it. Nothing is drawn from a shared stream, and users do not bear on one another: equal histories give equal
rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from accord.models.recommenders.rows import clicks_of

STEPS, RATE = 30, 0.2
"""Steps, and how far one goes at most, in standard deviations of the trained rows."""
PRIOR = 0.1
"""Half the weight of the distribution of the trained rows. Bayes' rule has 0.5, which held them too fast on
MovieLens-100K."""
OTHERS = 2048
"""Items of the sample."""
AT_ONCE = 256
"""Users whose rows are found together."""
N = TypeVar("N", bound=nn.Module)
Logits = Callable[[Sequence[Tensor], Tensor], Tensor]
"""Log-odds of rows (…, d), one tensor for each table, and items (…), which broadcast."""


def with_users(network: N, **tables: Any) -> N:
    """The same network with other tables; all others are shared with it."""
    other = copy.copy(network)
    other.__dict__.update({name: dict(vars(network)[name]) for name in ("_parameters", "_buffers")})
    for name, value in tables.items():
        own = isinstance(vars(network)["_parameters"].get(name), nn.Parameter)
        setattr(other, name, nn.Parameter(value, requires_grad=False) if own else value)
    return other


def mean_rows(table: Tensor, count: int) -> Tensor:
    """The mean of a table's rows, so many times."""
    return table.detach().mean(0).expand(count, -1).clone()


def learned_rows(
    tables: Sequence[Tensor],
    logits: Logits,
    starts: Tensor,
    clicked: Tensor,
    n_items: int,
    known: Sequence[Tensor] = (),
    others: int = OTHERS,
) -> list[Tensor]:
    """A row of each table for every history; user u's clicks are ``clicked[starts[u]:starts[u + 1]]``.

    ``known`` are tables with a row for each of these users, which ``logits`` gets after those that are learned;
    ``others`` is the size of the sample.
    """
    trained = [(table.detach().mean(0), table.detach().std(0, correction=0)) for table in tables]
    drawn = torch.randperm(n_items, generator=torch.Generator().manual_seed(0))[:others].sort().values
    users = torch.arange(len(starts) - 1)
    found = [
        _found(trained, logits, some, starts, clicked, drawn, [t[some] for t in known])
        for some in users.split(AT_ONCE)
    ]
    if not found:
        return [table.detach()[:0] for table in tables]
    return [torch.cat(each) for each in zip(*found, strict=True)]


def _found(
    trained: Sequence[tuple[Tensor, Tensor]],
    logits: Logits,
    users: Tensor,
    starts: Tensor,
    clicked: Tensor,
    others: Tensor,
    known: Sequence[Tensor],
) -> list[Tensor]:
    position, items = clicks_of(users, starts, clicked)
    clicks = (starts[users + 1] - starts[users]).float()
    free = torch.ones(len(users), len(others))  # a click is no other item
    at = torch.searchsorted(others, items).clamp_(max=len(others) - 1)
    free[position[others[at] == items], at[others[at] == items]] = 0
    share = (clicks / free.sum(1).clamp(min=1))[:, None] * free
    moved = [torch.zeros(len(users), len(mean), requires_grad=True) for mean, _ in trained]
    moments = [(torch.zeros_like(way), torch.zeros_like(way)) for way in moved]
    for step in range(1, STEPS + 1):
        with torch.enable_grad():
            rows = [mean + way * spread for way, (mean, spread) in zip(moved, trained, strict=True)]
            rows += known
            loss = softplus(-logits([row[position] for row in rows], items)).sum()
            loss = loss + (share * softplus(logits([row[:, None] for row in rows], others[None]))).sum()
            loss = loss + PRIOR * sum((way**2).sum() for way in moved)
            gradients = torch.autograd.grad(loss, moved)
        for way, gradient, moment in zip(moved, gradients, moments, strict=True):
            _adam(way.data, gradient, *moment, step)
    return [(mean + way * spread).detach() for way, (mean, spread) in zip(moved, trained, strict=True)]


def _adam(values: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: int) -> None:
    """A step, as torch's optimiser makes it, whose first step in a process loads what takes seconds."""
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    size = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
    values.addcdiv_(mean, size, value=-RATE / (1 - 0.9**step))
