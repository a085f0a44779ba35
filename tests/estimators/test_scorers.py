"""Recommenders that come fitted: objects and functions that score pairs of ids, factors, and torch modules."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn

from accord import Recommender
from accord.errors import AccordError, SettingError
from accord.models.recommenders import GMF
from accord.tasks.runs import run_of

USERS, ITEMS = 40, 30
rng = np.random.default_rng(0)
P, Q = rng.normal(size=(USERS, 4)), rng.normal(size=(ITEMS, 4))
TASTE = P @ Q.T
PAIRS = [(int(u), int(i)) for u in range(USERS) for i in np.argsort(-TASTE[u])[:6]]
rng.shuffle(PAIRS)
LOG: dict[str, Any] = {"user": [f"u{u}" for u, _ in PAIRS], "item": [f"i{i}" for _, i in PAIRS]}
NUMBERS: dict[str, Any] = {"user": [u for u, _ in PAIRS], "item": [i for _, i in PAIRS]}


def taste(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """What a user's model says of its own ids."""
    return np.array([TASTE[int(u[1:]), int(i[1:])] for u, i in zip(users, items, strict=True)])


class Predicts:
    def predict(self, users: np.ndarray, items: np.ndarray) -> list[float]:
        return taste(users, items).tolist()


class Scores:
    def score(self, users: np.ndarray, items: np.ndarray) -> Tensor:
        return torch.from_numpy(taste(users, items))


class Factors:
    """As of implicit: it recommends by vectors, whose rows are its ids."""

    user_factors, item_factors = P, Q

    def recommend(self, userid: int, user_items: Any, N: int = 10) -> None: ...


@pytest.mark.parametrize("model", [Predicts(), Scores(), taste, partial(taste), lambda u, i: taste(u, i)])
def test_what_scores_pairs_recommends_judges_and_is_measured(model: Any, tmp_path: Path) -> None:
    rec = Recommender(model=model).fit(LOG)
    assert rec.settings.method == "normal"
    assert rec.validation_["training"]["ndcg@20"] == 1.0
    users, items = np.array(LOG["user"][:50]), np.array(LOG["item"][:50])
    said, own = rec.predict(users, items), taste(users, items)
    slope, offset = np.polyfit(own, said, 1)
    assert slope > 0
    assert np.allclose(said, slope * own + offset, atol=1e-4)  # log-odds: its scores, and two numbers
    top = rec.recommend("u3", k=3, exclude_seen=False)
    assert top["item"].to_pylist() == [f"i{i}" for i in np.argsort(-TASTE[3])[:3]]
    clicks = {"user": [*LOG["user"][:200], "u1"], "item": [*LOG["item"][:200], f"i{TASTE[1].argmin()}"]}
    issues = Recommender(model=model).fit(clicks).find_label_issues()
    assert issues.slice(0, 1).to_pylist()[0]["user"] == "u1"  # the click that is against all taste
    rec.save(tmp_path / "run")
    with pytest.raises(AccordError, match="model of your own"):
        Recommender.load(tmp_path / "run")
    again = Recommender.load(tmp_path / "run", model=model)
    assert np.array_equal(again.predict(users, items), said)
    assert again.find_label_issues().equals(rec.find_label_issues())


def test_factors_are_known_by_the_numbers_of_their_rows() -> None:
    rec = Recommender(model=Factors()).fit(NUMBERS)
    assert rec.recommend([5], k=2, exclude_seen=False)["item"].to_pylist() == np.argsort(-TASTE[5])[:2].tolist()
    assert rec.similar_items([1], k=1).num_rows == 1
    with pytest.raises(SettingError, match=r"no numbers of these rows \(the first is \['u\d+'\]\)"):
        Recommender(model=Factors()).fit(LOG)


def test_a_factory_is_still_a_factory() -> None:
    """A function of the numbers of users and items that builds a module is one, and is trained by deca-p."""
    built: list[tuple[int, int]] = []

    def make(users: int, items: int) -> nn.Module:
        network = GMF(users, items, 4)
        built.append((users, items))
        return network

    rec = Recommender(model=make, epochs=1)
    assert rec.fit(LOG).settings.method == "deca-p"
    assert set(built) == {(len(set(LOG["user"])), len(set(LOG["item"])))}
    assert clone(Recommender(model=taste)).fit(LOG).settings.method == "normal"
    with pytest.raises(SettingError, match="learns by gradients, and the taste comes fitted.*prior=.*members="):
        Recommender(model=taste, method="deca").fit(LOG)


class Bad:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, users: np.ndarray, items: np.ndarray) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(len(users))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (KeyError("u7"), r"'Bad' cannot score users \['u\d+'\] and items \['i\d+'\] \(KeyError: 'u7'\)"),
        (lambda n: np.zeros((n, 2)), r"scores of shape \(\d+, 2\) for \d+ pairs"),
        (lambda n: np.full(n, np.nan), r"user u\d+ and item i\d+ a score that is no finite number"),
        (lambda n: ["?"] * n, "could not convert"),
    ],
)
def test_what_answers_wrongly_is_one_sentence(answer: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        Recommender(model=Bad(answer)).fit(LOG)
    assert "\n" not in str(caught.value)


def test_members_and_priors() -> None:
    quick: dict[str, Any] = {"epochs": 1, "dims": 4, "folds": 2}
    rec = Recommender(model="gmf", method="council", members=["ease", Predicts(), taste], **quick).fit(LOG)
    told = [(row["model"], row.get("fold")) for row in rec.notes_["council"]["members"]]
    assert told == [
        ("ease", None),
        ("ease", 0),
        ("ease", 1),
        ("Predicts", None),
        ("taste", None),
    ]  # it has seen all
    assert rec.notes_["council"]["weights"]["Predicts"] > rec.notes_["council"]["weights"]["ease"]
    for prior in (Scores(), taste):
        rec = Recommender(prior=prior, epochs=1, dims=4).fit(LOG)
        assert rec.notes_["prior"]["ndcg@20"] == 1.0


class Rows(nn.Module):
    """A torch recommender with weights: its rows are the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = (nn.Parameter(torch.from_numpy(one).float()) for one in (P, Q))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.users[users] * self.items[items]).sum(-1)

    def scores(self, users: Tensor) -> Tensor:
        return self.users[users] @ self.items.T


def test_a_torch_recommender_keeps_its_weights_or_is_reset(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"method": "normal", "epochs": 1, "learning_rate": 1e-4}
    rec = Recommender(model=Rows(), **quick).fit(NUMBERS)
    assert rec.validation_["training"]["ndcg@20"] > 0.95
    assert rec.notes_["weights"] == {"pretrained": "keep", "parameters": 280, "frozen": 0}
    assert any("handed over with were kept" in line for line in run_of(rec).description())
    rec.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run", model=Rows())
    assert np.array_equal(again.predict([1], [2]), rec.predict([1], [2]))
    assert (
        Recommender(model=Rows(), pretrained="reset", **quick).fit(NUMBERS).validation_["training"]["ndcg@20"] < 0.7
    )
    with pytest.raises(SettingError, match="no row numbers"):
        Recommender(model=Rows(), **quick).fit(LOG)
    with pytest.raises(SettingError, match="no scores for users up to 99"):
        Recommender(model=Rows(), **quick).fit({"user": [*NUMBERS["user"], 99], "item": [*NUMBERS["item"], 1]})
