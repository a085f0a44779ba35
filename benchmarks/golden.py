"""Golden runs: small trainings whose every byte is written down, to show that a rebuild changes nothing.

    python benchmarks/golden.py record OUT [--only NAME ...]
    python benchmarks/golden.py compare BEFORE AFTER [--all]
    python benchmarks/golden.py list

`record` trains with the accord that Python finds (set PYTHONPATH to choose it) and writes two files for each run:
arrays (npz: weights by role, label quality and flags, recommendations or probabilities) and JSON (history without
seconds, metrics, threshold). Nothing is pickled. Everything runs on one CPU thread, so that the same program on the
same machine writes the same bytes. `compare` exits with 1 where anything differs.

Calls that changed their names between versions stand in one block, `Adapter`.
"""

# pyright: reportPossiblyUnboundVariable=false, reportMissingImports=false

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # read when torch is imported

import argparse
import csv
import inspect
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

# -- adapter: every call that differs between the versions to compare ----------------------------------------------

if sys.argv[1:2] != ["compare"]:  # which reads files alone
    from accord import Classifier, Recommender
    from accord.data.simulator import SimulatorSettings, simulate
    from accord.estimators import fit_together
    from accord.training import Checkpoint

    OLD = "sources" not in inspect.signature(fit_together).parameters
    """Whether accord is as before the rebuild: clicks and labels are fitted together by two functions."""

RENAMED = {"watched": "eval_set", "watched_together": "eval_set_together"}
"""Keys of the history, old to new."""


def fit(estimator: Any, source: Mapping[str, Any], callback: Any = None, checkpoint: Any = None) -> Any:
    """`estimator.fit(**source)`; the source may hold an ``eval_set``."""
    words = dict(source)
    if OLD:
        words["watch"] = words.pop("eval_set", None)
        return estimator.fit(**words, hook=callback, checkpoint=checkpoint)
    return estimator.fit(**words, callback=callback, checkpoint=checkpoint)


def together(
    estimators: Sequence[Any],
    sources: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    callbacks: Sequence[Any] | None = None,
    checkpoint: Path | None = None,
) -> list[Any]:
    """Fit as one stack, on one source or on one for each."""
    if not OLD:
        kept_in = None if checkpoint is None else every_step(checkpoint)
        return list(fit_together(estimators, sources, callbacks=callbacks, checkpoint=kept_in))  # pyright: ignore
    each = [sources] * len(estimators) if isinstance(sources, Mapping) else list(sources)
    if isinstance(estimators[0], Recommender):
        from accord.estimators.stacking import Source, fit_stacked  # pyright: ignore[reportMissingImports]

        made = [Source(one["log"], watch=one.get("eval_set")) for one in each]
        kept_in = None if checkpoint is None else every_step(checkpoint)
        return fit_stacked(estimators, made, hooks=callbacks, checkpoint=kept_in)
    inputs, labels, clean = ([one.get(name) for one in each] for name in ("X", "y", "clean"))
    words: dict[str, Any] = {"clean": clean, "watch": each[0].get("eval_set"), "hooks": callbacks}
    return list(fit_together(estimators, inputs, labels, **words))  # pyright: ignore


def every_step(path: Path) -> Any:
    """A checkpoint that is written as often as it can be."""
    return Checkpoint(path, seconds=0.0)


def history_of(estimator: Any) -> list[dict[str, Any]]:
    """The history without seconds, in the words of today."""

    def plain(record: Mapping[str, Any]) -> dict[str, Any]:
        kept = {RENAMED.get(k, k): v for k, v in record.items() if not k.endswith("seconds")}
        return {k: plain(v) if isinstance(v, Mapping) else v for k, v in kept.items()}

    return [plain(record) for record in estimator.history_]


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


