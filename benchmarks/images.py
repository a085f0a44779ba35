"""Time of an epoch of ResNet-32 over made-up images, batch 100: plain, recorded, side by side, and as one stack.

    python benchmarks/images.py [--runs 8] [--images 40000] [--epochs 3] [--compile] [--device auto]

Prints seconds per epoch and run, and ratios measured in this one run. On a CPU use a few hundred images.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from accord.estimators import Classifier, fit_together, fitting


def seconds(histories: list[list[dict[str, Any]]], phase: str, stacked: bool) -> float:
    """Seconds per epoch and run of a phase, the first epoch (which records the steps) left out.

    A run of a stack says its share of the time; side by side each says the time that all of them took.
    """
    each = median(
        sum(r["train_seconds"] for r in h if r["phase"] == phase and r["epoch"] > 1)
        / max(1, sum(r["phase"] == phase and r["epoch"] > 1 for r in h))
        for h in histories
    )
    return each if stacked else each / len(histories)


def measure(
    method: str, runs: int, args: argparse.Namespace, stacked: bool = True, **settings: Any
) -> dict[str, float]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (args.images, 32, 32, 3), dtype=np.uint8)
    labels = [rng.integers(0, 10, args.images) for _ in range(runs)]
    common: dict[str, Any] = {
        "model": "resnet32",
        "epochs": args.epochs,
        "valid_share": 0.0,
        "restore": "last",
        "augment": "crop-flip",
        "device": args.device,
        "compile": args.compile,
    } | settings
    classifiers = [Classifier(method=method, seed=k, **common) for k in range(runs)]
    started, where = time.perf_counter(), fitting.STACKED_ON["resnet32"]
    fitting.STACKED_ON["resnet32"] = where if stacked else ()
    stacked = fitting.can_stack(classifiers, True)
    try:
        fit_together(classifiers, [images] * runs, labels)
    finally:
        fitting.STACKED_ON["resnet32"] = where
    whole = time.perf_counter() - started
    phases = dict.fromkeys(r["phase"] for r in classifiers[0].history_)
    times = {p: seconds([c.history_ for c in classifiers], p, stacked) for p in phases}
    print(
        f"{method:8s} {runs} run(s){', one stack' if stacked else ''} {settings}: "
        + ", ".join(f"{p} {t:.3f} s" for p, t in times.items())
        + f" per epoch and run (whole {whole:.1f} s)",
        flush=True,
    )
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--images", type=int, default=40_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--plain", action="store_true", help="also measure plain steps")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    alone = measure("normal", 1, args)["training"]
    beside = measure("normal", args.runs, args, stacked=False)["training"]
    together = measure("normal", args.runs, args)["training"]
    first = measure("deca-p", args.runs, args, stage_one_epochs=args.epochs)["denoising"]
    second = measure("deca-p", args.runs, args, stage_one_epochs=0)["denoising"]
    print(f"side by side {alone / beside:.2f} times the throughput of one recorded run at a time")
    print(f"as one stack {alone / together:.2f} times")
    print(f"DeCA(p) of normal: stage one {first / together:.2f}, stage two {second / together:.2f}")
    if args.plain:
        args.epochs = 2
        plain = measure("normal", 1, args, capture=False)["training"]
        print(f"plain steps take {plain / alone:.1f} times as long as recorded ones")


if __name__ == "__main__":
    main()
