"""Councils of recommenders on clicks, against plain training, one process for each of many small jobs.

    python benchmarks/council_clicks.py OUT PART [PART …] --data DIR [--workers 16] [--minutes 4.7]
        [--seeds 5] [--only movielens,modcloth,adressa] [--trials 36] [--archive] [--tiny]

Parts:

- `simulator`: default settings on the simulator: ranking by its truth, and finding its noise;
- `noise`: MovieLens-100K, finding 30 % random clicks that were added, and finding disliked ones;
- `ablation`: MovieLens-100K, other members, folds, prices of disagreement and caution;
- `cost`: seconds, each training with nothing beside it;
- `recommend`: the fair protocol, every row tuned by noisy validation;
- `students`: of it, students with default settings beside the tuned normal rows and ensembles;
- `clean`: MovieLens-100K, liked clicks alone;
- `report`: tables of all cells that are there, and OUT/results.json.

Every job writes one file, OUT/cells/….npz, as it ends; one that is there is not made again. After --minutes no
job is begun, and a little later those that run are ended, so that a call can be cut and continued. OUT/work holds
members that several councils of this machine have in common; it can be lost. With --archive, OUT/cells.zip is read
first and written last. The clean test decides nothing.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of every process

from council_click_jobs import PARTS, Asked, jobs_of
from council_click_logs import DATA
from job_pool import Cells, run_jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "report"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ACCORD_DATA", "data")))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--grace", type=float, default=0.2, help="minutes until jobs that run are ended")
    parser.add_argument("--seeds", type=int, help="by default as many as the part says")
    parser.add_argument("--only", default=",".join(DATA), help="data of `recommend`")
    parser.add_argument("--trials", type=int, default=36, help="of every search")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--archive", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    typed = parser.parse_args()
    cells = Cells(typed.out)
    if typed.archive:
        print(f"{cells.unpack()} cells from the archive", flush=True)
    parts = tuple(part for part in typed.parts if part != "report")
    only = tuple(typed.only.split(","))
    asked = Asked(
        typed.data.resolve(), parts, only, typed.seeds, typed.trials, typed.workers, typed.tiny, typed.device
    )
    try:
        if parts:
            from council_click_work import do

            work = partial(do, asked)
            run_jobs(jobs_of(asked), cells, work, workers=typed.workers, minutes=typed.minutes, grace=typed.grace)
    finally:
        if typed.archive:
            cells.pack()
    if "report" in typed.parts:
        from council_click_report import report

        report(cells, typed.out / "results.json")


if __name__ == "__main__":
    main()
