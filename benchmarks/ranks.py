"""What several ranks cost and save: losses, metrics, time for a click, memory and bytes sent, for 1, 2 and 4 ranks.

    python benchmarks/ranks.py [--clicks 100000 1000000] [--ranks 1 2 4] [--model mf] [--method normal] [--epochs 2]
    python benchmarks/ranks.py --clicks 10000000 --reading

Every number of ranks is compared with one process that draws the same batches (not if --unpaired), and the bytes
that are sent with those that its batches foretell (of one table, for mf and normal). With --reading they end
when the training would begin. Memory is the most that a process had beyond what it has when torch and accord are
imported: until the training begins, and at all. The log is made up: users click as often as one another, items by
Zipf's law. Ranks share the cores of this machine, so that more of them than cores cannot be faster; what is shown
is that they learn the same, what they hold, and what they send.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord import Recommender
from accord.ranks.group import drawing_as, here
from accord.ranks.joining import joined
from accord.training.phase_trainer import PhaseTrainer
from accord.training.stepping import Stepper

PART = 1 << 20
"""Rows of a file of the log, in four groups."""


def made_up(path: Path, clicks: int) -> None:
    """A log of so many clicks: 20 of each user, and an item for every 16 clicks."""
    rng, users, items = np.random.default_rng(0), clicks // 20, max(100, clicks // 16)
    popular = 1 / np.arange(1, items + 1) ** 0.8
    drawn = rng.choice(items, 2 * clicks, p=popular / popular.sum())
    pairs = np.unique(np.stack([rng.integers(0, users, 2 * clicks), drawn], 1), axis=0)
    kept = np.sort(rng.permutation(len(pairs))[:clicks])
    table = pa.table({"user": pairs[kept, 0], "item": pairs[kept, 1]})
    path.mkdir()
    for k, first in enumerate(range(0, clicks, PART)):
        parquet.write_table(table.slice(first, PART), path / f"part-{k:03d}.parquet", row_group_size=PART // 4)


def most_memory() -> float:
    """The most memory that this process has had, in MB; `getrusage` would count that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


def child(asked: argparse.Namespace) -> None:
    """One rank, or one process that draws as so many ranks would."""
    held: dict[str, Any] = {}
    sent = np.zeros((asked.shards, 2))
    prepare, make = PhaseTrainer._prepare, Stepper.__call__

    def prepared(self: PhaseTrainer) -> None:
        prepare(self)
        networks = [p for one in self.learning.values() for p in one.parameters()]
        held["read"] = most_memory()
        if asked.reading:
            sent = here().bytes_sent.get("reading", 0)
            print(json.dumps({"read": held["read"] - held["before"], "sent": sent}), flush=True)
            raise SystemExit
        held["tables"] = sum(p.numel() * p.element_size() for p in networks) / 1e6

    def counted(self: Stepper, batch: Any, step: int, epoch: int) -> None:
        make(self, batch, step, epoch)
        if asked.shards > 1:
            sent[:, 0] += foretold(batch, asked.shards, asked.dims)
            sent[:, 1] += 1

    PhaseTrainer._prepare, Stepper.__call__ = prepared, counted
    with joined(), ExitStack() as stack:
        if asked.shards:
            stack.enter_context(drawing_as(asked.shards))
        settings = {"model": asked.model, "method": asked.method, "epochs": asked.epochs, "batch_size": asked.batch}
        rec = Recommender(**settings, dims=asked.dims, seed=1, updates="rows", valid_users=2000, item_bias=False)
        held["before"] = before = most_memory()
        started, cpu = time.perf_counter(), time.process_time()
        rec.fit(asked.log, verbose=False)
        held |= {
            "seconds": time.perf_counter() - started,
            "cpu": time.process_time() - cpu,
            "before": before,
            "rank": here().rank,
        }
        held["peak"] = most_memory() - before
        held["read"] -= before
        if here().leads:
            held["history"] = [[one["loss"], one["valid"]["ndcg@20"]] for one in rec.history_]
            held["train"] = (
                sum(one["train_seconds"] for one in rec.history_) / rec.notes_["train"] / len(rec.history_)
            )
            held["notes"] = rec.notes_.get("ranks", {})
            held["foretold"] = float((sent[:, 0] / np.maximum(1, sent[:, 1])).max()) if asked.shards > 1 else 0.0
        print(json.dumps(held))


