"""Lists of every user: 1 million users × 300,000 items, the 50 best, beside bare torch and implicit, in one run.

    python benchmarks/recommend_all.py [--share 0.002] [--dims 64] [--threads 2] [--peers FOLDER]

The vectors are drawn at random, as the time does not depend on what they say; each user has clicked 20 items, which
are left out. "torch" multiplies blocks of users with all items and calls ``topk``, nothing left out; "implicit" is
`recommend` of its model of vectors for all these users, with its own filter of clicks. FOLDER holds implicit, as
``pip install --target FOLDER implicit`` puts it there. A share of the users is ranked for; every figure is the best
of several interleaved rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from accord.data.interactions import Interactions
from accord.estimators.serving.lists import Wanted, best_lists
from accord.estimators.serving.products import USERS as BLOCK
from accord.estimators.serving.products import Products
from accord.models.recommenders import MF

USERS, ITEMS, CLICKS = 1_000_000, 300_000, 20


def implicit_all(model: MF, users: np.ndarray, seen: Interactions, k: int, threads: int) -> Callable[[], object]:
    """Its lists of these users; nothing is trained."""
    import scipy.sparse as sparse
    from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase  # pyright: ignore

    class Vectors(MatrixFactorizationBase):
        def fit(self, *given: Any, **more: Any) -> None: ...

        def save(self, *given: Any) -> None: ...

    made = Vectors(num_threads=threads)
    made.user_factors, made.item_factors = model.users.detach().numpy(), model.items.detach().numpy()
    items, starts = seen.items.numpy(), seen.starts.numpy()
    clicks = sparse.csr_matrix((np.ones(len(items), np.float32), items, starts), (seen.n_users, ITEMS))[users]
    return lambda: made.recommend(users, clicks, N=k, filter_already_liked_items=True)


def index_beside(items: torch.Tensor, users: torch.Tensor, k: int) -> None:
    """An index of usearch: its recall of the k best, and its time beside a whole search for one user at a time."""
    from usearch.index import Index

    began = time.perf_counter()
    index = Index(ndim=items.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(items)), items.numpy())
    built = time.perf_counter() - began
    began = time.perf_counter()
    found = [index.search(user, k).keys for user in users.numpy()]  # pyright: ignore
    by_index = (time.perf_counter() - began) / len(users)
    began = time.perf_counter()
    exact = [(items @ user).topk(k).indices.numpy() for user in users]
    by_search = (time.perf_counter() - began) / len(users)
    recall = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(found, exact, strict=True)])
    print(f"index of {len(items):,} items: built in {built:.0f} s, recall@{k} {recall:.3f},", end=" ")
    print(f"{1e3 * by_index:.3f} ms a user; a whole search {1e3 * by_search:.3f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.002)
    parser.add_argument("--dims", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=None)
    parser.add_argument("--index", type=int, default=0, help="items of which an index is made, too")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sys.path += [given.peers] if given.peers else []
    count, k = int(given.share * USERS), 50
    torch.manual_seed(0)
    model = MF(count, ITEMS, given.dims).eval().requires_grad_(False)
    clicked = np.sort(np.random.default_rng(0).integers(0, ITEMS, (count, CLICKS)), axis=1)
    keys = np.unique(np.arange(count)[:, None] * ITEMS + clicked)
    seen = Interactions.from_pairs(keys // ITEMS, keys % ITEMS, count, ITEMS)
    users, wanted = torch.arange(count), Wanted(k)

    def ours() -> None:
        for _ in best_lists(Products(*model.score_vectors()), users, ITEMS, wanted, seen):
            pass

    def bare() -> None:
        for block in model.users.split(BLOCK):
            (block @ model.items.T).topk(k)

    timed: dict[str, Callable[[], object]] = {"accord": ours, "torch": bare}
    try:
        timed["implicit"] = implicit_all(model, users.numpy(), seen, k, given.threads)
    except ImportError:
        print("implicit is not installed")
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(given.rounds):
        for name, run in timed.items():
            began = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - began)
    print(f"{count:,} of {USERS:,} users, {ITEMS:,} items, {given.dims} dims, {given.threads} threads;", end=" ")
    print(f"blocks of {BLOCK} users")
    for name, seconds in best.items():
        rest = f"all users in {seconds / given.share / 60:.1f} min"
        print(
            f"{name:9s} {1e3 * seconds / count:7.3f} ms a user   {seconds / best['accord']:.2f} × accord   {rest}"
        )
    if given.index:
        own, (vectors, items) = users[:200], (one.detach() for one in model.score_vectors())
        for kth in (10, k):
            index_beside(items[: given.index], vectors[own], kth)


if __name__ == "__main__":
    main()
