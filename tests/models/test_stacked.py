"""Stacks of networks answer as their members do, with as many operations for many as for one."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from accord.models import CDAE, GMF, MF, LightGCN, NeuMF
from accord.models.stacked import CDAEStack, Stack, stack

USERS, ITEMS, BATCH = 7, 9, 12
CLICKED = torch.stack([torch.arange(USERS), torch.arange(USERS) + 2], 1).flatten().int()
"""Two items of each user."""


def members(kind: type, count: int, item_bias: bool = True) -> list[torch.nn.Module]:
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        network = kind(USERS, ITEMS, dims=4, item_bias=item_bias).double()
        if isinstance(network, LightGCN | CDAE):
            network.bind(torch.arange(USERS + 1) * 2, CLICKED)
        if isinstance(network, LightGCN):
            network.graph, network.back = network.graph.double(), network.back.double()
        made.append(network)
    return made


def pairs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    users = torch.randint(0, USERS, (count, BATCH), generator=generator)
    return users, torch.randint(0, ITEMS, (2, count, BATCH), generator=generator)


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF, LightGCN])
def test_logits_and_gradients_are_the_members_own(kind: type) -> None:
    alone, joined = members(kind, 3), stack(members(kind, 3))
    users, items = pairs(3)
    logits = joined.logits(users, items)
    assert logits.shape == (2, 3, BATCH)
    (logits * torch.arange(1, 4).view(1, 3, 1)).sum().backward()
    for r, network in enumerate(alone):
        own = network.logits(users[r], items[:, r])
        assert torch.allclose(logits[:, r], own)
        ((r + 1) * own).sum().backward()
        for name, parameter in network.named_parameters():
            grad = joined.of(name).grad
            assert grad is not None
            assert torch.allclose(grad[r], parameter.grad), name  # pyright: ignore[reportArgumentType]


def test_members_are_views_and_can_leave() -> None:
    joined = stack(members(GMF, 3))
    with torch.no_grad():
        joined.of("users").add_(1.0)
    assert torch.equal(joined.members[1].users, joined.of("users")[1])
    left = joined.keep([0, 2])
    assert len(joined) == 2
    with torch.no_grad():
        joined.of("users").add_(1.0)
    assert torch.equal(joined.members[1].users, joined.of("users")[1])
    assert not torch.equal(left[0].users, joined.of("users")[0])
    assert torch.allclose(left[0].users + 1.0, members(GMF, 3)[1].users + 2.0)


def rows_of_clicks(count: int) -> tuple[torch.Tensor, ...]:
    """Batches of whole rows of three users each, in another order for every run; the last clicks pad."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.stack([torch.randperm(USERS, generator=generator)[:3] for _ in range(count)])
    position = torch.arange(BATCH).div(4, rounding_mode="floor").expand(count, BATCH)
    weights = torch.randint(0, 2, (count, BATCH), generator=generator).double() * 2
    weights[:, -2:] = 0.0
    return rows, position, torch.randint(0, ITEMS, (2, count, BATCH), generator=generator), weights


def test_rows_and_gradients_are_the_members_own() -> None:
    alone, joined = members(CDAE, 3), stack(members(CDAE, 3))
    assert isinstance(joined, CDAEStack)
    rows, position, items, weights = rows_of_clicks(3)
    logits = joined.logits_of_rows(rows, position, items, weights)
    (logits * torch.arange(1, 4).view(1, 3, 1)).sum().backward()
    for r, network in enumerate(alone):
        own = network.logits_of_rows(rows[r], position[r], items[:, r], weights[r])
        assert torch.allclose(logits[:, r], own)
        ((r + 1) * own).sum().backward()
        for name, parameter in network.named_parameters():
            grad = joined.of(name).grad
            assert grad is not None
            assert torch.allclose(grad[r], parameter.grad), name  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", [MF, GMF, LightGCN, CDAE])
def test_scores_are_the_members_own(kind: type) -> None:
    networks = members(kind, 3)
    joined = stack(networks).eval()
    users = torch.tensor([4, 0, 5])
    for which in ([0, 1, 2], [2, 0]):
        expected = torch.stack([networks[r].scores(users) for r in which])
        assert torch.allclose(joined.scores(users, which), expected)


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(joined: Stack) -> int:
    users, items = pairs(len(joined))
    rows, position, _, weights = rows_of_clicks(len(joined))
    with Counting() as counting:
        if isinstance(joined, CDAEStack):
            joined.logits_of_rows(rows, position, items, weights).sum().backward()
        else:
            joined.logits(users, items).sum().backward()
    return counting.count


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF, LightGCN, CDAE])
def test_many_runs_take_no_more_operations_than_one(kind: type) -> None:
    """But for a few copies, which the order of a single run's memory spares."""
    one, two, many = (operations(stack(members(kind, count))) for count in (1, 2, 16))
    assert many == two
    assert many <= one + 10
