"""Stacks of networks answer as their members do, with as many operations for many as for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from accord.errors import SettingError
from accord.models.classifiers import MLP, ConvNet, NoiseModel, WeightNet
from accord.models.recommenders import CDAE, GMF, MF, LightGCN, NeuMF, lightgcn
from accord.models.recommenders.cdae import CDAEStack
from accord.models.stack import DenseStack, JoinedStack, Single, as_stack, stack
from accord.objectives import multiclass

USERS, ITEMS, BATCH = 7, 9, 12
CLICKED = torch.stack([torch.arange(USERS), torch.arange(USERS) + 2], 1).flatten().int()
"""Two items of each user."""
RUNS = [1, 3]


def members(kind: type, count: int, item_bias: bool = True) -> list[Any]:
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


def pairs(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    users = torch.randint(0, USERS, (count, BATCH), generator=generator)
    return users, torch.randint(0, ITEMS, (2, count, BATCH), generator=generator)


def gradient(joined: Any, run: int, name: str) -> Tensor:
    """A member's gradient, in its stack."""
    if isinstance(joined, Single):
        found = joined.module.get_parameter(name).grad
    else:
        whole = joined.of(name).grad
        found = None if whole is None else whole[run]
    assert found is not None, name
    return found


def same_gradients(joined: Any, alone: list[Any]) -> None:
    for r, network in enumerate(alone):
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(gradient(joined, r, name), parameter.grad, msg=name)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("item_bias", [True, False])
@pytest.mark.parametrize("kind", [MF, GMF, NeuMF, LightGCN])
def test_logits_and_gradients_are_the_members_own(kind: type, item_bias: bool, runs: int) -> None:
    alone, joined = members(kind, runs, item_bias), stack(members(kind, runs, item_bias))
    assert isinstance(joined, Single) == (runs == 1)
    users, items = pairs(runs)
    logits = joined.logits(users, items)
    assert logits.shape == (2, runs, BATCH)
    (logits * torch.arange(1, runs + 1).view(1, runs, 1)).sum().backward()
    for r, network in enumerate(alone):
        own = network.logits(users[r], items[:, r])
        assert torch.allclose(logits[:, r], own)
        ((r + 1) * own).sum().backward()
    same_gradients(joined, alone)


def test_members_are_views_and_can_leave() -> None:
    joined = stack(members(GMF, 3))
    assert isinstance(joined, JoinedStack)
    with torch.no_grad():
        joined.of("users").add_(1.0)
    networks: list[Any] = joined.networks
    assert torch.equal(networks[1].users, joined.of("users")[1])
    joined.keep([0, 2])
    assert len(joined) == 2
    with torch.no_grad():
        joined.of("users").add_(1.0)
    assert torch.equal(networks[2].users, joined.of("users")[1])
    assert torch.allclose(networks[1].users, members(GMF, 3)[1].users + 1.0)
    joined.rejoin()
    assert len(joined) == 3
    for r, more in enumerate((2.0, 1.0, 2.0)):
        assert torch.allclose(joined.of("users")[r], members(GMF, 3)[r].users + more)
        assert torch.equal(networks[r].users, joined.of("users")[r])
    joined.dissolve()
    assert len(joined) == 0
    assert [len(one.users) for one in networks] == [USERS] * 3


def test_what_is_computed_of_members_is_forgotten_when_they_change() -> None:
    joined, made = stack(members(MF, 2)).eval(), iter(range(9))
    assert isinstance(joined, JoinedStack)
    first = joined.cached("number", lambda: next(made))
    assert joined.cached("number", lambda: next(made)) == first
    joined.keep([1])
    assert joined.cached("number", lambda: next(made)) == first + 1
    joined.train()
    assert joined.cached("number", lambda: next(made)) != joined.cached("number", lambda: next(made))


@pytest.mark.parametrize("runs", RUNS)
def test_a_member_with_a_number_that_is_not_finite_is_found(runs: int) -> None:
    for kind in (MF, NeuMF):
        joined = stack(members(kind, runs))
        assert joined.finite().tolist() == [True] * runs
        last: Any = joined.networks[-1]
        last.items.data[3, 2] = float("inf")
        assert joined.finite().tolist() == [True] * (runs - 1) + [False]


