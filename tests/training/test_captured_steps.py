"""Captured steps, and runs next to one another, give what plain steps and single runs give."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from accord.batches.clicks import ClickFeed
from accord.data.interactions import Interactions
from accord.estimators import Classifier, fit_together
from accord.estimators.settings import make_settings
from accord.methods import Setup, StepInfo, method_of
from accord.models import recommender_factory
from accord.models.stack import as_stack, stack
from accord.objectives import binary
from accord.training import Run, TrainingOptions, phase_trainer, seeded, training
from accord.training.stepping import Stepper

GPU = pytest.mark.gpu
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
METHODS = ["normal", "ensemble", "itlm", "deca", "deca-p", "mw-net"]


def made(seed: int = 0, count: int = 260) -> tuple[np.ndarray, np.ndarray]:
    """Small images whose class is the quarter that is bright."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.integers(0, 60, (count, 8, 8, 1))
    for k in range(4):
        rows, columns = slice(4 * (k // 2), 4 * (k // 2) + 4), slice(4 * (k % 2), 4 * (k % 2) + 4)
        images[labels == k, rows, columns] += 120
    return images.astype(np.uint8), labels


def classifier(method: str, **settings: Any) -> Classifier:
    common: dict[str, Any] = {
        "model": "convnet",
        "epochs": 4,
        "batch_size": 32,
        "augment": "crop-flip",
        "rounds": 2,
    }
    return Classifier(method=method, **{**common, **settings})


def fitted(method: str, **settings: Any) -> Classifier:
    return classifier(method, **settings).fit(**source(*made(), method))


def source(images: np.ndarray, labels: np.ndarray, method: str) -> dict[str, Any]:
    clean = {"clean": made(1, 64)} if method == "mw-net" else {}
    return {"X": images, "y": labels, **clean}


def weights(clf: Classifier) -> torch.Tensor:
    return torch.cat([p.detach().cpu().flatten() for net in clf.networks_.values() for p in net.parameters()])


@pytest.mark.parametrize("method", METHODS)
def test_runs_next_to_one_another_are_the_runs_alone(method: str) -> None:
    images, labels = made()
    other = np.roll(labels, 7)
    sources = [source(images, labels, method), source(images, other, method)]
    pair = [classifier(method, seed=0, device="cpu"), classifier(method, seed=3, device="cpu")]
    fit_together(pair, sources)
    alone = classifier(method, seed=3, device="cpu").fit(**sources[1])
    assert torch.equal(weights(pair[1]), weights(alone))
    assert [r["loss"] for r in pair[1].history_] == [r["loss"] for r in alone.history_]
    assert not torch.equal(weights(pair[0]), weights(alone))


def members(role: str, architecture: str | None = None, *, runs: int) -> list[torch.nn.Module]:
    each = []
    for seed in range(runs):
        with seeded(seed, role):
            each.append(recommender_factory(architecture or "mf", dims=4)(30, 20))
    return each


class OnceCaptured(Stepper):
    """A capturing stepper without a GPU: what it would replay is run again from the same buffers."""

    captured = 0

    def _captured(self, batch: Any, info: StepInfo) -> Any:
        OnceCaptured.captured += 1
        return SimpleNamespace(replay=lambda: self._update(batch.chunk.moving(), info))


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("method", ["normal", "wbpr", "t-ce", "deca", "deca-p"])
def test_a_step_that_is_replayed_reads_all_that_changes(
    method: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which batch, which step, which turn and which epoch: everything is where the captured step looks for it."""
    pairs = np.unique(np.random.default_rng(0).integers(0, 30 * 20, 300))
    data = Interactions.from_pairs(pairs // 20, pairs % 20, 30, 20)
    ended, replayed = [], list[Any]()
    OnceCaptured.captured = 0
    for capturing in (False, True):
        setup = Setup("clicks", binary, make_settings("clicks", {"ramp_epochs": 2}))
        phases = method_of(method, "clicks")().bound(setup).phases(lambda *role: stack(members(*role, runs=runs)))
        monkeypatch.setattr(phase_trainer, "Stepper", OnceCaptured if capturing else Stepper)
        made_of = phase_trainer.make_optimiser

        def make(phase: Any, options: Any, device: Any, capturing: bool = capturing, made_of: Any = made_of) -> Any:
            optimiser = made_of(phase, options, device)
            optimiser.capturing = capturing
            return optimiser

        with monkeypatch.context() as patch:
            patch.setattr(phase_trainer, "make_optimiser", make)
            chosen = TrainingOptions(epochs=4, batch_size=32, updates="dense")
            each = [
                Run(replace(chosen, seed=k, learning_rate=0.01 * (k + 1)), data, ClickFeed) for k in range(runs)
            ]
            list(training(phases, [], [], each))
        replayed.append(each)
        networks = [net for phase in phases for one in phase.networks.values() for net in as_stack(one).networks]
        ended.append([p.detach().clone() for net in networks for p in net.parameters()])
    assert OnceCaptured.captured == {"t-ce": 2, "deca": 2, "deca-p": 3}.get(method, 1)  # of each stage and turn
    assert len(ended[0]) >= 2 * runs
    for plain, captured in zip(*ended, strict=True):  # a rate in a tensor is a rounded one
        assert torch.allclose(plain, captured, rtol=1e-3, atol=1e-5)
    for plain, captured in zip(*replayed, strict=True):
        losses = [[r["loss"] for r in one.history] for one in (plain, captured)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@GPU
@NO_GPU
@pytest.mark.parametrize("method", METHODS)
def test_captured_steps_are_the_plain_ones(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In full precision and in small steps: rounding differs, and a large step makes much of it."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    same: dict[str, Any] = {"device": "cuda", "precision": "float32", "learning_rate": 0.005}
    both = [fitted(method, **same, capture=capture) for capture in (True, False)]
    losses = [[r["loss"] for r in clf.history_] for clf in both]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert torch.allclose(*(weights(clf) for clf in both), rtol=1e-2, atol=1e-3)


@GPU
@NO_GPU
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bytes_on_a_gpu(method: str) -> None:
    assert torch.equal(*(weights(fitted(method, device="cuda")) for _ in range(2)))


@GPU
@NO_GPU
@pytest.mark.parametrize("method", METHODS)
def test_streams_do_not_mix_runs(method: str) -> None:
    one = source(*made(), method)
    many = [classifier(method, seed=k, device="cuda") for k in range(4)]
    fit_together(many, one)
    alone = classifier(method, seed=2, device="cuda").fit(**one)
    assert torch.allclose(weights(many[2]), weights(alone), rtol=1e-4, atol=1e-5)


def learned(device: str) -> float:
    clf = fitted("deca-p", device=device, precision="float32", augment="none", epochs=25)
    return clf.score(*made(5))


def test_bright_quarters_are_learned() -> None:
    assert learned("cpu") > 0.9


@GPU
@NO_GPU
def test_gpu_and_cpu_agree() -> None:
    scores = [learned(device) for device in ("cpu", "cuda")]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
