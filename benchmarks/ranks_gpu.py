"""One GPU through torchrun, beside the same training without it; and what the ranks' exchange costs on a GPU.

    python benchmarks/ranks_gpu.py [--clicks 1000000] [--models mf gmf] [--epochs 10] [--turns 1] [--device cuda]

Each way is a program of its own, and the ways take turns:

- ``plain``: `Recommender.fit`, as `accord fit` calls it;
- ``torchrun``: the same under ``torchrun --nproc-per-node 1``, which is one process as ever;
- ``nccl``: one rank that talks to itself all the same, so that every exchange goes through NCCL. Nobody needs it;
  it shows that the calls work and what they cost. On a CPU, it is gloo;
- ``gloo 2``: two ranks that share the one GPU and talk by gloo, since NCCL refuses two ranks on one GPU.

The losses of ``nccl`` and ``gloo 2`` are of other batches than that of ``plain``, as with another seed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from accord import Recommender
from accord.ranks.group import Group, as_group, here
from accord.ranks.joining import joined
from ranks import free_port, made_up

WAYS = ("plain", "torchrun", "nccl", "gloo 2")


class Itself(Group):
    """A rank alone that talks to itself as ranks do with one another."""

    @property
    def many(self) -> bool:
        return True


def child(asked: argparse.Namespace) -> None:
    with ExitStack() as stack:
        gpu = asked.device == "cuda"
        if asked.way == "nccl":
            backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
            dist.init_process_group(backend, f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
            stack.enter_context(as_group(Itself(0, 1)))
        else:
            if asked.way == "gloo 2":  # joined() takes the group that is there
                dist.init_process_group("gloo")
            stack.enter_context(joined())
        if gpu:
            torch.zeros(1, device="cuda")
        settings = {"model": asked.model, "method": "normal", "epochs": asked.epochs, "batch_size": asked.batch}
        rec = Recommender(**settings, dims=32, seed=1, valid_users=2000, device=asked.device, patience=0)
        started = time.perf_counter()
        rec.fit(asked.read, verbose=False)
        if here().leads:
            found = {"fit": time.perf_counter() - started}
            found["epoch"] = min(one["train_seconds"] for one in rec.history_)
            found["loss"], found["ndcg"] = rec.history_[-1]["loss"], rec.history_[-1]["valid"]["ndcg@20"]
            found["notes"] = rec.notes_.get("ranks", {})
            print(json.dumps(found), flush=True)
        if dist.is_initialized():
            dist.destroy_process_group()


def measured(asked: argparse.Namespace, way: str, model: str, log: Path) -> dict[str, Any]:
    words = [__file__, "--read", str(log), "--way", way, "--models", model, "--device", asked.device]
    words += ["--epochs", str(asked.epochs), "--batch", str(asked.batch)]
    count = {"torchrun": 1, "gloo 2": 2}.get(way)
    if count is not None:
        place = f"127.0.0.1:{free_port()}"
        start = ["--nproc-per-node", str(count), "--rdzv-backend", "c10d", "--rdzv-endpoint", place]
        words = ["-m", "torch.distributed.run", *start, *words]
    started = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, errors = started.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # its ranks too
        return {"error": ["it took more than 60 seconds"]}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"error": errors.strip().splitlines()[-12:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["mf", "gmf"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    for name, value in (("clicks", 1_000_000), ("epochs", 10), ("batch", 8192), ("turns", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("device", "cuda"), ("read", ""), ("way", "")):
        parser.add_argument(f"--{name}", default=value)
    asked = parser.parse_args()
    asked.model = asked.models[0]
    if asked.way:
        child(asked)
        return
    print("model way turn seconds_of_fit seconds_of_epoch loss ndcg@20 bytes/step", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        made_up(Path(folder) / "log", asked.clicks)
        for model in asked.models:
            for turn in range(asked.turns):
                for way in asked.ways:
                    found = measured(asked, way, model, Path(folder) / "log")
                    if "error" in found:
                        print(model, way, turn, "failed:", *found["error"], sep="\n  ", flush=True)
                        continue
                    sent = found["notes"].get("bytes_per_step", 0)
                    line = f"{found['fit']:.2f} {found['epoch']:.3f} {found['loss']:.6f} {found['ndcg']:.6f}"
                    print(model, way, turn, f"{line} {sent:.0f}", flush=True)


if __name__ == "__main__":
    main()
