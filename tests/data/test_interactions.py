"""Batches by index: every click once, and negatives that are uniform and never clicked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from accord.data import interactions
from accord.data.interactions import Interactions


def build(pairs: set[tuple[int, int]], n_users: int, n_items: int) -> Interactions:
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(ordered[:, 0], ordered[:, 1], n_users, n_items)


def without_bitmap(data: Interactions) -> Interactions:
    object.__setattr__(data, "_bitmap", None)
    return data


WORLD = st.integers(1, 6).flatmap(
    lambda u: st.integers(2, 8).flatmap(
        lambda i: st.tuples(
            st.just(u),
            st.just(i),
            st.sets(st.tuples(st.integers(0, u - 1), st.integers(0, i - 1)), min_size=1),
        )
    )
)


@given(WORLD, st.booleans(), st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_negatives_are_never_clicked(world: tuple[int, int, set[tuple[int, int]]], table: bool, seed: int) -> None:
    n_users, n_items, pairs = world
    data = build(pairs, n_users, n_items)
    data = data if table else without_bitmap(data)
    full = data.full_users
    users = torch.arange(n_users).repeat(50)
    users = users[~full[users]]
    drawn = data.sample_negatives(users, torch.Generator().manual_seed(seed))
    assert all((u, i) not in pairs for u, i in zip(users.tolist(), drawn.tolist(), strict=True))
    assert ((drawn >= 0) & (drawn < n_items)).all()


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("clicked", [set(), {0, 1, 2, 3, 4, 5, 6, 8}, {0, 9}, {3, 4, 7}])
def test_negatives_are_uniform(table: bool, clicked: set[int]) -> None:
    data = build({(1, i) for i in clicked} | {(0, 0)}, 2, 10)
    data = data if table else without_bitmap(data)
    drawn = data.sample_negatives(torch.ones(40_000, dtype=torch.long), torch.Generator().manual_seed(7))
    counts = Counter(drawn.tolist())
    open_items = [i for i in range(10) if i not in clicked]
    assert set(counts) == set(open_items)
    if len(open_items) > 1:
        assert chisquare([counts[i] for i in open_items]).pvalue > 1e-4


@given(WORLD, st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_an_epoch_is_every_click_once(world: tuple[int, int, set[tuple[int, int]]], batch_size: int) -> None:
    n_users, n_items, pairs = world
    data = build(pairs, n_users, n_items)
    batches = list(data.epoch(batch_size, torch.Generator().manual_seed(0)))
    seen = [pair for b in batches for pair in zip(b.users.tolist(), b.items[0].tolist(), strict=True)]
    full = {u for u in range(n_users) if sum(p[0] == u for p in pairs) == n_items}
    assert sorted(seen) == sorted(p for p in pairs if p[0] not in full)
    assert all(len(b) == batch_size for b in batches[:-1])


def test_epochs_differ_and_repeat_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "CHUNK", 32)
    data = build({(u, i) for u in range(20) for i in range(0, 30, 3)}, 20, 30)

    def run(seed: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.cat([b.items.flatten() for b in data.epoch(16, generator)]).tolist() for _ in range(2)]

    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert first != other
    assert first[0] != first[1]


@given(WORLD)
@settings(max_examples=60, deadline=None)
def test_masking_hides_own_pairs_only(world: tuple[int, int, set[tuple[int, int]]]) -> None:
    n_users, n_items, pairs = world
    users = torch.arange(n_users).flip(0)
    masked = build(pairs, n_users, n_items).mask_seen(torch.zeros(n_users, n_items), users)
    expected = [[(u, i) in pairs for i in range(n_items)] for u in users.tolist()]
    assert torch.equal(masked.isinf(), torch.tensor(expected))
