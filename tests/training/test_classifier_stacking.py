"""A classifier in a stack is the classifier alone: the same chosen epoch, and the same weights but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from accord.experiments.labels import LabelComparison

from accord import Classifier
from accord.errors import AccordError, DataError
from accord.estimators import fit_together, fitting
from accord.estimators.fitting import can_stack

QUICK: dict[str, Any] = {"model": "mlp", "epochs": 6, "batch_size": 50, "device": "cpu"}
VARIED: list[dict[str, Any]] = [
    {"seed": 0, "learning_rate": 0.05, "c1": 1.0, "c2": 10.0},
    {"seed": 1, "learning_rate": 0.02, "c1": 10.0, "weight_decay": 0.01, "alpha": 0.5},
    {"seed": 2, "learning_rate": None},
]


def examples(shape: tuple[int, ...] = (7,)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(260) % 3
    inputs = rng.normal(size=(260, *shape)) + labels.reshape(-1, *[1] * len(shape))
    return inputs.astype(np.float32), labels


def classifiers(device: str = "cpu", **more: Any) -> list[Classifier]:
    return [Classifier(**{**QUICK, "device": device, **one, **more}) for one in VARIED]


def weights(clf: Classifier) -> torch.Tensor:
    return torch.cat([p.detach().flatten().cpu() for net in clf.networks_.values() for p in net.parameters()])


def noisy(labels: np.ndarray, seed: int) -> np.ndarray:
    """Another sample of wrong labels for each run."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(labels)) < 0.3, rng.integers(0, 3, len(labels)), labels)


def trusted(X: np.ndarray, y: np.ndarray, method: str) -> list[Any]:
    """Clean examples of each run, for the method that asks for some."""
    return [(X[k::7][:13], y[k::7][:13]) if method == "mw-net" else None for k in range(3)]


