"""Golden runs: small trainings whose every byte is written down, to show that a rebuild changes nothing.

    python benchmarks/golden.py record OUT [--only NAME ...]
    python benchmarks/golden.py compare BEFORE AFTER [--all]
    python benchmarks/golden.py list

`record` trains with the accord that Python finds (set PYTHONPATH to choose it) and writes two files for each run:
arrays (npz: weights by role, label quality and flags, recommendations or probabilities) and JSON (history without
seconds, metrics, threshold). Nothing is pickled. Everything runs on one CPU thread, so that the same program on the
same machine writes the same bytes. `compare` exits with 1 where anything differs.

The runs are in `golden_runs.py`; calls that differ between versions stand in `golden_adapter.py`.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # read when torch is imported

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from golden_table import compare


def record(out: Path, only: Sequence[str]) -> None:
    import torch

    import accord
    from golden_runs import RUNS, SkippedError

    print(f"{accord.__file__}, torch {torch.__version__}")
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in RUNS if not only or any(word in name for word in only)]
    started, failed = time.perf_counter(), 0
    for name in chosen:
        began = time.perf_counter()
        try:
            for own, made in RUNS[name]():
                made.write(out / own)
            print(f"{name:34} {time.perf_counter() - began:6.2f} s", flush=True)
        except SkippedError as reason:
            print(f"{name:34} skipped: {reason}", flush=True)
        except Exception as error:  # the others are recorded all the same
            failed += 1
            print(f"{name:34} FAILED: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen)} recordings in {time.perf_counter() - started:.0f} s, {failed} failed")
    sys.exit(failed > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--only", nargs="+", default=[], help="runs whose names hold one of these words")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "--all", action="store_true", help="a row for each thing compared, also where it is equal"
    )
    commands.add_parser("list")
    asked = parser.parse_args()
    if asked.command == "record":
        record(asked.out, asked.only)
    elif asked.command == "compare":
        sys.exit(not compare(asked.before, asked.after, asked.all))
    else:
        from golden_runs import RUNS

        print("\n".join(RUNS))


if __name__ == "__main__":
    main()
