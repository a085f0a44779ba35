"""Clicks as tensors: negatives that are uniform and never clicked, and masks of what was clicked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from accord.data.interactions import Interactions


def build(pairs: set[tuple[int, int]], n_users: int, n_items: int) -> Interactions:
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(ordered[:, 0], ordered[:, 1], n_users, n_items)


def without_bitmap(data: Interactions) -> Interactions:
    object.__setattr__(data, "_bitmap", None)
    return data


LOG = st.integers(1, 6).flatmap(
    lambda u: st.integers(2, 8).flatmap(
        lambda i: st.tuples(
            st.just(u),
            st.just(i),
            st.sets(st.tuples(st.integers(0, u - 1), st.integers(0, i - 1)), min_size=1),
        )
    )
)


@given(LOG, st.booleans(), st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_negatives_are_never_clicked(log: tuple[int, int, set[tuple[int, int]]], table: bool, seed: int) -> None:
    n_users, n_items, pairs = log
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


@given(LOG)
@settings(max_examples=60, deadline=None)
def test_masking_hides_own_pairs_only(log: tuple[int, int, set[tuple[int, int]]]) -> None:
    n_users, n_items, pairs = log
    users = torch.arange(n_users).flip(0)
    masked = build(pairs, n_users, n_items).mask_seen(torch.zeros(n_users, n_items), users)
    expected = [[(u, i) in pairs for i in range(n_items)] for u in users.tolist()]
    assert torch.equal(masked.isinf(), torch.tensor(expected))
