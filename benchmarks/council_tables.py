"""A council on digits and on small tables with wrong labels, against plain training and against cleanlab.

    python benchmarks/council_tables.py [--seeds 10] [--data digits wine …] [--kind uniform] [--out FILE.json]
        [--ablation]

Digits have 40 % noise, the tables of scikit-learn 30 %. cleanlab has the same models as the council has members:
their out-of-fold probabilities (five folds, the mean over models) find the errors; what is left trains the same
network again (`cleanlab`), or all of the models, which answer by their mean (`cleanlab, all`). A part of each class
is the test set, the same for all seeds; its labels are clean and decide nothing. Prints accuracies, how well errors
are found, and differences with intervals over seeds and examples. With --ablation other councils take the place
of the other methods; `digit-images` are the digits as images, for a small convolutional network.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import StratifiedKFold, train_test_split

from accord import Classifier
from accord.data.noise import add_noise
from accord.estimators.council.plain import PLAIN
from accord.evaluation.detection import detection_metrics
from accord.evaluation.significance import difference

TABLES = {
    "digits": (datasets.load_digits, 0.4),
    "breast-cancer": (datasets.load_breast_cancer, 0.3),
    "wine": (datasets.load_wine, 0.3),
    "iris": (datasets.load_iris, 0.3),
    "digit-images": (datasets.load_digits, 0.4),
}
ABLATION: dict[str, dict[str, Any]] = {
    "no later round": {"member_rounds": 0},
    "1 later round": {"member_rounds": 1},
    "2 later rounds": {"member_rounds": 2},
    "3 later rounds": {"member_rounds": 3},
    "2 folds": {"folds": 2},
    "3 folds": {"folds": 3},
    "5 folds": {"folds": 5},
    "10 folds": {"folds": 10},
    "2 seeds of each": {"member_seeds": 2},
    "the network alone": {"members": ("auto",)},
    "the network alone, 4 seeds": {"members": ("auto",), "member_seeds": 4},
    "with boosting": {"members": ("auto", "forest", "logistic", "neighbours", "boosting")},
    "without the network": {"members": ("forest", "logistic", "neighbours")},
    "no mixup": {"mixup": 0.0},
    "mixup 0.3": {"mixup": 0.3},
    "mixup 1": {"mixup": 1.0},
    "trust 0": {"trust": 0.0},
    "trust 1": {"trust": 1.0},
    "the student's best epoch by noisy validation": {"restore": "best"},
    "crops, flips, colours, cut-outs": {"augment": "crop-flip"},
}
"""Of tables; those without an effect on a kind of data are left out there."""
PLAIN_MEMBERS = ("forest", "logistic", "neighbours")
Answer = tuple[np.ndarray, np.ndarray]
"""The classes of the test examples, and the quality of every label."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(TABLES)[:4], choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kind", default="uniform")
    parser.add_argument("--set", nargs="*", default=[], dest="words", help="settings of the council, name=value")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    own = {name: json.loads(value) for name, _, value in (word.partition("=") for word in asked.words)}
    found: dict[str, Any] = {}
    for name in asked.data:
        found[name] = of_table(name, asked.seeds, asked.kind, own, ABLATION if asked.ablation else None)
        if asked.out is not None:
            asked.out.write_text(json.dumps(found))


def of_table(
    name: str, seeds: int, kind: str, own: dict[str, Any], others: dict[str, dict[str, Any]] | None
) -> dict[str, Any]:
    read, rate = TABLES[name]
    data: Any = read()
    inputs, truth = np.asarray(data.data, np.float32), np.asarray(data.target)
    if name == "digit-images":
        inputs = inputs.reshape(-1, 8, 8)
    if others is not None:
        others = {what: own | one for what, one in others.items() if not is_usual(one, inputs.ndim == 3)}
    train, test = train_test_split(np.arange(len(truth)), test_size=0.3, stratify=truth, random_state=0)
    right: dict[str, list[np.ndarray]] = {}
    finding: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in range(seeds):
        noisy = add_noise(truth[train], int(truth.max()) + 1, rate, kind=kind, seed=seed, inputs=inputs[train])
        wrong = noisy.labels != truth[train]
        for method, answer in answers(inputs[train], noisy.labels, inputs[test], seed, own, others).items():
            classes, quality, took = answer
            right.setdefault(method, []).append(classes == truth[test])
            finding.setdefault(method, []).append(float(detection_metrics(quality, wrong, "label")["roc_auc"]))
            seconds.setdefault(method, []).append(took)
    print(f"\n{name}, {rate:.0%} {kind} noise, {len(train)} training and {len(test)} test examples, {seeds} seeds")
    print("| method | accuracy | errors found, ROC-AUC | seconds |")
    print("| --- | --- | --- | --- |")
    for method, each in right.items():
        accuracy = np.mean(each, 1)
        print(
            f"| {method} | {accuracy.mean():.4f} ± {accuracy.std(ddof=1):.4f} | {np.mean(finding[method]):.4f} | "
            f"{np.mean(seconds[method]):.1f} |"
        )
    ours = np.array(right["council"], float)
    for method in right:
        if method != "council":
            gap = difference(ours, np.array(right[method], float), units="examples")
            found = difference(*(np.array(finding[one])[:, None] for one in ("council", method)), units="examples")
            print(
                f"council less {method}: accuracy {gap.difference:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}], "
                f"ROC-AUC {found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]",
                flush=True,
            )
    accuracies = {method: np.mean(each, 1).tolist() for method, each in right.items()}
    return {"accuracy": accuracies, "roc_auc": finding, "seconds": seconds}