def foretold(batch: Any, ranks: int, dims: int) -> np.ndarray:
    """What each rank would send in a step on one table of items: numbers of rows, rows and gradients.

    A rank asks for each of its items once. It sends 4 bytes for each that another rank has, and later its gradient;
    and the rows that others ask of it. That many are asked for is said in 8 bytes to each.
    """
    shard, asked_of = (batch.users[0] % ranks).numpy(), np.zeros((ranks, ranks))
    for rank in range(ranks):
        wanted = np.unique(batch.items[:, 0, shard == rank].numpy())
        asked_of[rank] = np.bincount(wanted % ranks, minlength=ranks)
    np.fill_diagonal(asked_of, 0)
    return asked_of.sum(1) * (4 + 4 * dims) + asked_of.sum(0) * 4 * dims + 8 * (ranks - 1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(asked: argparse.Namespace, log: Path, ranks: int, shards: int) -> list[dict[str, Any]]:
    port = free_port()
    words = [sys.executable, __file__, "--log", str(log), "--shards", str(shards)]
    words += ["--reading"] if asked.reading else []
    for name in ("model", "method", "epochs", "batch", "dims"):
        words += [f"--{name}", str(getattr(asked, name))]
    started = []
    for rank in range(ranks):
        who = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "MASTER_PORT": port}
        own = os.environ | {name: str(value) for name, value in who.items()} | {"MASTER_ADDR": "127.0.0.1"}
        started.append(subprocess.Popen(words, env=own, stdout=subprocess.PIPE, text=True))
    return [json.loads(one.communicate()[0].splitlines()[-1]) for one in started]


def reading(asked: argparse.Namespace) -> None:
    """What reading takes on each rank: the most memory, and bytes sent."""
    print("clicks ranks MB_of_each_rank bytes_sent_by_each", flush=True)
    for clicks in asked.clicks:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            made_up(log, clicks)
            for ranks in asked.ranks:
                found = run(asked, log, ranks, 0)
                each = ("/".join(f"{one[name]:.0f}" for one in found) for name in ("read", "sent"))
                print(clicks, ranks, *each, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--paper", type=int, nargs="*", default=[], help="Ranks whose bytes are only foretold.")
    for name, value in (("model", "mf"), ("method", "normal"), ("log", ""), ("shards", 0)):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    for name, value in (("epochs", 2), ("batch", 8192), ("dims", 32)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--unpaired", action="store_true", help="Without the process that draws the same batches.")
    parser.add_argument("--reading", action="store_true", help="Up to where the training would begin.")
    asked = parser.parse_args()
    if asked.log:
        child(asked)
        return
    if asked.reading:
        reading(asked)
        return
    print(
        "clicks ranks loss ndcg@20 apart µs/click cpu_s tables_MB read_MB peak_MB bytes/step foretold",
        end="",
    )
    print(" ms_waited/step bytes/validation bytes_read")
    for clicks in asked.clicks:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            made_up(log, clicks)
            for ranks in asked.paper:
                alone = run(asked, log, 1, ranks)[0]
                print(f"{clicks} {ranks} on paper: {alone['foretold']:.0f} bytes/step", flush=True)
            for ranks in asked.ranks:
                found = run(asked, log, ranks, 0)
                first = found[0]
                alone = {**first, "foretold": 0.0} if asked.unpaired else run(asked, log, 1, ranks)[0]
                apart = np.abs(np.subtract(first["history"], alone["history"])).max()
                notes = first["notes"] or dict.fromkeys(
                    ("bytes_per_step", "seconds_waited_per_step", "bytes_per_validation", "bytes_read"), 0
                )
                loss, ndcg = first["history"][-1]
                names = ("cpu", "tables", "read", "peak")
                cpu, tables, read, peaks = ("/".join(f"{one[name]:.1f}" for one in found) for name in names)
                print(
                    f"{clicks} {ranks} {loss:.6f} {ndcg:.6f} {apart:.1e} {1e6 * first['train']:.2f} "
                    f"{cpu} {tables} {read} {peaks} {notes['bytes_per_step']:.0f} {alone['foretold']:.0f} "
                    f"{1e3 * notes['seconds_waited_per_step']:.2f} {notes['bytes_per_validation']:.0f} "
                    f"{notes['bytes_read']:.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
