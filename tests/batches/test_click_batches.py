"""Batches of clicks by index: every click once, whole rows, and each run's own whoever else is in the stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from accord.batches import clicks as module
from accord.batches.clicks import ClickBatch, ClickFeed, RowCuts, positives
from accord.data.interactions import Interactions
from accord.models.recommenders import CDAE, MF
from accord.models.stack import stack

USERS, ITEMS = 8, 11
LABELS = torch.tensor([1.0, 0.0]).view(2, 1, 1)
Pairs = set[tuple[int, int]]


def build(pairs: Pairs, n_users: int, n_items: int) -> Interactions:
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(ordered[:, 0], ordered[:, 1], n_users, n_items)


@pytest.fixture
def clicks() -> Interactions:
    pairs = np.unique(np.random.default_rng(1).integers(0, USERS * ITEMS, 30))
    return Interactions.from_pairs(pairs // ITEMS, pairs % ITEMS, USERS, ITEMS)


def streams(seed: int, runs: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(100 * seed + r) for r in range(runs)]


def columns(batch: ClickBatch) -> list[Tensor]:
    return [batch.users.clone(), batch.items.clone()]


LOG = st.integers(1, 6).flatmap(
    lambda u: st.integers(2, 8).flatmap(
        lambda i: st.tuples(
            st.just(u),
            st.just(i),
            st.sets(st.tuples(st.integers(0, u - 1), st.integers(0, i - 1)), min_size=1),
        )
    )
)


@given(LOG, st.integers(1, 7), st.booleans(), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_an_epoch_is_every_click_once(
    log: tuple[int, int, Pairs], batch_size: int, by_rows: bool, runs: int
) -> None:
    n_users, n_items, pairs = log
    data = build(pairs, n_users, n_items)
    if by_rows and runs > 1 and not RowCuts.of(data, batch_size).even:
        return  # such runs are not stacked
    full = {u for u in range(n_users) if sum(p[0] == u for p in pairs) == n_items}
    expected = sorted(p for p in pairs if p[0] not in full)
    if by_rows and runs > 1 and not expected:
        return
    feed = ClickFeed([data] * runs, batch_size, by_rows, False)
    batches = list(feed.epoch(streams(0, runs)))
    for r in range(runs):
        seen: list[tuple[int, int]] = []
        for batch in batches:
            inside = slice(None) if batch.inside is None else batch.inside[r]
            own = batch.users[r][inside].tolist(), batch.items[0, r][inside].tolist()
            seen += zip(*own, strict=True)
            drawn = zip(own[0], batch.items[1, r][inside].tolist(), strict=True)
            assert not set(drawn) & pairs
        assert sorted(seen) == expected
    if not by_rows:
        assert all(len(batch) == batch_size for batch in batches[:-1])


@pytest.mark.parametrize("by_rows", [False, True])
def test_epochs_differ_and_repeat_by_seed(by_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 32)
    data = build({(u, i) for u in range(20) for i in range(0, 30, 3)}, 20, 30)

    def run(seed: int) -> list[list[int]]:
        feed, generators = ClickFeed([data], 16, by_rows, False), streams(seed, 1)
        return [torch.cat([b.items.flatten() for b in feed.epoch(generators)]).tolist() for _ in range(2)]

    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert first != other
    assert first[0] != first[1]


@pytest.mark.parametrize("capturing", [False, True])
@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
@pytest.mark.parametrize("shared", [True, False])
def test_each_run_gets_the_pairs_it_would_get_alone(
    shared: bool, negatives: str, capturing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same log or of logs of their own, over several chunks."""
    monkeypatch.setattr(module, "AT_ONCE", 32)
    logs = [build({(u, (u * 7 + i * (r + 2)) % 31) for u in range(20) for i in range(5)}, 20, 31) for r in range(3)]
    each = [logs[0]] * 3 if shared else logs
    feed = ClickFeed(each, 16, False, capturing)
    together = [columns(b) for b in feed.epoch(streams(0, 3), negatives)]  # pyright: ignore[reportArgumentType]
    assert len(together) == feed.steps({}) == 7
    for r in range(3):
        alone = ClickFeed([each[r]], 16, False, False).epoch([streams(0, 3)[r]], negatives)  # pyright: ignore
        for (users, items), own in zip(together, alone, strict=True):
            assert torch.equal(users[r], own.users[0])
            assert torch.equal(items[:, r], own.items[:, 0])


