"""The golden runs of `golden.py`, for the accord that Python finds."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from accord import Classifier, Recommender
from accord.data.simulator import SimulatorSettings, simulate
from golden_adapter import every_step, fit, history_of, together
from golden_table import Golden

# -- data ----------------------------------------------------------------------------------------------------------


@cache
def simulation() -> Any:
    return simulate(SimulatorSettings(users=300, items=250, interactions=5000, seed=3))


def log(**more: Any) -> dict[str, Any]:
    return {"log": simulation().log(), **more}


class Digits(NamedTuple):
    """Handwritten digits, two fifths of whose labels were redrawn."""

    images: np.ndarray
    given: np.ndarray
    true: np.ndarray
    is_noise: np.ndarray

    @property
    def table(self) -> np.ndarray:
        return self.images.reshape(len(self.images), -1)

    def source(self, n: int = 500, images: bool = False, **more: Any) -> dict[str, Any]:
        return {"X": (self.images[..., None] if images else self.table)[:n], "y": self.given[:n], **more}

    @property
    def clean(self) -> tuple[np.ndarray, np.ndarray]:
        return self.table[500:600], self.true[500:600]

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray]:
        return self.table[600:800], self.true[600:800]


@cache
def digits() -> Digits:
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(3)
    order = rng.permutation(len(data.target))[:800]
    true, images = data.target[order], (data.images[order] * 255 / 16).astype(np.uint8)
    given = np.where(rng.random(800) < 0.4, rng.integers(0, 10, 800), true)
    return Digits(images, given, true, given != true)


class WithDropout(nn.Module):
    """A network of one's own, with a random layer."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 24), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(24, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(inputs))


def own_network(shape: Any, classes: int) -> nn.Module:
    return WithDropout(int(np.prod(shape)), classes)


# -- what is written down of a run ---------------------------------------------------------------------------------


def golden(fitted: Any) -> Golden:
    arrays, facts = _of_clicks(fitted) if isinstance(fitted, Recommender) else _of_labels(fitted)
    for role, network in sorted(fitted.networks_.items()):
        for name, tensor in network.state_dict().items():
            arrays[f"weights/{role}/{name}"] = tensor.detach().cpu().contiguous().numpy()
    facts |= {"history": history_of(fitted), "summary": _without_seconds(fitted.metrics_)}
    return Golden(arrays, facts)


def _of_clicks(rec: Recommender) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    made, issues = simulation(), rec.find_label_issues()
    users = [f"u{k}" for k in range(1, 41)]
    first = rec.recommend(users, k=10)
    log = made.log()
    arrays = {f"judged/{name}": _plain(issues[name]) for name in issues.column_names}
    arrays |= {f"answers/recommend {name}": _plain(first[name]) for name in first.column_names}
    arrays["answers/predict"] = rec.predict(log["user"][:200], log["item"][:200])
    facts = {"metrics": rec.evaluate(made.truth(), k=(5, 20)), "issues": rec.evaluate_issues(made.clicks())}
    return arrays, facts | {"threshold": float(rec.threshold_)}


def _of_labels(clf: Classifier) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    data, issues = digits(), clf.find_label_issues()
    n = issues.num_rows
    inputs = data.images[..., None] if isinstance(clf.model, str) and clf.model != "mlp" else data.table
    arrays = {f"judged/{name}": _plain(issues[name]) for name in issues.column_names}
    arrays["answers/predict_proba"] = clf.predict_proba(inputs[600:])
    facts = {
        "metrics": clf.evaluate(inputs[600:], data.true[600:]),
        "issues": clf.evaluate_issues(data.is_noise[:n]),
    }
    return arrays, facts


def _plain(column: Any) -> np.ndarray:
    values = np.asarray(column.to_pylist())
    if values.dtype.kind in "OV":
        raise TypeError("A column that would have to be pickled.")
    return values


