"""Throughput of a stack of runs beside the same runs one by one, validated every epoch.

    ACCORD_DATA=DIR python benchmarks/stacks.py [--runs 16] [--epochs 5] [--method normal] [--model gmf]
    python benchmarks/stacks.py --model mlp --method deca-p --constants

Runs differ in their seed or, with --constants, in C1 alone, so that those of DeCA(p) share a prior.
GMF and other recommenders learn from MovieLens-100K, perceptrons from scikit-learn's digits. Prints seconds and the
ratio measured in this one run, the rows taking turns and the best of three rounds kept.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from accord import Classifier, Recommender
from accord.data.datasets.benchmarks import load_benchmark
from accord.data.datasets.catalogue import find_data_set
from accord.data.datasets.image_sets import IMAGE_SETS
from accord.estimators import fit_together


class Clicks:
    def __init__(self, data: str, common: dict[str, Any]) -> None:
        self.data, self.common = load_benchmark(find_data_set(data), "fair"), common
        self.given = {"valid": self.data.valid, "known": self.data.known}

    def alone(self, own: dict[str, Any]) -> Any:
        return Recommender(**self.common | own).fit(self.data.train, **self.given)

    def together(self, each: list[dict[str, Any]]) -> Any:
        made = [Recommender(**self.common | own) for own in each]
        return fit_together(made, {"log": self.data.train, **self.given})


class Labels:
    def __init__(self, common: dict[str, Any]) -> None:
        self.images, self.common = IMAGE_SETS["digits"].load(None), common

    def alone(self, own: dict[str, Any]) -> Any:
        return Classifier(**self.common | own).fit(self.images.inputs, self.images.labels)

    def together(self, each: list[dict[str, Any]]) -> Any:
        made = [Classifier(**self.common | own) for own in each]
        return fit_together(made, {"X": self.images.inputs, "y": self.images.labels})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="normal")
    parser.add_argument("--model", default="gmf")
    parser.add_argument("--data", default="movielens-100k")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--constants", action="store_true")
    args = parser.parse_args()
    common: dict[str, Any] = {"epochs": args.epochs, "patience": 0, "device": args.device}
    common |= {"model": args.model, "method": args.method}
    work = Labels(common) if args.model == "mlp" else Clicks(args.data, common)
    each = [{"c1": 1.0 + k} if args.constants else {"seed": k} for k in range(args.runs)]
    best = {"one by one": float("inf"), "stack": float("inf")}
    for _ in range(args.rounds):
        started = time.perf_counter()
        alone = [work.alone(own) for own in each]
        best["one by one"] = min(best["one by one"], sum(_seconds(one) for one in alone))
        whole = time.perf_counter() - started
        started = time.perf_counter()
        best["stack"] = min(best["stack"], sum(_seconds(one) for one in work.together(each)))
        print(f"round: one by one {whole:.1f} s, stack {time.perf_counter() - started:.1f} s in all", flush=True)
    for name, seconds in best.items():
        print(f"{name}: {seconds / args.runs / args.epochs * 1e3:.1f} ms per run and epoch, validation included")
    print(f"the stack has {best['one by one'] / best['stack']:.2f} times the throughput")


def _seconds(run: Any) -> float:
    return sum(record["train_seconds"] + record["valid_seconds"] for record in run.history_)


if __name__ == "__main__":
    main()
