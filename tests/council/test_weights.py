"""How much each kind of member counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.estimators.council.clicks.weights import DRAWS, bagged, choices, likelihood_weights
from accord.methods.assembly import CouncilHead


def test_every_subset_and_price_is_tried_and_a_kind_alone_pays_none() -> None:
    tried = choices(3)
    assert len(tried) == 3 + 3 * (3 + 1)
    assert all(abs(sum(one.weights) - 1) < 1e-12 for one in tried)
    assert {one.kappa for one in tried if max(one.weights) == 1} == {0.0}
    assert len(set(tried)) == len(tried)


def test_of_many_kinds_not_every_subset_is_tried() -> None:
    sizes = {sum(w > 0 for w in one.weights) for one in choices(20)}
    assert sizes == {1, 19, 20}


def test_a_clear_winner_is_chosen() -> None:
    tried = choices(2, (0.0,))
    values = np.array([[0.2] * 30, [0.1] * 30, [0.15] * 30])
    assert bagged(values, tried, seed=0).weights == (1.0, 0.0)


def test_the_fewer_users_the_more_is_shared() -> None:
    """The same lead, user by user as uncertain: of many users it decides, of few it does not."""
    tried = choices(2, (0.0,))[:2]
    first = []
    for users in (8, 1000):
        ahead = np.tile([1.0, -0.8], users // 2)
        first.append(bagged(np.stack([ahead, 0 * ahead]), tried, seed=1).weights[0])
    assert 0.5 < first[0] < 0.8
    assert first[1] > 0.98


def test_what_chance_decides_is_shared() -> None:
    tried = choices(2, (0.0,))[:2]
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 50))
    values -= values.mean(1, keepdims=True)  # no difference in the mean: which is ahead depends on who is drawn
    first, second = bagged(values, tried, seed=1).weights
    assert 0.2 < first < 0.8
    assert first * DRAWS == pytest.approx(round(first * DRAWS))  # a mean of choices
    assert first + second == pytest.approx(1)


def test_the_price_of_disagreement_is_chosen_too() -> None:
    tried = choices(2)
    values = np.array([[0.3 if one.kappa == 1.0 else 0.1] * 9 for one in tried])
    assert bagged(values, tried, seed=0).kappa == 1.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.sampled_from([0.01, 0.1, 1.0]))
def test_likelihood_weights_are_the_least_of_their_loss(seed: int, kinds: int, pull: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    clicks = torch.randn(60, kinds, generator=generator) + torch.linspace(-0.5, 1.0, kinds)
    others = torch.randn(40, kinds, generator=generator)
    weights, offset = likelihood_weights(clicks, others, pull)

    def loss(w: torch.Tensor, c: float) -> float:
        own, far = clicks.double() @ w.double() + c, others.double() @ w.double() + c
        fit = 0.5 * torch.nn.functional.softplus(-own).mean() + 0.5 * torch.nn.functional.softplus(far).mean()
        return float(fit + pull * ((w.double() - 1 / kinds) ** 2).sum())

    least = loss(weights, offset)
    assert (weights >= 0).all()
    for k in range(kinds):
        for step in (1e-2, -1e-2):
            moved = weights.clone()
            moved[k] = max(0.0, float(moved[k]) + step)
            assert loss(moved, offset) >= least - 1e-9
    assert min(loss(weights, offset + 1e-2), loss(weights, offset - 1e-2)) >= least - 1e-9


def test_a_kind_that_tells_nothing_counts_less() -> None:
    generator = torch.Generator().manual_seed(0)
    clicks, others = torch.randn(500, 2, generator=generator), torch.randn(500, 2, generator=generator)
    clicks[:, 0] += 2
    weights, _ = likelihood_weights(clicks, others)
    assert weights[0] > 2 * weights[1]


def test_the_head_is_a_weighted_mean_less_the_price_of_disagreement() -> None:
    head = CouncilHead(3)
    head.scale[:], head.offset[:] = torch.tensor([1.0, 2.0, 0.5]), torch.tensor([0.0, -1.0, 1.0])
    head.weight[:], head.kappa = torch.tensor([0.5, 0.3, 0.2]), torch.tensor(0.7)
    each = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    logits = each * head.scale[:, None, None] + head.offset[:, None, None]
    weight = head.weight[:, None, None]
    mean = (weight * logits).sum(0)
    spread = (weight * (logits - mean) ** 2).sum(0).sqrt()
    torch.testing.assert_close(head.joined(list(each)), mean - 0.7 * spread)


def test_a_member_without_weight_is_not_asked() -> None:
    head = CouncilHead(2)
    head.weight[:] = torch.tensor([1.0, 0.0])
    broken = torch.full((2,), torch.nan)
    assert head.joined([torch.ones(2), broken]).tolist() == [1.0, 1.0]


def test_a_head_takes_the_size_of_what_was_saved_and_no_other_shape() -> None:
    head, empty = CouncilHead(3), CouncilHead()
    empty.load_state_dict(head.state_dict())
    assert len(empty.weight) == 3
    wrong = head.state_dict() | {"weight": torch.ones(2)}
    with pytest.raises(RuntimeError):
        CouncilHead().load_state_dict(wrong)
