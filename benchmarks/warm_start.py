"""Going on from an earlier run after a tenth of new clicks, beside training anew: MovieLens-100K, quality and time.

    ACCORD_DATA=DATA python benchmarks/warm_start.py [--models gmf,lightgcn] [--rounds 3]

The ratings are put in the order of their times. The earlier run learns from the first 90 % of those that are not
tested, the other two rows from all of them; a fifth, drawn at random, is the test. "Earlier" is the run that stays
as it is. All rows choose their epoch by clicks that are held out.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord import Recommender
from accord.data import load_clicks

MODELS = "mf,gmf,neumf,cdae,lightgcn,ials"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="normal")
    given = parser.parse_args()
    clicks = load_clicks(Path(os.environ["ACCORD_DATA"]) / "ml-100k" / "ml-100k.inter")
    assert clicks.times is not None
    order = np.argsort(clicks.times, kind="stable")
    rows: dict[str, list[list[float]]] = {}

    def table(which: np.ndarray) -> pa.Table:
        return pa.table({"user": clicks.users[which], "item": clicks.items[which]})

    for part in range(given.rounds):
        tested = np.random.default_rng(part).random(len(order)) < 0.2
        log, test = order[~tested], table(order[tested])
        known = int(0.9 * len(log))
        for model in given.models.split(","):

            def measured(rec: Recommender, log: pa.Table, **more: Any) -> tuple[float, float, int]:
                began = time.perf_counter()
                rec.fit(log, verbose=False, **more)
                seconds = time.perf_counter() - began
                return rec.evaluate(test, [20])["ndcg@20"], seconds, len(rec.history_)  # noqa: B023

            first = Recommender(model=model, method=given.method, seed=part)
            values = [*measured(first, table(log[:known]))]
            values += measured(first.renewed(), table(log), warm_start=first)
            values += measured(first.renewed(), table(log))
            rows.setdefault(model, []).append(values)
            print(f"round {part + 1} {model:9s}", *(f"{value:.4f}" for value in values), flush=True)
    names = [f"{row:22s}" for row in ("earlier", "gone on", "anew")]
    print("model     ", *names, "\n          ", *["NDCG@20 seconds epochs"] * 3)
    for model, each in rows.items():
        mean = np.mean(each, axis=0).reshape(3, 3)
        print(f"{model:10s}", *(f"{a:.4f}  {b:6.1f}  {c:6.1f}" for a, b, c in mean))


if __name__ == "__main__":
    main()
