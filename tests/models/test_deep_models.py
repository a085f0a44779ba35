"""NeuMF, LightGCN, CDAE and popularity against plain, dense implementations."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from accord import Recommender
from accord.batches.clicks import ClickBatch, ClickFeed
from accord.data.interactions import Interactions
from accord.estimators.settings import make_settings
from accord.methods import Setup, method_of
from accord.models.recommenders import CDAE, LightGCN, NeuMF, Popularity, lightgcn
from accord.models.stack import Single
from accord.objectives import binary
from accord.training import Run, TrainingOptions, training

USERS, ITEMS = 8, 11


@pytest.fixture
def clicks() -> Interactions:
    pairs = np.unique(np.random.default_rng(1).integers(0, USERS * ITEMS, 30))
    return Interactions.from_pairs(pairs // ITEMS, pairs % ITEMS, USERS, ITEMS)


def row_batches(clicks: Interactions, seed: int) -> list[ClickBatch]:
    return list(ClickFeed([clicks], 6, True, False).epoch([torch.Generator().manual_seed(seed)]))


def dense(clicks: Interactions) -> torch.Tensor:
    matrix = torch.zeros(USERS, ITEMS, dtype=torch.float64)
    matrix[clicks.users.long(), clicks.items.long()] = 1
    return matrix


def made(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


def plain_neumf(model: NeuMF, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """The equation, pair by pair, with the two embeddings side by side."""
    users, items = torch.broadcast_tensors(users, items)
    side_by_side = torch.cat([model.mlp_users[users], model.mlp_items[items]], -1)
    deep = F.relu(model.third(F.relu(model.second(F.relu(model.first(side_by_side))))))
    logits = model.out(torch.cat([model.users[users] * model.items[items], deep], -1)).squeeze(-1)
    return logits if model.item_bias is None else logits + model.item_bias[items]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [3, 40])
def test_neumf_is_the_plain_one(bias: bool, size: int) -> None:
    model = made(NeuMF(USERS, ITEMS, dims=4, item_bias=bias))
    assert isinstance(model, NeuMF)
    users, items = torch.randint(USERS, (size,)), torch.randint(ITEMS, (2, size))
    fast, slow = model.logits(users, items), plain_neumf(model, users, items)
    torch.testing.assert_close(fast, slow)
    weights = torch.randn_like(fast)
    parameters = list(model.parameters())
    for ours, autograds in zip(
        torch.autograd.grad((fast * weights).sum(), parameters),
        torch.autograd.grad((slow * weights).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, autograds)
    everything = torch.arange(ITEMS)[:, None].expand(ITEMS, USERS)
    torch.testing.assert_close(model.scores(torch.arange(USERS)), model.logits(torch.arange(USERS), everything).T)


def test_neumf_has_the_papers_sizes() -> None:
    model = NeuMF(5, 6)
    shapes = [tuple(layer.weight.shape) for layer in (model.first, model.second, model.third, model.out)]
    assert shapes == [(128, 256), (64, 128), (32, 64), (1, 64)]


@pytest.mark.parametrize("by_steps", [False, True])
def test_lightgcn_is_the_dense_product(
    by_steps: bool, clicks: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Propagation by the whole (users + items)² normalised adjacency, as in the LightGCN paper's Eq. 8."""
    monkeypatch.setattr(lightgcn, "PAIRS", 10**6 if by_steps else 0)
    monkeypatch.setattr(lightgcn, "ROW", 10**6)
    model = LightGCN(USERS, ITEMS, dims=5)
    model.bind(clicks.starts, clicks.items)
    assert (model.steps is not None) == by_steps
    rates = dense(clicks).float()
    adjacency = torch.zeros(USERS + ITEMS, USERS + ITEMS)
    adjacency[:USERS, USERS:], adjacency[USERS:, :USERS] = rates, rates.T
    degree = adjacency.sum(1).clamp(min=1e-9)
    normal = adjacency * degree.rsqrt()[:, None] * degree.rsqrt()[None]
    normal[adjacency == 0] = 0
    start = torch.cat([model.users, model.items])
    layers = [start, normal @ start, normal @ normal @ start, normal @ normal @ normal @ start]
    final = torch.stack(layers).mean(0)
    expected = final[:USERS] @ final[USERS:].T
    users, items = torch.arange(USERS), torch.randint(ITEMS, (2, USERS))
    torch.testing.assert_close(model.logits(users, items), expected[users, items], rtol=1e-4, atol=1e-6)
    weights = torch.randn(2, USERS)
    ours = torch.autograd.grad((model.logits(users, items) * weights).sum(), [model.users, model.items])
    autograds = torch.autograd.grad((expected[users, items] * weights).sum(), [model.users, model.items])
    for mine, theirs in zip(ours, autograds, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model.eval().scores(users), expected, rtol=1e-4, atol=1e-6)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**81 - 1), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_lightgcn_in_steps_on_the_smaller_side_is_the_same(users: int, items: int, clicked: int, runs: int) -> None:
    """Whichever side that is, with users and items that have no click at all."""
    pairs = np.array([k for k in range(users * items) if clicked >> k & 1], np.int64)
    clicks = Interactions.from_pairs(pairs // items, pairs % items, users, items)
    model = LightGCN(users, items, dims=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightgcn, "PAIRS", 10**6)
        patch.setattr(lightgcn, "ROW", 10**6)
        model.bind(clicks.starts, clicks.items)
    graph, back, steps = model.graphs()
    assert steps is not None
    assert len(steps) == min(users, items)
    vectors = torch.randn(runs, users, 2), torch.randn(runs, items, 2)
    for ours, theirs in zip(
        lightgcn.propagate(*vectors, graph, back, steps), lightgcn.propagate(*vectors, graph, back), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_lightgcn_goes_in_steps_where_these_are_less_work() -> None:
    """Many users of few clicks each: yes. Where everybody shares an item with most others: no."""
    rng = np.random.default_rng(0)

    def steps_of(users: int, items: int, clicks: int) -> torch.Tensor | None:
        pairs = np.unique(rng.integers(0, users * items, clicks))
        data = Interactions.from_pairs(pairs // items, pairs % items, users, items)
        model = LightGCN(users, items, dims=2)
        model.bind(data.starts, data.items)
        return model.steps

    sparse = steps_of(2000, 50, 4000)
    assert sparse is not None
    assert len(sparse) == 50
    other = steps_of(50, 2000, 4000)
    assert other is not None
    assert len(other) == 50  # from user to user
    assert steps_of(300, 400, 4000) is None


def test_networks_of_the_same_clicks_share_their_graphs(clicks: Interactions) -> None:
    one, other, longer = LightGCN(USERS, ITEMS), LightGCN(USERS, ITEMS), LightGCN(USERS + 1, ITEMS)
    for model in (one, other):
        model.bind(clicks.starts, clicks.items)
    assert one.graph is other.graph
    assert one.back is other.back
    more = torch.cat([clicks.starts, clicks.starts[-1:]])
    longer.bind(more, clicks.items)
    assert longer.graph.shape == (USERS + 1, ITEMS)
    double = LightGCN(USERS, ITEMS).double()
    double.bind(clicks.starts, clicks.items)
    assert double.graph.dtype == torch.float64


def test_the_same_items_of_other_users_are_another_graph() -> None:
    items, model = torch.arange(4, dtype=torch.int32), LightGCN(2, 4)
    for starts in ([0, 2, 4], [0, 1, 4], [0, 2, 4]):
        model.bind(torch.tensor(starts), items)
        assert model.graph.crow_indices().tolist() == starts
        assert model.back.to_dense().T.equal(model.graph.to_dense())


def test_graphs_go_with_the_clicks_they_are_made_of() -> None:
    data = Interactions.from_pairs(np.array([0, 1, 1]), np.array([0, 0, 1]), 2, 2)
    LightGCN(2, 2).bind(data.starts, data.items)
    kept = weakref.ref(data.items)
    del data
    gc.collect()
    assert kept() is None


def test_lightgcn_validates_what_it_has_learnt(clicks: Interactions) -> None:
    """Through the training loop: a fused optimiser changes parameters in a way that no version counter shows."""
    model = LightGCN(USERS, ITEMS, dims=5)
    model.bind(clicks.starts, clicks.items)
    seen: list[torch.Tensor] = []

    class Valid:
        def measure(self, target: Single, which: list[int], sets: list[Valid]) -> dict[str, torch.Tensor]:
            seen.append(target.scores(torch.arange(USERS), which)[0].clone())
            return {"ndcg@20": torch.tensor([float(len(seen))])}

    target = Single(model)
    phases = (
        method_of("normal", "clicks")()
        .bound(Setup("clicks", binary, make_settings("clicks", {})))
        .phases(lambda *_: target)
    )
    run = Run(TrainingOptions(epochs=3, batch_size=8), clicks, ClickFeed, valid=Valid())
    list(training(phases, [target], [], [run]))
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])
    torch.testing.assert_close(model.scores(torch.arange(USERS)), seen[2])  # the best epoch is the last


def plain_cdae(model: CDAE, rows: torch.Tensor) -> torch.Tensor:
    """Every score by dense products with the users × items matrix."""
    hidden = torch.sigmoid(rows @ model.items_in + model.users + model.hidden_bias)
    return hidden @ model.items.T + model.item_bias


def test_cdae_is_the_dense_one(clicks: Interactions) -> None:
    model = made(CDAE(USERS, ITEMS, dims=4)).eval()
    assert isinstance(model, CDAE)
    model.bind(clicks.starts, clicks.items)
    expected = plain_cdae(model, dense(clicks))
    torch.testing.assert_close(model.scores(torch.arange(USERS)), expected)
    users, items = torch.tensor([3, 3, 0, 7]), torch.randint(ITEMS, (4,))
    torch.testing.assert_close(model.logits(users, items), expected[users, items])
    for batch in row_batches(clicks, 0):
        assert batch.rows is not None
        torch.testing.assert_close(batch.logits(model), expected[batch.users, batch.items])
        weights = torch.randn(batch.items.shape, dtype=torch.float64)
        parameters = list(model.parameters())
        ours = torch.autograd.grad((batch.logits(model) * weights).sum(), parameters)
        theirs = torch.autograd.grad(
            (expected[batch.users, batch.items] * weights).sum(), parameters, retain_graph=True
        )
        for mine, autograds in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, autograds)