def is_usual(settings: dict[str, Any], of_images: bool) -> bool:
    """Whether a council of the ablation is the default one, or has members that are not for such data."""
    usual = {"member_rounds": 2, "folds": 3, "mixup": 0.3} if of_images else {"member_rounds": 1, "folds": 5}
    usual |= {} if of_images else {"mixup": 0.0, "augment": "crop-flip"}
    kinds = settings.get("members", ("auto",))
    if of_images and ("member_seeds" not in settings or len(kinds) > 1) and "members" in settings:
        return True
    return all(usual.get(name) == value for name, value in settings.items())


def answers(
    inputs: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    seed: int,
    own: dict[str, Any],
    others: dict[str, dict[str, Any]] | None,
) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    found = {}
    if others is not None:
        for what, settings in {"council": own, **others}.items():
            started = time.perf_counter()
            answer = by_accord(inputs, labels, test, seed, method="council", **settings)
            found[what] = (*answer, time.perf_counter() - started)
        return found
    for method, answer in (
        ("council", lambda: by_accord(inputs, labels, test, seed, method="council", **own)),
        ("normal", lambda: by_accord(inputs, labels, test, seed, method="normal")),
        ("deca-p", lambda: by_accord(inputs, labels, test, seed, method="deca-p")),
    ):
        started = time.perf_counter()
        found[method] = (*answer(), time.perf_counter() - started)
    if inputs.ndim > 2:  # scikit-learn's models take tables
        return found
    started = time.perf_counter()
    (one, every), quality = by_cleanlab(inputs, labels, test, seed)
    took = time.perf_counter() - started
    return found | {"cleanlab": (one, quality, took), "cleanlab, all": (every, quality, took)}


def by_accord(inputs: np.ndarray, labels: np.ndarray, test: np.ndarray, seed: int, **settings: Any) -> Answer:
    clf = Classifier(seed=seed, **settings).fit(inputs, labels)
    return np.asarray(clf.predict(test)), clf.label_quality_


def by_cleanlab(
    inputs: np.ndarray, labels: np.ndarray, test: np.ndarray, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    classes = int(labels.max()) + 1
    mean, std = inputs.mean(0), inputs.std(0) + 1e-6  # as the council scales for its members
    scaled, scaled_test = (inputs - mean) / std, (test - mean) / std
    unseen = np.zeros((len(labels), classes))
    for learnt, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(inputs, labels):
        unseen[held] = np.mean(said_by_all(scaled[learnt], labels[learnt], scaled[held], seed, classes), 0)
    unseen /= unseen.sum(1, keepdims=True)
    wrong = find_label_issues(labels, unseen)
    kept = ~wrong
    each = said_by_all(scaled[kept], labels[kept], scaled_test, seed, classes)
    return (each[0].argmax(1), np.mean(each, 0).argmax(1)), get_label_quality_scores(labels, unseen)


def said_by_all(
    inputs: np.ndarray, labels: np.ndarray, asked: np.ndarray, seed: int, classes: int
) -> list[np.ndarray]:
    """Probabilities by the network, which is the first, and by the other members of the council."""
    models: list[Any] = [Classifier(method="normal", seed=seed), *(PLAIN[name]() for name in PLAIN_MEMBERS)]
    said = []
    for model in models:
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(inputs, labels)
        answer = np.zeros((len(asked), classes))
        answer[:, np.asarray(model.classes_)] = model.predict_proba(asked)
        said.append(answer)
    return said


if __name__ == "__main__":
    main()
