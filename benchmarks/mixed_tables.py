"""Wrong labels of tables with words, gaps and dates: accord beside cleanlab, with the same preprocessing.

    python benchmarks/mixed_tables.py FILE.csv:LABEL … [--seeds 3] [--noise 0.2] [--out FILE.json]

A table is any file that `accord fit` reads. A share of the labels is changed to other classes; 30 % of the rows,
with the labels they have, are the test. All methods learn from the same scaled numbers, which `TableColumns`
makes of the columns. cleanlab has out-of-sample probabilities of five folds, of the same network trained
normally, or the mean of those of the models that a council has as members; what it flags is left out, and the
same network is trained again. Prints the mean and the standard deviation over seeds of the accuracy on the test,
and of ROC-AUC and average precision of the label qualities. The figures in docs/how-to/your-data.md are of penguins
(palmerpenguins), loans (openintro's loans_full_schema without sub_grade, 2,000 rows of grades A to E) and churn
(modeldata's mlc_churn, 2,000 rows).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.filter import find_label_issues  # pyright: ignore[reportMissingImports]
from cleanlab.rank import get_label_quality_scores  # pyright: ignore[reportMissingImports]
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from accord import Classifier
from accord.data.labelled_files import read_labelled_table
from accord.data.noise import add_noise
from accord.estimators.council.plain import PLAIN
from accord.evaluation.detection import detection_metrics

FOLDS = 5
OWN = {"normal": {"method": "normal"}, "deca-p": {"method": "deca-p"}, "council": {"method": "council"}}


def measured(clf: Any, quality: np.ndarray, wrong: np.ndarray, test: Any) -> dict[str, float]:
    found = detection_metrics(quality, wrong, "label")
    right = float((clf.predict(test[0]) == test[1]).mean())
    return {"accuracy": right, "roc_auc": found["roc_auc"], "average_precision": found["average_precision"]}


def out_of_sample(make: Any, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Probabilities of models that did not see the example."""
    p = np.zeros((len(y), y.max() + 1))
    for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        fitted = make(seed).fit(X[train], y[train])
        p[np.ix_(held, np.asarray(fitted.classes_, int))] = fitted.predict_proba(X[held])
    return p


def network(seed: int) -> Classifier:
    return Classifier(method="normal", seed=seed)


def trial(X: np.ndarray, y: np.ndarray, noise: float, seed: int) -> dict[str, dict[str, float]]:
    """All methods with one seed."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    noisy = add_noise(y[train], y.max() + 1, noise, kind="others", seed=seed)
    given, held, results = noisy.labels, (X[test], y[test]), {}
    for name, how in OWN.items():
        begun = time.perf_counter()
        clf = Classifier(seed=seed, **how).fit(X[train], given)  # pyright: ignore[reportArgumentType]
        results[name] = measured(clf, clf.label_quality_, noisy.is_noise, held)
        results[name]["seconds"] = time.perf_counter() - begun
    begun = time.perf_counter()
    of_network = out_of_sample(network, X[train], given, seed)
    others = [
        out_of_sample(lambda _, name=name: PLAIN[name](), X[train], given, seed)
        for name in ("forest", "logistic", "neighbours")
    ]
    for name, p in (("cleanlab", of_network), ("cleanlab, all models", np.mean([of_network, *others], 0))):
        kept = ~find_label_issues(given, p)
        clf = network(seed).fit(X[train][kept], given[kept])
        results[name] = measured(clf, get_label_quality_scores(given, p), noisy.is_noise, held)
        results[name]["seconds"] = time.perf_counter() - begun
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore
    parser.add_argument("tables", nargs="+", metavar="FILE:LABEL")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    kept: dict[str, Any] = {}
    for word in args.tables:
        file, _, label = word.rpartition(":")
        data = read_labelled_table(Path(file), label)
        _, y = np.unique(data.labels, return_inverse=True)
        kinds = [one.kind for one in data.columns.encoders] if data.columns is not None else []
        columns = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        print(f"\n{Path(file).stem}: {len(y)} rows, {y.max() + 1} classes; columns: {columns}")
        X = StandardScaler().fit_transform(data.inputs)
        trials = [trial(X, y, args.noise, seed) for seed in range(args.seeds)]
        for name in trials[0]:
            each = {what: [one[name][what] for one in trials] for what in trials[0][name]}
            cells = [
                f"{what} {np.mean(v):.4f} ± {np.std(v, ddof=1) if len(v) > 1 else 0:.4f}"
                for what, v in each.items()
            ]
            print(f"  {name:22}", "  ".join(cells), flush=True)
        kept[Path(file).stem] = trials
    if args.out is not None:
        args.out.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
