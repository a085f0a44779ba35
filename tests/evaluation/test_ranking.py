"""Ranking metrics against brute force over every order of tied items."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.interactions import Interactions
from accord.evaluation import METRICS, RankingTask, mean_metrics, ranking, stacked_means
from accord.evaluation.ranking import ranking_metrics, stacked_metrics


def of_one_order(order: list[int], relevant: set[int], k: int) -> dict[str, float]:
    """The textbook definitions on one ranked list."""
    hits = [item in relevant for item in order[:k]]
    ideal = sum(1 / math.log2(r + 2) for r in range(min(k, len(relevant))))
    first = next((r for r, hit in enumerate(hits) if hit), None)
    return {
        "ndcg": sum(hit / math.log2(r + 2) for r, hit in enumerate(hits)) / ideal,
        "recall": sum(hits) / len(relevant),
        "precision": sum(hits) / k,
        "hit": float(any(hits)),
        "mrr": 0.0 if first is None else 1 / (first + 1),
    }


def brute_force(scores: list[float], relevant: set[int], seen: set[int], k: int) -> dict[str, float]:
    """Mean over every order that sorts the unseen items by score."""
    open_items = [i for i in range(len(scores)) if i not in seen]
    levels = sorted({scores[i] for i in open_items}, reverse=True)
    groups = [[i for i in open_items if scores[i] == level] for level in levels]
    orders = [
        list(itertools.chain(*parts)) for parts in itertools.product(*(itertools.permutations(g) for g in groups))
    ]
    values = [of_one_order(order, relevant, k) for order in orders]
    return {name: float(np.mean([value[name] for value in values])) for name in METRICS}


def task_of(relevant: set[int], seen: set[int], n_items: int) -> RankingTask:
    train = Interactions.from_pairs(np.zeros(len(seen), int), np.array(sorted(seen), int), 1, n_items)
    return RankingTask.from_pairs(np.zeros(len(relevant), int), np.array(sorted(relevant)), [train])


@given(
    st.lists(st.sampled_from([-2.0, 0.0, 0.5, 3.0]), min_size=2, max_size=6).flatmap(
        lambda scores: st.tuples(
            st.just(scores),
            st.sets(st.integers(0, len(scores) - 1), min_size=1),
            st.sets(st.integers(0, len(scores) - 1), max_size=len(scores) - 1),
        )
    ),
    st.integers(1, 8),
)
@settings(max_examples=300, deadline=None)
def test_metrics_are_the_mean_over_all_orders(world: tuple[list[float], set[int], set[int]], k: int) -> None:
    """Relevant items may be masked too: they count as missed, as in the authors' split."""
    scores, relevant, seen = world
    expected = brute_force(scores, relevant, seen, k)
    ours = mean_metrics(lambda users: torch.tensor([scores]), task_of(relevant, seen, len(scores)), [k])
    for name in METRICS:
        assert ours[f"{name}@{k}"] == pytest.approx(expected[name], abs=1e-5), name


@pytest.mark.parametrize("constant", [0.0, -3.0, 1e30])
def test_a_constant_scorer_scores_as_chance(constant: float) -> None:
    """Whatever the item ids: recall@k is k / items, and relabelling the items changes nothing."""
    n_items, k = 50, 10
    for relevant in ({0, 1, 2}, {47, 48, 49}, {3, 25, 40}):
        ours = mean_metrics(
            lambda users: torch.full((1, n_items), constant), task_of(relevant, set(), n_items), [k]
        )
        assert ours[f"recall@{k}"] == pytest.approx(k / n_items)
        misses = math.comb(n_items - 3, k) / math.comb(n_items, k)
        assert ours[f"hit@{k}"] == pytest.approx(1 - misses, abs=1e-5)


