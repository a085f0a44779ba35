"""Long trials of reliability: kills at random moments, and memory over many epochs. `make soak` runs all of it.

    python benchmarks/soak.py kills [--kills 30] [--only gmf-deca-p]
    python benchmarks/soak.py memory [--minutes 60]

`kills` ends `accord fit` by SIGKILL at random moments, resumes each time, and compares weights and history with a
run that was left alone. `memory` trains on a small log for so long and compares resident memory and open files
after a tenth of the time with those at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as parquet

from accord import Recommender
from accord.data.simulator import SimulatorSettings, simulate
from accord.methods import methods_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reliability"))
from kills import finished, kill_until_done, outcome, start  # pyright: ignore[reportMissingImports]


def runs(log: Path) -> dict[str, list[object]]:
    """`accord fit` of every method, for clicks and for labels."""
    clicks: list[object] = ["--epochs", 30, "--set", "batch_size=256", "--set", "patience=0"]
    labels: list[object] = ["fit", "digits", "--noise", 0.4, "--model", "mlp", "--epochs", 15]
    words = {f"gmf-{m}": ["fit", log, "--method", m, *clicks] for m in methods_of("clicks") if m != "popularity"}
    words |= {f"{m}-deca-p": ["fit", log, "--model", m, *clicks] for m in ("neumf", "cdae", "lightgcn")}
    return words | {f"digits-{m}": [*labels, "--method", m] for m in methods_of("labels")}


def kills(count: int, only: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        log = place / "log.parquet"
        parquet.write_table(simulate(SimulatorSettings(users=300, items=250, interactions=5000)).log(), log)
        for name, words in runs(log).items():
            if only is not None and name != only:
                continue
            started = time.perf_counter()
            code, said = finished(start(*words, "--out", place / f"{name}-whole"), 900)
            assert code == 0, said
            longest = 1.6 * (time.perf_counter() - started)
            killed, rounds = 0, 0
            while killed < count:  # a round ends when the run is done; then it is begun anew
                out = place / f"{name}-{rounds}"
                killed += kill_until_done([*words, "--out", out], out, count - killed, longest, seed=rounds)
                same = outcome(out) == outcome(place / f"{name}-whole")
                print(
                    f"{name}: {killed} kills, {rounds + 1} runs, {'same bytes' if same else 'DIFFERENT'}",
                    flush=True,
                )
                assert same
                rounds += 1


def memory(minutes: float) -> None:
    log = simulate(SimulatorSettings(users=300, items=250, interactions=5000)).log()
    seen: list[tuple[float, int, int]] = []
    begun = time.monotonic()

    def look(now: object) -> None:
        elapsed = (time.monotonic() - begun) / 60
        if not seen or elapsed - seen[-1][0] > minutes / 100:
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            seen.append((elapsed, resident, len(os.listdir("/proc/self/fd"))))

    epochs = 0
    while (time.monotonic() - begun) / 60 < minutes:
        for method in ("normal", "deca", "deca-p", "t-ce"):
            rec = Recommender(method=method, epochs=100, patience=0, batch_size=512, dims=16)
            epochs += len(rec.fit(log, callback=look).history_)
    early = next(one for one in seen if one[0] >= minutes / 10)
    growth = seen[-1][1] / early[1] - 1
    print(f"{epochs} epochs in {minutes:g} minutes: resident {early[1] / 1e6:.1f} MB after a tenth of the time,")
    print(f"{seen[-1][1] / 1e6:.1f} MB at the end ({growth:+.2%}); open files {early[2]} and {seen[-1][2]}")
    assert growth < 0.02
    assert early[2] == seen[-1][2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "memory"])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--only")
    parser.add_argument("--minutes", type=float, default=60)
    args = parser.parse_args()
    if args.what == "kills":
        kills(args.kills, args.only)
    else:
        memory(args.minutes)


if __name__ == "__main__":
    main()
