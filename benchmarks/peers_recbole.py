"""Seconds per epoch of RecBole's NeuMF, LightGCN and CDAE on the same pairs, one thread; prints one line of JSON.

Run by an environment of its own (never a dependency of accord):

    python -m venv recbole && recbole/bin/pip install torch "numpy<2" "setuptools<81" recbole
    python benchmarks/deep.py TRAIN --recbole recbole/bin/python
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

SIZES = {
    "NeuMF": {
        "mf_embedding_size": 32,
        "mlp_embedding_size": 128,
        "mlp_hidden_size": [128, 64, 32],
        "dropout_prob": 0,
    },
    "LightGCN": {"embedding_size": 64, "n_layers": 3, "reg_weight": 0},
    "CDAE": {"embedding_size": 32, "corruption_ratio": 0.5, "loss_type": "BCE"},
}
ROUNDS = 2


def seconds_per_epoch(name: str, folder: str) -> float:
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer

    torch.set_num_threads(1)
    settings = {
        "data_path": folder,
        "use_gpu": False,
        "load_col": {"inter": ["user_id", "item_id"]},
        "train_batch_size": 2048,
        "eval_args": {"split": {"RS": [0.998, 0.001, 0.001]}, "group_by": "user", "order": "RO", "mode": "full"},
        "train_neg_sample_args": None if name == "CDAE" else {"distribution": "uniform", "sample_num": 1},
        "show_progress": False,
        "state": "ERROR",
        "checkpoint_dir": folder,
        **SIZES[name],
    }
    config = Config(model=name, dataset="pairs", config_dict=settings)
    dataset = create_dataset(config)
    train, _, _ = data_preparation(config, dataset)
    model = get_model(name)(config, train.dataset)
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    best = float("inf")
    for epoch in range(ROUNDS + 1):
        started = time.perf_counter()
        trainer._train_epoch(train, epoch, show_progress=False)
        if epoch:
            best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    users, items = np.load(sys.argv[1], allow_pickle=False)
    sys.argv = sys.argv[:1]  # RecBole reads it
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # and writes where it stands
        target = Path(folder) / "pairs" / "pairs.inter"
        target.parent.mkdir()
        lines = [f"{user}\t{item}" for user, item in zip(users, items, strict=True)]
        target.write_text("user_id:token\titem_id:token\n" + "\n".join(lines) + "\n")
        result = {name: seconds_per_epoch(name, folder) for name in SIZES}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
