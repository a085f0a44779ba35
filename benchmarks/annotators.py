"""Several annotators, simulated: consensus and quality of each annotator, beside cleanlab's multiannotator.

    python benchmarks/annotators.py [--seeds 3] [--examples 1000]

Ten classes; annotators of many worths label a part of the examples each. `one rate` errs alike in all classes,
`by class` confuses classes of its own, `few labels` has annotators with about ten labels. A model is right in 85 %
of the examples, out of sample. Shown: accuracy of the consensus, the rank correlation of annotators' quality with
how often they are right in truth, and seconds. `vote` is the majority, ties broken at random.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from accord import find_annotator_issues

CLASSES = 10
KINDS = {"one rate": (30, 4.0), "by class": (30, 4.0), "few labels": (200, 2.0)}
"""Annotators, and labels of each example on average."""


def simulated(kind: str, examples: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """The labels, a model's probabilities, true classes, and how often each annotator is right."""
    rng = np.random.default_rng([seed, *kind.encode()])
    annotators, labels = KINDS[kind]
    truth = rng.integers(0, CLASSES, examples)
    rates = rng.beta(3, 1.5, annotators).clip(0.15, 0.99)
    eye = np.eye(CLASSES)
    matrices = rates[:, None, None] * eye + (1 - rates)[:, None, None] * (1 - eye) / (CLASSES - 1)
    if kind == "by class":
        for matrix in matrices:
            for y in rng.choice(CLASSES, 4, False):
                stays, other = rng.uniform(0.05, 0.5), (y + rng.integers(1, CLASSES)) % CLASSES
                matrix[y] = stays * eye[y] + (1 - stays) * eye[other]
    asked = rng.random((examples, annotators)) < labels / annotators
    asked[np.arange(examples), rng.integers(0, annotators, examples)] = True
    example, annotator = np.nonzero(asked)
    chances = matrices[annotator, truth[example]].cumsum(1)
    label = (rng.random(len(example))[:, None] > chances).sum(1).clip(max=CLASSES - 1)
    lost = rng.random(examples) < 0.15
    p = 0.7 * eye[np.where(lost, rng.integers(0, CLASSES, examples), truth)] + 0.3 / CLASSES
    p = np.exp(np.log(p) + rng.normal(0, 0.4, p.shape))
    worth = matrices[:, np.arange(CLASSES), np.arange(CLASSES)].mean(1)
    table = pd.DataFrame({"example": example, "annotator": annotator, "label": label})
    return table, p / p.sum(1, keepdims=True), truth, worth


def ours(table: pd.DataFrame, p: np.ndarray | None) -> tuple[np.ndarray, pd.Series]:
    found = find_annotator_issues(table, p)
    consensus = found.consensus.to_pandas().set_index("example").sort_index()["consensus_label"].to_numpy()
    return consensus, found.annotators.to_pandas().set_index("annotator")["quality"]


def theirs(table: pd.DataFrame, p: np.ndarray | None) -> tuple[np.ndarray, pd.Series]:
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = table.pivot(index="example", columns="annotator", values="label")
    ask: Any = get_label_quality_multiannotator
    found = ask(wide, p, verbose=False)
    quality = found["annotator_stats"]["annotator_quality"]
    return found["label_quality"]["consensus_label"].to_numpy(), quality


def vote(table: pd.DataFrame, p: np.ndarray | None) -> tuple[np.ndarray, pd.Series]:
    counts = pd.crosstab(table["example"], table["label"]).to_numpy()
    consensus = (counts + np.random.default_rng(0).random(counts.shape) / 2).argmax(1)
    same = consensus[table["example"]] == table["label"]
    return consensus, same.groupby(table["annotator"]).mean()


Way = Callable[[pd.DataFrame, np.ndarray | None], tuple[np.ndarray, pd.Series]]
WAYS: dict[str, tuple[Way, bool]] = {
    "vote": (vote, False),
    "accord, labels alone": (ours, False),
    "accord": (ours, True),
    "cleanlab": (theirs, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=1000)
    asked = parser.parse_args()
    print(f"{'':34}consensus  annotators  seconds")
    for kind in KINDS:
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
        for seed in range(asked.seeds):
            table, p, truth, worth = simulated(kind, asked.examples, seed)
            for name, (way, with_model) in WAYS.items():
                started = time.perf_counter()
                consensus, quality = way(table, p if with_model else None)
                seconds = time.perf_counter() - started
                rank = spearmanr(quality, worth[quality.index])
                found[name].append((float((consensus == truth).mean()), float(rank.statistic), seconds))  # pyright: ignore[reportAttributeAccessIssue]
        for name, values in found.items():
            right, rank, seconds = np.mean(values, 0)
            print(f"{kind:12}{name:22}{right:9.4f}{rank:12.3f}{seconds:9.2f}", flush=True)


if __name__ == "__main__":
    main()
