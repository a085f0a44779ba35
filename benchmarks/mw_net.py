"""MW-Net beside normal training, each alone, of several trees of accord in turns: seconds of an epoch.

    python benchmarks/mw_net.py TREE [TREE …] [--rounds 2] [--epochs 3] [--tiny] [--device cuda] [--seconds 110]

A tree is a folder with `src/accord`, of version 0.1.0 or later. Each has a process of its own that is started once;
then they take turns. What is trained is ResNet-32 on 40,000 made-up images of the shape of CIFAR-10, with crops and
mirror images, and for MW-Net 1,000 clean ones. The first epoch, which captures the steps, does not count. No round
is begun that would not end within the seconds. With --tiny all of it is small enough for a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

METHODS = ("normal", "mw-net")


def work(asked: argparse.Namespace) -> None:
    """Answer each line that comes with the seconds of an epoch of each method."""
    import numpy as np
    import torch

    import accord
    from accord import Classifier

    rng, count, clean = np.random.default_rng(0), 20 if asked.tiny else 50_000, 8 if asked.tiny else 1000
    images, labels = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, count)
    common: dict[str, Any] = {"model": "resnet32", "epochs": asked.epochs, "valid_share": 0.2, "restore": "last"}
    common |= {"augment": "crop-flip", "device": asked.device, "seed": 0}
    name = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
    words = f"accord {accord.__version__} in {Path(accord.__file__).parents[2]}, torch {torch.__version__}, {name}"
    print(json.dumps({"is": words}), flush=True)
    for _ in sys.stdin:
        found = {}
        for method in METHODS:
            source: dict[str, Any] = {"clean": (images[:clean], labels[:clean])} if method == "mw-net" else {}
            clf = Classifier(method=method, **common).fit(images, labels, **source)
            found[method] = median(record["train_seconds"] for record in clf.history_ if record["epoch"] > 1)
        print(json.dumps(found), flush=True)


def start(tree: Path, asked: argparse.Namespace) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(tree / "src"), os.environ.get("PYTHONPATH", "")]))
    words = [sys.executable, __file__, str(tree), "--work", "--epochs", str(asked.epochs), "--device", asked.device]
    words += ["--tiny"] if asked.tiny else []
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=os.environ | {"PYTHONPATH": path})


def heard(process: Any) -> dict[str, Any]:
    """The next line that is an answer."""
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise SystemExit(f"a tree's process ended with status {process.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked)
        return
    begun, longest = time.monotonic(), 0.0
    processes = {tree.resolve(): start(tree.resolve(), asked) for tree in asked.trees}
    for process in processes.values():
        print(heard(process)["is"], flush=True)
    found: dict[Path, list[dict[str, float]]] = {tree: [] for tree in processes}
    for number in range(asked.rounds):
        round_began = time.monotonic()
        if number and round_began - begun + longest > asked.seconds:
            print("no time is left for another round")
            break
        for tree in list(processes) if number % 2 == 0 else list(processes)[::-1]:
            print("go", file=processes[tree].stdin, flush=True)
            found[tree].append(heard(processes[tree]))
            print(f"round {number + 1}: {tree}: {json.dumps(found[tree][-1])}", flush=True)
        longest = max(longest, time.monotonic() - round_began)
    first = found[next(iter(found))]
    for tree, rounds in found.items():
        normal, meta = (median(one[method] for one in rounds) for method in METHODS)
        ratio = median(one["mw-net"] / old["mw-net"] for one, old in zip(rounds, first, strict=True))
        words = f"normal {normal:.3f} s, mw-net {meta:.3f} s, {meta / normal:.2f} times"
        print(f"{tree}: {words}; mw-net in that of the first tree {ratio:.3f}")
    for process in processes.values():
        process.communicate()


if __name__ == "__main__":
    main()
