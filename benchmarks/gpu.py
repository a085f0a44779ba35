"""Everything that is measured on a GPU, in one call of less than eight minutes.

    ACCORD_DATA=DIR python benchmarks/gpu.py [PART …] [--minutes 7.5] [--tiny] [--device cuda]

Parts: `images` is 8 ResNet-32 next to one another over made-up images, and one alone; `grid-gmf` and
`grid-lightgcn` are whole searches with start-up (`accord tune movielens-100k --method deca --sampler grid --trials
48 --seeds 3`, 40 epochs each: 144 runs as one stack); `mw-net` is MW-Net with ResNet-32 beside normal training,
each alone; `alone` is one GMF with captured steps and with plain ones; `tests` are the tests marked gpu, where
pytest is installed. Each part is a process of its own, with what is left of the time; one that fails or is late
does not stop the others. Figures go to $OUT/gpu.json where OUT is set. With --tiny all of it is small enough for a
CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

TREE = Path(__file__).resolve().parents[1]
BEFORE = {
    "grid-gmf": "29.8 s (23 to 30) before the rebuild",
    "grid-lightgcn": "36 s before the rebuild",
    "images": "0.298 s an epoch and run over 40,000 images before the rebuild; the goal is 0.31",
    "mw-net": "3.35 times normal in a stack of 4 before the rebuild",
}
LONGEST = {"grid-gmf": 120, "grid-lightgcn": 120, "images": 120, "mw-net": 120, "alone": 60, "tests": 240}
"""Seconds after which a part is given up."""
MARK = "figures: "
Figures = dict[str, Any]


class SkippedError(Exception):
    """A part cannot be measured here."""


# -- the parts -----------------------------------------------------------------------------------------------------


def grid(model: str, asked: argparse.Namespace) -> Figures:
    """A whole search, with the start of Python."""
    data = os.environ.get("ACCORD_DATA")
    if not data or not (Path(data) / "ml-100k").is_dir():
        raise SkippedError("ACCORD_DATA names no folder with ml-100k")
    trials, seeds, epochs = (2, 2, 2) if asked.tiny else (48, 3, 40)
    words = ["tune", "movielens-100k", "--model", model, "--method", "deca", "--sampler", "grid"]
    words += ["--trials", trials, "--seeds", seeds, "--epochs", epochs, "--device", asked.device]
    words += ["--set", "patience=0", "--space", "learning_rate=0.001"]
    words += ["--space", "l2=0.001" if model == "lightgcn" else "l2=0.06"]
    words += ["--space", "c0=1,10", "--space", "c1=1", "--space", "alpha=0.5"] if asked.tiny else []
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-m", "accord", *map(str, words), "--out", str(Path(folder) / "search")]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-800:])
    return {"seconds": round(seconds, 2), "runs": trials * seeds, "epochs": epochs, "said": done.stdout[-800:]}


def _images(asked: argparse.Namespace) -> tuple[Any, Any]:
    import numpy as np

    rng, count = np.random.default_rng(0), 200 if asked.tiny else 50_000
    return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, count)


def _resnets(asked: argparse.Namespace, runs: int, epochs: int, method: str = "normal", **source: Any) -> Figures:
    """Seconds of an epoch and run, the first epoch, which captures the steps, apart."""
    from accord import Classifier
    from accord.estimators import fit_together

    images, labels = _images(asked)
    common: dict[str, Any] = {"model": "resnet32", "epochs": epochs, "valid_share": 0.2, "augment": "crop-flip"}
    common |= {"method": method, "restore": "last", "device": asked.device}
    each = [Classifier(seed=seed, **common) for seed in range(runs)]
    started = time.perf_counter()
    fit_together(each, {"X": images, "y": labels, **source}, judge=False)
    whole = time.perf_counter() - started

    def of(name: str) -> float:
        later = [[r[name] for r in one.history_ if r["epoch"] > 1] for one in each]
        return round(median(sum(own) / max(1, len(own)) for own in later) / runs, 4)

    trained, validated = round(0.8 * len(labels)), round(0.2 * len(labels))
    times = {"train seconds an epoch and run": of("train_seconds")}
    times |= {"validation seconds an epoch and run": of("valid_seconds"), "whole": round(whole, 2)}
    return {**times, "trained on": trained, "validated on": validated, "runs": runs, "epochs": epochs}


def images(asked: argparse.Namespace) -> Figures:
    runs, epochs = (2, 2) if asked.tiny else (8, 6)
    alone = _resnets(asked, 1, 2 if asked.tiny else 4)
    together = _resnets(asked, runs, epochs)
    return {"together": together, "alone": alone}


def mw_net(asked: argparse.Namespace) -> Figures:
    given, labels = _images(asked)
    epochs, clean = (2, 50) if asked.tiny else (3, 1000)
    normal = _resnets(asked, 1, epochs)
    meta = _resnets(asked, 1, epochs, "mw-net", clean=(given[:clean], labels[:clean]))
    name = "train seconds an epoch and run"
    return {"mw-net": meta, "normal": normal, "of normal": round(meta[name] / max(1e-9, normal[name]), 2)}


def alone(asked: argparse.Namespace) -> Figures:
    """One GMF: with captured steps, and with plain ones."""
    from accord import Recommender
    from accord.data.simulator import SimulatorSettings, simulate
    from accord.estimators import recommender_training

    size = (300, 250, 3000) if asked.tiny else (943, 1611, 79_619)
    log = simulate(SimulatorSettings(users=size[0], items=size[1], interactions=size[2])).log()
    figures: Figures = {}
    kind_of: Any = recommender_training.stack_kind
    kinds: dict[str, Any] = {"captured": kind_of, "plain": lambda model: None}
    for name, kind in kinds.items():
        recommender_training.stack_kind = kind  # a recommender that cannot be in a stack has plain steps
        for method in ("normal", "deca"):
            rec = Recommender(method=method, epochs=12, patience=0, device=asked.device).fit(log)
            seconds = [record["train_seconds"] for record in rec.history_[2:]]
            figures[f"{method}, {name}: ms an epoch"] = round(1e3 * median(seconds), 2)
    recommender_training.stack_kind = kind_of
    return figures


def tests(asked: argparse.Namespace) -> Figures:
    if importlib.util.find_spec("pytest") is None:
        raise SkippedError("pytest is not installed")
    words = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "--tb=short", "tests"]
    if importlib.util.find_spec("hypothesis") is None:
        words.append("--continue-on-collection-errors")
    words += ["--collect-only"] if asked.tiny else []
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=TREE)
    print(done.stdout[-6000:], flush=True)
    return {"exit status": done.returncode, "said": done.stdout.strip().splitlines()[-12:]}


PARTS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "images": images,
    "grid-gmf": lambda asked: grid("gmf", asked),
    "grid-lightgcn": lambda asked: grid("lightgcn", asked),
    "mw-net": mw_net,
    "alone": alone,
    "tests": tests,
}

# -- one after the other -------------------------------------------------------------------------------------------


def _in_a_process(part: str, asked: argparse.Namespace, seconds: float) -> Figures:
    words = [
        sys.executable,
        __file__,
        part,
        "--here",
        "--device",
        asked.device,
        *(["--tiny"] if asked.tiny else []),
    ]
    path = os.pathsep.join(filter(None, [str(TREE / "src"), os.environ.get("PYTHONPATH", "")]))
    started = time.perf_counter()
    try:
        environment = os.environ | {"PYTHONPATH": path}
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {seconds:.0f} s"}
    whole = {"seconds with start": round(time.perf_counter() - started, 1)}
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK)) | whole
        print(f"    {line}", flush=True)
    return {"failed": f"exit status {done.returncode}"} | whole


def _here(part: str, asked: argparse.Namespace) -> None:
    try:
        figures = PARTS[part](asked)
    except SkippedError as reason:
        figures = {"skipped": str(reason)}
    print(MARK + json.dumps(figures), flush=True)


def _machine(device: str) -> str:
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else "no GPU"
    return f"{name}, Python {sys.version.split()[0]}, torch {torch.__version__}"


def _write(figures: Figures) -> None:
    if os.environ.get("OUT"):
        path = Path(os.environ["OUT"]) / "gpu.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(figures, indent=1))
        draft.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="by default all")
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_intermixed_args()
    if wrong := set(asked.parts) - set(PARTS):
        parser.error(f"unknown part '{wrong.pop()}': choose from {', '.join(PARTS)}")
    if asked.here:
        _here(asked.parts[0], asked)
        return
    until = time.monotonic() + 60 * asked.minutes
    figures: Figures = {"machine": _machine(asked.device), "tiny": asked.tiny}
    print(figures["machine"], flush=True)
    for part in asked.parts or PARTS:
        left = until - time.monotonic()
        print(f"{part} … ({left:.0f} s left)", flush=True)
        late = {"skipped": "no time was left"}
        figures[part] = late if left < 15 else _in_a_process(part, asked, min(left, LONGEST[part]))
        print(f"  {json.dumps(figures[part])}", flush=True)
        if part in BEFORE:
            print(f"  ({BEFORE[part]})", flush=True)
        _write(figures)
    skipped = [name for name, one in figures.items() if isinstance(one, dict) and {"skipped", "failed"} & set(one)]
    for name in skipped:
        print(f"NOT MEASURED: {name}: {figures[name].get('skipped') or figures[name].get('failed')}")
    print("all parts were measured" if not skipped else f"{len(skipped)} parts were not measured")


if __name__ == "__main__":
    main()
