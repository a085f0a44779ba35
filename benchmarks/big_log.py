"""What each stage of `accord fit`, `recommend --all` and `audit` takes on a large log: memory and time.

    python benchmarks/big_log.py make FOLDER --clicks N [--users N] [--items N] [--parts N] [--times]
    python benchmarks/big_log.py fit FOLDER --out RUN [--set NAME=VALUE ...] [--steps N] [--checkpoint SECONDS]
    python benchmarks/big_log.py recommend RUN --out FOLDER [--users N]
    python benchmarks/big_log.py audit RUN --out TABLE

`make` writes a folder of Parquet parts: users who differ in how much they click, items by Zipf's law, each of them
at least once, and ids as numbers that are not in order. `fit`, `recommend` and `audit` do what the commands do, in
one process, and print for every stage its seconds, the highest resident memory within it, and what is resident at
its end: anonymous memory, and pages of files, which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

ZIPF, SPREAD = 1.0, 1.0
"""The exponent of items, and the deviation of the logarithm of users' activity."""
SECONDS = 0.02
"""Between two looks at the memory."""
BLOCK = 1 << 22
TRAINING = "an epoch of training"
ODD = 0x9E3779B1
"""Ids are row numbers times this, modulo 2^40: in no order."""


def make(folder: Path, clicks: int, users: int, items: int, parts: int, times: bool) -> None:
    """Every user and every item has a click, so that logs of several lengths have tables of one size."""
    folder.mkdir(parents=True, exist_ok=True)
    if clicks < users + items:
        raise SystemExit(f"{clicks:,} clicks are too few for {users:,} users and {items:,} items.")
    jobs = [(folder, k, parts, clicks, users, items, times) for k in range(parts)]
    with ProcessPoolExecutor(min(parts, os.cpu_count() or 1)) as pool:
        list(pool.map(_make_part, jobs))
    print(f"{clicks:,} clicks in {parts} parts of {folder}", flush=True)