@given(
    st.lists(st.sampled_from([math.nan, 0.0, 1.0]), min_size=2, max_size=7),
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(1, 8),
)
def test_scores_that_are_no_numbers_are_no_hits(scores: list[float], chosen: set[int], k: int) -> None:
    """They stand before all others, as a model that went wrong would have it, and whoever is relevant is missed."""
    relevant = {item for item in chosen if item < len(scores)} or {0}
    ours = mean_metrics(lambda users: torch.tensor([scores]), task_of(relevant, set(), len(scores)), [k])
    shifted = [math.inf if math.isnan(score) else score for score in scores]
    found = {item for item in relevant if not math.isnan(scores[item])}
    expected = brute_force(shifted, found, set(), k)["recall"] * len(found) / len(relevant) if found else 0.0
    assert ours[f"recall@{k}"] == pytest.approx(expected, abs=1e-5)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n_users, n_items = 37, 23
    pairs = np.unique(rng.integers(0, n_users * n_items, 200))
    train = Interactions.from_pairs(pairs // n_items, pairs % n_items, n_users, n_items)
    scores = torch.from_numpy(rng.integers(0, 5, (n_users, n_items)).astype(np.float32))
    task = RankingTask.from_pairs(rng.integers(0, n_users, 90), rng.integers(0, n_items, 90), [train])
    whole = ranking_metrics(lambda users: scores[users].clone(), task, [3, 20])
    monkeypatch.setattr(ranking, "BLOCK", 5 * n_items)
    blocks = ranking_metrics(lambda users: scores[users].clone(), task, [3, 20])
    for name in whole:
        assert len(whole[name]) == len(task.users)
        torch.testing.assert_close(whole[name], blocks[name])


def test_items_outside_the_catalogue_are_misses() -> None:
    train = Interactions.from_pairs(np.array([0]), np.array([0]), 2, 4)
    task = RankingTask.from_pairs(np.array([0]), np.array([1]), [train], missed=np.array([3, 1]))
    ours = ranking_metrics(lambda users: torch.tensor([[0.0, 9, 1, 1], [0, 9, 1, 1]])[users], task, [2])
    assert ours["recall@2"].tolist() == [0.25, 0.0]
    assert ours["hit@2"].tolist() == [1.0, 0.0]


def test_at_most_so_many_users_are_ranked() -> None:
    train = Interactions.from_pairs(np.arange(50), np.zeros(50, int), 50, 3)
    users = np.arange(50)
    task = RankingTask.from_pairs(users, np.ones(50, int), [train], max_users=8, seed=1)
    again = RankingTask.from_pairs(users, np.ones(50, int), [train], max_users=8, seed=1)
    other = RankingTask.from_pairs(users, np.ones(50, int), [train], max_users=8, seed=2)
    assert len(task.users) == 8
    assert task.users.tolist() == again.users.tolist() != other.users.tolist()


@given(st.lists(st.booleans(), min_size=5, max_size=5), st.integers(0, 2**16))
@settings(max_examples=50, deadline=None)
def test_settled_users_count_by_their_own_scorer_whatever_the_model(apart: list[bool], seed: int) -> None:
    rng = np.random.default_rng(seed)
    train = Interactions.from_pairs(np.arange(5), rng.integers(0, 7, 5), 5, 7)
    whole = RankingTask.from_pairs(np.arange(5).repeat(2), rng.integers(0, 7, 10), [train])
    model, fixed = (torch.from_numpy(rng.normal(size=(5, 7))).float() for _ in range(2))
    which = torch.tensor(apart)
    mixed = torch.where(which[:, None], fixed, model)
    task = whole.with_settled(which, lambda users: fixed[users])
    wanted = mean_metrics(lambda users: mixed[users], whole, [3])
    for _ in range(2):
        found = mean_metrics(lambda users: model[users], task, [3])
        assert found == pytest.approx(wanted, abs=1e-6)
    both = stacked_means(lambda users: torch.stack([model[users], -model[users]]), task, [3], 2)
    assert both["ndcg@3"][0].item() == pytest.approx(wanted["ndcg@3"], abs=1e-6)
    assert len(task.users) == 5 - sum(apart)


LEVELS = [math.nan, -math.inf, -1.0, 0.0, 0.5, 0.5, 2.0, math.inf]


def of_one_user(scores: list[float], relevant: set[int], seen: set[int], lost: int, k: int) -> dict[str, float]:
    """By every order of the tied, where nothing that is masked, no number or -∞ can be found.

    A score that is no number stands before all others; ``lost`` relevant items are outside the catalogue.
    """
    out = {i for i, score in enumerate(scores) if i in seen or score == -math.inf}
    wrong = {i for i, score in enumerate(scores) if math.isnan(score) and i not in seen}
    open_items = [i for i in range(len(scores)) if i not in out | wrong]
    groups = [[i for i in open_items if scores[i] == level] for level in sorted({scores[i] for i in open_items})]
    total, values = len(relevant) + lost, []
    for parts in itertools.product(*(itertools.permutations(group) for group in reversed(groups))):
        order = [-1] * len(wrong) + list(itertools.chain(*parts))
        hits = [item in relevant for item in order[:k]]
        first = next((r for r, hit in enumerate(hits) if hit), None)
        ideal = sum(1 / math.log2(r + 2) for r in range(min(k, total)))
        gain = sum(hit / math.log2(r + 2) for r, hit in enumerate(hits))
        rank = 0.0 if first is None else 1 / (first + 1)
        values.append([gain / ideal, sum(hits) / total, sum(hits) / k, float(any(hits)), rank])
    return dict(zip(METRICS, np.mean(values, 0).tolist(), strict=True))


@given(st.integers(0, 2**20))
@settings(max_examples=60, deadline=None)
def test_every_metric_of_every_user_by_brute_force(seed: int) -> None:
    """Users apart, several cut-offs and models at once: with ties, masked items, lost items and broken scores."""
    rng = np.random.default_rng(seed)
    n_users, n_items, runs, ks = 4, 6, 2, [1, 3, 6, 9]
    scores = rng.choice(LEVELS, (runs, n_users, n_items))
    seen, relevant = rng.random((2, n_users, n_items)) < 0.3
    lost = rng.integers(0, 3, n_users) * (rng.random() < 0.5)
    rows, columns = np.nonzero(seen)
    train = Interactions.from_pairs(rows, columns, n_users, n_items)
    users, items = np.array(np.nonzero(relevant)).repeat(rng.integers(1, 3), 1)  # repeats count once
    task = RankingTask.from_pairs(users, items, [train], missed=lost if lost.any() else None)
    assert task.users.tolist() == [u for u in range(n_users) if relevant[u].any() or lost[u]]
    if not len(task.users):
        return
    tensor = torch.from_numpy(scores).float()
    found = stacked_metrics(lambda users: tensor[:, users].clone(), task, ks, runs)
    assert set(found) == {f"{name}@{k}" for name in METRICS for k in ks}
    for run, (place, user), k in itertools.product(range(runs), enumerate(task.users.tolist()), ks):
        own = [set(np.flatnonzero(each[user]).tolist()) for each in (relevant, seen)]
        expected = of_one_user(scores[run, user].tolist(), own[0], own[1], int(lost[user]), k)
        for name, value in expected.items():
            assert found[f"{name}@{k}"][run, place].item() == pytest.approx(value, abs=1e-5), (name, k)


def test_a_list_by_hand() -> None:
    """Items 0 to 4 by falling score; 0 is seen; 1, 3 and one outside the catalogue are relevant."""
    train = Interactions.from_pairs(np.array([0]), np.array([0]), 1, 5)
    task = RankingTask.from_pairs(np.array([0, 0]), np.array([1, 3]), [train], missed=np.array([1]))
    found = mean_metrics(lambda users: torch.tensor([[5.0, 4, 3, 2, 1]]), task, [1, 3])
    half = 1 / math.log2(3)
    assert found == pytest.approx(
        {
            **{"ndcg@1": 1.0, "recall@1": 1 / 3, "precision@1": 1.0, "hit@1": 1.0, "mrr@1": 1.0},
            **{"ndcg@3": 1.5 / (1.5 + half), "recall@3": 2 / 3, "precision@3": 2 / 3, "hit@3": 1.0, "mrr@3": 1.0},
        }
    )


def test_everything_that_was_seen_is_left_out() -> None:
    """Of the training, and of the validation besides."""
    train, valid = (Interactions.from_pairs(np.array([0]), np.array([item]), 1, 4) for item in (0, 1))
    scores = torch.tensor([[9.0, 8, 7, 6]])
    for seen, rank in (([train], 2), ([train, valid], 1)):
        task = RankingTask.from_pairs(np.array([0]), np.array([2]), seen)
        assert mean_metrics(lambda users: scores.clone(), task, [4])["mrr@4"] == pytest.approx(1 / rank)


def test_users_are_drawn_as_ever_and_only_where_there_are_more() -> None:
    """A seed draws the same users, in order, so that an epoch once chosen is chosen again."""
    train = Interactions.from_pairs(np.arange(9), np.zeros(9, int), 9, 3)
    given_pairs = np.arange(9), np.ones(9, int), [train]
    few = RankingTask.from_pairs(*given_pairs, max_users=3, seed=1)
    assert few.users.tolist() == [3, 5, 7]
    assert RankingTask.from_pairs(*given_pairs, max_users=9).users.tolist() == list(range(9))
    assert len(RankingTask.from_pairs(*given_pairs, max_users=8).users) == 8


def test_means_count_every_user_once() -> None:
    """Users of blocks and settled ones alike; where all are settled, the model does not matter."""
    train = Interactions.from_pairs(np.zeros(0, int), np.zeros(0, int), 3, 4)
    task = RankingTask.from_pairs(np.arange(3), np.array([0, 1, 2]), [train])
    first = torch.tensor([[4.0, 3, 2, 1]]).repeat(3, 1)  # the ranks of what is relevant: 1, 2, 3
    assert mean_metrics(lambda users: first[users], task, [4])["mrr@4"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    half = task.with_settled(torch.tensor([True, False, True]), lambda users: first[users])
    assert half.users.tolist() == [1]
    last = first.flip(1)
    found = mean_metrics(lambda users: last[users], half, [4])["mrr@4"]
    assert found == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)  # the second user's is at rank 3
    every = task.with_settled(torch.ones(3, dtype=torch.bool), lambda users: first[users])
    stacked = stacked_means(lambda users: torch.zeros(2, len(users), 4), every, [4], 2)["mrr@4"]
    assert stacked.tolist() == pytest.approx([(1 + 1 / 2 + 1 / 3) / 3] * 2)
    nobody = task.with_settled(torch.zeros(3, dtype=torch.bool), lambda users: first[users])
    assert nobody.settled is None