def _without_seconds(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _without_seconds(v) for k, v in value.items() if not str(k).endswith("seconds")}
    if isinstance(value, list | tuple):
        return [_without_seconds(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


# -- the runs ------------------------------------------------------------------------------------------------------

Made = Iterator[tuple[str, Golden]]
RUNS: dict[str, Callable[[], Made]] = {}
"""Each yields its runs by name; most are one run, named as the entry."""
QUICK: dict[str, Any] = {"epochs": 6, "patience": 3, "batch_size": 512, "seed": 3, "device": "cpu"}
LABELS: dict[str, Any] = {"epochs": 6, "batch_size": 64, "seed": 3, "device": "cpu"}
IMAGES = LABELS | {"epochs": 2, "batch_size": 32, "augment": "crop-flip"}


class SkippedError(Exception):
    """A run that cannot be made here; its words say why."""


def _add(name: str, make: Callable[[], Any]) -> None:
    def run() -> Made:
        yield name, golden(make())

    RUNS[name] = run


def _clicks(name: str, *, more: Mapping[str, Any] | None = None, **settings: Any) -> None:
    _add(f"clicks-{name}", lambda: fit(Recommender(**{**QUICK, **settings}), log(**(more or {}))))


def _labels(name: str, source: Callable[[], dict[str, Any]], **settings: Any) -> None:
    _add(f"labels-{name}", lambda: fit(Classifier(**{**LABELS, **settings}), source()))


def _declare_clicks() -> None:
    for method in ("normal", "wbpr", "t-ce", "r-ce", "ensemble", "deca", "deca-p", "popularity"):
        _clicks(f"gmf-{method}", model="gmf", method=method)
    for model in ("mf", "neumf", "cdae", "lightgcn"):
        for method in ("normal", "deca-p"):
            _clicks(f"{model}-{method}", model=model, method=method)
    for sub_tasks in ("dp", "dn", "joint"):
        _clicks(f"gmf-deca-p-{sub_tasks}", method="deca-p", sub_tasks=sub_tasks)
    _clicks("gmf-deca-p-rows", method="deca-p", updates="rows")
    _clicks("gmf-normal-rows", method="normal", updates="rows")
    _clicks("gmf-normal-random-split", method="normal", split="random")
    _clicks("gmf-normal-time-split", method="normal", split="time", valid_share=0.2)
    _clicks("gmf-normal-last", method="normal", restore="last", patience=0)
    RUNS["clicks-gmf-normal-eval-set"] = lambda: iter(
        [("clicks-gmf-normal-eval-set", golden(fit(Recommender(method="normal", **QUICK), _evaluated())))]
    )


def _evaluated() -> dict[str, Any]:
    return log(eval_set=simulation().truth())


def _declare_labels() -> None:
    for method in ("normal", "ensemble", "mw-net", "itlm", "deca", "deca-p"):
        clean: dict[str, Any] = {"clean": True} if method == "mw-net" else {}

        def source(needs: bool = bool(clean)) -> dict[str, Any]:
            return digits().source(clean=digits().clean) if needs else digits().source()

        _labels(f"mlp-{method}", source, model="mlp", method=method)
    for method in ("normal", "deca-p"):
        for model in ("convnet", "resnet32"):
            _labels(f"{model}-{method}", lambda: digits().source(120, True), **IMAGES, model=model, method=method)
    plain = lambda: digits().source()  # noqa: E731
    _labels("mlp-deca-p-full", plain, model="mlp", expectation="full")
    _labels("mlp-deca-full", plain, model="mlp", method="deca", expectation="full")
    _labels("mlp-deca-p-detached", plain, model="mlp", detach_features=True)
    _labels("mlp-deca-p-noise-classes", plain, model="mlp", noise_classes=4)
    _labels("mlp-deca-p-c-by-class", plain, model="mlp", c1=tuple(range(1, 11)), c2=tuple(range(10, 0, -1)))
    _labels("own-normal", plain, model=own_network, features="body", method="normal")
    _labels("own-deca-p", plain, model=own_network, features="body")
    _labels("mlp-normal-adam", plain, model="mlp", method="normal", optimiser="adam")
    _labels("mlp-deca-p-adam", plain, model="mlp", optimiser="adam")
    _labels("mlp-deca-p-early", plain, model="mlp", patience=1, epochs=12)
    for method in ("normal", "ensemble"):
        watched = lambda: digits().source(eval_set=digits().held)  # noqa: E731
        _labels(f"mlp-{method}-eval-set", watched, model="mlp", method=method)


VARIED = [{"learning_rate": 0.01}, {"learning_rate": 0.01, "c1": 1.0}, {"learning_rate": 0.1}, {"seed": 4}]
"""The first two share DeCA(p)'s prior; the others stop at other epochs."""


def _recommenders(model: str, method: str, **settings: Any) -> list[Recommender]:
    shared: dict[str, Any] = QUICK | {"epochs": 10, "patience": 2, "updates": "dense", **settings}
    shared |= {"model": model, "method": method}
    return [Recommender(**(shared | own)) for own in VARIED]


def _classifiers(method: str) -> tuple[list[Classifier], list[dict[str, Any]]]:
    varied: list[dict[str, Any]] = [
        {"learning_rate": 0.1},
        {"learning_rate": 0.1, "c1": 10.0},
        {"learning_rate": 0.02},
        {"seed": 4},
    ]
    shared: dict[str, Any] = {**LABELS, "model": "mlp", "method": method, "epochs": 8, "patience": 2}
    made = [Classifier(**(shared | own)) for own in varied]
    clean: dict[str, Any] = {"clean": digits().clean} if method == "mw-net" else {}
    return made, [digits().source(**clean)] * len(made)


def _stack(name: str, fitted: Callable[[], list[Any]]) -> None:
    def run() -> Made:
        for k, one in enumerate(fitted()):
            yield f"stack-{name}-{k}", golden(one)

    RUNS[f"stack-{name}"] = run


def _declare_stacks() -> None:
    _stack("gmf-deca-p", lambda: together(_recommenders("gmf", "deca-p"), log()))
    _stack("gmf-deca-p-eval-set", lambda: together(_recommenders("gmf", "deca-p"), _evaluated()))
    for model in ("mf", "cdae", "neumf", "lightgcn"):
        _stack(f"{model}-normal", lambda model=model: together(_recommenders(model, "normal"), log()))
    for method in ("t-ce", "deca", "ensemble"):
        _stack(f"gmf-{method}", lambda method=method: together(_recommenders("gmf", method), log()))
    for method in ("normal", "deca-p", "deca", "mw-net", "itlm"):
        _stack(f"mlp-{method}", lambda method=method: together(*_classifiers(method)))


# -- runs that are interrupted and resumed -------------------------------------------------------------------------


class Killed(BaseException):
    """As Ctrl-C or the end of a process."""


def dies_in(phase: int, epoch: int) -> Callable[[Any], None]:
    """A callback that dies in the middle of an epoch; until then it waits, so that it is called at every step."""

    def callback(progress: Any) -> None:
        there = (progress.phase_number, progress.epoch)
        if there >= (phase, epoch) and 0.3 < progress.fraction < 1:
            raise Killed
        if there >= (phase, epoch - 1):
            time.sleep(0.11)

    return callback


def _resumed(make: Callable[[], Any], source: Callable[[], dict[str, Any]], phases: int) -> Golden:
    """Killed in the second epoch of every phase, and resumed each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        for phase in range(1, phases + 1):
            try:
                fit(make(), source(), dies_in(phase, 2), every_step(path))
            except Killed:
                assert path.is_file()
            else:
                raise AssertionError("it was not interrupted")
        again = golden(fit(make(), source(), None, path))
        assert not path.exists()
    whole = golden(fit(make(), source()))
    again.facts["equal to the uninterrupted run"] = again.equals(whole)
    return again


def _declare_resumed() -> None:
    def add(name: str, make: Callable[[], Any], source: Callable[[], dict[str, Any]], phases: int) -> None:
        RUNS[f"resumed-{name}"] = lambda: iter([(f"resumed-{name}", _resumed(make, source, phases))])

    quick: dict[str, Any] = QUICK | {"epochs": 4}
    add("gmf-deca-p", lambda: Recommender(**quick), log, 2)
    rows: dict[str, Any] = QUICK | {"epochs": 4, "updates": "rows", "method": "deca"}
    add("gmf-deca-rows", lambda: Recommender(**rows), log, 1)
    add("mlp-deca-p", lambda: Classifier(model="mlp", **LABELS), lambda: digits().source(), 2)
    own = {**LABELS, "method": "normal", "optimiser": "adam"}
    add("own-normal", lambda: Classifier(own_network, features="body", **own), lambda: digits().source(), 1)
    RUNS["resumed-stack"] = _resumed_stack


def _resumed_stack() -> Made:
    """A stack of recommenders, killed between two epochs when one run has left it."""
    left = iter(range(9))

    def dies(progress: Any) -> None:
        if next(left, None) is None:
            raise Killed

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        try:
            together(_recommenders("gmf", "deca-p"), log(), [dies, None, None, None], path)
        except Killed:
            assert path.is_file()
        else:
            raise AssertionError("it was not interrupted")
        again = [golden(one) for one in together(_recommenders("gmf", "deca-p"), log(), None, path)]
    whole = [golden(one) for one in together(_recommenders("gmf", "deca-p"), log())]
    for k, (one, other) in enumerate(zip(again, whole, strict=True)):
        one.facts["equal to the uninterrupted run"] = one.equals(other)
        yield f"resumed-stack-{k}", one


# -- the command line ----------------------------------------------------------------------------------------------


def _movielens() -> Made:
    """`accord compare` on fair MovieLens-100K: the table and the metrics of every cell."""
    if not os.environ.get("ACCORD_DATA"):
        raise SkippedError("ACCORD_DATA does not name the folder of data sets")
    words = [
        "compare",
        "movielens-100k",
        "--methods",
        "normal,deca-p",
        "--seeds",
        "2",
        "--epochs",
        "5",
        "--device",
        "cpu",
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "compare"
        done = subprocess.run(
            [sys.executable, "-m", "accord", *words, "--device", "cpu", "--out", str(out)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SkippedError(
                done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "accord compare failed"
            )
        rows = list(csv.DictReader((out / "compare.csv").read_text().splitlines()))
        facts: dict[str, Any] = {"table": _without_seconds(rows)}
        for path in sorted((out / "cells").glob("*.json")):
            cell = _without_seconds(json.loads(path.read_text()))
            facts[f"metrics of {path.stem}"] = {
                k: v for k, v in cell.items() if k in ("metrics", "detection", "epochs", "valid", "test")
            }
        yield "movielens-100k", Golden({}, facts)


def declare() -> None:
    def simulated() -> Made:
        made = simulation()
        tables = {"log": made.log(), "truth": made.truth(), "clicks": made.clicks()}
        arrays = {f"{t}/{name}": _plain(table[name]) for t, table in tables.items() for name in table.column_names}
        yield "simulation", Golden({k: v.astype("U") if v.dtype.kind == "O" else v for k, v in arrays.items()}, {})

    RUNS["simulation"] = simulated
    _declare_clicks()
    _declare_labels()
    _declare_stacks()
    _declare_resumed()
    RUNS["movielens-100k"] = _movielens


declare()
