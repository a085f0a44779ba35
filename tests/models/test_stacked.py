"""Stacks of networks answer as their members do, with as many operations for many as for one."""

from __future__ import annotations

import pytest
import torch
from accord.models.noise_model import NoiseModel
from accord.models.stacked import CDAEStack, MLPStack, NoiseStack, Stack, stack
from accord.models.vision import MLP
from torch.utils._python_dispatch import TorchDispatchMode

from accord.data.interactions import StackedBatch
from accord.models import CDAE, GMF, MF, LightGCN, NeuMF, lightgcn
from accord.objectives import multiclass

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
            network.graph, network.back, network.steps = (one.double() for one in network.graphs())
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


@pytest.mark.parametrize("kind", [MF, LightGCN])
def test_one_of_those_that_are_alike_answers_for_all(kind: type) -> None:
    """By place, whoever leaves: the first of a group, or a whole group."""
    twins = members(kind, 2)
    joined = stack([*members(kind, 2), *members(kind, 2)][:3]).eval()  # the third is as the first
    users, items = pairs(2)
    batch = StackedBatch(users[[0, 1, 0]], items[:, [0, 1, 0]], torch.zeros(2, 1, 1))
    own = [network.eval().logits(users[r], items[:, r]) for r, network in enumerate(twins)]
    joined.stand_for([[0, 2], [1]])
    assert len(joined) == 2
    assert torch.allclose(batch.frozen_logits(joined), torch.stack([own[0], own[1], own[0]], 1))
    joined.keep([1, 2])
    assert len(joined) == 2
    later = batch.of_runs(torch.tensor([1, 2]))
    assert torch.allclose(later.frozen_logits(joined), torch.stack([own[1], own[0]], 1))
    joined.keep([1])
    assert len(joined) == 1
    assert torch.allclose(later.of_runs(torch.tensor([1])).frozen_logits(joined), own[0][:, None])
    joined.rejoin()
    assert len(joined) == 3
    assert torch.allclose(batch.frozen_logits(joined), torch.stack([own[0], own[1], own[0]], 1))


def test_what_is_made_of_members_is_forgotten_when_they_change() -> None:
    joined, made = stack(members(MF, 2)).eval(), iter(range(9))
    first = joined.made_once("number", lambda: next(made))
    assert joined.made_once("number", lambda: next(made)) == first
    joined.keep([1])
    assert joined.made_once("number", lambda: next(made)) == first + 1
    joined.train()
    assert joined.made_once("number", lambda: next(made)) != joined.made_once("number", lambda: next(made))


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
def test_many_runs_take_no_more_operations_than_one(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a few copies, which the order of a single run's memory spares.

    The product with a graph is one launch on a GPU; without one torch multiplies run by run, which is faster than
    laying the runs side by side.
    """
    monkeypatch.setattr(lightgcn, "spmm", lambda graph, dense, base, scale=1: base + dense.sum(1, True))
    one, two, many = (operations(stack(members(kind, count))) for count in (1, 2, 16))
    assert many == two
    assert many <= one + 10


def perceptrons(count: int) -> tuple[list[MLP], list[NoiseModel]]:
    networks, noise = [], []
    for seed in range(count):
        torch.manual_seed(seed)
        networks.append(MLP((5,), 3, width=6).double())
        noise.append(NoiseModel(6, 3).double())
    return networks, noise


def labelled(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(count, BATCH, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, 3, (count, BATCH), generator=generator)


def test_perceptrons_and_noise_models_answer_as_their_members_do() -> None:
    networks, noise = perceptrons(3)
    joined, joined_noise = stack(perceptrons(3)[0]), stack(perceptrons(3)[1])
    assert isinstance(joined, MLPStack)
    assert isinstance(joined_noise, NoiseStack)
    inputs, labels = labelled(3)
    features, logits = joined.outputs(inputs)
    k = torch.tensor(1)
    rows, costs = joined_noise(features, k), joined_noise.costs(features, labels)
    (logits.sum((1, 2)) + rows.sum((1, 2))).sum().backward()
    for r in range(3):
        own_features, own_logits = networks[r].outputs(inputs[r])
        own_rows = noise[r](own_features, k)
        torch.testing.assert_close(features[r], own_features)
        torch.testing.assert_close(logits[r], own_logits)
        torch.testing.assert_close(rows[r], own_rows)
        torch.testing.assert_close(costs[r], noise[r].costs(own_features, labels[r]))
        (own_logits.sum() + own_rows.sum()).backward()
        for whole, one in ((joined, networks[r]), (joined_noise, noise[r])):
            for name, parameter in one.named_parameters():
                torch.testing.assert_close(whole.of(name).grad[r], parameter.grad)  # pyright: ignore


@pytest.mark.parametrize("full", [False, True])
def test_multi_class_terms_of_many_runs_are_those_of_each(full: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    f, q, costs = (torch.randn(4, BATCH, 3, generator=generator, dtype=torch.float64) for _ in range(3))
    _, labels = labelled(4)
    cost, k = costs[..., 0].abs(), torch.tensor(2)
    c1, c2 = (torch.rand(4, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    together = {
        "cross entropy": multiclass.cross_entropy(f, labels),
        "agreement": multiclass.agreement(f, q, 0.3),
        "first stage": multiclass.stage_one(f, cost, labels, k, c1, c2),
        "second stage": multiclass.stage_two(f, cost, costs, labels, k, full=full),
        "quality": multiclass.label_quality(f, labels),
    }
    for r in range(4):
        own = (f[r], cost[r], costs[r], labels[r])
        alone = {
            "cross entropy": multiclass.cross_entropy(f[r], labels[r]),
            "agreement": multiclass.agreement(f[r], q[r], 0.3),
            "first stage": multiclass.stage_one(f[r], cost[r], labels[r], k, float(c1[r]), float(c2[r])),
            "second stage": multiclass.stage_two(*own, k, full=full),
            "quality": multiclass.label_quality(f[r], labels[r]),
        }
        for name, value in alone.items():
            torch.testing.assert_close(together[name][r], value, msg=name)


def test_a_step_of_many_perceptrons_takes_no_more_operations_than_one() -> None:
    def count(runs: int) -> int:
        joined, noise = (stack(members) for members in perceptrons(runs))
        inputs, labels = labelled(runs)
        with Counting() as counting:
            features, logits = joined.outputs(inputs)  # pyright: ignore[reportCallIssue]
            k = torch.tensor(0)
            cost = -noise(features, k).gather(-1, labels[..., None]).squeeze(-1)
            costs = noise.costs(features, labels)  # pyright: ignore[reportCallIssue]
            multiclass.stage_two(logits, cost, costs, labels, k, full=False).sum().backward()
        return counting.count

    one, two, many = (count(runs) for runs in (1, 2, 16))
    assert many == two
    assert many <= one + 10
