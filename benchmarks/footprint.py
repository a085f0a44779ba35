"""What a command costs beside its arithmetic: seconds, memory and modules of `accord fit` and `accord recommend`.

    python benchmarks/footprint.py [--tree SOURCE ...] [--rounds N] [--clicks N] [--threads N] [--check]

A tree is a checkout of accord; several are measured in one run, in turns, so that a busy machine hurts all alike.
Every command is a process of its own. `import torch` is timed in every round, since the goals are told in it:
a fit takes no longer than its training and 1.6 imports of torch, a recommendation 1.5 imports, and a fit of 100,000
clicks no more than 450 MB. With `--check` the exit code is 1 where a tree misses a goal. Where others compute on
the machine, wall seconds say little; CPU seconds, with `--threads 1`, say more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]
HEAVY = ("torch._dynamo", "triton", "sklearn", "scipy", "pandas", "optuna", "matplotlib", "PIL", "sympy")
"""Packages that a fit on clicks can do without."""
FIT, RECOMMEND, MEGABYTES = 1.6, 1.5, 450
"""The goals: imports of torch around a training, imports of torch for a recommendation, and memory of a fit."""
RUNNER = """
import atexit, json, os, sys
def tell():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    kilobytes = {name: int(status[name].split()[0]) for name in ("VmHWM", "RssAnon", "RssFile")}
    with open(os.environ["FOOTPRINT"], "w") as file:
        json.dump(kilobytes | {"modules": sorted(sys.modules)}, file)
atexit.register(tell)
from accord.cli.main import run
run()
"""
"""A command as it is, that says at its end what it holds."""


class Cost(NamedTuple):
    """One process."""

    wall: float
    cpu: float
    """Seconds that cores worked for it, on its own and on the system's account."""
    megabytes: float
    anonymous: float
    """Of its memory at the end, in MB, what no file stands behind."""
    modules: int
    heavy: tuple[str, ...]


class Round(NamedTuple):
    """A fit, a fit of one epoch, and a recommendation, beside one import of torch."""

    torch: float
    torch_cpu: float
    fit: Cost
    short: Cost
    """A fit of one epoch, nearly all of which is not training."""
    train: float
    valid: float
    recommend: Cost

    @property
    def around(self) -> float:
        """Seconds of the fit outside training, in imports of torch."""
        return (self.fit.wall - self.train) / self.torch

    @property
    def answer(self) -> float:
        return self.recommend.wall / self.torch


def environment(tree: Path, threads: int | None) -> dict[str, str]:
    own = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**os.environ, "PYTHONPATH": str(tree / "src"), **own}


def timed(command: Sequence[str], env: Mapping[str, str], folder: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak megabytes of a process."""
    with open(folder / "said", "wb+") as said:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=dict(env), cwd=folder, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command[3:])} failed: {said.read().decode(errors='replace')[-2000:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def accord(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Cost:
    told = folder / "footprint.json"
    command = [sys.executable, "-c", RUNNER, *words]
    wall, cpu, peak = timed(command, {**env, "FOOTPRINT": str(told)}, folder)
    found = json.loads(told.read_text())
    names = set(found["modules"])
    heavy = tuple(name for name in HEAVY if name in names)
    return Cost(wall, cpu, peak, found["RssAnon"] / 1024, len(names), heavy)


def seconds(run: Path, name: str) -> float:
    return sum(json.loads(line).get(name, 0.0) for line in (run / "history.jsonl").read_text().splitlines())


def measure(tree: Path, env: Mapping[str, str], folder: Path, number: int) -> Round:
    run = folder / f"run-{number}-{abs(hash(tree))}"
    torch, torch_cpu, _ = timed([sys.executable, "-c", "import torch"], env, folder)
    fit = accord(["fit", "sim/log.parquet", "--out", str(run)], env, folder)
    short = accord(["fit", "sim/log.parquet", "--epochs", "1", "--out", f"{run}-short"], env, folder)
    answer = accord(["recommend", str(run), "--user", "u1", "-k", "10"], env, folder)
    trained, measured = seconds(run, "train_seconds"), seconds(run, "valid_seconds")
    return Round(torch, torch_cpu, fit, short, trained, measured, answer)


def rows_of(rounds: Sequence[Round]) -> list[list[str]]:
    """Figures of a tree: name, best, median, goal."""

    def row(name: str, values: Sequence[float], form: str = ".2f", goal: float | None = None) -> list[str]:
        met = "" if goal is None else f"≤ {goal:g} {'met' if median(values) <= goal else 'MISSED'}"
        return [name, format(min(values), form), format(median(values), form), met]

    return [
        row("import torch, seconds", [r.torch for r in rounds]),
        row("  CPU seconds", [r.torch_cpu for r in rounds]),
        row("fit, seconds", [r.fit.wall for r in rounds]),
        row("  training alone", [r.train for r in rounds]),
        row("  validation", [r.valid for r in rounds]),
        row("  all but training, in imports of torch", [r.around for r in rounds], goal=FIT),
        row("fit of one epoch, CPU seconds", [r.short.cpu for r in rounds]),
        row("  in CPU seconds of import torch", [r.short.cpu / r.torch_cpu for r in rounds]),
        row("fit, peak MB", [r.fit.megabytes for r in rounds], ".0f", MEGABYTES),
        row("  not backed by files at the end, MB", [r.fit.anonymous for r in rounds], ".0f"),
        row("  modules imported", [r.fit.modules for r in rounds], ".0f"),
        row("recommend, seconds", [r.recommend.wall for r in rounds]),
        row("  in imports of torch", [r.answer for r in rounds], goal=RECOMMEND),
        row("  in CPU seconds of import torch", [r.recommend.cpu / r.torch_cpu for r in rounds]),
        row("recommend, peak MB", [r.recommend.megabytes for r in rounds], ".0f"),
        row("  modules imported", [r.recommend.modules for r in rounds], ".0f"),
    ]


def show(tree: Path, rounds: Sequence[Round]) -> bool:
    """Print a tree's figures; whether it meets all goals."""
    rows = [["", "best", "median", "goal"], *rows_of(rounds)]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    print(f"\n{tree}, {len(rounds)} rounds")
    for name, *cells in rows:
        shown = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print(f"{name.ljust(widths[0])}  {shown}".rstrip())
    for command, cost in (("fit", rounds[-1].fit), ("recommend", rounds[-1].recommend)):
        print(f"{command} imports {', '.join(cost.heavy) or 'none of the heavy packages'}")
    return not any("MISSED" in row[3] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, action="append", help="a checkout; by default the one of this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clicks", type=int, default=100_000)
    parser.add_argument("--threads", type=int, help="threads of torch; by default as many as it takes itself")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    asked = parser.parse_args()
    trees = [tree.resolve() for tree in asked.tree or [HERE]]
    for tree in trees:
        if not (tree / "src" / "accord").is_dir():  # or an installed accord would be measured in its place
            parser.error(f"'{tree}' holds no src/accord")
    environments = {tree: environment(tree, asked.threads) for tree in trees}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = ["--interactions", str(asked.clicks), "--seed", "0"]
        accord(["simulate", *size, "--out", "sim"], environments[trees[0]], folder)
        measured: dict[Path, list[Round]] = {tree: [] for tree in trees}
        for number in range(asked.rounds):
            for tree in trees:
                measured[tree].append(measure(tree, environments[tree], folder, number))
    met = [show(tree, measured[tree]) for tree in trees]
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    sys.exit(asked.check and not all(met))


if __name__ == "__main__":
    main()
