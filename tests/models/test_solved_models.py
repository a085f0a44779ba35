"""EASE, iALS, RP3β and itemknn against plain dense references; pairs, cold users, and the log-odds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from accord.data.interactions import Interactions
from accord.models.recommenders import EASE, IALS, ItemKNN, Popularity, RP3Beta, ials, neighbours, tables
from accord.models.recommenders import solved as solved_models
from accord.models.recommenders.solved import SolvedModel, logistic_fit

USERS, ITEMS = 12, 9


def log(seed: int, density: float = 0.35) -> np.ndarray:
    """Clicks of users and items; the first and the last user have none, nor has the fifth item."""
    clicks = np.random.default_rng(seed).random((USERS, ITEMS)) < density
    clicks[[0, -1]] = clicks[:, 4] = False
    clicks[1, :2] = True
    return clicks


def solved(model: SolvedModel, clicks: np.ndarray, sweeps: int = 1) -> Any:
    data = Interactions.from_pairs(*np.nonzero(clicks), *clicks.shape)
    model.bind(data.starts, data.items)
    for sweep in range(sweeps):
        assert list(model.solve(sweep))[-1] == 1
    return model


def every_model() -> list[SolvedModel]:
    torch.manual_seed(0)
    return [
        EASE(USERS, ITEMS, 2.0),
        IALS(USERS, ITEMS, 4, 0.2, 0.05),
        RP3Beta(USERS, ITEMS, 3, 0.6, 0.3),
        ItemKNN(USERS, ITEMS, 3, 1.5),
    ]


@given(seed=st.integers(0, 999), l2=st.sampled_from([0.1, 5.0, 300.0]))
@settings(max_examples=20, deadline=None)
def test_ease_is_its_formula(seed: int, l2: float) -> None:
    X = log(seed).astype(float)
    P = np.linalg.inv(X.T @ X + l2 * np.eye(ITEMS))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "DENSE", 0 if seed % 2 else 1 << 20)
        model = solved(EASE(USERS, ITEMS, l2), log(seed))
    np.testing.assert_allclose(model.weights, B, atol=1e-6)
    np.testing.assert_allclose(model.affinities(torch.arange(USERS)), X @ B, atol=1e-5)


def plain_ials(
    X: np.ndarray, W: np.ndarray, H: np.ndarray, alpha: float, l2: float
) -> tuple[np.ndarray, np.ndarray]:
    """One sweep by normal equations, a row at a time; all non-clicks are looked at."""

    def side(clicks: np.ndarray, other: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(clicks), other.shape[1]))
        for u, own in enumerate(clicks):
            A = l2 * (own.sum() + alpha * len(other)) * np.eye(other.shape[1])
            for i, vector in enumerate(other):
                A += (own[i] + alpha) * np.outer(vector, vector)
            rows[u] = np.linalg.solve(A, other[own].sum(0))
        return rows

    W = side(X, H)
    return W, side(X.T, W)


@given(seed=st.integers(0, 999), room=st.sampled_from([1, 60, 1 << 20]))
@settings(max_examples=15, deadline=None)
def test_ials_solves_the_normal_equations(seed: int, room: int) -> None:
    torch.manual_seed(seed)
    model = IALS(USERS, ITEMS, 4, 0.3, 0.02).double()
    W, H = model.users.numpy().copy(), model.items.numpy().copy()
    for _ in range(2):
        W, H = plain_ials(log(seed), W, H, 0.3, 0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ials, "NUMBERS", {"cpu": room})
        solved(model, log(seed), sweeps=2)
    np.testing.assert_allclose(model.users, W, atol=1e-9)
    np.testing.assert_allclose(model.items, H, atol=1e-9)


def test_ials_changes_at_the_end_of_a_sweep_alone() -> None:
    """A training that is stopped within a sweep is saved as it was before the sweep."""
    model = solved(IALS(USERS, ITEMS, 4), log(0))
    before = model.users.clone(), model.items.clone()
    for done in model.solve(1):
        if done < 1:
            assert torch.equal(model.users, before[0])
            assert torch.equal(model.items, before[1])
    assert not torch.equal(model.items, before[1])


def whole_weights(model: Any) -> np.ndarray:
    dense = torch.zeros(ITEMS, ITEMS).scatter_add_(1, model.indices.long(), model.weights)
    return dense.numpy()


@given(seed=st.integers(0, 999), count=st.sampled_from([2, 5, 50]), block=st.sampled_from([1, 20, 1 << 20]))
@settings(max_examples=25, deadline=None)
def test_rp3beta_is_three_steps_on_the_graph(seed: int, count: int, block: int) -> None:
    X = log(seed).astype(float)
    of_users, of_items = X.sum(1).clip(1), X.sum(0).clip(1)
    steps = (X.T / of_items[:, None] ** 0.7137) @ (X / of_users[:, None] ** 0.7137) / of_items**0.37
    np.fill_diagonal(steps, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "AT_ONCE", block)
        patch.setattr(tables, "DENSE", 0 if seed % 2 else 1 << 20)
        model = solved(RP3Beta(USERS, ITEMS, count, 0.7137, 0.37), log(seed))
    found = whole_weights(model)
    if count >= ITEMS:
        np.testing.assert_allclose(found, steps, atol=1e-6)
    np.testing.assert_allclose(np.sort(found, 1), np.sort(best_of_rows(steps, count), 1), atol=1e-6)
    kept = found > 0
    np.testing.assert_allclose(found[kept], steps[kept], atol=1e-6)
    np.testing.assert_allclose(model.affinities(torch.arange(USERS)), X @ found, atol=1e-5)


def best_of_rows(weights: np.ndarray, count: int) -> np.ndarray:
    """The largest weights of each row, however ties are broken."""
    rows = np.zeros_like(weights)
    best = np.sort(weights, 1)[:, ::-1][:, :count]
    rows[:, : best.shape[1]] = best
    return rows


@given(seed=st.integers(0, 999), count=st.sampled_from([2, 50]), shrink=st.sampled_from([0.0, 3.5]))
@settings(max_examples=20, deadline=None)
def test_itemknn_is_the_shrunk_cosine(seed: int, count: int, shrink: float) -> None:
    X = log(seed).astype(float)
    of_items = X.sum(0).clip(1)
    cosine = X.T @ X / (np.sqrt(np.outer(of_items, of_items)) + shrink)
    np.fill_diagonal(cosine, 0)
    found = whole_weights(solved(ItemKNN(USERS, ITEMS, count, shrink), log(seed)))
    np.testing.assert_allclose(np.sort(found, 1), np.sort(best_of_rows(cosine, count), 1), atol=1e-6)
    np.testing.assert_allclose(found[found > 0], cosine[found > 0], atol=1e-6)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("block", [2, 1 << 20])
@pytest.mark.parametrize("look_up", [0, 1 << 30])
def test_scores_of_pairs_are_those_of_all(
    number: int, block: int, look_up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any shape, by either way to find them; users without a click are ranked by popularity."""
    for place in (tables, neighbours):
        monkeypatch.setattr(place, "AT_ONCE", block)
    monkeypatch.setattr(neighbours, "LOOK_UP", look_up)
    model = solved(every_model()[number], log(1))
    model.scale.fill_(1.7)
    model.offset.fill_(-0.4)
    users = torch.tensor([3, 0, 5, 3, 11, 2, 7])
    items = torch.stack([torch.randint(ITEMS, (7,)) for _ in range(3)])
    scores: Tensor = model.scores(users)
    wanted = torch.stack([scores[torch.arange(7), row] for row in items])
    torch.testing.assert_close(model.logits(users, items), wanted)
    torch.testing.assert_close(model.logits(users, items[0]), wanted[0])
    torch.testing.assert_close(model.logits(users[:1], items[0, :1]), wanted[0, :1])
    assert model.logits(users[:0], items[0, :0]).shape == (0,)
    warm = users[[0, 2, 5]]
    root = torch.from_numpy(log(1).sum(1))[warm].sqrt().float()
    torch.testing.assert_close(scores[[0, 2, 5]], 1.7 * model.affinities(warm) / root[:, None] - 0.4)
    counted = Popularity(USERS, ITEMS)
    counted.bind(model.starts, model.clicked)
    torch.testing.assert_close(scores[[1, 4]], counted.scores(users[[1, 4]]))


