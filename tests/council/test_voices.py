"""Members on one scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.estimators.council.clicks import voices as module
from accord.estimators.log_split import SEEN, TRAIN
from accord.models.recommenders.solved import RIDGE, logistic_fit

Spoken = Any


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.1, 5), st.floats(-3, 3), st.floats(0.8, 2.5))
def test_a_scale_is_the_best_and_forgets_the_members_own(seed: int, slope: float, shift: float, gap: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    clicks = torch.randn(80, generator=generator).double() + gap
    others = torch.randn(60, generator=generator).double()

    def loss(scale: float, offset: float) -> float:
        own = torch.nn.functional.softplus(-(clicks * scale + offset)).sum()
        far = torch.nn.functional.softplus(others * scale + offset).sum()
        x = torch.cat([clicks, others])
        return float(own + far + RIDGE * len(x) * (scale * x.std(correction=0)) ** 2 / 2)

    scale, offset, _ = logistic_fit(clicks, others)
    assert scale > 0
    least = loss(scale, offset)
    for moved in ((scale * 1.05, offset), (scale / 1.05, offset), (scale, offset + 0.05), (scale, offset - 0.05)):
        assert loss(*moved) >= least - 1e-9
    again, at, _ = logistic_fit(clicks * slope + shift, others * slope + shift)
    assert again * slope == pytest.approx(scale, rel=1e-3)
    assert again * shift + at == pytest.approx(offset, rel=1e-3, abs=1e-3)


def test_scales_are_learnt_from_held_out_clicks_alone(spoken: Callable[..., Spoken]) -> None:
    made = spoken()
    users, items, others = made.voices._held_out()
    clicks, part = made.split.clicks, made.split.part
    keys = set(zip(users.tolist(), items.tolist(), strict=True))
    for use, wanted in ((TRAIN, False), (SEEN, False)):
        rows = np.flatnonzero(part == use)
        assert (not keys.isdisjoint(zip(clicks.users[rows], clicks.items[rows], strict=True))) is wanted
    warm = set(clicks.users[made.learnt])
    assert len(keys) == sum(clicks.users[row] in warm for row in made.held)
    assert set(users) <= warm
    trained = set(zip(clicks.users[made.learnt], clicks.items[made.learnt], strict=True))
    assert trained.isdisjoint(zip(users.tolist(), others.tolist(), strict=True))


def test_a_member_says_the_same_of_pairs_and_of_all_items(spoken: Callable[..., Spoken]) -> None:
    made = spoken(kinds=("a", "b"), seeds=2)
    users, items = np.array([0, 5, 7]), np.array([3, 1, 4])
    for member, table in zip(made.members, made.tables, strict=True):
        assert made.voices.logits(member, users, items) == pytest.approx(table[users, items], abs=1e-5)
        assert made.voices.scores(member, torch.from_numpy(users)).numpy() == pytest.approx(table[users], abs=1e-5)
    kinds = made.voices.by_kind(torch.from_numpy(users)).numpy()
    first, second = np.mean(made.tables[:2], 0), np.mean(made.tables[2:], 0)
    assert kinds == pytest.approx(np.stack([first[users], second[users]]), abs=1e-5)


@pytest.mark.parametrize(("most", "block"), [(1_000, 1 << 22), (40, 700)])
def test_kinds_are_weighed_and_their_members_share_the_weight(
    spoken: Callable[..., Spoken], monkeypatch: pytest.MonkeyPatch, most: int, block: int
) -> None:
    monkeypatch.setattr(module, "FITTED_USERS", most)
    monkeypatch.setattr(module, "SCORES", block)  # a few users at a time
    made = spoken(kinds=("a", "b", "c"), seeds=2)
    warm = np.flatnonzero(made.data.degrees.numpy() > 0)
    found = made.voices.weighed(made.voices.full, {"a": 0.75, "b": 0.5}).numpy()
    assert len(found) == min(most, len(warm))
    one, two, three, four = (table[warm] for table in made.tables[:4])
    wanted = 0.75 * (one + two) / 2 + 0.5 * (three + four) / 2
    if len(found) == len(warm):
        assert found == pytest.approx(wanted, abs=1e-5)
    else:  # of users drawn without repeats, in order
        rows = [int(np.abs(wanted - row).sum(1).argmin()) for row in found]
        assert rows == sorted(set(rows))
        assert found == pytest.approx(wanted[rows], abs=1e-5)
