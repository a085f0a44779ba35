"""Time of an epoch of ResNet-32 over made-up images, batch 100: plain, captured, and many next to one another.

    python benchmarks/images.py [--runs 8] [--images 40000] [--epochs 3] [--compile] [--device auto]

Prints seconds per epoch and run, and ratios measured in this one run. On a CPU use a few hundred images.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from accord.estimators import Classifier, fit_together


def seconds(histories: list[list[dict[str, Any]]], phase: str) -> float:
    """Seconds per epoch and run of a phase, the first epoch (which captures the steps) left out.

    Next to one another, each run says the time that all of them took.
    """
    each = median(
        sum(r["train_seconds"] for r in h if r["phase"] == phase and r["epoch"] > 1)
        / max(1, sum(r["phase"] == phase and r["epoch"] > 1 for r in h))
        for h in histories
    )
    return each / len(histories)


def measure(method: str, runs: int, args: argparse.Namespace, **settings: Any) -> dict[str, float]:
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
    started = time.perf_counter()
    fit_together(classifiers, [{"X": images, "y": own} for own in labels], judge=False)
    whole = time.perf_counter() - started
    phases = dict.fromkeys(r["phase"] for r in classifiers[0].history_)
    times = {p: seconds([c.history_ for c in classifiers], p) for p in phases}
    print(
        f"{method:8s} {runs} run(s) {settings}: "
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
    together = measure("normal", args.runs, args)["training"]
    first = measure("deca-p", args.runs, args, stage_one_epochs=args.epochs)["denoising"]
    second = measure("deca-p", args.runs, args, stage_one_epochs=0)["denoising"]
    print(f"next to one another {alone / together:.2f} times the throughput of one captured run at a time")
    print(f"DeCA(p) of normal: stage one {first / together:.2f}, stage two {second / together:.2f}")
    if args.plain:
        args.epochs = 2
        plain = measure("normal", 1, args, capture=False)["training"]
        print(f"plain steps take {plain / alone:.1f} times as long as captured ones")


if __name__ == "__main__":
    main()
