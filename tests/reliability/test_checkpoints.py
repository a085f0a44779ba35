"""A run that is interrupted anywhere and resumed ends as the run that was not: the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import AccordError, DataError, InterruptedRunError
from accord.methods import methods_of
from accord.training import Checkpoint
from accord.training.checkpoints import State
from stopping import StopsAfter

TIMES = ("train_seconds", "valid_seconds")


def outcome(fitted: Any) -> tuple[list[bytes], list[dict[str, Any]]]:
    weights = [t.numpy().tobytes() for net in fitted.networks_.values() for t in net.state_dict().values()]
    quality = getattr(fitted, "quality_", None)
    weights.append((fitted.label_quality_ if quality is None else quality).tobytes())
    history = [{k: v for k, v in record.items() if k not in TIMES} for record in fitted.history_]
    return weights, history


def interrupted(make: Callable[[Checkpoint], Any], path: Path, every: int) -> tuple[Any, int]:
    """Stop again and again, resuming it each time, until it is done."""
    for stops in range(500):
        try:
            return make(StopsAfter(path, every)), stops
        except InterruptedRunError:
            assert path.is_file()
    raise AssertionError("it never ended")


RECOMMENDERS = [("gmf", m) for m in methods_of("clicks") if m != "popularity"] + [
    ("neumf", "deca"),
    ("lightgcn", "deca-p"),
    ("cdae", "normal"),
    ("cdae", "deca-p"),
]


@pytest.mark.parametrize(("model", "method"), RECOMMENDERS)
def test_recommenders(model: str, method: str, made: Simulation, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "epochs": 3,
        "batch_size": 700,
        "dims": 8,
        "patience": 2,
        "seed": 4,
        "device": "cpu",
    }
    updates = "rows" if model == "gmf" and method == "deca" else "auto"

    def make(checkpoint: Checkpoint | None) -> Recommender:
        rec = Recommender(model=model, method=method, updates=updates, **settings)
        return rec.fit(made.log(), checkpoint=checkpoint)

    whole = outcome(make(None))
    path = tmp_path / "state.safetensors"
    again, stops = interrupted(make, path, 5)
    assert stops > 2
    assert outcome(again) == whole


def noisy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 5)) + y[:, None]
    given = np.where(rng.random(120) < 0.3, rng.integers(0, 3, 120), y)
    return X, given, y


class WithDropout(torch.nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3))
        self.head = torch.nn.Linear(8, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(inputs))


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("method", methods_of("labels"))
def test_classifiers(method: str, optimiser: str, tmp_path: Path) -> None:
    X, given, y = noisy()
    clean = (X[:20], y[:20])

    def make(checkpoint: Checkpoint | None) -> Classifier:
        clf = Classifier(model="mlp", method=method, epochs=6, batch_size=32, rounds=3, optimiser=optimiser, seed=2)
        return clf.fit(
            X, given, clean=clean if method == "mw-net" else None, eval_set=(X, y), checkpoint=checkpoint
        )

    whole = outcome(make(None))
    again, stops = interrupted(make, tmp_path / "state", 4)
    assert stops > 2
    assert outcome(again) == whole


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize(("model", "method"), [("convnet", "normal"), ("resnet32", "deca-p"), ("mlp", "deca")])
def test_image_classifiers(model: str, method: str, optimiser: str, tmp_path: Path) -> None:
    """Convolutions lie in memory with channels last, and so must the moments of their weights."""
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 3
    images = (rng.normal(size=(48, 8, 8, 3)) + labels[:, None, None, None]).astype(np.float32)
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 16, "optimiser": optimiser, "device": "cpu"}

    def made(checkpoint: Checkpoint | None = None) -> Classifier:
        return Classifier(model=model, method=method, **settings).fit(images, labels, checkpoint=checkpoint)

    again, stops = interrupted(made, tmp_path / "state", every=3)
    assert stops > 1
    assert outcome(again) == outcome(made())


def test_dropout_resumes_its_own_stream(tmp_path: Path) -> None:
    X, given, _ = noisy()

    def make(checkpoint: Checkpoint | None) -> Classifier:
        clf = Classifier(lambda shape, classes: WithDropout(classes), "normal", "body", epochs=5, batch_size=32)
        return clf.fit(X, given, checkpoint=checkpoint)

    whole = outcome(make(None))
    assert outcome(interrupted(make, tmp_path / "state", 3)[0]) == whole


def test_a_checkpoint_of_another_run_is_refused(made: Simulation, tmp_path: Path) -> None:
    path = tmp_path / "state"
    settings: dict[str, Any] = {"epochs": 2, "dims": 4, "method": "normal"}
    with pytest.raises(InterruptedRunError):
        Recommender(**settings).fit(made.log(), checkpoint=StopsAfter(path, 2))
    before = path.read_bytes()
    for other in ({"seed": 1}, {"learning_rate": 0.1}, {"method": "deca"}):
        with pytest.raises(DataError, match="another run"):
            Recommender(**{**settings, **other}).fit(made.log(), checkpoint=path)
    with pytest.raises(DataError, match="another run"):
        Recommender(**settings).fit(made.log().slice(3), checkpoint=path)
    assert path.read_bytes() == before
    Recommender(**settings).fit(made.log(), checkpoint=path)
    assert not path.exists()


@pytest.mark.parametrize("size", [0, 7, 200, 3000])
def test_a_damaged_checkpoint_is_one_sentence(size: int, made: Simulation, tmp_path: Path) -> None:
    path = tmp_path / "state"
    settings: dict[str, Any] = {"epochs": 2, "dims": 4, "method": "normal"}
    with pytest.raises(InterruptedRunError):
        Recommender(**settings).fit(made.log(), checkpoint=StopsAfter(path, 2))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataError, match="damaged"):
        Recommender(**settings).fit(made.log(), checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(
    made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    settings: dict[str, Any] = {"epochs": 2, "dims": 4, "method": "normal", "batch_size": 512}

    def make(checkpoint: Checkpoint | None) -> Recommender:
        return Recommender(**settings).fit(made.log(), checkpoint=checkpoint)

    with pytest.raises(InterruptedRunError):
        make(StopsAfter(path, 3))
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("accord.training.checkpoints.write_tensors", full)
        with pytest.raises(DataError, match="No space left"):
            make(StopsAfter(path, 2))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    assert outcome(make(Checkpoint(path))) == outcome(make(None))


def test_a_checkpoint_that_was_tampered_with_is_one_sentence(made: Simulation, tmp_path: Path) -> None:
    """Every tensor cut short or left out, and every number changed, with the identity as it was."""
    path = tmp_path / "state"
    settings: dict[str, Any] = {"epochs": 3, "dims": 4, "method": "normal", "batch_size": 512, "device": "cpu"}
    with pytest.raises(InterruptedRunError):
        Recommender(**settings).fit(made.log(), checkpoint=StopsAfter(path, 14))
    with safe_open(path, "pt") as file:
        notes, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata = json.loads(notes["metadata"])
    cases: list[tuple[dict[str, torch.Tensor], dict[str, Any]]] = []
    for name, tensor in tensors.items():
        left = {other: value for other, value in tensors.items() if other != name}
        cases += [(left, metadata), ({**left, name: tensor.flatten()[:-1].clone()}, metadata)]
    for name in metadata:
        cases += [(tensors, {k: v for k, v in metadata.items() if k != name}), (tensors, {**metadata, name: "x"})]
        cases.append((tensors, {**metadata, name: -5}))
    refused = 0
    for changed, words in cases:
        save_file(changed, path, metadata={**notes, "metadata": json.dumps(words)})
        try:
            Recommender(**settings).fit(made.log(), checkpoint=path)
        except AccordError:
            refused += 1
    assert refused >= 0.8 * len(cases)


def test_a_checkpoint_that_nobody_asked_for_takes_little_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("accord.training.checkpoints.time.monotonic", lambda: now[0])

    def slow(*_: Any, **__: Any) -> None:
        now[0] += 10.0

    monkeypatch.setattr("accord.training.checkpoints.write_tensors", slow)
    monkeypatch.setattr("accord.training.checkpoints.whole_file", lambda path, flush: nullcontext(path))
    for optional, wait in ((False, 30.0), (True, 200.0)):
        checkpoint = Checkpoint(tmp_path / "run", seconds=30.0, optional=optional)
        checkpoint.write(State({}, {}))
        now[0] += wait - 1.0
        assert not checkpoint.due()
        now[0] += 1.0
        assert checkpoint.due()
