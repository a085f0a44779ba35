"""The authors' MovieLens-100K split, where it is at hand: sizes, masks, and numbers near the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord import Recommender

PAPER = {"item_bias": False, "init_std": 0.01, "learning_rate": 1e-3, "l2": 0.1, "c0": 1000, "c1": 1000}


@pytest.mark.data
@pytest.mark.parametrize(
    ("method", "alpha", "low", "high"), [("normal", 0.5, 0.054, 0.066), ("deca", 1, 0.05, 0.075)]
)
def test_paper_protocol(movielens: Path, method: str, alpha: float, low: float, high: float) -> None:
    """Published N@20: normal .059, DeCA .064; the authors' program printed .060 and .063."""
    rec = Recommender(method=method, alpha=alpha, epochs=20, patience=0, restore="last", **PAPER)
    rec.fit(movielens / "ml-100k.train.rating", valid=movielens / "ml-100k.valid.rating")
    assert (rec.notes_["train"], rec.notes_["valid"]) == (79_619, 1707)
    measured = rec.evaluate(movielens / "ml-100k.test.negative", k=[20])
    assert (measured["users"], measured["pairs"]) == (707, 3594)
    assert low < measured["ndcg@20"] < high