@pytest.mark.parametrize("method", ["normal", "ensemble", "itlm", "mw-net", "deca", "deca-p"])
@pytest.mark.parametrize("more", [{}, {"optimiser": "adam", "expectation": "full", "patience": 1}])
def test_a_classifier_in_a_stack_is_the_one_alone(method: str, more: dict[str, Any]) -> None:
    X, y = examples()
    labels, clean = [noisy(y, seed) for seed in range(3)], trusted(X, y, method)
    stacked = classifiers(method=method, **more)
    if "optimiser" in more:
        stacked = [clf.set_params(learning_rate=0.003) for clf in stacked]
    assert can_stack(stacked, False)
    fit_together(stacked, [X] * 3, labels, clean=clean, watch=(X, y))
    for clf, own, few in zip(stacked, labels, clean, strict=True):
        alone = Classifier(**clf.get_params()).fit(X, own, clean=few, watch=(X, y))
        assert [(r["phase"], r["epoch"], r["is_best"]) for r in clf.history_] == [
            (r["phase"], r["epoch"], r["is_best"]) for r in alone.history_
        ]
        for ours, theirs in zip(clf.history_, alone.history_, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
            assert ours["watched"]["accuracy"] == pytest.approx(theirs["watched"]["accuracy"], abs=0.01)
        together = [one.history_[-1].get("watched_together") for one in (clf, alone)]
        assert together == ([pytest.approx(together[1], abs=0.01)] * 2 if method == "ensemble" else [None, None])
        assert torch.allclose(weights(clf), weights(alone), rtol=1e-2, atol=1e-4)
        assert np.allclose(clf.predict_proba(X), alone.predict_proba(X), atol=1e-3)
        assert np.allclose(clf.label_quality_, alone.label_quality_, atol=1e-3)


def test_small_images_are_stacked_too() -> None:
    X, y = examples((4, 5, 2))
    stacked = fit_together(classifiers(method="deca-p"), [X] * 3, [y] * 3)
    for clf, one in zip(stacked, classifiers(method="deca-p"), strict=True):
        assert torch.allclose(weights(clf), weights(one.fit(X, y)), rtol=1e-2, atol=1e-4)


def test_runs_with_inputs_of_their_own_are_stacked() -> None:
    X, y = examples()
    made = classifiers(method="mw-net", weight_rate=0.01)
    others = [np.roll(X, k, 0) + np.float32(k) for k in range(3)]
    labels, clean = [noisy(np.roll(y, k), k) for k in range(3)], trusted(X, y, "mw-net")
    assert fitting._stacks_among(made, others, labels) == [[0, 1, 2]]
    fit_together(made, others, labels, clean=clean)
    for clf, own, given, few in zip(made, others, labels, clean, strict=True):
        alone = Classifier(**clf.get_params()).fit(own, given, clean=few)
        assert torch.allclose(weights(clf), weights(alone), rtol=1e-2, atol=1e-4)
        assert np.allclose(clf.label_quality_, alone.label_quality_, atol=1e-3)
        chosen = [one.metrics_["validation"]["training"] for one in (clf, alone)]
        assert len({(own["epoch"], own["accuracy"]) for own in chosen}) == 1


def test_a_prior_is_shared_by_those_with_the_same_labels(
    phases_seen: list[tuple[str, int]], asked_together: list[int]
) -> None:
    X, y = examples()
    labels = [noisy(y, 0), noisy(y, 0), noisy(y, 1), noisy(y, 0)]
    each: list[dict[str, Any]] = [{"c1": 1.0}, {"c1": 50.0}, {"c1": 50.0}, {"c2": 10.0}]
    made = [Classifier(**QUICK | one, method="deca-p") for one in each]
    fit_together(made, [X] * 4, labels)
    assert phases_seen == [("prior", 2), ("denoising", 4)]
    assert set(asked_together) == {2}
    for clf, own in zip(made, labels, strict=True):
        alone = Classifier(**clf.get_params()).fit(X, own)
        assert [r["is_best"] for r in clf.history_] == [r["is_best"] for r in alone.history_]
        assert torch.allclose(weights(clf), weights(alone), rtol=1e-2, atol=1e-4)


def test_inputs_of_their_own_are_not_laid_end_to_end_without_room(
    phases_seen: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = examples()
    others = [X, X.copy(), X.copy()]
    with monkeypatch.context() as scant:
        scant.setattr(fitting, "at_once", lambda *_: 16)
        scant.setattr(fitting, "free_memory", lambda _: 4 * X.nbytes)
        apart = fit_together(classifiers(method="normal"), others, [y] * 3)
    assert not phases_seen
    for clf, one in zip(apart, classifiers(method="normal"), strict=True):
        assert torch.equal(weights(clf), weights(one.fit(X, y)))


def test_those_that_are_alike_are_stacked_among_others() -> None:
    X, y = examples()
    kinds = ["normal", "itlm", "normal", "mw-net", "itlm"]
    made = [Classifier(**QUICK, method=m, seed=k) for k, m in enumerate(kinds)]
    assert fitting._stacks_among(made, [X] * 5, [y] * 5) == [[0, 2], [1, 4], [3]]
    assert fitting._stacks_among(made, [X, X, X.copy(), X, X[1:]], [y] * 5) == [[0, 2], [1], [3], [4]]
    many = [Classifier(**QUICK, seed=k) for k in range(20)]
    assert [len(part) for part in fitting._stacks_among(many, [X] * 20, [y] * 20)] == [10, 10]
    done: list[int] = []
    clean = [(X[:9], y[:9]) if method == "mw-net" else None for method in kinds]
    fit_together(made, [X] * 5, [y] * 5, clean=clean, fitted=done.append)
    assert sorted(done) == [0, 1, 2, 3, 4]
    alone = Classifier(**QUICK, method="itlm", seed=4).fit(X, y)
    assert torch.allclose(weights(made[4]), weights(alone), rtol=1e-2, atol=1e-4)


def test_what_is_not_stacked() -> None:
    assert not can_stack([Classifier(model="convnet", seed=s) for s in (0, 1)], True)
    assert not can_stack([Classifier(method="itlm", keep_share=s) for s in (0.5, 0.6)], False)
    assert not can_stack([Classifier(model="resnet32", device="cpu", seed=s) for s in (0, 1)], True)
    assert not can_stack([Classifier(epochs=e) for e in (2, 3)], False)
    assert not can_stack([Classifier(c1=(1.0, 2.0, 3.0), seed=s) for s in (0, 1)], False)
    assert can_stack([Classifier(seed=s) for s in (0, 1)], False)


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    X, y = examples()
    pair = [Classifier(**QUICK, method="normal", clip=None, learning_rate=rate) for rate in (0.05, 10.0)]
    done: list[int] = []
    large = X * 1e3
    with pytest.raises(AccordError, match="diverged"):
        fit_together(pair, [large, large], [y, y], fitted=done.append)
    assert done == [0]
    alone = Classifier(**QUICK, method="normal", clip=None, learning_rate=0.05).fit(X * 1e3, y)
    assert torch.allclose(weights(pair[0]), weights(alone), rtol=1e-2, atol=1e-4)


def test_what_cannot_be_kept_does_not_take_the_others_with_it() -> None:
    X, y = examples()
    kept: list[int] = []
    errors: dict[int, AccordError] = {}

    def keep(k: int) -> None:
        if k == 0:
            raise DataError("This one cannot be kept.")
        kept.append(k)

    fit_together(classifiers(method="normal"), [X] * 3, [y] * 3, fitted=keep, failed=errors.__setitem__)
    assert kept == [1, 2]
    assert list(errors) == [0]
    with pytest.raises(DataError, match="cannot be kept"):
        fit_together(classifiers(method="normal"), [X] * 3, [y] * 3, fitted=keep)


def test_a_diverging_trial_is_a_failed_one() -> None:
    X, y = examples()
    study = LabelComparison(X * 1e3, y, ["normal"], models=["mlp"], settings=QUICK | {"clip": None}, noise=0.1)
    settings = [study.settings_of("mlp", "normal", 0) | {"learning_rate": rate} for rate in (0.05, 10.0)]
    values = study.validate(settings, "normal", [None] * 2)
    assert np.isfinite(values[0])
    assert np.isnan(values[1])


def test_a_search_trains_its_trials_together() -> None:
    X, y = examples()
    study = LabelComparison(X, y, ["deca-p"], models=["mlp"], settings=QUICK | {"epochs": 2}, noise=0.2)
    assert study.validated_at_once() > 1
    settings = [study.settings_of("mlp", "deca-p", 0) | {"c1": c1} for c1 in (1.0, 10.0, 50.0)]
    together = study.validate(settings, "deca-p", [None] * 3)
    alone = [study.validate([one], "deca-p", [None])[0] for one in settings]
    assert together == pytest.approx(alone, abs=0.01)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["normal", "mw-net", "deca-p"])
def test_a_recorded_stack_is_the_classifier_alone_and_the_same_bytes_twice(method: str) -> None:
    X, y = examples()
    more, clean = {"method": method, "precision": "float32"}, trusted(X, y, method)
    first, again = (fit_together(classifiers("cuda", **more), [X] * 3, [y] * 3, clean=clean) for _ in range(2))
    for clf, twin, alone, few in zip(first, again, classifiers("cuda", **more), clean, strict=True):
        assert torch.equal(weights(clf), weights(twin))
        assert torch.allclose(weights(clf), weights(alone.fit(X, y, clean=few)), rtol=1e-2, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["itlm", "mw-net", "deca-p"])
def test_a_stack_that_is_recorded_again_without_those_who_left_gives_the_same_bytes_twice(method: str) -> None:
    X, y = examples()
    labels, clean = [noisy(y, seed) for seed in range(3)], trusted(X, y, method)
    more = QUICK | {"method": method, "patience": 3, "epochs": 20, "device": "cuda"}
    rates = [1e-6, 1e-3, 1e-3]  # the first learns nothing, and leaves before the others do
    first, again = (
        fit_together([Classifier(**more, learning_rate=r) for r in rates], [X] * 3, labels, clean=clean)
        for _ in range(2)
    )
    assert len({len(clf.history_) for clf in first}) > 1
    for clf, twin in zip(first, again, strict=True):
        assert torch.equal(weights(clf), weights(twin))