def test_cdae_sees_half_of_its_input_in_training_alone(clicks: Interactions) -> None:
    model = CDAE(USERS, ITEMS, dims=4).double()
    model.bind(clicks.starts, clicks.items)
    with torch.no_grad():
        model.items_in.fill_(1.0)
        model.users.zero_()
        model.items.fill_(0.25)
    batches = [batch for seed in range(20) for batch in row_batches(clicks, seed)]
    sums: set[int] = set()
    for batch in batches:
        inputs = torch.logit(batch.logits(model)[0, 0])
        whole = torch.logit(batch.logits(model.eval())[0, 0])
        model.train()
        users = batch.users[0]
        counts = clicks.degrees[users].double()
        torch.testing.assert_close(whole, counts)
        sums |= {round(x) for x in inputs.tolist()}
        assert batch.kept is not None
        own = torch.zeros(USERS).index_add_(0, users, batch.kept[0].float())
        torch.testing.assert_close(inputs, 2 * own[users].double())  # kept inputs count double
    kept = torch.cat([batch.kept[0] for batch in batches if batch.kept is not None]).float()
    assert len(sums) > 3
    assert abs(kept.mean() - 0.5) < 4 * 0.5 / len(kept) ** 0.5


def test_popularity_ranks_by_clicks(clicks: Interactions) -> None:
    model = Popularity(USERS, ITEMS)
    model.bind(clicks.starts, clicks.items)
    scores = model.scores(torch.arange(2))
    assert torch.equal(scores[0], scores[1])
    assert (scores[0].argsort(stable=True) == clicks.popularity.argsort(stable=True)).all()


def test_cdae_trains_on_fewer_clicks_than_a_batch() -> None:
    clicks = {"user": ["u1", "u1", "u2", "u3"], "item": ["i1", "i2", "i3", "i1"]}
    rec = Recommender(model="cdae", method="normal", epochs=2, batch_size=64, valid_share=0.3)
    assert rec.fit(clicks).recommend("u1", k=1).num_rows == 1
