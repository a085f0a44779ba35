"""This tree's speed against an older checkout's: the same measurements on both, in turns, on one thread.

    python benchmarks/against.py OLD_TREE [movielens] [stacks] [classifier] [--rounds 5] [--only gmf] [--json FILE]

Every round measures the old tree and this one, each in a process of its own with its own source, and rounds begin
with the one or the other by turns, so that a busy machine hurts both alike. `movielens` runs each tree's own
benchmarks/movielens.py (best wall time of its rounds); the others time epochs of `fit`, validation included, by the
work of the process, which a busy machine stretches less than time on the wall. Clicks are MovieLens-100K in the
folder ACCORD_DATA, or made up where there is none. After every round it prints the best and the median of both, and
ratios new / old. The spread is how far the old tree's median round is above its best: smaller differences mean
little.

OLD_TREE needs src and benchmarks: `git worktree add OLD_TREE COMMIT`.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # read when torch is imported

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

TREE = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^  (\S.*?) {2,}([\d.]+) ms +[\d.]+ x$", re.MULTILINE)
BARE = {"bare arithmetic": "bare", "bare masked product and top-20": "bare ranking"}

# -- in a process of either tree -----------------------------------------------------------------------------------


def _recommender(model: str, method: str, epochs: int) -> Callable[[int], tuple[Any, dict[str, Any]]]:
    from accord import Recommender
    from accord.data.simulator import SimulatorSettings, simulate

    source: dict[str, Any] = {}
    if os.environ.get("ACCORD_DATA"):
        source["log"] = str(Path(os.environ["ACCORD_DATA"]) / "ml-100k" / "ml-100k.train.rating")
    else:
        source["log"] = simulate(SimulatorSettings(users=943, items=1611, interactions=79_619)).log()
    common: dict[str, Any] = {"model": model, "method": method, "epochs": epochs, "patience": 0, "device": "cpu"}
    if model == "lightgcn":  # other seeds hold out other clicks, but a stack of LightGCN has one graph
        return lambda k: (Recommender(learning_rate=1e-3 + 1e-5 * k, **common), source)
    return lambda seed: (Recommender(seed=seed, **common), source)


def _classifier(model: str, method: str, epochs: int) -> Callable[[int], tuple[Any, dict[str, Any]]]:
    from sklearn.datasets import load_digits

    from accord import Classifier

    data: Any = load_digits()
    inputs = data.data if model == "mlp" else (data.images * 15).astype("uint8")[..., None]
    common: dict[str, Any] = {"model": model, "method": method, "epochs": epochs, "device": "cpu"}
    return lambda seed: (Classifier(seed=seed, **common), {"X": inputs, "y": data.target})


def _epochs(make: Callable[[int], tuple[Any, dict[str, Any]]], runs: int) -> tuple[float, float]:
    """Best and median milliseconds of work of an epoch of all runs; of a fit of two phases, the second one's."""
    from golden_adapter import fit, together

    ends: dict[tuple[int, int], float] = {}

    def callback(progress: Any) -> None:
        if progress.fraction == 1.0:  # after the last step, perhaps, and after validation: the last time counts
            ends[progress.phase_number, progress.epoch] = time.process_time()

    made = [make(seed) for seed in range(runs)]
    source = made[0][1]
    if runs == 1:
        fit(made[0][0], source, callback)
    else:
        together([one for one, _ in made], source, [callback, *[None] * (runs - 1)])
    last = [(epoch, when) for (phase, epoch), when in ends.items() if phase == max(ends)[0]]
    each = [1e3 * (after - when) / (later - epoch) for (epoch, when), (later, after) in pairwise(last)]
    return min(each), median(each)


def _works() -> dict[str, Callable[[], tuple[float, float]]]:
    """Every measurement of a process, by its group and name."""
    works: dict[str, Callable[[], tuple[float, float]]] = {}
    clicks = (("gmf", "normal", 8), ("gmf", "deca", 8), ("gmf", "deca-p", 8), ("cdae", "normal", 8))
    for model, method, epochs in (*clicks, ("lightgcn", "normal", 6), ("neumf", "normal", 4)):
        for runs in (1, 4):
            name = f"stacks/{model} {method}, {runs} run{'s' * (runs > 1)}"
            works[name] = lambda m=model, k=method, e=epochs, r=runs: _epochs(_recommender(m, k, e), r)
    for method in ("normal", "deca-p"):
        make = partial(_classifier, "mlp", method, 30)
        works[f"stacks/mlp {method}, 4 runs"] = lambda make=make: _epochs(make(), 4)
    for model, epochs in (("mlp", 40), ("convnet", 8)):
        for method in ("normal", "deca-p"):
            make = partial(_classifier, model, method, epochs)
            works[f"classifier/{model} {method}"] = lambda make=make: _epochs(make(), 1)
    return works


