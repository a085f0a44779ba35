"""Weights of examples: each multiplies its example's loss, so that 2 is the example twice and 0 is none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from accord import Classifier
from accord.batches.label_batches import LabelBatch
from accord.batches.labels import LabelData
from accord.batches.scaling import Scaling
from accord.errors import DataError, SettingError
from accord.estimators.fitting import fit_together

WHOLE: dict[str, Any] = {"model": "mlp", "epochs": 4, "batch_size": 500, "valid_share": 0.0, "seed": 3}
"""Every step sees all examples, so that no chance is left."""
METHODS = ["normal", "ensemble", "deca", "deca-p", "itlm"]
KEEP_ALL = {"itlm": {"keep_share": 1.0}}


@pytest.fixture
def unscaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are scaled by the mean of all rows, whatever they weigh; here they are left as they are."""
    plain = lambda values: Scaling(torch.zeros(values.shape[-1]), torch.ones(values.shape[-1]))  # noqa: E731
    monkeypatch.setattr(Scaling, "of", staticmethod(plain))


def examples(count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(count, 3))
    y = (X[:, 0] + rng.normal(size=count) > 0).astype(int) + (X[:, 1] > 1)
    return X.astype(np.float32), y, rng.integers(0, 4, count)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_the_example_so_often(method: str, unscaled: None) -> None:
    """Weights of 0 to 3 and rows that are there as often: the same network, step by step."""
    X, y, weights = examples()
    own = {**WHOLE, "method": method, **KEEP_ALL.get(method, {})}
    weighted = Classifier(**own).fit(X, y, sample_weight=weights)
    repeated = Classifier(**own).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    plain = Classifier(**own).fit(X, y)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=2e-5)
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 1e-3
    losses = [[record["loss"] for record in clf.history_] for clf in (weighted, repeated)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_a_constant_weight_changes_nothing() -> None:
    X, y, _ = examples()
    own = {**WHOLE, "method": "deca-p", "batch_size": 16, "valid_share": 0.2}
    plain = Classifier(**own).fit(X, y).predict_proba(X)
    for weights in (np.full(len(y), 7.5), 0.25):
        np.testing.assert_allclose(Classifier(**own).fit(X, y, weights).predict_proba(X), plain, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 9)), min_size=1, max_size=8))
def test_the_mean_of_a_batch_is_that_of_products(pairs: list[tuple[float, float]]) -> None:
    losses, weights = (torch.tensor([column], dtype=torch.float32) for column in zip(*pairs, strict=True))
    rows = torch.zeros_like(losses, dtype=torch.int64)
    batch = LabelBatch(losses[..., None], rows, rows, weights=weights)
    expected = sum(loss * weight for loss, weight in pairs) / len(pairs)
    assert float(batch.mean(losses)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_held_out_examples_count_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    data = LabelData(torch.eye(4), torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 3]), Scaling.of(torch.eye(4)))
    said = torch.eye(3)[torch.tensor([0, 1, 2, 2])]  # the class that each of the four is taken for
    monkeypatch.setattr(LabelBatch, "logits", lambda batch, network: said[batch.rows])

    def measured(weights: list[float] | None) -> float:
        data.weights = None if weights is None else torch.tensor(weights)
        return float(data.measure([None], [0], [data])["accuracy"][0])

    assert measured(None) == pytest.approx(2 / 3)
    assert measured([1.0, 2.0, 9.0, 5.0]) == pytest.approx(3 / 8)
    assert measured([0.0, 0.0, 9.0, 0.0]) == pytest.approx(2 / 3)  # where none counts, each does


def test_weights_of_every_kind_are_the_same() -> None:
    X, y, weights = examples()
    own = {**WHOLE, "method": "normal"}
    first = Classifier(**own).fit(X, y, weights).predict_proba(X)
    for kind in (list(weights), pd.Series(weights, index=np.arange(len(y))[::-1]), weights.astype(np.float32)):
        assert np.array_equal(Classifier(**own).fit(X, y, sample_weight=kind).predict_proba(X), first)


def test_runs_in_a_stack_have_weights_of_their_own() -> None:
    X, y, weights = examples()
    own = {**WHOLE, "method": "deca-p", "batch_size": 16}
    sources = [{"X": X, "y": y, "sample_weight": one} for one in (weights, weights[::-1].copy())]
    together = fit_together([Classifier(**own), Classifier(**own)], sources)
    for clf, source in zip(together, sources, strict=True):
        alone = Classifier(**own).fit(**source)
        np.testing.assert_allclose(clf.predict_proba(X), alone.predict_proba(X), atol=1e-3)


def test_a_prior_that_is_fitted_first_learns_with_the_weights(unscaled: None) -> None:
    X, y, weights = examples()
    own = {**WHOLE, "method": "deca-p", "prior": Classifier(**WHOLE, method="ensemble")}
    weighted = Classifier(**own).fit(X, y, sample_weight=weights)
    repeated = Classifier(**own).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=2e-5)


def test_a_checkpoint_of_other_weights_is_not_taken(tmp_path: Path) -> None:
    X, y, weights = examples()
    own = {**WHOLE, "method": "normal"}

    def stop(progress: Any) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    from accord.training import Checkpoint

    file = Checkpoint(tmp_path / "state", 0.0)
    with pytest.raises(KeyboardInterrupt):
        Classifier(**own).fit(X, y, weights, callback=stop, checkpoint=file)
    assert file.path.exists()
    with pytest.raises(DataError):
        Classifier(**own).fit(X, y, weights[::-1].copy(), checkpoint=Checkpoint(tmp_path / "state", 0.0))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(3), "Weights of shape"),
        (np.ones((40, 1)), "Weights of shape"),
        (np.r_[np.ones(39), -1.0], "Weight -1.0 of example 39"),
        (np.r_[np.nan, np.ones(39)], "Weight nan of example 0"),
        (["x"] * 40, "one number for each example"),
        (np.zeros(40), "a weight of zero"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: Any, said: str) -> None:
    X, y, _ = examples()
    with pytest.raises(DataError, match=said):
        Classifier(**WHOLE, method="normal").fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("method", ["council", "mw-net"])
def test_methods_that_cannot_take_weights_say_so(method: str) -> None:
    X, y, weights = examples()
    clean: dict[str, Any] = {"clean": (X[:5], y[:5])} if method == "mw-net" else {}
    with pytest.raises(SettingError, match=f"Method '{method}' takes no sample_weight"):
        Classifier(**WHOLE, method=method).fit(X, y, sample_weight=weights, **clean)


def test_weights_go_through_a_search() -> None:
    X, y, weights = examples(60)
    search = GridSearchCV(Classifier(method="normal", epochs=3), {"learning_rate": [0.01, 0.05]}, cv=2)
    assert search.fit(X, y, sample_weight=weights).best_params_["learning_rate"] in (0.01, 0.05)
