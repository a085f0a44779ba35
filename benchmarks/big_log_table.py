"""A table of what `accord fit`, `recommend --all` and `audit` take on logs of 10⁶ to 10⁸ clicks.

    python benchmarks/big_log_table.py [PART ...] --root FOLDER --json FILE [--together N] [--seconds N]

A part is a model, a method, a number of clicks, and tables that are `wide` or `equal`: `gmf:deca-p:1e8:wide`.
What is given may be the end of names, such as `1e8:wide`; nothing means all parts. Each command runs in a process
of its own on one thread (see `big_log.py`), several parts side by side. Users and items of `equal` logs are as
many, however many clicks there are; each has a click. A log of 10⁶ clicks has no room for the `wide` ones. Memory
is the highest resident of the process (VmHWM), pages of files included; in brackets, the highest anonymous. Times
are of the processor. A fifth word, `checkpoint`, lets a training save its state every 30 seconds, as the command
does. What was done when time is up is kept: the files are written after every command.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import big_log

TABLES = {"equal": (500_000, 100_000), "wide": (4_900_000, 300_000)}
"""Users and items. A log of a million clicks has no room for the wide ones."""
KINDS = ("mf:normal", "gmf:normal", "gmf:deca-p")
PARTS = [
    f"{kind}:1e{k}:{tables}" for k in (8, 7, 6) for kind in KINDS for tables in TABLES if k > 6 or tables == "equal"
]
COMMON = ("epochs=1", "batch_size=16384", "memory=0")


class Table:
    """The parts that are measured, and what was found of each."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.root, self.json, self.together = asked.root.resolve(), asked.json, asked.together
        self.steps, self.users = asked.steps, asked.users
        self.ends = time.monotonic() + asked.seconds
        self.found: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()
        self.root.mkdir(parents=True, exist_ok=True)

    def measure(self, parts: list[str]) -> None:
        for clicks, tables in dict.fromkeys(tuple(part.split(":")[2:4]) for part in parts):
            folder = self.root / f"log-{clicks}-{tables}"
            if not folder.exists():
                big_log.make(folder, int(float(clicks)), *TABLES[tables], 32, False)
        with ThreadPoolExecutor(self.together) as pool:
            list(pool.map(self._part, parts))
        print(self.words())

    def _part(self, part: str) -> None:
        model, method, clicks, tables, *more = part.split(":")
        run, issues = self.root / f"run {part}", self.root / f"issues {part}.parquet"
        lists, steps = self.root / f"lists {part}", self.steps if method == "deca-p" and clicks == "1e8" else 0
        log = self.root / f"log-{clicks}-{tables}"
        words = [f"--set={one}" for one in (f"model={model}", f"method={method}", *COMMON)]
        words += ["--checkpoint=30"] if "checkpoint" in more else []
        self._step(part, "fit", log, f"--out={run}", f"--steps={steps}", *words)
        self._step(part, "recommend", run, f"--out={lists}", f"--users={self.users}")
        self._step(part, "audit", run, f"--out={issues}")
        for folder in (run, lists):
            shutil.rmtree(folder, ignore_errors=True)
        issues.unlink(missing_ok=True)

    def _step(self, part: str, command: str, place: Path, *more: str) -> None:
        """One command in a process of its own; it is ended when time is up."""
        result, log = self.root / f"{command} {part}.json", self.root / f"{command} {part}.txt"
        result.unlink(missing_ok=True)
        left = self.ends - time.monotonic()
        if left <= 0 or not place.exists():
            return
        asked = [sys.executable, big_log.__file__, command, str(place), *more, f"--result={result}"]
        variables = os.environ | {"TMPDIR": str(self.root), "CUDA_VISIBLE_DEVICES": ""}
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        words = f"{part}, {command}"
        with log.open("w") as out:
            try:
                subprocess.run(asked, env=variables, stdout=out, stderr=out, timeout=left, check=True)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                words += f": {error}"
        with self.lock, self.json.with_suffix(".txt").open("a") as every:
            every.write(f"== {words}\n{log.read_text()}\n")
            if result.exists():
                self.found.setdefault(part, {})[command] = found = json.loads(result.read_text())
                self.json.write_text(json.dumps(self.found, indent=1))
                words += f": {found['highest']:,.0f} MB, {found['cpu']:,.0f} s of CPU"
        print(words, flush=True)

    def words(self) -> str:
        """A table: of each part its sizes, and of each command the highest memory and the CPU time."""
        lines = [
            "| part | users, items | fit: highest (anonymous) GB | training, µs a click | all of fit, µs a click |"
        ]
        lines[0] += " recommend: GB | ms a user | audit: GB | µs a click |"
        lines.append("|---" * 9 + "|")
        for part, own in self.found.items():
            if "fit" not in own:
                continue
            fit, lists, issues = own["fit"], own.get("recommend"), own.get("audit")
            training = " + ".join(f"{each:.2f}" for each in fit["phases"].values())
            shortened = f" ({fit['steps']:,} steps)" if fit["steps"] * 16384 < 0.85 * fit["clicks"] else ""
            cells = [
                part,
                f"{fit['users']:,}; {fit['items']:,}",
                _memory(fit),
                training + shortened,
                f"{1e6 * fit['cpu'] / fit['clicks']:.2f}",
            ]
            cells += ["", ""] if lists is None else [_memory(lists), _each(lists, "recommending", 1e3, "users")]
            cells += ["", ""] if issues is None else [_memory(issues), _each(issues, "audit", 1e6, "clicks")]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def _memory(found: dict[str, Any]) -> str:
    return f"{found['highest'] / 1000:.2f} ({found['anonymous'] / 1000:.2f})"


def _each(found: dict[str, Any], stage: str, unit: float, what: str) -> str:
    return f"{unit * sum(found['stages'][stage]) / found[what]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--root", type=Path, required=True, help="for logs, runs and temporary files")
    parser.add_argument("--json", type=Path, required=True, help="what was found; what commands print is beside it")
    parser.add_argument("--together", type=int, default=1, help="parts side by side")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which what still runs is ended")
    parser.add_argument("--steps", type=int, default=1500, help="of an epoch of DeCA(p) of 1e8 clicks; 0: all")
    parser.add_argument("--users", type=int, default=10_000, help="for whom lists are made, roughly")
    asked = parser.parse_args()
    wanted = [part for part in PARTS if any(f":{part}".endswith(f":{one}") for one in asked.parts)]
    Table(asked).measure(wanted + [part for part in asked.parts if part not in wanted and part.count(":") > 2])


if __name__ == "__main__":
    sys.exit(main())