def _measure(words: list[str]) -> None:
    """What a process of either tree does."""
    import torch

    torch.set_num_threads(1)
    for name, work in _works().items():
        if name in words:
            print(json.dumps([name, *work()]), flush=True)


# -- in turns ------------------------------------------------------------------------------------------------------


def _said(tree: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{tree}: {' '.join(words)} failed:\n{done.stderr}")
    return done.stdout


def _movielens(tree: Path, only: str) -> Iterator[tuple[str, float, float]]:
    """Each tree's own benchmark, and its times over bare arithmetic's."""
    files = []
    if os.environ.get("ACCORD_DATA"):
        folder = Path(os.environ["ACCORD_DATA"]) / "ml-100k"
        files = [str(folder / "ml-100k.train.rating"), str(folder / "ml-100k.test.negative")]
    bare = 0.0
    for name, value in ROW.findall(_said(tree, str(tree / "benchmarks" / "movielens.py"), *files)):
        if name in BARE:
            bare = float(value)
        yield f"movielens/{name}", float(value), float(value)
        if name not in BARE:
            yield f"movielens/{name}, of bare", float(value) / bare, float(value) / bare


def _timed(group: str, tree: Path, only: str) -> Iterator[tuple[str, float, float]]:
    words = [name for name in _works() if name.startswith(group) and only in name]
    for line in _said(tree, __file__, str(tree), "--measure", *words).splitlines():
        name, best, middle = json.loads(line)
        yield name, best, middle


GROUPS: dict[str, Callable[[Path, str], Iterator[tuple[str, float, float]]]] = {
    "movielens": _movielens,
    "stacks": partial(_timed, "stacks"),
    "classifier": partial(_timed, "classifier"),
}


def _show(found: dict[Path, dict[str, list[tuple[float, float]]]], old: Path) -> dict[str, dict[str, float]]:
    print(f"{'':44s} {'old best':>9} {'median':>9} {'new best':>9} {'median':>9}   new/old best, median  spread")
    rows = {}
    for name, before in found[old].items():
        after = found[TREE][name]
        bests = [min(best for best, _ in each) for each in (before, after)]
        middles = [median(middle for _, middle in each) for each in (before, after)]
        spread = median(best for best, _ in before) / bests[0] - 1
        ratios = bests[1] / bests[0], middles[1] / middles[0]
        print(
            f"{name:44s} {bests[0]:9.2f} {middles[0]:9.2f} {bests[1]:9.2f} {middles[1]:9.2f}"
            f"   {ratios[0]:8.3f} {ratios[1]:12.3f}  {spread:6.1%}"
        )
        sys.stdout.flush()
        rows[name] = {"old": bests[0], "new": bests[1], "best": ratios[0], "median": ratios[1], "spread": spread}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD_TREE")
    parser.add_argument("what", nargs="*", help=f"{', '.join(GROUPS)}; by default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="measurements whose names hold this")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_intermixed_args()
    if asked.measure:
        _measure(asked.what)
        return
    if wrong := set(asked.what) - set(GROUPS):
        parser.error(f"unknown measurement '{wrong.pop()}': choose from {', '.join(GROUPS)}")
    old = asked.old.resolve()
    found: dict[Path, dict[str, list[tuple[float, float]]]] = {old: {}, TREE: {}}
    for number in range(asked.rounds):
        for group in asked.what or GROUPS:
            for tree in (old, TREE) if number % 2 == 0 else (TREE, old):
                for name, best, middle in GROUPS[group](tree, asked.only):
                    found[tree].setdefault(name, []).append((best, middle))
        print(f"\nafter round {number + 1} of {asked.rounds}; {os.getloadavg()[0]:.1f} programs at work")
        rows = _show(found, old)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
