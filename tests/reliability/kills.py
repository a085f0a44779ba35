"""Killing `accord fit` at random moments and resuming it, and what a run folder holds in the end."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TIMES = ("train_seconds", "valid_seconds")


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "accord", *map(str, words)]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=os.environ, preexec_fn=_heed_ctrl_c)


def _heed_ctrl_c() -> None:
    """As in a terminal, also where the tests themselves run in the background of a script, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


IDLE = 3.0
"""Seconds that it takes at most to import torch on a machine of today that does nothing else."""


def in_time(taken: float, seconds: float) -> bool:
    """Whether something took no longer than it should; on a machine that is slow now, not more so than the machine.

    How slow that is, is measured only where something took too long.
    """
    if taken < seconds:
        return True
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return taken < seconds * (time.monotonic() - started) / IDLE


def finished(process: subprocess.Popen[str], seconds: float = 120.0) -> tuple[int, str]:
    """Exit code and what it said."""
    said = process.communicate(timeout=seconds)[1]
    return process.returncode, " ".join(said.split())


def outcome(run: Path) -> tuple[str, list[dict[str, object]]]:
    """The weights' hash, and the history without its times."""
    weights = hashlib.sha256((run / "weights.safetensors").read_bytes()).hexdigest()
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return weights, [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


def kill_until_done(words: list[object], out: Path, kills: int, longest: float, seed: int) -> int:
    """Kill the fit at random moments, resume it each time, and let it end; how often it was killed at work."""
    rng = random.Random(seed)
    state = out.with_name(out.name + ".checkpoint")
    killed = 0
    for number in range(kills + 1):
        going = (state / "fit.json").is_file()
        if out.is_dir() and not going:  # it was done, and was killed on its way out
            break
        process = start("fit", "--resume", out, "--checkpoint", 0) if going else start(*words, "--checkpoint", 0)
        try:
            code, said = finished(process, 600 if number == kills else rng.uniform(0.2, longest))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
            continue
        assert code == 0, said
        break
    assert out.is_dir(), "the run was not finished"
    assert not state.exists()
    assert [p.name for p in out.parent.iterdir() if p.name.startswith(".")] == []
    return killed


def wait_for(path: Path, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.02)
