"""Training speed of NeuMF, LightGCN and CDAE beside RecBole, in one run, one thread.

    python benchmarks/deep.py TRAIN_FILE [--recbole PYTHON]

CDAE's work differs by design: RecBole multiplies dense rows of all items and steps once an epoch for 943 users;
ours reads sparse rows. It is measured at the same work, one step an epoch, and at our batches of 2048 clicks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

from accord.batches.clicks import ClickFeed
from accord.data import load_clicks
from accord.data.interactions import Interactions
from accord.methods import Normal, Setup
from accord.models import recommender_factory
from accord.models.stack import Single
from accord.objectives import binary
from accord.training import Run, TrainingOptions, seeded
from accord.training.phase_trainer import PhaseTrainer


def our_seconds(name: str, data: Interactions, batch_size: int, rounds: int = 3) -> float:
    """Best seconds of an epoch of normal training, sampling and bookkeeping included."""

    with seeded(0, "target"):
        network = recommender_factory(name)(data.n_users, data.n_items)
    if hasattr(network, "bind"):
        network.bind(data.starts, data.items)  # pyright: ignore[reportCallIssue]
    one = Single(network)
    (phase,) = Normal().bound(Setup("clicks", binary, None)).phases(lambda role, architecture=None: one)
    run = Run(TrainingOptions(batch_size=batch_size), data, ClickFeed)
    trainer = PhaseTrainer(phase, (1, 1), [one], [], [run])
    best = float("inf")
    for epoch in range(rounds + 1):
        started = time.perf_counter()
        trainer.train_epoch()
        if epoch:
            best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("--recbole", metavar="PYTHON", help="a Python that has recbole")
    args = parser.parse_args()
    torch.set_num_threads(1)
    clicks = load_clicks(args.train)
    data = Interactions.from_pairs(clicks.users, clicks.items, len(clicks.user_ids), len(clicks.item_ids))
    ours = {
        "NeuMF": our_seconds("neumf", data, 2048),
        "LightGCN": our_seconds("lightgcn", data, 2048),
        "CDAE": our_seconds("cdae", data, len(data)),
    }
    peer: dict[str, float] = {}
    if args.recbole:
        pairs = Path(os.environ.get("TMPDIR", "/tmp")) / "accord-bench-pairs.npy"
        np.save(pairs, np.stack([clicks.users, clicks.items]))
        script = Path(__file__).with_name("peers_recbole.py").resolve()
        done = subprocess.run([args.recbole, str(script), str(pairs)], check=True, capture_output=True, text=True)
        peer = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{len(data)} clicks, {data.n_users} users, {data.n_items} items; one thread; seconds per epoch")
    for name, seconds in ours.items():
        beside = f"   RecBole {peer[name]:.3f}   ours is {seconds / peer[name]:.2f} of it" if name in peer else ""
        print(f"  {name + (', one batch' if name == 'CDAE' else ''):18s} {seconds:.3f}{beside}")
    print(f"  CDAE, batches of 2048 clicks: {our_seconds('cdae', data, 2048):.3f}")


if __name__ == "__main__":
    main()
