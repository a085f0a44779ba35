"""Training and ranking speed beside bare torch arithmetic, in one run, one thread.

    python benchmarks/movielens.py [TRAIN_FILE [TEST_FILE]] [--peers PYTHON]

The files are the DeCA authors' MovieLens-100K split; without them a simulated log of the same size stands in.
Every figure is the best of several interleaved rounds, so that a busy machine hurts all rows alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.batches.clicks import ClickFeed
from accord.data import Clicks, load_clicks
from accord.data.clicks import match_pairs
from accord.data.interactions import Interactions
from accord.data.simulator import SimulatorSettings, simulate
from accord.estimators.settings import make_settings
from accord.evaluation import RankingTask, mean_metrics
from accord.methods import Setup, method_of
from accord.models import recommender_factory
from accord.models.recommenders import GMF
from accord.models.stack import Stack, stack
from accord.objectives import binary
from accord.training import Run, TrainingOptions, seeded
from accord.training.phase_trainer import PhaseTrainer

DIMS, BATCH, ROUNDS, L2 = 32, 2048, 15, 0.1


def bare_epoch(data: Interactions) -> Callable[[], None]:
    """Arithmetic alone: gathers, product, weighted sum, softplus, backward and fused Adam, indices ready."""
    drawn = ClickFeed([data], BATCH, by_rows=False, capturing=False).epoch([torch.Generator().manual_seed(0)])
    batches = [(batch.users[0].repeat(2), batch.items.flatten()) for batch in drawn]
    tables = [torch.randn(n, DIMS).mul_(0.01).requires_grad_() for n in (data.n_users, data.n_items)]
    weight = torch.randn(DIMS, requires_grad=True)
    optimiser = torch.optim.Adam([*tables, weight], lr=1e-3, fused=True)
    sign = {len(u): torch.cat([-torch.ones(len(u) // 2), torch.ones(len(u) // 2)]) for u, _ in batches}

    def epoch() -> None:
        for users, items in batches:
            optimiser.zero_grad()
            logits = (tables[0].index_select(0, users) * tables[1].index_select(0, items)) @ weight
            (F.softplus(logits * sign[len(users)]).sum() / (len(users) // 2)).backward()
            optimiser.step()

    return epoch


def our_epoch(data: Interactions, method: str, phase: int) -> Callable[[], object]:
    """Our trainer with sampling and bookkeeping."""
    stacks: list[Stack] = []

    def build(role: str, architecture: str | None = None) -> torch.nn.Module:
        with seeded(0, role):
            made = recommender_factory(architecture or "gmf", dims=DIMS)(data.n_users, data.n_items)
        stacks.append(stack([made]))
        return stacks[-1]

    own = {} if method == "normal" else {"c0": 1000, "c1": 1000, "alpha": 0 if method == "deca-p" else 1}
    settings = make_settings("clicks", {"method": method, **own})
    phases = method_of(method, "clicks")().bound(Setup("clicks", binary, settings)).phases(build)
    options = TrainingOptions(batch_size=BATCH, weight_decay=L2 / data.n_users)
    return PhaseTrainer(phases[phase], (1, 1), stacks, [], [Run(options, data, ClickFeed)]).train_epoch


def bare_ranking(model: GMF, task: RankingTask) -> Callable[[], Tensor]:
    """A masked matrix product and top-20."""
    train = task.seen[0]
    rows, items, _ = train.rows_of(task.users)
    flat = rows * train.n_items + items

    def rank() -> Tensor:
        assert model.weight is not None
        scores = (model.users[task.users] * model.weight) @ model.items.T
        scores.view(-1).index_fill_(0, flat, -torch.inf)
        return scores.topk(20).indices

    return rank


def measure(programs: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Best seconds of each program, the programs taking turns."""
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(rounds):
        for name, program in programs.items():
            started = time.perf_counter()
            program()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def peers(python: str, clicks: Clicks) -> dict[str, float]:
    """Seconds per epoch of other libraries, run by their own environment's Python on the same pairs."""
    pairs = Path(os.environ.get("TMPDIR", "/tmp")) / "accord-bench-pairs.npy"
    np.save(pairs, np.stack([clicks.users, clicks.items]))
    script = Path(__file__).with_name("peers.py")
    done = subprocess.run([python, str(script), str(pairs)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def load(args: argparse.Namespace) -> tuple[Clicks, np.ndarray, np.ndarray]:
    if args.train:
        clicks = load_clicks(args.train)
        pairs = match_pairs(args.test, clicks.user_ids, clicks.item_ids)
        return clicks, pairs.users[pairs.known], pairs.items[pairs.known]
    made = simulate(SimulatorSettings(users=943, items=1611, interactions=79_619, test_per_user=4))
    clicks = load_clicks(made.log())
    pairs = match_pairs(made.truth(), clicks.user_ids, clicks.item_ids)
    return clicks, pairs.users[pairs.known], pairs.items[pairs.known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", nargs="?")
    parser.add_argument("test", nargs="?")
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has lenskit and implicit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    clicks, users, items = load(args)
    data = Interactions.from_pairs(clicks.users, clicks.items, len(clicks.user_ids), len(clicks.item_ids))
    print(f"{len(data)} clicks, {data.n_users} users, {data.n_items} items; torch {torch.__version__}, one thread")
    seconds = measure(
        {
            "bare arithmetic": bare_epoch(data),
            "accord normal": our_epoch(data, "normal", 0),
            "accord deca": our_epoch(data, "deca", 0),
            "accord deca-p, second phase": our_epoch(data, "deca-p", 1),
        }
    )
    if args.peers:
        seconds |= peers(args.peers, clicks)
    show("One epoch of training, GMF with 32 dims", seconds, "bare arithmetic")
    task = RankingTask.from_pairs(users, items, [data])
    model = GMF(data.n_users, data.n_items, DIMS).requires_grad_(False)
    seconds = measure(
        {
            "bare masked product and top-20": bare_ranking(model, task),
            "accord, five metrics at 3 and 20": lambda: mean_metrics(model.scores, task, [3, 20]),
        }
    )
    show(f"Full ranking of {len(task.users)} users", seconds, "bare masked product and top-20")


def show(title: str, seconds: dict[str, float], base: str) -> None:
    print(f"\n{title}")
    for name, value in seconds.items():
        print(f"  {name:34s} {value * 1e3:9.2f} ms  {value / seconds[base]:6.2f} x")


if __name__ == "__main__":
    main()
