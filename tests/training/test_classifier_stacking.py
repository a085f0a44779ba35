"""A classifier in a stack is the classifier alone: the same chosen epoch, and the same weights but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from accord import Classifier
from accord.errors import AccordError, DataError
from accord.estimators import classifier_stacks, fit_together, fitting
from accord.estimators.base import Cache
from accord.estimators.fitting import stack_key
from accord.experiments.study import Study
from accord.methods import method_of
from accord.tasks.labels import LabelTask

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
    """They differ in what may differ between runs of their method."""
    kind = method_of(more["method"], "labels")
    may = {"seed", "learning_rate", "weight_decay", *kind.may_differ}
    each = [{name: value for name, value in one.items() if name in may} for one in VARIED]
    return [Classifier(**{**QUICK, "device": device, **one, **more}) for one in each]


def weights(clf: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().cpu() for net in clf.networks_.values() for p in net.parameters()])


def noisy(labels: np.ndarray, seed: int) -> np.ndarray:
    """Another sample of wrong labels for each run."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(labels)) < 0.3, rng.integers(0, 3, len(labels)), labels)


def sources(X: Any, labels: Any, clean: list[Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    """What each run is fitted to; ``X`` may be one of each run."""
    each = X if isinstance(X, list) else [X] * len(labels)
    clean = clean or [None] * len(labels)
    return [{"X": x, "y": y, "clean": few, **more} for x, y, few in zip(each, labels, clean, strict=True)]


def groups(made: list[Classifier], each: list[dict[str, Any]]) -> list[list[int]]:
    """Who would be trained together."""
    cpu = torch.device("cpu")
    return fitting._Party(made, each, [None] * len(made), cpu, Cache(), None, True).stacks()


def trusted(X: np.ndarray, y: np.ndarray, method: str) -> list[Any]:
    """Clean examples of each run, for the method that asks for some."""
    return [(X[k::7][:13], y[k::7][:13]) if method == "mw-net" else None for k in range(3)]


@pytest.mark.parametrize("method", ["normal", "ensemble", "itlm", "mw-net", "deca", "deca-p"])
@pytest.mark.parametrize("more", [{}, {"optimiser": "adam", "expectation": "full", "patience": 1}])
def test_a_classifier_in_a_stack_is_the_one_alone(
    method: str, more: dict[str, Any], phases_seen: list[tuple[str, int]]
) -> None:
    X, y = examples()
    labels, clean = [noisy(y, seed) for seed in range(3)], trusted(X, y, method)
    stacked = classifiers(method=method, **more)
    if "optimiser" in more:
        stacked = [clf.set_params(learning_rate=0.003) for clf in stacked]
    fit_together(stacked, sources(X, labels, clean, eval_set=(X, y)))
    phases = 2 if method in ("ensemble", "deca-p") else 1
    assert [runs for _, runs in phases_seen] == [3] * phases
    for clf, own, few in zip(stacked, labels, clean, strict=True):
        alone = Classifier(**clf.get_params()).fit(X, own, clean=few, eval_set=(X, y))
        assert [(r["phase"], r["epoch"], r["is_best"]) for r in clf.history_] == [
            (r["phase"], r["epoch"], r["is_best"]) for r in alone.history_
        ]
        for ours, theirs in zip(clf.history_, alone.history_, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
            assert ours["eval_set"]["accuracy"] == pytest.approx(theirs["eval_set"]["accuracy"], abs=0.01)
        together = [one.history_[-1].get("eval_set_together") for one in (clf, alone)]
        assert together == ([pytest.approx(together[1], abs=0.01)] * 2 if method == "ensemble" else [None, None])
        assert torch.allclose(weights(clf), weights(alone), rtol=1e-2, atol=1e-4)
        assert np.allclose(clf.predict_proba(X), alone.predict_proba(X), atol=1e-3)
        assert np.allclose(clf.label_quality_, alone.label_quality_, atol=1e-3)


def test_small_images_are_stacked_too() -> None:
    X, y = examples((4, 5, 2))
    stacked = fit_together(classifiers(method="deca-p"), sources(X, [y] * 3))
    for clf, one in zip(stacked, classifiers(method="deca-p"), strict=True):
        assert torch.allclose(weights(clf), weights(one.fit(X, y)), rtol=1e-2, atol=1e-4)


def test_runs_with_inputs_of_their_own_are_stacked(phases_seen: list[tuple[str, int]]) -> None:
    X, y = examples()
    made = classifiers(method="mw-net", weight_rate=0.01)
    others = [np.roll(X, k, 0) + np.float32(k) for k in range(3)]
    labels, clean = [noisy(np.roll(y, k), k) for k in range(3)], trusted(X, y, "mw-net")
    fit_together(made, sources(others, labels, clean))
    assert phases_seen == [("training", 3)]
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
    fit_together(made, sources(X, labels))
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
        scant.setattr(classifier_stacks, "free_memory", lambda _: 4 * X.nbytes)
        apart = fit_together(classifiers(method="normal"), sources(others, [y] * 3))
    assert phases_seen == [("training", 1)] * 3
    for clf, one in zip(apart, classifiers(method="normal"), strict=True):
        assert torch.equal(weights(clf), weights(one.fit(X, y)))


def test_those_that_are_alike_are_stacked_among_others(phases_seen: list[tuple[str, int]]) -> None:
    X, y = examples()
    kinds = ["normal", "itlm", "normal", "mw-net", "itlm"]
    made = [Classifier(**QUICK, method=m, seed=k) for k, m in enumerate(kinds)]
    clean = [(X[:9], y[:9]) if method == "mw-net" else None for method in kinds]
    each = sources(X, [y] * 5, clean)
    assert groups(made, each) == [[0, 2], [1, 4], [3]]
    many = [Classifier(**QUICK, seed=k) for k in range(20)]
    assert [len(part) for part in groups(many, sources(X, [y] * 20))] == [10, 10]
    done: list[int] = []
    fit_together(made, each, fitted=done.append)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert sorted(phases_seen) == [("training", 1), ("training", 2), ("training", 2)]
    alone = Classifier(**QUICK, method="itlm", seed=4).fit(X, y)
    assert torch.allclose(weights(made[4]), weights(alone), rtol=1e-2, atol=1e-4)


def test_those_with_fewer_examples_are_trained_alone(phases_seen: list[tuple[str, int]]) -> None:
    X, y = examples()
    pair = fit_together(classifiers(method="normal")[:2], sources([X, X[1:]], [y, y[1:]]))
    assert phases_seen == [("training", 1)] * 2
    alone = classifiers(method="normal")[1].fit(X[1:], y[1:])
    assert torch.equal(weights(pair[1]), weights(alone))


def test_what_may_be_one_stack() -> None:
    def key(**settings: Any) -> str | None:
        return stack_key(Classifier(**settings))

    assert key(model="convnet") is None
    assert key(model="resnet32") is None
    assert key(compile=True) is None
    assert key(c1=(1.0, 2.0, 3.0)) is None
    assert key(method="itlm", keep_share=0.5) != key(method="itlm", keep_share=0.6)
    assert key(epochs=2) != key(epochs=3)
    assert key(seed=0, c1=3.0, learning_rate=0.2) == key(seed=1, weight_decay=0.1, alpha=0.5)


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    X, y = examples()
    pair = [Classifier(**QUICK, method="normal", clip=None, learning_rate=rate) for rate in (0.05, 10.0)]
    done: list[int] = []
    large = X * 1e3
    with pytest.raises(AccordError, match="diverged"):
        fit_together(pair, sources(large, [y, y]), fitted=done.append)
    assert done == [0]
    alone = Classifier(**QUICK, method="normal", clip=None, learning_rate=0.05).fit(X * 1e3, y)
    assert torch.allclose(weights(pair[0]), weights(alone), rtol=1e-2, atol=1e-4)


def test_what_cannot_be_kept_does_not_take_the_others_with_it() -> None:
    X, y = examples()
    same, kept = {"X": X, "y": y}, list[int]()
    errors: dict[int, AccordError] = {}

    def keep(k: int) -> None:
        if k == 0:
            raise DataError("This one cannot be kept.")
        kept.append(k)

    fit_together(classifiers(method="normal"), same, fitted=keep, failed=errors.__setitem__)
    assert kept == [1, 2]
    assert list(errors) == [0]
    with pytest.raises(DataError, match="cannot be kept"):
        fit_together(classifiers(method="normal"), same, fitted=keep)


def test_a_diverging_trial_is_a_failed_one() -> None:
    X, y = examples()
    study = Study(LabelTask(X * 1e3, y, noise=0.1), ["normal"], ["mlp"], settings=QUICK | {"clip": None})
    settings = [study.settings_of("mlp", "normal", 0) | {"learning_rate": rate} for rate in (0.05, 10.0)]
    values = study.validate(settings, "normal", [None] * 2)
    assert np.isfinite(values[0])
    assert np.isnan(values[1])


def test_a_search_trains_its_trials_together() -> None:
    X, y = examples()
    study = Study(LabelTask(X, y, noise=0.2), ["deca-p"], ["mlp"], settings=QUICK | {"epochs": 2})
    assert study.validated_at_once() > 1
    settings = [study.settings_of("mlp", "deca-p", 0) | {"c1": c1} for c1 in (1.0, 10.0, 50.0)]
    together = study.validate(settings, "deca-p", [None] * 3)
    alone = [study.validate([one], "deca-p", [None])[0] for one in settings]
    assert together == pytest.approx(alone, abs=0.01)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["normal", "mw-net", "deca-p"])
def test_a_captured_stack_is_the_classifier_alone_and_the_same_bytes_twice(method: str) -> None:
    X, y = examples()
    more, clean = {"method": method, "precision": "float32"}, trusted(X, y, method)
    first, again = (fit_together(classifiers("cuda", **more), sources(X, [y] * 3, clean)) for _ in range(2))
    for clf, other, alone, few in zip(first, again, classifiers("cuda", **more), clean, strict=True):
        assert torch.equal(weights(clf), weights(other))
        assert torch.allclose(weights(clf), weights(alone.fit(X, y, clean=few)), rtol=1e-2, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", ["itlm", "mw-net", "deca-p"])
def test_a_stack_that_is_captured_again_without_those_who_left_gives_the_same_bytes_twice(method: str) -> None:
    X, y = examples()
    labels, clean = [noisy(y, seed) for seed in range(3)], trusted(X, y, method)
    more = QUICK | {"method": method, "patience": 3, "epochs": 20, "device": "cuda"}
    rates = [1e-6, 1e-3, 1e-3]  # the first learns nothing, and leaves before the others do
    first, again = (
        fit_together([Classifier(**more, learning_rate=r) for r in rates], sources(X, labels, clean))
        for _ in range(2)
    )
    assert len({len(clf.history_) for clf in first}) > 1
    for clf, other in zip(first, again, strict=True):
        assert torch.equal(weights(clf), weights(other))