@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**31), batch_size=st.integers(1, 40))
def test_each_run_gets_the_rows_it_would_get_alone(data: st.DataObject, seed: int, batch_size: int) -> None:
    """But for padding."""
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 11)), min_size=1, max_size=60))
    log = build(pairs, 9, 12)
    cuts = RowCuts.of(log, batch_size)

    def generators() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed + r) for r in range(3)]

    if not cuts.total:
        assert not list(cuts.epoch(generators()[0], "uniform", LABELS))
        return
    alone = [list(cuts.epoch(one, "uniform", LABELS)) for one in generators()]
    if not cuts.even:
        return
    together = list(ClickFeed([log] * 3, batch_size, True, False).epoch(generators()))
    assert {len(own) for own in alone} == {len(together)} == {cuts.batches}
    for k, batch in enumerate(together):
        for r in range(3):
            assert batch.inside is not None
            own, there = alone[r][k], batch.inside[r]
            assert torch.equal(batch.users[r][there], own.users[0])
            assert torch.equal(batch.items[:, r, there], own.items[:, 0])
            assert torch.equal(batch.kept[r][there], own.kept[0])  # pyright: ignore[reportOptionalSubscript]
            assert not batch.kept[r][~there].any()  # pyright: ignore[reportOptionalSubscript]
            position = batch.position[r][there]  # pyright: ignore[reportOptionalSubscript]
            assert torch.equal(batch.rows[r, position], own.users[0])  # pyright: ignore[reportOptionalSubscript]


def test_row_batches_are_whole_rows(clicks: Interactions) -> None:
    seen: list[tuple[int, int]] = []
    for batch in ClickFeed([clicks], 6, True, False).epoch(streams(3, 1)):
        assert batch.rows is not None
        for user in batch.rows[0].tolist():
            own = batch.items[0][batch.users == user].tolist()
            first, last = clicks.starts[user], clicks.starts[user + 1]
            assert own == clicks.items[first:last].tolist()
        seen += zip(batch.users[0].tolist(), batch.items[0, 0].tolist(), strict=True)
    assert sorted(seen) == sorted(zip(clicks.users.tolist(), clicks.items.tolist(), strict=True))


def test_logs_of_one_size_are_drawn_in_chunks_of_one_size() -> None:
    """However long their longest rows are: stacks of runs with logs of their own rely on it."""
    even, uneven = np.zeros((2, 40, 30), bool)
    even[:, :10] = True
    uneven[0] = True
    uneven[1:, :9] = True
    uneven[1:20, 9] = True
    for taken in (even, uneven):
        assert taken.sum() == 400
    logs = [Interactions.from_pairs(*np.nonzero(taken), 40, 31) for taken in (even, uneven)]
    cuts = [RowCuts.of(log, 50) for log in logs]
    assert cuts[0].longest != cuts[1].longest
    assert cuts[0].chunk == cuts[1].chunk
    assert cuts[0].batches == cuts[1].batches
    together = [[*columns(b), b.inside] for b in ClickFeed(logs, 50, True, False).epoch(streams(0, 2))]
    for r, log in enumerate(logs):
        alone = list(ClickFeed([log], 50, True, False).epoch([streams(0, 2)[r]]))
        for (users, items, inside), own in zip(together, alone, strict=True):
            assert inside is not None
            assert torch.equal(users[r][inside[r]], own.users[0])
            assert torch.equal(items[:, r, inside[r]], own.items[:, 0])


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_captured_step_reads_where_it_was_captured(by_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 32)
    data = build({(u, (u * 7 + i) % 31) for u in range(20) for i in range(5)}, 20, 31)
    feed, addresses = ClickFeed([data], 16, by_rows, True), set[int]()
    for _ in range(2):
        for batch in feed.epoch(streams(0, 1)):
            assert batch.chunk is not None
            addresses.add(batch.chunk.columns["users"].data_ptr())
            batch.chunk.position.fill_(batch.index)
            moving = batch.chunk.moving()
            count = len(batch)
            assert torch.equal(moving.users[:, :count], batch.users)
            assert torch.equal(moving.items[..., :count], batch.items)
    assert len(addresses) == 1