def rows_of_clicks(count: int) -> tuple[Tensor, ...]:
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
    same_gradients(joined, alone)


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF, LightGCN, CDAE])
def test_scores_are_the_members_own(kind: type) -> None:
    networks = members(kind, 3)
    joined: Any = stack(networks).eval()
    users = torch.tensor([4, 0, 5])
    for which in ([0, 1, 2], [2, 0]):
        expected = torch.stack([networks[r].scores(users) for r in which])
        assert torch.allclose(joined.scores(users, which), expected)
    (alone,) = members(kind, 1)
    single: Any = stack([alone.eval()])
    assert torch.equal(single.scores(users, [0])[0], alone.scores(users))


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(make: Callable[[], Tensor]) -> int:
    with Counting() as counting:
        make().backward()
    return counting.count


@pytest.mark.parametrize("kind", [MF, GMF, NeuMF, LightGCN, CDAE])
def test_many_runs_take_no_more_operations_than_two(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """And but for a few copies, which the order of a single run's memory spares, no more than one in a stack.

    The product with a graph is one launch on a GPU; without one torch multiplies run by run, which is faster than
    laying the runs next to one another.
    """
    monkeypatch.setattr(lightgcn, "spmm", lambda graph, dense, base, scale=1: base + dense.sum(1, True))

    def count(runs: int) -> int:
        joined: Any = kind.stack_class(members(kind, runs))  # pyright: ignore[reportAttributeAccessIssue]
        users, items = pairs(runs)
        rows, position, _, weights = rows_of_clicks(runs)
        if isinstance(joined, CDAEStack):
            return operations(lambda: joined.logits_of_rows(rows, position, items, weights).sum())
        return operations(lambda: joined.logits(users, items).sum())

    one, two, many = (count(runs) for runs in (1, 2, 16))
    assert many == two
    assert many <= one + 10


# -- dense layers ------------------------------------------------------------------------------------------


def perceptrons(count: int) -> tuple[list[Any], list[Any]]:
    networks, noise = [], []
    for seed in range(count):
        torch.manual_seed(seed)
        networks.append(MLP((5,), 3, width=6).double())
        noise.append(NoiseModel(6, 3).double())
    return networks, noise


def labelled(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(count, BATCH, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, 3, (count, BATCH), generator=generator)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_perceptrons_and_noise_models_answer_as_their_members_do(runs: int) -> None:
    """Two runs too: features of two numbers, or two classes, must not be taken for runs."""
    networks, noise = perceptrons(runs)
    joined: Any = stack(perceptrons(runs)[0])
    joined_noise: Any = stack(perceptrons(runs)[1])
    assert isinstance(joined, Single if runs == 1 else DenseStack)
    assert isinstance(joined_noise, Single if runs == 1 else DenseStack)
    inputs, labels = labelled(runs)
    features, logits = joined.outputs(inputs)
    k, some = torch.tensor(1), torch.tensor([[0, 2], [1, 1]] * (BATCH // 2)).expand(runs, BATCH, 2)
    rows, costs = joined_noise(features, k), joined_noise.call("costs", features, labels, None)
    some_costs = joined_noise.call("costs", features, labels, some)
    assert torch.equal(joined(inputs), logits)
    (logits.sum((1, 2)) + rows.sum((1, 2))).sum().backward()
    for r in range(runs):
        own_features, own_logits = networks[r].outputs(inputs[r])
        own_rows = noise[r](own_features, k)
        torch.testing.assert_close(features[r], own_features)
        torch.testing.assert_close(logits[r], own_logits)
        torch.testing.assert_close(rows[r], own_rows)
        torch.testing.assert_close(costs[r], noise[r].costs(own_features, labels[r]))
        torch.testing.assert_close(some_costs[r], noise[r].costs(own_features, labels[r], some[r]))
        (own_logits.sum() + own_rows.sum()).backward()
    same_gradients(joined, networks)
    same_gradients(joined_noise, noise)


@pytest.mark.parametrize("runs", RUNS)
def test_weight_nets_answer_as_their_members_do(runs: int) -> None:
    def networks() -> list[Any]:
        made = []
        for seed in range(runs):
            torch.manual_seed(seed)
            made.append(WeightNet(7).double())
        return made

    alone, joined = networks(), stack(networks())
    losses = torch.rand(runs, BATCH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = joined(losses)
    weights.sum().backward()
    for r, network in enumerate(alone):
        own = network(losses[r])
        torch.testing.assert_close(weights[r], own)
        own.sum().backward()
    same_gradients(joined, alone)


@pytest.mark.parametrize("runs", RUNS)
def test_forward_derivatives_are_the_members_own(runs: int) -> None:
    """What MW-Net's weights learn from."""
    networks, _ = perceptrons(runs)
    joined: Any = stack(perceptrons(runs)[0])
    inputs, labels = labelled(runs)
    generator = torch.Generator().manual_seed(3)
    along = {n: torch.randn(p.shape, generator=generator, dtype=p.dtype) for n, p in joined.named_parameters()}

    def tangent(network: nn.Module, inputs: Tensor, labels: Tensor, along: dict[str, Tensor]) -> Tensor:
        with torch.no_grad(), forward_ad.dual_level():
            moving = {n: forward_ad.make_dual(p.detach(), along[n]) for n, p in network.named_parameters()}
            losses = multiclass.cross_entropy(functional_call(network, moving, (inputs,)), labels)
            return forward_ad.unpack_dual(losses).tangent  # pyright: ignore[reportReturnType]

    found = tangent(joined, inputs, labels, along)
    assert found.shape == (runs, BATCH)
    for r, network in enumerate(networks):
        if runs == 1:
            own = {name.removeprefix("module."): one for name, one in along.items()}
        else:
            own = {name: along[name.replace(".", "_")][r] for name, _ in network.named_parameters()}
        torch.testing.assert_close(found[r], tangent(network, inputs[r], labels[r], own))


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
        joined, noise = (DenseStack(each) for each in perceptrons(runs))
        inputs, labels = labelled(runs)
        k = torch.tensor(0)

        def loss() -> Tensor:
            features, logits = joined.outputs(inputs)
            cost = -noise(features, k).gather(-1, labels[..., None]).squeeze(-1)
            costs = noise.call("costs", features, labels)
            return multiclass.stage_two(logits, cost, costs, labels, k, full=False).sum()

        return operations(loss)

    one, two, many = (count(runs) for runs in (1, 2, 16))
    assert many == two
    assert many <= one + 10


# -- stacks of one -----------------------------------------------------------------------------------------


def test_a_module_alone_is_a_stack_of_one() -> None:
    network = ConvNet((1, 8, 8), 3, width=6)
    single = as_stack(network)
    assert isinstance(single, Single)
    assert as_stack(single) is single
    assert single.networks == [network]
    single.keep([])
    single.rejoin()
    assert len(single) == 1
    inputs = torch.randn(1, 4, 1, 8, 8)
    single.eval()
    features, logits = single.outputs(inputs)
    assert torch.equal(logits[0], network(inputs[0]))
    assert torch.equal(features[0], network.features(inputs[0]))
    assert torch.equal(single(inputs), logits)


def test_what_a_module_keeps_of_itself_are_its_buffers_too() -> None:
    network = ConvNet((1, 8, 8), 3, width=6)
    kept = [tensor.clone() for tensor in Single(network).tensors()]
    network.train()(torch.randn(4, 1, 8, 8))  # batch norm has seen examples
    mean: Any = network.convolutions[1].running_mean
    assert mean.abs().max() > 0
    for now, before in zip(Single(network).tensors(), kept, strict=True):
        now.copy_(before)
    assert mean.abs().max() == 0


def test_what_has_no_stack_is_refused() -> None:
    with pytest.raises(SettingError, match="A ConvNet cannot be trained in a stack"):
        stack([ConvNet((1, 8, 8), 3) for _ in range(2)])