@pytest.mark.parametrize("number", [0, 2, 3])
def test_a_click_does_not_count_for_itself(number: int) -> None:
    """Without its click a user has the same affinity for the item, where the weights are the same."""
    model = solved(every_model()[number], log(2))
    user, item = (int(x) for x in np.argwhere(log(2))[0])
    with_it = model.affinity(torch.tensor([user]), torch.tensor([item]))
    left = log(2)
    left[user, item] = False
    data = Interactions.from_pairs(*np.nonzero(left), USERS, ITEMS)
    model.bind(data.starts, data.items)
    torch.testing.assert_close(model.affinity(torch.tensor([user]), torch.tensor([item])), with_it)


@given(seed=st.integers(0, 999), shift=st.floats(-50, 50), width=st.sampled_from([1e-4, 1.0, 300.0]))
@settings(max_examples=20, deadline=None)
def test_two_numbers_make_log_odds(seed: int, shift: float, width: float) -> None:
    rng = np.random.default_rng(seed)
    clicks, others = rng.normal(1, 1, 300) * width + shift, rng.normal(0, 1, 200) * width + shift
    scale, offset, loss = logistic_fit(torch.from_numpy(clicks), torch.from_numpy(others))
    x = np.concatenate([clicks, others])
    x = (x - x.mean()) / x.std()
    y = np.arange(500) < 300
    plain = LogisticRegression(C=1e6).fit(x[:, None], y).predict_proba(x[:, None])[:, 1]
    found = 1 / (1 + np.exp(-(scale * np.concatenate([clicks, others]) + offset)))
    np.testing.assert_allclose(found, plain, atol=2e-3)
    assert loss == pytest.approx(-np.log(found[:300]).mean() - np.log(1 - found[300:]).mean(), rel=1e-6)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("at_once", [3, 1000])