@pytest.mark.parametrize("padded", [False, True])
def test_the_loss_of_a_run_is_the_mean_over_clicks_plus_the_mean_over_non_clicks(padded: bool) -> None:
    losses = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    inside = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]).bool() if padded else None
    batch = ClickBatch(torch.zeros(3, 5).long(), torch.zeros(2, 3, 5).long(), LABELS, inside=inside)
    for r, ours in enumerate(batch.mean(losses).tolist()):
        own = slice(None) if inside is None else inside[r]
        assert ours == pytest.approx(float(losses[0, r][own].mean() + losses[1, r][own].mean()))


def test_pairs_are_asked_about_as_clicks() -> None:
    batch = positives(torch.tensor([1, 2]), torch.tensor([3, 4]))
    torch.manual_seed(0)
    model = MF(USERS, ITEMS, 4)
    assert torch.equal(batch.logits(model)[0, 0], model.logits(torch.tensor([1, 2]), torch.tensor([3, 4])))
    assert batch.labels.unique().tolist() == [1.0]


def answers(networks: Sequence[torch.nn.Module], batch: ClickBatch) -> Tensor:
    """What each run's own network says of its own part of a batch."""
    each = [network.logits(batch.users[r], batch.items[:, r]) for r, network in enumerate(networks)]  # pyright: ignore
    return torch.stack(each, 1)


def test_one_of_those_that_are_alike_answers_for_all() -> None:
    """By index, whoever leaves: the first of a group, or a whole group. Alike runs have the same batches."""
    torch.manual_seed(0)
    pair = [MF(USERS, ITEMS, 4) for _ in range(2)]
    alike = MF(USERS, ITEMS, 4)
    alike.load_state_dict(pair[0].state_dict())
    generator = torch.Generator().manual_seed(0)
    users = torch.randint(0, USERS, (2, 5), generator=generator)[[0, 1, 0]]
    items = torch.randint(0, ITEMS, (2, 2, 5), generator=generator)[:, [0, 1, 0]]
    expected = answers([*pair, pair[0]], ClickBatch(users, items, LABELS)).detach()
    joined = stack([*pair, alike]).eval()
    joined.share([[0, 2], [1]])
    for going, left in (([0, 1, 2], 2), ([1, 2], 2), ([1], 1)):  # by their index among those who are there
        if len(going) < users.shape[0]:
            users, items, expected = users[going], items[:, going], expected[:, going]
            joined.keep(going)
        assert len(joined) == left
        frozen = ClickBatch(users, items, LABELS).frozen_logits(joined)
        assert torch.allclose(frozen, expected)
        assert not frozen.requires_grad
    joined.rejoin()
    assert len(joined) == 3
    assert joined.shared is None


def test_shared_members_are_asked_by_rows() -> None:
    data = build({(u, (u * 3 + i) % ITEMS) for u in range(USERS) for i in range(3)}, USERS, ITEMS)

    def networks() -> list[CDAE]:
        made = []
        for seed in (0, 1, 0):
            torch.manual_seed(seed)
            network = CDAE(USERS, ITEMS, 4)
            network.bind(data.starts, data.items)
            made.append(network.eval())
        return made

    joined = stack(networks()).eval()
    joined.share([[0, 2], [1]])
    alike = [torch.Generator().manual_seed(seed) for seed in (0, 1, 0)]
    for batch in ClickFeed([data] * 3, 6, True, False).epoch(alike):
        assert batch.inside is not None
        frozen, expected = batch.frozen_logits(joined), answers(networks(), batch)
        assert torch.allclose(frozen[:, batch.inside], expected[:, batch.inside], atol=1e-6)
