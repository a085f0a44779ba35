"""LightGCN's averages over the click graph: in steps on its smaller side, by Horner's rule, and round by round.

    python benchmarks/graph.py --users 44000 --items 1000 --clicks 80000 --runs 8

prints milliseconds of each, measured in turns in one process, and how many times as fast as round by round it is.
Where steps would be no less work, as with few users of many clicks, there are none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from torch import Tensor

from accord.kernels.spmm import spmm
from accord.models.recommenders.lightgcn import LAYERS, LightGCN, propagate


def round_by_round(users: Tensor, items: Tensor, graph: Tensor, back: Tensor) -> tuple[Tensor, ...]:
    """As the equation has it, with the runs' vectors laid side by side."""
    runs, _, width = users.shape
    users, items = (table.transpose(0, 1).flatten(1)[None] for table in (users, items))
    sums, zero = [users, items], [torch.zeros_like(users), torch.zeros_like(items)]
    for _ in range(LAYERS):
        users, items = spmm(graph, items, zero[0]), spmm(back, users, zero[1])
        sums = [sums[0] + users, sums[1] + items]
    means = (total[0] / (LAYERS + 1) for total in sums)
    return tuple(m.view(len(m), runs, width).transpose(0, 1).contiguous() for m in means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("users", 44_000), ("items", 1_000), ("clicks", 80_000), ("runs", 8), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # torch calls its CSR tensors a beta
    torch.manual_seed(0)
    keys = torch.unique(torch.randint(0, asked.users * asked.items, (asked.clicks,)))
    counts = torch.bincount(keys // asked.items, minlength=asked.users)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    model = LightGCN(asked.users, asked.items).to(asked.device)
    model.bind(starts.to(asked.device), (keys % asked.items).int().to(asked.device))
    vectors = [torch.randn(asked.runs, n, 64, device=asked.device) for n in (asked.users, asked.items)]
    given: Any = (*vectors, model.graph, model.back)
    ways: dict[str, Any] = {"round by round": round_by_round, "Horner": propagate}
    if model.steps is not None:
        ways["in steps"] = lambda users, items, graph, back: propagate(users, items, graph, back, model.steps)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(asked.repeats + 1):
        for name, function in ways.items():
            _wait(asked.device)
            started = time.perf_counter()
            function(*given)
            _wait(asked.device)
            if turn:  # the first warms up
                times[name].append(1e3 * (time.perf_counter() - started))
    best = {name: min(each) for name, each in times.items()}
    for name, value in best.items():
        print(f"{name}: {value:.2f} ms, {best['round by round'] / value:.2f} times as fast")


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
