"""MF and GMF against their equations, and their hand-written gradients against autograd's."""

from __future__ import annotations

import pytest
import torch

from accord.models.recommenders import GMF, MF, FactorModel


@pytest.fixture(params=[(MF, False), (MF, True), (GMF, False), (GMF, True)], ids=str)
def model(request: pytest.FixtureRequest) -> FactorModel:
    torch.manual_seed(0)
    kind, bias = request.param
    made = kind(7, 9, dims=4, item_bias=bias).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def plain_logits(model: FactorModel, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """The equation, left to autograd."""
    product = model.users[users] * model.items[items]
    logits = (product if model.weight is None else product * model.weight).sum(-1)
    if model.item_bias is not None:
        logits = logits + model.item_bias[items]
    return logits if model.bias is None else logits + model.bias


@pytest.mark.parametrize("shape", [(6,), (2, 6), (3, 6)])
def test_logits_and_gradients_follow_the_equation(model: FactorModel, shape: tuple[int, ...]) -> None:
    users = torch.tensor([0, 3, 3, 6, 1, 3])  # a user stands more than once in a batch
    items = torch.randint(9, shape)
    weights = torch.randn(shape, dtype=torch.float64)
    fast, slow = model.logits(users, items), plain_logits(model, users, items)
    torch.testing.assert_close(fast, slow)
    parameters = list(model.parameters())
    fast_grads = torch.autograd.grad((fast * weights).sum(), parameters)
    slow_grads = torch.autograd.grad((slow * weights).sum(), parameters)
    for ours, autograds in zip(fast_grads, slow_grads, strict=True):
        torch.testing.assert_close(ours, autograds)


def test_scores_are_the_logits_of_every_item(model: FactorModel) -> None:
    users = torch.tensor([2, 5])
    everything = torch.arange(9)[:, None].expand(9, 2)
    torch.testing.assert_close(model.scores(users), model.logits(users, everything).T)


def test_vectors_reproduce_the_scores_up_to_the_biases(model: FactorModel) -> None:
    product = model.user_vectors() @ model.item_vectors().T
    offset = model.scores(torch.arange(7)) - product
    torch.testing.assert_close(offset, offset[:1].expand_as(offset))