def _make_part(job: tuple[Path, int, int, int, int, int, bool]) -> None:
    folder, part, parts, clicks, users, items, times = job
    activity = np.cumsum(np.random.default_rng(0).lognormal(sigma=SPREAD, size=users))
    popularity = np.cumsum(1.0 / np.arange(1, items + 1) ** ZIPF)
    rng = np.random.default_rng([0, part])

    def share(count: int) -> np.ndarray:
        return np.arange(count * part // parts, count * (part + 1) // parts)

    forced, count = [share(users), share(items)], len(share(clicks))
    with parquet.ParquetWriter(folder / f"part-{part:04}.parquet", _schema(times)) as writer:
        for start in range(0, count, BLOCK):
            writer.write_table(_drawn(rng, activity, popularity, min(BLOCK, count - start), times, forced))


def _schema(times: bool) -> pa.Schema:
    more = [("time", pa.int64())] if times else []
    return pa.schema([("user", pa.int64()), ("item", pa.int64()), *more])


def _drawn(
    rng: np.random.Generator,
    users: np.ndarray,
    items: np.ndarray,
    count: int,
    times: bool,
    forced: list[np.ndarray],
) -> pa.Table:
    """Random clicks; some of them are of users and of items that are to come, which are taken off the lists."""
    codes = [np.searchsorted(one, rng.random(count) * one[-1]) for one in (users, items)]
    places, done = rng.permutation(count), 0
    for k, own in enumerate(codes):
        now, forced[k] = forced[k][: count - done], forced[k][count - done :]
        own[places[done : done + len(now)]] = now
        done += len(now)
    columns = [code.astype(np.int64) * ODD % (1 << 40) for code in codes]
    columns += [rng.integers(0, 1 << 31, count)] if times else []
    return pa.table(columns, schema=_schema(times))


# -- stages ------------------------------------------------------------------------------------------------


def memory() -> dict[str, float]:
    """What is resident, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    wanted = ("VmHWM", "VmRSS", "RssAnon", "RssFile")
    return {n: int(v.split()[0]) * 1024 / 1e6 for n, _, v in (line.partition(":") for line in lines) if n in wanted}


class Stages:
    """Watches the memory, and writes a line when a stage ends."""

    def __init__(self) -> None:
        self.peak, self.highest = [0.0, 0.0], 0.0
        self.done: dict[str, list[float]] = {}
        """Seconds of CPU of each stage, by its name; a number for each time that it was gone through."""
        threading.Thread(target=self._watch, daemon=True).start()
        heads = (
            f"{'seconds':>8} {'of CPU':>7} {'peak MB':>9} {'of it anonymous':>16} {'at its end':>11} {'files':>8}"
        )
        print(f"{'stage':28} {heads}", flush=True)

    def _look(self) -> dict[str, float]:
        now = memory()
        self.peak = [max(self.peak[0], now["VmRSS"]), max(self.peak[1], now["RssAnon"])]
        self.highest = max(self.highest, now["RssAnon"])
        return now

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(SECONDS)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.peak = [0.0, 0.0]
        self._look()
        started, worked = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            now = self._look()
            took = time.perf_counter() - started, time.process_time() - worked
            self.done.setdefault(name.strip(), []).append(took[1])
            figures = f"{self.peak[0]:9.0f} {self.peak[1]:16.0f} {now['RssAnon']:11.0f} {now['RssFile']:8.0f}"
            print(f"{name:28} {took[0]:8.1f} {took[1]:7.1f} {figures}", flush=True)

    def found(self) -> dict[str, Any]:
        """The highest resident memory of the process and the highest anonymous, in MB; and seconds of CPU."""
        highest = {"highest": memory()["VmHWM"], "anonymous": self.highest}
        return highest | {"cpu": time.process_time(), "stages": self.done}

    def of(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are a stage."""

        def generated(*given: Any, **named: Any) -> Iterator[Any]:
            with self.stage(name):
                yield from call(*given, **named)

        def called(*given: Any, **named: Any) -> Any:
            with self.stage(name):
                return call(*given, **named)

        return generated if inspect.isgeneratorfunction(call) else called


def watch(stages: Stages) -> None:
    """Make stages of the functions that a fit goes through."""
    from accord.estimators import fitting, recommender_data, recommender_judging, recommender_training
    from accord.estimators.recommender import Recommender
    from accord.training import phase_trainer

    for owner, name, words in (
        (recommender_data, "load_clicks", "reading"),
        (recommender_data, "split_log", "dividing"),
        (recommender_training, "prepare", "reading to training clicks"),
        (fitting._Training, "begin", "networks"),
        (phase_trainer.PhaseTrainer, "steps_of_epoch", TRAINING),
        (phase_trainer.PhaseTrainer, "_measured", "  validation"),
        (recommender_judging, "finish", "judging"),
        (Recommender, "save", "saving, with the report"),
        (recommender_judging, "issues_table", "  the table of issues"),
    ):
        setattr(owner, name, stages.of(words, getattr(owner, name)))


def fit(folder: Path, out: Path, words: list[str], report: bool, steps: int, seconds: float) -> dict[str, Any]:
    stages = Stages()
    from accord.cli.process import as_a_command, system_memory
    from accord.cli.words import settings_of
    from accord.estimators.recommender import Recommender
    from accord.report import write_run_report
    from accord.training import Checkpoint

    stages.of("imports", lambda: None)()
    if steps:
        shorten(steps)
    watch(stages)
    settings: dict[str, Any] = settings_of(words)
    rec = Recommender(**settings)
    checkpoint = Checkpoint(out.with_name(f"{out.name}.checkpoint"), seconds) if seconds else None
    with as_a_command(lambda *_: None), system_memory():  # memory as a command has it
        rec.fit(folder, verbose=True, checkpoint=checkpoint)
        rec.save(out, also=(lambda draft: write_run_report(rec, draft / "report.html")) if report else None)
    if checkpoint is not None:
        checkpoint.remove()
    clicks = rec.notes_["train"]
    drawn = min(steps * rec.settings.batch_size, clicks) if steps else clicks
    found = stages.found() | {"clicks": rec.notes_["clicks"], "users": rec.notes_["users"]}
    found |= {"items": rec.notes_["items"], "steps": -(-drawn // rec.settings.batch_size), "phases": {}}
    for record, worked in zip(rec.history_, stages.done[TRAINING], strict=True):
        each = found["phases"][record["phase"]] = 1e6 * worked / drawn
        print(f"phase {record['phase']}, epoch {record['epoch']}: {each:.2f} µs a click of {drawn:,}")
    return found


def shorten(steps: int) -> None:
    """An epoch ends after some steps, with all that comes at its end."""
    from accord.training.phase_trainer import PhaseTrainer

    whole = PhaseTrainer.steps_of_epoch

    def some(trainer: Any) -> Iterator[float]:
        for number, share in enumerate(whole(trainer), 1):
            yield share
            if number == steps:
                trainer.epoch += 1
                return

    setattr(PhaseTrainer, "steps_of_epoch", some)  # noqa: B010


def recommend(run: Path, out: Path, users: int) -> dict[str, Any]:
    stages = Stages()
    from accord.cli.process import as_a_command
    from accord.estimators.recommender import Recommender

    stages.of("imports", lambda: None)()
    with as_a_command(lambda *_: None):
        rec = stages.of("loading", Recommender.load)(run)
        lists = rec.recommend_all(50, world=max(1, len(rec.user_ids_) // users))
        stages.of("recommending", lists.write)(out)
    return stages.found() | {"users": len(lists)}


def audit(run: Path, out: Path) -> dict[str, Any]:
    stages = Stages()
    from accord.cli.process import as_a_command
    from accord.cli.runs import run_audit

    stages.of("imports", lambda: None)()
    with as_a_command(lambda *_: None):
        answer = stages.of("audit", run_audit)(run, 10, None, out, None, None)
    return stages.found() | {"clicks": answer["judged"], "flagged": answer["flagged"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--clicks", type=int, required=True)
    making.add_argument("--users", type=int, default=500_000)
    making.add_argument("--items", type=int, default=30_000)
    making.add_argument("--parts", type=int, default=10)
    making.add_argument("--times", action="store_true")
    fitting = commands.add_parser("fit")
    fitting.add_argument("folder", type=Path)
    fitting.add_argument("--no-report", action="store_true")
    fitting.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    fitting.add_argument("--steps", type=int, default=0, help="of an epoch; 0: all")
    fitting.add_argument("--checkpoint", type=float, default=0.0, metavar="SECONDS")
    recommending = commands.add_parser("recommend")
    recommending.add_argument("run", type=Path)
    recommending.add_argument("--users", type=int, default=10_000)
    auditing = commands.add_parser("audit")
    auditing.add_argument("run", type=Path)
    for one in (fitting, recommending, auditing):
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--result", type=Path)
    asked = parser.parse_args()
    if asked.command == "make":
        make(asked.folder, asked.clicks, asked.users, asked.items, asked.parts, asked.times)
    else:
        found = _measured(asked)
        print(f"highest {found['highest']:.0f} MB, anonymous {found['anonymous']:.0f} MB")
        if asked.result is not None:
            asked.result.write_text(json.dumps(found))


def _measured(asked: argparse.Namespace) -> dict[str, Any]:
    if asked.command == "fit":
        report = not asked.no_report
        return fit(asked.folder, asked.out, asked.settings, report, asked.steps, asked.checkpoint)
    return (
        recommend(asked.run, asked.out, asked.users)
        if asked.command == "recommend"
        else audit(asked.run, asked.out)
    )


if __name__ == "__main__":
    sys.exit(main())
