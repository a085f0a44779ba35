"""Eight threads and forked workers get the answers one thread gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, sys, warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import torch

from accord import Recommender
from accord.data.simulator import SimulatorSettings, simulate

made = simulate(SimulatorSettings(users=300, items=250, interactions=5000, seed=3))
rec = Recommender(model=sys.argv[1], method="normal", epochs=1, dims=8, seed=0, device="cpu").fit(made.log())
users = rec.user_ids_.values.to_pylist()
parts = [users[k::8] for k in range(8)]


def answers(part):
    return rec.recommend(part, k=5).to_pylist()


if __name__ == "__main__":
    torch.set_num_threads(2)  # so that there are threads a fork could lose
    expected = [answers(part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(answers, parts)) == expected
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(answers, parts, timeout=60)) == expected
    print("the same")
"""


@pytest.mark.parametrize("model", ["gmf", "neumf", "cdae", "lightgcn"])
def test_threads_and_forked_workers(model: str) -> None:
    """In a process of its own, as a server would be."""
    words = [sys.executable, "-c", PROGRAM, model]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "the same", done.stderr
