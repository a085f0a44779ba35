"""A council of ResNet-32 on CIFAR-10 with made and human label noise, against plain training.

    ACCORD_DATA=DIR python benchmarks/council_images.py OUT [--data cifar10/uniform-0.5 …] [--methods council …]
        [--models resnet32 …] [--seeds 0 1 2] [--minutes 9] [--set name=value …] [--member name=value …] [--tiny]

Data are NAME/KIND-RATE, such as cifar10/instance-0.4, or the name alone for the labels as they are, such as
cifar10n-random1. The runs of --together seeds of a method are trained side by side. Each writes a cell, OUT/….npz,
with the classes that it gives the test images, and OUT/….json with its figures; a cell that is there is kept.
All 50,000 images are trained on with their noisy labels, the last epoch is taken, and nothing is held out: the
clean test decides nothing. `council-served` is the answer of all members of the last round, those of `council`.
`--member` gives settings of the council's members alone; `--member model=resnet9` makes them ResNet-9, whatever
the student is. Students of several models learn from the same members. `baselines` are normal training, the
ensemble and DeCA(p), of two normal runs a seed: one is `normal`, both are the ensemble (the mean of their
probabilities), and the other one is DeCA(p)'s prior, so that nothing is trained twice. OUT/detect holds what the
members of the first round say of labels that they did not see, for `benchmarks/detection.py`.

    python benchmarks/council_images.py OUT --report

prints accuracies, and differences to normal with intervals over seeds and test images.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.noise import add_noise
from accord.estimators import Classifier, fit_together
from accord.estimators.council import labels as rounds
from accord.evaluation.detection import detection_metrics
from accord.files import write_whole
from accord.training import Checkpoints

EPOCHS = 60
BASELINES = ("normal", "ensemble", "deca-p")
SECOND = 1000
"""Added to a seed: that of the ensemble's other network, which is DeCA(p)'s prior."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="+", default=["cifar10/uniform-0.5", "cifar10n-random1"])
    parser.add_argument("--methods", nargs="+", default=["council", "council-served"])
    parser.add_argument("--models", nargs="+", default=["resnet32"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--set", nargs="*", default=[], dest="words")
    parser.add_argument("--member", nargs="*", default=[], dest="member_words")
    parser.add_argument("--label", default="", help="appended to the method's name in the cells")
    parser.add_argument("--together", type=int, default=5, help="seeds that are trained side by side")
    parser.add_argument("--minutes", type=float, default=9.0, help="no group is begun after so long")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.report:
        report(asked.out)
        return
    started = time.monotonic()
    for data in asked.data:
        for model, method in product(asked.models, asked.methods):
            for seeds in missing(asked, data, model, method):
                if time.monotonic() - started > 60 * asked.minutes:
                    print(f"{data} {model} {method} {seeds}: no time left, not run", flush=True)
                    continue
                group(asked, data, model, method, seeds)


def missing(asked: argparse.Namespace, data: str, model: str, method: str) -> list[list[int]]:
    """Seeds without cells, some at a time."""
    rows = BASELINES if method == "baselines" else (method,)
    left = [s for s in asked.seeds if not all(cell_file(asked, data, model, row, s).is_file() for row in rows)]
    return [left[k : k + asked.together] for k in range(0, len(left), asked.together)]


def group(asked: argparse.Namespace, data: str, model: str, method: str, seeds: list[int]) -> None:
    """Some seeds of a method and a model on one data set, side by side."""
    name, _, noise = data.partition("/")
    images = loaded(name)
    inputs, test = images.inputs, images.test_inputs
    human = getattr(images, "truth", None)
    classes, truth = np.unique(images.labels if human is None else human, return_inverse=True)
    labels = np.searchsorted(classes, images.labels)
    if asked.tiny:
        inputs, test, truth, labels = inputs[:600], test[:200], truth[:600], labels[:600]
    sources, wrong = [], []
    for seed in seeds:
        given = labels
        if noise:
            kind, _, rate = noise.partition("-")
            given = add_noise(truth, len(classes), float(rate), kind=kind, seed=seed, inputs=inputs).labels
        sources.append({"X": inputs, "y": given})
        wrong.append(given != truth)
    common: dict[str, Any] = {"model": model, "epochs": 2 if asked.tiny else asked.epochs, "valid_share": 0.0}
    common |= {"restore": "last", "augment": "crop-flip", "device": asked.device}
    served = method == "council-served"
    own: dict[str, Any] = {"method": "council" if served else method} | ({"serve": "council"} if served else {})
    if method.startswith("council") and asked.member_words:
        member: dict[str, Any] = {"model": model, "method": "normal"} | values_of(asked.member_words)
        own["members"] = [Classifier(**member)]
    common |= values_of(asked.words)
    truth_of_test = np.searchsorted(classes, images.test_labels[: len(test)])

    def keep(row: str, fitted: list[Classifier], seconds: float, said: list[np.ndarray] | None = None) -> None:
        """The cells of a row; what is said of the test, by class, where it is not what the classifiers say."""
        for k, (seed, clf) in enumerate(zip(seeds, fitted, strict=True)):
            answers = clf.classes_[(clf.predict_proba(test) if said is None else said[k]).argmax(1)]
            right = answers == truth_of_test
            found = cell_of(clf, {"data": data, "model": model, "method": row + asked.label, "seed": seed})
            found |= {
                "accuracy": float(right.mean()),
                "noise": float(wrong[k].mean()),
                "seconds": round(seconds, 1),
            }
            if said is None:
                found["detection"] = (
                    detection_metrics(clf.label_quality_, wrong[k], "label") if wrong[k].any() else {}
                )
            if clf.votes_ is not None:
                found["targets_right"] = float((clf.predicted_ == truth).mean())
            file = cell_file(asked, data, model, row, seed)
            np.savez_compressed(file, answers=answers.astype(np.uint8), right=right)
            write_whole(file.with_suffix(".json"), json.dumps(found))
            print(
                f"{data} {model} {row}{asked.label} seed {seed}: accuracy {right.mean():.4f}, {seconds:.0f} s",
                flush=True,
            )

    def fitted_by(
        settings: list[dict[str, Any]], shelf: Checkpoints | None = None
    ) -> tuple[list[Classifier], float]:
        made = [Classifier(**(common | one)) for one in settings]
        started = time.perf_counter()
        fit_together(made, sources, checkpoint=shelf)
        return made, (time.perf_counter() - started) / len(made)

    if method == "baselines":
        fitted, seconds = fitted_by([{"method": "normal", "seed": seed} for seed in seeds])
        keep("normal", fitted, seconds)
        others, more = fitted_by([{"method": "normal", "seed": seed + SECOND} for seed in seeds])
        both = [(a.predict_proba(test) + b.predict_proba(test)) / 2 for a, b in zip(fitted, others, strict=True)]
        keep("ensemble", fitted, seconds + more, both)
        fitted, seconds = fitted_by(
            [{"method": "deca-p", "seed": seed, "prior": other} for seed, other in zip(seeds, others, strict=True)]
        )
        keep("deca-p", fitted, seconds + more)
        return
    with heard_of_first_round() as said:
        fitted, seconds = fitted_by([{**own, "seed": seed} for seed in seeds], Checkpoints(asked.out / "members"))
    keep(method, fitted, seconds)
    if served:
        return
    (asked.out / "detect").mkdir(exist_ok=True)
    for seed, clf, given, first in zip(seeds, fitted, (source["y"] for source in sources), said, strict=False):
        file = asked.out / "detect" / cell_file(asked, data, model, method, seed).name
        about = json.dumps({"data": data, "seed": seed})
        arrays = {"given": given.astype(np.uint8), "truth": truth.astype(np.uint8), "probabilities": first}
        np.savez_compressed(file, **arrays, quality=clf.label_quality_.astype(np.float16), metadata=np.array(about))


def cell_of(clf: Classifier, found: dict[str, Any]) -> dict[str, Any]:
    settings = {k: v for k, v in clf.settings_to_save().items() if isinstance(v, str | int | float | bool | None)}
    return found | {"council": clf.notes_.get("council"), "settings": json.loads(json.dumps(settings))}


@contextmanager
def heard_of_first_round() -> Iterator[list[np.ndarray]]:
    """What the members of every council say together, after the first round, of examples that they did not see."""
    said: list[np.ndarray] = []
    own = rounds.consensus

    def kept(predictions: np.ndarray, *given: Any, **more: Any) -> Any:
        said.append(predictions.mean(1).astype(np.float16))
        return own(predictions, *given, **more)

    rounds.consensus = kept
    try:
        yield said
    finally:
        rounds.consensus = own


@cache
def loaded(name: str) -> Any:
    return IMAGE_SETS[name].load()


def values_of(words: list[str]) -> dict[str, Any]:
    return {word.partition("=")[0]: value_of(word.partition("=")[2]) for word in words}


def value_of(word: str) -> Any:
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def cell_file(asked: argparse.Namespace, data: str, model: str, method: str, seed: int) -> Path:
    return asked.out / f"{data.replace('/', '_')}_{model}_{method}{asked.label}_{seed}.npz"


def report(out: Path) -> None:
    """Accuracies by data and method, and differences to normal."""
    from accord.evaluation.significance import difference

    cells: dict[tuple[str, str, str], list[tuple[dict[str, Any], np.ndarray]]] = {}
    for file in sorted(out.glob("*.json")):
        cell = json.loads(file.read_text())
        cells.setdefault((cell["data"], cell["model"], cell["method"]), []).append(
            (cell, np.load(file.with_suffix(".npz"))["right"])
        )
    print(
        "| data | model | method | seeds | accuracy | noise ROC-AUC | average precision | targets right "
        "| seconds a run |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (data, model, method), own in cells.items():
        each = np.array([cell["accuracy"] for cell, _ in own])
        numbers = [[cell["detection"].get(n) for cell, _ in own] for n in ("roc_auc", "average_precision")]
        words = ["" if None in one or not one else f"{np.mean(one):.4f}" for one in numbers]
        right = [cell["targets_right"] for cell, _ in own if "targets_right" in cell]
        spread = each.std(ddof=1) if len(each) > 1 else 0.0
        print(
            f"| {data} | {model} | {method} | {len(own)} | {each.mean():.4f} ± {spread:.4f} "
            f"({each.min():.4f} to {each.max():.4f}) | {words[0]} | {words[1]} | "
            f"{np.mean(right) if right else float('nan'):.4f} | {own[0][0]['seconds']:.0f} |"
        )
    for (data, model, method), own in cells.items():
        for other in ("normal", "ensemble", "deca-p"):
            base = {cell["seed"]: right for cell, right in cells.get((data, model, other), [])}
            both = [(right, base[cell["seed"]]) for cell, right in own if cell["seed"] in base and method != other]
            if len(both) > 1:
                print(
                    data,
                    model,
                    method,
                    "against",
                    other,
                    difference(*(np.stack(one).astype(float) for one in zip(*both, strict=True))),
                )


if __name__ == "__main__":
    main()