def test_after_calibration_the_loss_is_that_of_the_logits(
    number: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solved_models, "PAIRS_AT_ONCE", at_once)
    clicks = log(3)
    model = solved(every_model()[number], clicks)
    users, clicked = (torch.from_numpy(x) for x in np.nonzero(clicks))
    unclicked = torch.tensor([int(np.flatnonzero(~clicks[u])[0]) for u in users])
    loss = model.calibrate(users, clicked, unclicked)
    logits = model.logits(users, torch.stack([clicked, unclicked]))
    losses = torch.nn.functional.softplus(torch.stack([-logits[0], logits[1]])).mean(1)
    assert loss == pytest.approx(float(losses.sum()), rel=1e-4)
    for name, other in (("scale", 1.1), ("offset", 1.3)):  # by no other number it is less
        kept = getattr(model, name).clone()
        getattr(model, name).mul_(other)
        worse = model.logits(users, torch.stack([clicked, unclicked]))
        assert torch.nn.functional.softplus(torch.stack([-worse[0], worse[1]])).mean(1).sum() > loss - 1e-4
        getattr(model, name).copy_(kept)


def test_the_scale_keeps_the_ranking_and_is_finite() -> None:
    """Where clicks have the smaller affinities, where all are the same, and where they are apart."""
    small, large = torch.zeros(50).double(), torch.ones(50).double()
    for clicks, others in ((small, large), (large, large), (large, small)):
        scale, offset, loss = logistic_fit(clicks, others)
        assert scale > 0
        assert np.isfinite([scale, offset, loss]).all()
    assert logistic_fit(large, small)[2] < 0.1
