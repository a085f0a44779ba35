"""How a council of recommenders answers: its head beside plain formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from accord.estimators.council.clicks import answering
from accord.estimators.council.clicks.answering import chosen, head_of, temper
from accord.estimators.council.clicks.judging import judged
from accord.estimators.council.clicks.weights import Choice, choices
from accord.evaluation.ranking import RankingTask
from accord.methods.assembly import FARTHEST, Together

Spoken = Any


def task_of(made: Spoken) -> RankingTask:
    clicks = made.split.clicks
    return RankingTask.from_pairs(clicks.users[made.held], clicks.items[made.held], [made.data])


def together(made: Spoken, choice: Choice, caution: float) -> Together:
    word = judged(made.voices, made.folds, 0.5)
    return Together([m.network for m in made.voices.full], head_of(made.voices, choice, word, caution))


def test_the_head_weighs_members_and_adds_the_log_chance_of_meaning_it(spoken: Callable[..., Spoken]) -> None:
    made = spoken(kinds=("a", "b"), seeds=2)
    word = judged(made.voices, [], 0.5)
    assert word.meant is not None
    users = torch.arange(20)
    with torch.no_grad():
        found = together(made, Choice((0.7, 0.3), 0.5), 2.0).scores(users).numpy()
        bold = together(made, Choice((0.7, 0.3), 0.5), 0.0).scores(users).numpy()
        assert not len(together(made, Choice((0.7, 0.3), 0.5), 0.0).head.item_mean)
    tables = np.stack(made.tables).astype(np.float64)
    weight = np.array([0.35, 0.35, 0.15, 0.15])[:, None, None]
    mean = (weight * tables).sum(0)
    plain = mean - 0.5 * np.sqrt((weight * (tables - mean) ** 2).sum(0))
    assert bold == pytest.approx(plain[:20], abs=1e-3)
    a, b = word.weights["a"], word.weights["b"]
    judging = a * tables[:2].mean(0) + b * tables[2:].mean(0)
    warm = made.data.degrees.numpy() > 0
    slope, doubt = (one.numpy() for one in word.meant.of_items(made.data.popularity))
    fit = (slope * (judging - judging[warm].mean(0))).clip(-FARTHEST, FARTHEST)
    logits = fit - np.log(np.exp(fit[warm]).mean(0)) - doubt
    assert found == pytest.approx((plain - 2 * np.log1p(np.exp(-logits)))[:20], abs=2e-3)


def test_what_was_chosen_is_the_best_way_to_rank(
    spoken: Callable[..., Spoken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each choice is measured by is how the council would rank, were it the head's."""
    made = spoken(kinds=("a", "b"))
    task = task_of(made)
    seen: list[np.ndarray] = []

    def spied(values: np.ndarray, tried: list[Choice], seed: int) -> Choice:
        seen.append(values)
        return tried[-1]

    monkeypatch.setattr(answering, "bagged", spied)
    assert chosen(made.voices, task, None) == choices(2)[-1]
    for k, choice in enumerate(choices(2)):
        teacher = together(made, choice, 0.0)
        own = answering._ndcg(lambda users, t=teacher: t.scores(users)[None], task, 1)[0]
        assert seen[0][k] == pytest.approx(own.numpy(), abs=1e-6)
    assert len(seen[0]) == len(choices(2))


def test_a_given_price_is_kept_and_without_held_out_clicks_all_kinds_count_alike(
    spoken: Callable[..., Spoken],
) -> None:
    made = spoken(kinds=("a", "b", "c"))
    assert chosen(made.voices, task_of(made), 0.3).kappa == 0.3
    assert chosen(made.voices, None, None) == Choice((1 / 3, 1 / 3, 1 / 3), 0.5)
    assert chosen(made.voices, None, 0.0).kappa == 0.0
    empty = replace(task_of(made), users=torch.empty(0, dtype=torch.long))
    assert chosen(made.voices, empty, None).weights == (1 / 3, 1 / 3, 1 / 3)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([0.2, 0.19, 0.3, 0.3], 4.0),  # it costs little
        ([0.2, 0.1, 0.186, 0.3], 2.0),
        ([0.2, 0.1, 0.1, 0.19], 1.0),
        ([0.2, 0.18, 0.184, 0.18], 0.0),
        ([0.0, 0.0, 0.0, 0.0], 4.0),
    ],
)
def test_caution_may_cost_little_of_the_ranking(
    spoken: Callable[..., Spoken], monkeypatch: pytest.MonkeyPatch, values: list[float], kept: float
) -> None:
    made = spoken(kinds=("a",))
    teacher = together(made, Choice((1.0,), 0.0), 4.0)
    tried: list[float] = []

    def told(scores: Any, task: RankingTask, count: int) -> torch.Tensor:
        assert (len(task.users), count) == (30, 1)
        tried.append(float(teacher.head.caution))
        return torch.tensor([values[len(tried) - 1]])

    monkeypatch.setattr(answering, "JUDGED_USERS", 30)
    monkeypatch.setattr(answering, "_ndcg", told)
    temper(teacher, task_of(made), 0)
    assert tried == [0.0, 4.0, 2.0, 1.0]
    assert float(teacher.head.caution) == kept


def test_of_many_users_some_are_asked(spoken: Callable[..., Spoken], monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(spoken(kinds=("a",)))
    assert answering._some_users(task, 0) is task
    monkeypatch.setattr(answering, "JUDGED_USERS", 30)
    users = answering._some_users(task, 0).users.tolist()
    assert len(users) == 30
    assert users == sorted(set(users))
    assert set(users) < set(task.users.tolist())
