"""Throughput of a stack of runs beside the same runs one by one: GMF on MovieLens-100K, validated every epoch.

    ACCORD_DATA=DIR python benchmarks/stacks.py [--runs 16] [--epochs 5] [--method normal] [--model gmf]

Prints seconds and the ratio measured in this one run, the rows taking turns and the best of three rounds kept.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from accord import Recommender
from accord.data.benchmarks import load_benchmark
from accord.data.catalogue import find_data_set
from accord.estimators.stacking import Source, fit_stacked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="normal")
    parser.add_argument("--model", default="gmf")
    parser.add_argument("--data", default="movielens-100k")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    data = load_benchmark(find_data_set(args.data), "fair")
    common: dict[str, Any] = {"epochs": args.epochs, "patience": 0, "device": args.device}
    common |= {"model": args.model, "method": args.method}
    given = {"valid": data.valid, "known": data.known}
    best = {"one by one": float("inf"), "stack": float("inf")}
    for _ in range(args.rounds):
        started = time.perf_counter()
        alone = [Recommender(seed=seed, **common).fit(data.train, **given) for seed in range(args.runs)]
        best["one by one"] = min(best["one by one"], sum(_seconds(rec) for rec in alone))
        whole = time.perf_counter() - started
        started = time.perf_counter()
        together = [Recommender(seed=seed, **common) for seed in range(args.runs)]
        stacked = fit_stacked(together, Source(data.train, **given))
        best["stack"] = min(best["stack"], sum(_seconds(rec) for rec in stacked))
        print(f"round: one by one {whole:.1f} s, stack {time.perf_counter() - started:.1f} s in all", flush=True)
    for name, seconds in best.items():
        print(f"{name}: {seconds / args.runs / args.epochs * 1e3:.1f} ms per run and epoch, validation included")
    print(f"the stack has {best['one by one'] / best['stack']:.2f} times the throughput")


def _seconds(rec: Recommender) -> float:
    return sum(record["train_seconds"] + record["valid_seconds"] for record in rec.history_)


if __name__ == "__main__":
    main()
