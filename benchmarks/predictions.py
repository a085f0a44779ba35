"""Wrong labels from predictions alone, beside cleanlab: how well they are found, and time and memory.

    python benchmarks/predictions.py found FOLDER/label-errors
    python benchmarks/predictions.py cost

`found` reads .npz files with `given` and `true` labels and out-of-sample probabilities `pred_probs_NAME` of several
nets. True labels are used to measure only. Each net alone, and the mean of all, is judged by cleanlab's scores and
by accord; all together by cleanlab's ensemble scores with every weighting that it has, and by accord's council.
Flags are shown where there is a rule. `cost` judges made labels at 1,000,000 × 10 and 50,000 × 1,000, each in a
process of its own: the seconds of the call alone, and the peak of memory above the input's. cleanlab's
`find_label_issues` gives flags and a ranking, as accord does; its scores alone are cheaper and are shown too.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
WEIGHTS = ("uniform", "accuracy", "log_loss_search")
SIZES = ((1_000_000, 10), (50_000, 1_000))
CALLS = (
    "input",
    "accord",
    "cleanlab find_label_issues",
    "cleanlab scores",
    "accord of 3",
    "cleanlab ensemble of 3",
)


def rows_of(given: np.ndarray, nets: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
    """Name, quality, and flags where there is a rule."""
    from cleanlab.filter import find_label_issues as their_issues
    from cleanlab.rank import get_label_quality_ensemble_scores, get_label_quality_scores

    from accord import find_label_issues

    def ours(one: np.ndarray | dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        table = find_label_issues(given, one).sort_by("index")
        return np.asarray(table["label_quality"]), np.asarray(table["is_label_issue"])

    exact = {name: net.astype(np.float64) for name, net in nets.items()}
    exact = {name: net / net.sum(1, keepdims=True) for name, net in exact.items()}
    together = list(exact.values())
    for name, net in exact.items():
        flags = their_issues(given, net, n_jobs=1)
        for score in SCORES:
            yield f"{name}: {score}", get_label_quality_scores(given, net, method=score), flags
        yield f"{name}: accord", *ours(net)
    mean = np.mean(together, 0)
    flags = their_issues(given, mean, n_jobs=1)
    for score in SCORES:
        yield f"mean: {score}", get_label_quality_scores(given, mean, method=score), flags
    yield "mean: accord", *ours(mean)
    for weights in WEIGHTS:
        for score in SCORES:
            quality = get_label_quality_ensemble_scores(
                given, together, method=score, weight_ensemble_members_by=weights, verbose=False
            )
            yield f"ensemble by {weights}: {score}", np.asarray(quality), None
    yield "council: accord", *ours(exact)


def found(folder: Path) -> None:
    import warnings

    from accord.evaluation import detection_metrics, flag_metrics

    warnings.simplefilter("ignore")  # scikit-learn's, of probabilities in single precision
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            given, wrong = data["given"].astype(int), data["given"] != data["true"]
            nets = {name.removeprefix("pred_probs_"): data[name] for name in data if name.startswith("pred_probs_")}
        print(f"\n{path.stem}: {wrong.mean():.1%} of {len(wrong)} labels are wrong")
        print(f"{'':62}ROC-AUC  AP       precision  recall")
        for name, quality, flags in rows_of(given, nets):
            metrics = detection_metrics(quality, wrong)
            line = f"{name:62}{metrics['roc_auc']:.5f}  {metrics['average_precision']:.5f}"
            if flags is not None:
                rule = flag_metrics(flags, wrong)
                line += f"  {rule['precision']:.3f}      {rule['recall']:.3f}"
            print(line, flush=True)


def made(count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, a tenth of them wrong, and probabilities in single precision."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, count)
    p = rng.random((count, classes), dtype=np.float32) ** 4
    p[np.arange(count), truth] += classes / 5
    p /= p.sum(1, keepdims=True)
    return np.where(rng.random(count) < 0.1, rng.integers(0, classes, count), truth), p


def caller(name: str) -> Callable[..., Any]:
    """What is called, imported."""
    if "accord" in name:
        from accord import find_label_issues

        return find_label_issues
    from cleanlab import filter, rank

    return {
        "input": lambda labels, p: None,
        "cleanlab scores": rank.get_label_quality_scores,
        "cleanlab ensemble of 3": partial(rank.get_label_quality_ensemble_scores, verbose=False),
        "cleanlab find_label_issues": partial(
            filter.find_label_issues, return_indices_ranked_by="self_confidence", n_jobs=1
        ),
    }[name]


def call(name: str, count: int, classes: int) -> None:
    """One call in this process: its seconds, and the peak of memory in MB."""
    labels, p = made(count, classes)
    several = [p, p[:, :].copy(), p.copy()] if name.endswith("3") else [p]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    judge = caller(name)
    started, cpu = time.perf_counter(), time.process_time()
    judge(labels, several if name.endswith("3") else p)
    seconds, busy = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{name:28}{seconds:9.2f}{busy:9.2f}{(peak - before) / 1024:12.0f}{peak / 1024:12.0f}")


def cost() -> None:
    for count, classes in SIZES:
        print(f"\n{count:,} × {classes:,}{'':14}seconds      CPU    MB on top     MB in all", flush=True)
        for name in CALLS:
            command = [sys.executable, __file__, "call", name, str(count), str(classes)]
            subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("found", "cost", "call"))
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    if asked.what == "found":
        found(Path(asked.words[0]))
    elif asked.what == "cost":
        cost()
    else:
        call(asked.words[0], int(asked.words[1]), int(asked.words[2]))


if __name__ == "__main__":
    main()
