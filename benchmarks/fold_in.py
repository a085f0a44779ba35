"""People taken in by their history, beside training again with them: NDCG@20 on MovieLens-100K, and time.

    ACCORD_DATA=DATA python benchmarks/fold_in.py [--models gmf,ease] [--rounds 3]

A fifth of every user's ratings is kept for the test. In each round a tenth of the users is left out of training
and taken in by `recommend_for` with the rest of their ratings; the other row is trained on these ratings too. Both
choose their epoch by the same clicks of other users. "popular" is the list of the items with most clicks.
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

MODELS = "mf,gmf,neumf,cdae,lightgcn,ease,ials,rp3beta,itemknn"
K = 20
FIRST = 2
"""The first tenth of the users that is left out: constants of fold-in were chosen on the two before it."""


def pairs(users: np.ndarray, items: np.ndarray) -> pa.Table:
    return pa.table({"user": users, "item": items})


def ndcg(lists: Any, truth: dict[int, set[int]]) -> float:
    """NDCG@20, averaged over the users of the truth."""
    found: dict[int, list[int]] = {}
    for user, item in zip(lists["user"].to_pylist(), lists["item"].to_pylist(), strict=True):
        found.setdefault(user, []).append(item)
    gains = 1 / np.log2(np.arange(K) + 2)
    values = []
    for user, wanted in truth.items():
        hits = np.array([item in wanted for item in found.get(user, [])[:K]], float)
        values.append((hits * gains[: len(hits)]).sum() / gains[: len(wanted)].sum())
    return float(np.mean(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    clicks = load_clicks(Path(os.environ["ACCORD_DATA"]) / "ml-100k" / "ml-100k.inter")
    users, items = clicks.users, clicks.items
    rng = np.random.default_rng(0)
    tested = rng.random(len(users)) < 0.2
    order = rng.permutation(len(clicks.user_ids))
    rows: dict[str, list[tuple[float, ...]]] = {}
    for part in range(given.rounds):
        held = np.isin(users, order[part + FIRST :: 10])
        valid = ~held & ~tested & (np.random.default_rng(part + 100).random(len(users)) < 0.1)
        others, history = (
            pairs(*(a[~held & ~tested & ~valid] for a in (users, items))),
            pairs(*(a[held & ~tested] for a in (users, items))),
        )
        truth: dict[int, set[int]] = {}
        for user, item in zip(users[held & tested], items[held & tested], strict=True):
            truth.setdefault(int(user), set()).add(int(item))
        source: dict[str, Any] = {
            "valid": pairs(users[valid], items[valid]),
            "known": pairs(users[~held], np.resize(np.arange(len(clicks.item_ids)), (~held).sum())),
        }
        for model in given.models.split(","):
            rec = Recommender(model=model, seed=part, method="normal")
            rec.fit(others, **source, verbose=False)
            began = time.perf_counter()
            taken = rec.recommend_for(history, K)
            seconds = (time.perf_counter() - began) / len(truth)
            began = time.perf_counter()
            one = pairs(*(a[held & ~tested & (users == users[held][0])] for a in (users, items)))
            rec.recommend_for(one, K)
            alone = time.perf_counter() - began
            again = rec.renewed().fit(pa.concat_tables([others, history]), **source, verbose=False)
            trained = again.recommend(list(truth), K)
            top = rec.recommend_for([[]], 500)["item"].to_pylist()
            seen = {u: set(items[held & ~tested & (users == u)].tolist()) for u in truth}
            popular = [(u, i) for u in truth for i in [i for i in top if i not in seen[u]][:K]]
            plain = {"user": pa.array([u for u, _ in popular]), "item": pa.array([i for _, i in popular])}
            values = ndcg(taken, truth), ndcg(trained, truth), ndcg(plain, truth), 1e3 * seconds, 1e3 * alone
            rows.setdefault(model, []).append(values)
            print(f"round {part + 1} {model:9s}", *(f"{value:.4f}" for value in values), flush=True)
    print("model      taken in   trained    popular    ms a user (of many)   ms alone")
    for model, each in rows.items():
        a, b, c, d, e = np.mean(each, axis=0)
        print(f"{model:9s}  {a:.4f}     {b:.4f}     {c:.4f}     {d:.2f}                  {e:.1f}")


if __name__ == "__main__":
    main()
