"""A standing attack: what may go wrong on people's machines, at random, for some minutes. `make attack` runs it.

    python benchmarks/attack.py [--minutes 10] [--seed S] [--only kills,places,folders,csv,arrow]

`kills` ends commands by random signals at random moments, with random intervals of checkpoints, gives them again,
and compares what they leave with an undisturbed run, byte by byte. `places` starts two or three processes on one
place. `folders` spoils run folders, checkpoints, comparisons and searches (links, pipes, sizes, nesting, bytes) and
has every command read them: no traceback, no change outside, bounded time and memory. `csv` compares generated
dialects with Python's reader row by row; `arrow` compares ids of random types value by value. Exit code 1 where
anything failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reliability"))

import pyarrow.parquet as parquet
from kills import TIMES  # pyright: ignore[reportMissingImports]

from attack_folders import hostile  # pyright: ignore[reportMissingImports]
from attack_tables import arrow_types, generated_csv  # pyright: ignore[reportMissingImports]

LAUNCH = """
import sys
import accord.training.checkpoints as checkpoints
seconds = float(sys.argv.pop(1))
checkpoints.SECONDS, checkpoints.LEAST_BETWEEN = seconds, 0
checkpoints.Checkpoint.__init__.__defaults__ = (seconds, False, None)
from accord.cli.main import main
sys.argv[0] = "accord"
main()
"""
"""accord with checkpoints as often as asked for, in searches and comparisons too."""
PATIENCE = 3.5
"""Seconds in which a signal is heeded: two are promised, on a machine that does nothing else."""
OWN_TIMES = {*TIMES, "seconds", "wall_seconds"}
LOOSE = {".html", ".md", ".svg", ".csv", ".db"}
"""Files with times in them: only that they are there is compared."""
EXISTS = "exists already"
Words = list[object]


class WrongError(Exception):
    """Something that must not happen."""


def start(words: Words, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LAUNCH, str(seconds), *map(str, words)]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, preexec_fn=_heed_ctrl_c)


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def outcome(place: Path) -> dict[str, str]:
    """What a command left, without times."""
    if place.is_file():
        return {place.suffix: hashlib.sha256(place.read_bytes()).hexdigest()}
    return {str(path.relative_to(place)): _contents(path) for path in sorted(place.rglob("*")) if path.is_file()}


def _contents(path: Path) -> str:
    if path.suffix in LOOSE:
        return "there"
    if path.suffix in (".json", ".jsonl"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        return json.dumps([_without_times(json.loads(line)) for line in lines], sort_keys=True)
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        return str(table.drop_columns([n for n in table.column_names if n in OWN_TIMES]).to_pydict())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(one) for name, one in value.items() if name not in OWN_TIMES}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


class Attack:
    """The material, and one case of each kind after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.tried, self.failures = Counter[str](), list[str]()
        self._whole: dict[str, tuple[dict[str, str], float]] = {}
        self._prepare()

    def _prepare(self) -> None:
        from accord.data.simulator import SimulatorSettings, simulate

        made = simulate(SimulatorSettings(users=300, items=250, interactions=5000))
        self.log, self.truth, own = self.folder / "log.parquet", self.folder / "truth.parquet", self.folder / "own"
        parquet.write_table(made.log(), self.log)
        parquet.write_table(made.truth(), self.truth)
        own.mkdir()
        for words in (
            ["fit", self.log, "--method", "deca", "--epochs", 2, "--set", "dims=4", "--out", own / "clicks"],
            ["fit", "digits", "--noise", 0.4, "--model", "mlp", "--method", "deca-p", "--epochs", 2,
             "--out", own / "labels"],
            ["compare", self.log, "--methods", "normal,t-ce", "--trials", 1, "--seeds", 2, "--epochs", 1, "--truth",
             self.truth, "--out", own / "rows"],
            ["tune", self.log, "--method", "normal", "--trials", 2, "--epochs", 1, "--out", own / "search"],
        ):  # fmt: skip
            self._done(words)
        process = start(["fit", self.log, "--epochs", 100000, "--set", "patience=0", "--out", own / "run"], 0.2)
        while not (own / "run.checkpoint" / "checkpoint.safetensors").exists():
            time.sleep(0.05)
        process.kill()
        process.communicate()

    def _done(self, words: Words, seconds: float = 30.0) -> float:
        began = time.monotonic()
        process = start(words, seconds)
        said = process.communicate(timeout=600)[1]
        if process.returncode:
            raise WrongError(f"exit {process.returncode}: {said.strip()[-300:]}")
        return time.monotonic() - began

    # -- kills -----------------------------------------------------------------------------------------

    def commands(self) -> dict[str, Words]:
        """Commands that take some seconds; OUT is where they write."""
        quick: Words = ["--set", "batch_size=256", "--set", "patience=0"]
        own = self.folder / "own"
        return {
            "fit deca": ["fit", self.log, "--method", "deca", "--epochs", 40, *quick, "--out", "OUT"],
            "fit cdae": ["fit", self.log, "--model", "cdae", "--epochs", 15, *quick, "--out", "OUT"],
            "fit ials": ["fit", self.log, "--model", "ials", "--epochs", 30, "--out", "OUT"],
            "fit labels": ["fit", "digits", "--noise", 0.4, "--model", "mlp", "--epochs", 15, "--out", "OUT"],
            "compare": ["compare", self.log, "--methods", "normal,t-ce", "--trials", 2, "--seeds", 2, "--epochs",
                        15, "--truth", self.truth, *quick, "--out", "OUT"],
            "compare labels": ["compare", "digits", "--noise", 0.4, "--methods", "normal,itlm", "--models", "mlp",
                               "--seeds", 2, "--epochs", 10, "--out", "OUT"],
            "tune": ["tune", self.log, "--method", "deca", "--trials", 6, "--epochs", 12, *quick, "--out", "OUT"],
            "tune tpe": ["tune", self.log, "--method", "normal", "--trials", 4, "--sampler", "tpe", "--epochs", 12,
                         *quick, "--out", "OUT"],
            "simulate": ["simulate", "--users", 2000, "--items", 500, "--interactions", 60000, "--out", "OUT"],
            "audit": ["audit", own / "clicks", "--write-clean", "OUT.parquet", "--out", "OUT.csv"],
        }  # fmt: skip

    def whole(self, name: str, words: Words) -> tuple[dict[str, str], float]:
        """What the command leaves where nobody disturbs it, and how long it takes."""
        if name not in self._whole:
            place = self.folder / "whole" / name.replace(" ", "-")
            place.mkdir(parents=True)
            took = self._done(_at(words, place / "out"))
            self._whole[name] = self._left(place), took
        return self._whole[name]

    def _left(self, place: Path) -> dict[str, str]:
        left = {}
        for path in sorted(place.iterdir()):
            if path.name != "out" and not path.name.startswith("out."):
                raise WrongError(f"left behind: {path.name}")
            left |= {f"{path.name}/{name}": one for name, one in outcome(path).items()}
        return left

    def kills(self, place: Path) -> Iterator[str]:
        name = self.rng.choice(sorted(self.commands()))
        words, seconds = self.commands()[name], self.rng.choice([0.0, 0.1, 0.5, 2.0])
        expected, took = self.whole(name, words)
        out = place / "out"
        for _ in range(self.rng.randint(1, 4)):
            process = start(self._again(words, out, seconds), seconds)
            try:
                said = process.communicate(timeout=self.rng.uniform(0.3, max(2.0, took)))[1]
            except subprocess.TimeoutExpired:
                yield from self._kill(process, name)
                continue
            if process.returncode and EXISTS not in said:
                yield f"{name}: exit {process.returncode}: {said.strip()[-300:]}"
            break
        if not (name.startswith(("fit", "simulate")) and out.is_dir() and not (place / "out.checkpoint").exists()):
            self._done(self._again(words, out, seconds), seconds)
        found = {one: value for one, value in self._left(place).items() if "checkpoints/" not in one}
        differ = sorted(one for one in {*found, *expected} if found.get(one) != expected.get(one))
        if differ:
            yield f"{name}, checkpoints every {seconds} s: differs from an undisturbed one in {differ[:6]}"

    def _again(self, words: Words, out: Path, seconds: float) -> Words:
        resumed = words[0] == "fit" and (out.parent / "out.checkpoint" / "fit.json").is_file()
        asked: Words = ["fit", "--resume", out] if resumed else _at(words, out)
        return [*asked, "--checkpoint", seconds] if words[0] == "fit" else asked

    def _kill(self, process: subprocess.Popen[str], name: str) -> Iterator[str]:
        number = self.rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        asked = time.monotonic()
        process.send_signal(number)
        try:
            said = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            yield f"{name}: {number.name} is not heeded in a minute"
            return
        took = time.monotonic() - asked
        if number == signal.SIGKILL:
            return
        importing = process.returncode == -number or "KeyboardInterrupt" in said  # before accord could heed it
        if "Traceback" in said and not importing:
            yield f"{name}: {number.name}: {said.strip()[-300:]}"
        ready = process.returncode == 2 and EXISTS in said  # an earlier one was killed when it had left its result
        if process.returncode not in (130, 0) and not importing and not ready:
            yield f"{name}: {number.name}: exit {process.returncode}: {said.strip()[-200:]}"
        if took > PATIENCE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)):
            yield f"{name}: {number.name}: {took:.1f} s to stop"

    # -- places ----------------------------------------------------------------------------------------

    def places(self, place: Path) -> Iterator[str]:
        """Several processes at once, one perhaps killed: who is refused says so, and what is left is whole."""
        name = self.rng.choice(["fit deca", "fit labels", "compare", "tune"])
        words, out = self.commands()[name], place / "out"
        expected, _ = self.whole(name, words)
        processes = []
        for _ in range(self.rng.choice([2, 2, 3])):
            processes.append(start(self._again(words, out, 0.1), 0.1))
            time.sleep(self.rng.choice([0.0, 0.5, 3.0]))
        if self.rng.random() < 0.4:
            time.sleep(self.rng.uniform(0, 4))
            self.rng.choice(processes).kill()
        for process in processes:
            said = process.communicate(timeout=600)[1]
            if process.returncode not in (0, 2, -signal.SIGKILL) or "Traceback" in said:
                yield f"{name}, several at once: exit {process.returncode}: {said.strip()[-300:]}"
        if not out.is_dir() or (place / "out.checkpoint").exists() or name in ("compare", "tune"):
            self._done(self._again(words, out, 0.1), 0.1)
        found = {one: value for one, value in self._left(place).items() if "checkpoints/" not in one}
        differ = sorted(one for one in {*found, *expected} if found.get(one) != expected.get(one))
        if differ:
            yield f"{name}, several at once: differs from one alone in {differ[:6]}"

    # -- the other kinds -------------------------------------------------------------------------------

    def folders(self, place: Path) -> Iterator[str]:
        reads = {
            "clicks": [["recommend", "FOLDER/clicks", "--user", "u1"], ["audit", "FOLDER/clicks", "--top", "3"],
                       ["evaluate", "FOLDER/clicks", "--truth", str(self.truth)], ["report", "FOLDER/clicks"]],
            "labels": [["audit", "FOLDER/labels", "--top", "3"], ["evaluate", "FOLDER/labels"],
                       ["report", "FOLDER/labels"]],
            "rows": [["compare", str(self.log), "--methods", "normal,t-ce", "--trials", "1", "--seeds", "2",
                      "--epochs", "1", "--truth", str(self.truth), "--out", "FOLDER/rows"]],
            "search": [["tune", str(self.log), "--method", "normal", "--trials", "2", "--epochs", "1", "--out",
                        "FOLDER/search"]],
            "run.checkpoint": [["fit", str(self.log), "--epochs", "1", "--out", "FOLDER/run"],
                               ["fit", str(self.log), "--epochs", "1", "--overwrite", "--out", "FOLDER/run"]],
        }  # fmt: skip
        yield from hostile(self.rng, place, self.folder / "own", reads)

    def csv(self, place: Path) -> Iterator[str]:
        yield from generated_csv(self.rng, place)

    def arrow(self, place: Path) -> Iterator[str]:
        yield from arrow_types(self.rng, place)

    def case(self, kind: str) -> None:
        attack: Callable[[Path], Iterator[str]] = getattr(self, kind)
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as place:
            self.tried[kind] += 1
            try:
                found = list(attack(Path(place)))
            except (WrongError, subprocess.TimeoutExpired) as error:
                found = [str(error)]
        for words in found:
            self.failures.append(kind)
            print(f"FAILED {kind} {self.tried[kind]}: {words}", flush=True)


def _at(words: Words, out: Path) -> Words:
    return [str(word).replace("OUT", str(out)) if str(word).startswith("OUT") else word for word in words]


SHARES = {"kills": 0.4, "places": 0.2, "folders": 0.3, "csv": 0.07, "arrow": 0.03}
"""Of the time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--only", default=",".join(SHARES))
    args = parser.parse_args()
    kinds = args.only.split(",")
    print(f"seed {args.seed}, {args.minutes:g} minutes, {', '.join(kinds)}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="accord-attack-"))
    attack = Attack(folder, args.seed)
    try:
        until, spent = time.monotonic() + 60 * args.minutes, dict.fromkeys(kinds, 0.0)
        while time.monotonic() < until:
            kind = min(kinds, key=lambda one: spent[one] / SHARES[one])
            began = time.monotonic()
            attack.case(kind)
            spent[kind] += time.monotonic() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for kind in kinds:
            print(f"{kind}: {attack.tried[kind]} cases, {attack.failures.count(kind)} failures", flush=True)
    sys.exit(1 if attack.failures else 0)


if __name__ == "__main__":
    main()
