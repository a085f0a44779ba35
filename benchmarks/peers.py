"""Seconds per epoch of other libraries on the same pairs, one thread; prints one line of JSON.

Run by an environment of its own that has lenskit and implicit (never a dependency of accord):

    python -m venv peers && peers/bin/pip install torch lenskit implicit
    python benchmarks/movielens.py TRAIN TEST --peers peers/bin/python
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LK_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

ROUNDS = 7


def best(program: Callable[[], object]) -> float:
    program()
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        program()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def flexmf(users: np.ndarray, items: np.ndarray) -> float:
    """LensKit's FlexMF, implicit, logistic loss, 32 dims, batches of 2048 positives."""
    import pandas as pd
    import torch
    from lenskit.data import from_interactions_df
    from lenskit.flexmf import FlexMFImplicitScorer
    from lenskit.training import TrainingOptions

    torch.set_num_threads(1)
    data = from_interactions_df(pd.DataFrame({"user_id": users, "item_id": items}))
    scorer = FlexMFImplicitScorer(embedding_size=32, batch_size=2048, loss="logistic")
    options = TrainingOptions(device="cpu", rng=0, environment={"LK_TORCH_COMPILE": "0"})
    return best(scorer.create_trainer(data, options).train_epoch)


def implicit_bpr(users: np.ndarray, items: np.ndarray) -> float:
    """implicit's BPR in C++, 32 dims: time of eleven iterations less that of one, a tenth of it."""
    import scipy.sparse
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    matrix = scipy.sparse.csr_matrix((np.ones(len(users), np.float32), (users, items)))

    def run(iterations: int) -> Callable[[], object]:
        model = BayesianPersonalizedRanking(factors=31, iterations=iterations, num_threads=1)
        return lambda: model.fit(matrix, show_progress=False)

    return (best(run(11)) - best(run(1))) / 10


def main() -> None:
    users, items = np.load(sys.argv[1], allow_pickle=False)
    result = {
        "LensKit FlexMF, eager": flexmf(users, items),
        "implicit BPR (C++)": implicit_bpr(users, items),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
