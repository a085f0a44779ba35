"""Rows and users that are dealt out to ranks, in one process that plays each rank in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.batches.clicks import ClickBatch
from accord.batches.shards import ShardedFeed
from accord.data.interactions import Interactions
from accord.estimators.divided_task import DividedTask
from accord.estimators.log_split import by_popularity
from accord.evaluation import RankingTask
from accord.models.recommenders import MF
from accord.models.stack import Single
from accord.objectives.binary import cross_entropy, truncated_cross_entropy, truncated_share
from accord.ranks import tables
from accord.ranks.group import Ranks, dividing
from accord.ranks.tables import fresh_table, is_divided, rows_of


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 300), dims=st.integers(1, 20), size=st.integers(2, 5), seed=st.integers(0, 9))
def test_rows_of_a_rank_are_those_of_the_whole_table(rows: int, dims: int, size: int, seed: int) -> None:
    torch.manual_seed(seed)
    whole = fresh_table(rows, dims, 0.1)
    after = torch.rand(3)
    assert not is_divided(whole)
    for rank in range(size):
        with pytest.MonkeyPatch.context() as patch, dividing(Ranks(rank, size)):
            patch.setattr(tables, "AT_ONCE", 512)  # so that there are many blocks
            torch.manual_seed(seed)
            own = fresh_table(rows, dims, 0.1)
            assert torch.equal(torch.rand(3), after)  # what is drawn next is the same too
        assert rows_of(own) == rows
        if rows * dims >= 16:  # torch draws fewer one by one
            assert torch.equal(own, whole[rank::size])


def some_clicks(seed: int, users: int, items: int, share: float) -> Interactions:
    rng = np.random.default_rng(seed)
    clicked = rng.random((users, items)) < share
    clicked[0, 0] = True
    pairs = np.argwhere(clicked)
    weights = rng.random(len(pairs)) + 0.1
    return Interactions.from_pairs(pairs[:, 0], pairs[:, 1], users, items, weights=weights)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 50), users=st.integers(1, 9), size=st.integers(1, 4), share=st.sampled_from([0.1, 0.5, 1])
)
def test_users_of_a_rank_keep_their_clicks(seed: int, users: int, size: int, share: float) -> None:
    whole = some_clicks(seed, users, 6, share)
    found = []
    for rank in range(size):
        part = whole.of_users(rank, size)
        assert part.n_users == len(range(rank, users, size))
        assert torch.equal(part.degrees, whole.degrees[rank::size])
        assert torch.equal(part.popularity, whole.popularity)
        columns = part.users * size + rank, part.items, part.weights
        found += list(zip(*(one.tolist() for one in columns), strict=True))  # pyright: ignore
    columns = whole.users, whole.items, whole.weights
    assert sorted(found) == sorted(zip(*(one.tolist() for one in columns), strict=True))  # pyright: ignore


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 50), shards=st.integers(2, 4), batch=st.sampled_from([1, 5, 64]))
def test_shards_draw_each_click_once_and_together_what_one_process_draws(
    seed: int, shards: int, batch: int
) -> None:
    data = some_clicks(seed, 11, 6, 0.5)
    full = torch.where(data.full_users, 0, data.degrees)
    sizes = [int(full[k::shards].sum()) for k in range(shards)]

    def batches(own: int | None) -> list[ClickBatch]:
        clicks = data if own is None else data.of_users(own, shards)
        feed = ShardedFeed([clicks], batch, False, False, sizes=sizes, own=own)
        return list(feed.epoch([torch.Generator().manual_seed(seed)]))

    def pairs(batch: ClickBatch, own: int | None) -> list[tuple[float, ...]]:
        users = batch.users[0] if own is None else batch.users[0] * shards + own
        assert batch.weights is not None
        columns = (users, batch.items[0, 0], batch.items[1, 0], batch.weights[0])
        return list(zip(*(one.tolist() for one in columns), strict=True))

    whole, parts = batches(None), [batches(own) for own in range(shards)]
    assert [len(one) for one in parts] == [len(whole)] * shards
    drawn, clicked = [], set(zip(data.users.tolist(), data.items.tolist(), strict=True))
    for k, one in enumerate(whole):
        assert len(one) == one.of_all
        assert len(one) <= batch + shards
        assert all(part[k].of_all == one.of_all for part in parts)
        assert pairs(one, None) == [pair for own, part in enumerate(parts) for pair in pairs(part[k], own)]
        drawn += pairs(one, None)
    assert len({pair[:2] for pair in drawn}) == len(drawn) == sum(sizes)
    assert all((user, item) in clicked and (user, other) not in clicked for user, item, other, _ in drawn)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 99), count=st.integers(1, 20), tied=st.booleans())
def test_shares_of_the_truncated_loss_add_up_to_it(seed: int, count: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(2, 1, count)))
    logits = logits.round() if tied else logits
    labels, keep = torch.tensor([1.0, 0.0]).view(2, 1, 1), int(rng.integers(1, count + 1))
    losses, cuts = cross_entropy(logits, labels), [int(rng.integers(0, count + 1))]
    parts = losses.tensor_split(cuts, dim=-1)
    shares = [truncated_share(part, keep, count, lambda own: losses[0]) for part in parts]
    torch.testing.assert_close(torch.stack(shares).sum(0), truncated_cross_entropy(logits, labels, keep))


class Own(Ranks):
    """A rank whose sums are its own."""

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        return values


def test_metrics_of_divided_users_are_those_of_all_with_users_ranked_by_popularity() -> None:
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((31, 40)) < 0.2)
    pairs = pairs[pairs[:, 0] % 5 != 1]  # every fifth user has no training click
    training = Interactions.from_pairs(pairs[:, 0], pairs[:, 1], 31, 40)
    held = np.stack([np.arange(31), (np.arange(31) * 7) % 40])

    def served(task: RankingTask, clicks: Interactions) -> RankingTask:
        return task.with_settled(clicks.degrees[task.users] == 0, by_popularity(clicks))

    whole = served(RankingTask.from_pairs(held[0], held[1], [training]), training)
    torch.manual_seed(0)
    network: Any = MF(31, 40, 4)
    wanted = whole.measure(Single(network), [0], [whole])
    found, users = dict.fromkeys(wanted, 0.0), 0
    for rank in range(2):
        part_of = training.of_users(rank, 2)
        mine = held[0] % 2 == rank
        own = served(RankingTask.from_pairs(held[0][mine] // 2, held[1][mine], [part_of]), part_of)
        assert own.settled is not None
        count = len(own.users) + len(own.settled)
        task = DividedTask(own, Own(rank, 2))
        part: Any = MF(len(range(rank, 31, 2)), 40, 4)
        part.users.data, part.items.data = network.users.data[rank::2], network.items.data
        for name, value in task.measure(Single(part), [0], [task]).items():
            found[name] += float(value) * count
        users += count
    assert users == 31
    assert found == {name: pytest.approx(31 * float(value), rel=1e-5) for name, value in wanted.items()}
