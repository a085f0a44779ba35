"""What a recommender can be exported as: vectors whose products are its scores, and a program of torch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from accord.methods.assembly import Together
from accord.methods.ensemble import Members
from accord.models.recommenders.programs import Asked, FromVectors, Several

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender


class Served(nn.Module):
    """A program that gives users without a training click the items with most clicks, as the recommender does."""

    cold: Tensor
    popularity: Tensor

    def __init__(self, program: nn.Module, cold: Tensor, popularity: Tensor) -> None:
        super().__init__()
        self.program = program
        self.register_buffer("cold", cold)
        self.register_buffer("popularity", popularity)

    def forward(self, users: Tensor, histories: Tensor) -> Tensor:
        return torch.where(self.cold[users][:, None], self.popularity, self.program(users, histories))


def vectors_of(rec: Recommender) -> tuple[Tensor, Tensor] | None:
    """Vectors of users and of items whose products are the scores of `recommend`; None where there are none."""
    target = rec._target
    if not hasattr(target, "score_vectors"):
        return None
    users, items = (table.detach().cpu() for table in target.score_vectors())
    cold, popularity = cold_users(rec)
    if not bool(cold.any()):
        return users, items
    warm = (~cold).float()[:, None]  # one more column: popularity, which users without a click have alone
    return torch.cat([users * warm, 1 - warm], 1), torch.cat([items, popularity[:, None]], 1)


def cold_users(rec: Recommender) -> tuple[Tensor, Tensor]:
    """Which users are ranked for by popularity (U,), and the scores of the items by it."""
    training = rec._training()
    cold = training.degrees == 0
    if rec.settings.cold_users == "model":
        cold = torch.zeros_like(cold)
    return cold, torch.log1p(training.popularity.float())


def program_of(rec: Recommender) -> nn.Module:
    """The recommender as a module with ``forward(users, histories)``."""
    vectors = vectors_of(rec)
    if vectors is not None:
        return FromVectors(*vectors)
    program = _program(rec._target)
    cold, popularity = cold_users(rec)
    return Served(program, cold, popularity) if bool(cold.any()) else program


def _program(network: Any) -> nn.Module:
    if hasattr(network, "program"):
        return network.program()
    if hasattr(network, "score_vectors"):
        return FromVectors(*network.score_vectors())
    if isinstance(network, Members):
        return Several([_program(one) for one in network.members], network.average)
    if isinstance(network, Together):
        numbers = network.head.numbers()
        join = partial(network.head.joined, numbers=numbers)
        return Several([_program(one) for one in network.members], join)
    return Asked(network, network.scores)