class Golden(NamedTuple):
    """Everything a run computed."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]

    def equals(self, other: Golden) -> bool:
        return not list(differences(self, other))


def golden(fitted: Any) -> Golden:
    arrays, facts = (_of_clicks if isinstance(fitted, Recommender) else _of_labels)(fitted)
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
    shared = QUICK | {"epochs": 10, "patience": 2, "updates": "dense", **settings}
    return [Recommender(**{**shared, "model": model, "method": method, **own}) for own in VARIED]


def _classifiers(method: str) -> tuple[list[Classifier], list[dict[str, Any]]]:
    varied = [{"learning_rate": 0.1}, {"learning_rate": 0.1, "c1": 10.0}, {"learning_rate": 0.02}, {"seed": 4}]
    made = [
        Classifier(**{**LABELS, "model": "mlp", "method": method, "epochs": 8, "patience": 2, **own})
        for own in varied
    ]
    clean = {"clean": digits().clean} if method == "mw-net" else {}
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

    add("gmf-deca-p", lambda: Recommender(**{**QUICK, "epochs": 4}), log, 2)
    rows = QUICK | {"epochs": 4, "updates": "rows", "method": "deca"}
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


# -- recording -----------------------------------------------------------------------------------------------------


def record(out: Path, only: Sequence[str]) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in RUNS if not only or any(word in name for word in only)]
    started, failed = time.perf_counter(), 0
    for name in chosen:
        began = time.perf_counter()
        try:
            for own, made in RUNS[name]():
                np.savez(out / f"{own}.npz", **made.arrays)  # pyright: ignore[reportArgumentType]
                (out / f"{own}.json").write_text(json.dumps(made.facts, indent=1, sort_keys=True, default=float))
            print(f"{name:34} {time.perf_counter() - began:6.2f} s", flush=True)
        except SkippedError as reason:
            print(f"{name:34} skipped: {reason}", flush=True)
        except Exception as error:  # the others are recorded all the same
            failed += 1
            print(f"{name:34} FAILED: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen)} recordings in {time.perf_counter() - started:.0f} s, {failed} failed")
    sys.exit(failed > 0)


# -- comparing -----------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    what: str
    words: str
    most: float
    """The largest absolute difference; infinite where the two cannot be subtracted."""


def read(folder: Path, name: str) -> Golden:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return Golden(arrays, json.loads((folder / f"{name}.json").read_text()))


def differences(one: Golden, other: Golden) -> Iterator[Difference]:
    """What is not the same bytes."""
    for key in sorted(one.arrays.keys() | other.arrays.keys()):
        a, b = one.arrays.get(key), other.arrays.get(key)
        if a is None or b is None:
            yield Difference(key, f"only in {'the second' if a is None else 'the first'}", np.inf)
        elif a.shape != b.shape or a.dtype != b.dtype:
            yield Difference(key, f"{a.dtype}{a.shape} and {b.dtype}{b.shape}", np.inf)
        elif a.tobytes() != b.tobytes():
            yield _between_arrays(key, a, b)
    left, right = dict(_leaves(one.facts)), dict(_leaves(other.facts))
    for key in sorted(left.keys() | right.keys()):
        if key not in left or key not in right:
            yield Difference(key, f"only in {'the first' if key in left else 'the second'}", np.inf)
        elif repr(left[key]) != repr(right[key]):
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left[key], right[key]))
            most = abs(left[key] - right[key]) if numbers else np.inf
            yield Difference(key, f"{left[key]!r} and {right[key]!r}", most)


def _between_arrays(key: str, a: np.ndarray, b: np.ndarray) -> Difference:
    if a.dtype.kind in "fiu":
        most = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        return Difference(key, f"by {most:.3g}, of at most {float(np.abs(a).max()):.3g}", most)
    return Difference(key, f"{int((a != b).sum())} of {a.size} values", np.inf)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{k}]")
    else:
        yield path, value


def chosen_epochs(facts: Mapping[str, Any]) -> dict[str, int]:
    """The epoch kept in each phase."""
    best = {}
    for record in facts.get("history", []):
        if record.get("is_best"):
            best[record["phase"]] = record["epoch"]
    return best


def _group(what: str) -> str:
    """The row of the table that a difference belongs to."""
    parts = what.split("/")
    return " ".join(parts[:2]) if parts[0] == "weights" else parts[0].split("[")[0]


def _rows(name: str, one: Golden, other: Golden, whole: bool) -> list[list[str]]:
    found: dict[str, list[Difference]] = {}
    for difference in differences(one, other):
        found.setdefault(_group(difference.what), []).append(difference)
    everything = dict.fromkeys(map(_group, [*one.arrays, *(key for key, _ in _leaves(one.facts))]))
    a, b = chosen_epochs(one.facts), chosen_epochs(other.facts)
    epochs = "" if not a | b else "same" if a == b else f"{a} and {b}"
    if not found:
        return (
            [[name, what, "equal", "0", epochs] for what in everything]
            if whole
            else [
                [
                    name,
                    f"all of {len(one.arrays)} arrays and {len(dict(_leaves(one.facts)))} facts",
                    "equal",
                    "0",
                    epochs,
                ]
            ]
        )
    rows = []
    for what in everything | found:
        own = found.get(what, [])
        if not own and not whole:
            continue
        worst = max(own, key=lambda d: d.most, default=None)
        most = "0" if worst is None else f"{worst.most:.3g}"
        rows.append([name, what, "equal" if worst is None else f"{worst.what}: {worst.words}", most, epochs])
    return rows


def compare(before: Path, after: Path, whole: bool) -> None:
    names = [{path.stem for path in folder.glob("*.npz")} for folder in (before, after)]
    rows, unequal = [["run", "what", "equal bytes", "max abs difference", "chosen epochs"]], 0
    for name in sorted(names[0] | names[1]):
        if name not in names[0] & names[1]:
            rows.append([name, "", f"only in {before if name in names[0] else after}", "", ""])
            unequal += 1
            continue
        own = _rows(name, read(before, name), read(after, name), whole)
        unequal += any(row[2] != "equal" for row in own)
        rows += own
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{len(names[0] | names[1])} runs, {unequal} differ")
    sys.exit(unequal > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--only", nargs="+", default=[], help="runs whose names hold one of these words")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "--all", action="store_true", help="a row for each thing compared, also where it is equal"
    )
    commands.add_parser("list")
    asked = parser.parse_args()
    declare()
    if asked.command == "record":
        record(asked.out, asked.only)
    elif asked.command == "compare":
        compare(asked.before, asked.after, asked.all)
    else:
        print("\n".join(RUNS))


if __name__ == "__main__":
    main()
