"""Recorded steps and runs side by side give what plain steps and single runs give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from accord.estimators import Classifier, fit_together

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
    images, labels = made()
    clean = made(1, 64) if method == "mw-net" else None
    return classifier(method, **settings).fit(images, labels, clean=clean)


def weights(clf: Classifier) -> torch.Tensor:
    return torch.cat([p.detach().cpu().flatten() for net in clf.networks_.values() for p in net.parameters()])


@pytest.mark.parametrize("method", METHODS)
def test_runs_side_by_side_are_the_runs_alone(method: str) -> None:
    images, labels = made()
    other = np.roll(labels, 7)
    clean = [made(1, 64) if method == "mw-net" else None] * 2
    pair = [classifier(method, seed=0, device="cpu"), classifier(method, seed=3, device="cpu")]
    fit_together(pair, [images] * 2, [labels, other], clean=clean)
    alone = classifier(method, seed=3, device="cpu").fit(images, other, clean=clean[1])
    assert torch.equal(weights(pair[1]), weights(alone))
    assert [r["loss"] for r in pair[1].history_] == [r["loss"] for r in alone.history_]
    assert not torch.equal(weights(pair[0]), weights(alone))


@GPU
@NO_GPU
@pytest.mark.parametrize("method", METHODS)
def test_recorded_steps_are_the_plain_ones(method: str) -> None:
    both = [fitted(method, device="cuda", precision="float32", capture=capture) for capture in (True, False)]
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
    images, labels = made()
    clean = [made(1, 64) if method == "mw-net" else None] * 4
    many = [classifier(method, seed=k, device="cuda") for k in range(4)]
    fit_together(many, [images] * 4, [labels] * 4, clean=clean)
    alone = classifier(method, seed=2, device="cuda").fit(images, labels, clean=clean[0])
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
