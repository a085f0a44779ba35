"""Seven click sets × (four networks and three solved models) × methods, under the fair protocol.

    python benchmarks/click_sets.py OUT [--data DIR] [--only SET …] [--stages defaults tuned] [--models gmf …]
        [--workers 14] [--gpu 5] [--minutes 9] [--seeds 5] [--trials 12] [--archive] [--plan] [--report] [--tiny]

Sets in the order of proof: movielens-100k, modcloth, epinions, amazon-music, kuairand, adressa, and kuairec,
which is shown and not counted (`benchmarks/first_look.py`). First every row with default settings, then
searches and tuned rows. Rows: gmf, neumf, cdae and lightgcn, each by normal training, an ensemble of two, T-CE,
DeCA(p), as a council's student, and normal training on the clean clicks alone (oracle); the council itself;
ease, ials and rp3beta; popularity. Every row that learns has five seeds; ease and rp3beta are the same for all.

Tuning: every method has --trials by noisy validation with the first seed. The default settings are the first of
them. A first round has common settings (learning rate, λ), a second the method's own from the best of these on,
and further common ones where it has few. DeCA(p) takes normal's first round, as its prior is trained so; the
ensemble and the oracle take what was found for normal. The members of a council have default settings and are
common to all its students; the search is of the student's settings. Patience is 30 epochs for everybody: with
ten DeCA(p) ends on a plateau on small logs. On the four larger sets (not movielens-100k, modcloth and
amazon-music) everybody has batches of 8,192 clicks instead of 2,048, so that an epoch has some 40 steps
everywhere, and 60 epochs at most instead of 100. Noisy validation ranks for 2,000 users.

Every finished row is a file, OUT/cells/….npz, and is not made again; after --minutes no job is begun, and a
little later those that run are ended. With --gpu N as many processes share a GPU, where networks learn as
stacks. OUT/work holds members of councils, which can be lost. With --archive, OUT/cells.zip and
OUT/cells-SET.zip are read first; OUT/cells-SET.zip are written last. --plan prints the jobs that are left, with
rough core-minutes. --report writes OUT/report, and with --archive all cells into it as one file, cells.zip: copy
that into another OUT to go on from there. The clean test decides nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of every process

from click_set_jobs import MODELS, SETS, Asked, jobs_of
from job_pool import Cells, Job, run_jobs, wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ACCORD_DATA", "data")))
    parser.add_argument("--only", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--stages", nargs="+", default=("defaults", "tuned"), choices=("defaults", "tuned"))
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gpu", type=int, default=0, help="processes that share the GPU")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--grace", type=float, default=0.3, help="minutes until jobs that run are ended")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--archive", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    typed = parser.parse_args()
    cells = Cells(typed.out)
    archives = {name: typed.out / f"cells-{name}.zip" for name in SETS}
    if typed.archive:
        archived = [cells.archive, *archives.values()]
        print(f"{sum(cells.unpack(one) for one in archived)} cells from archives", flush=True)
    asked = Asked(
        typed.data.resolve(),
        tuple(typed.only),
        tuple(typed.stages),
        tuple(typed.models),
        tuple(range(typed.seeds)),
        typed.trials,
        typed.gpu > 0,
        typed.tiny,
    )
    jobs = jobs_of(asked)
    if typed.plan:
        show_plan(jobs, cells)
    elif not typed.report:
        from click_set_work import do

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is done is packed first
        slots = {"cpu": typed.workers} | ({"gpu": typed.gpu} if typed.gpu else {})
        try:
            run_jobs(jobs, cells, partial(do, asked), workers=slots, minutes=typed.minutes, grace=typed.grace)
        finally:
            for name, archive in archives.items():
                if typed.archive and any(one.startswith(f"{name} ") for one in cells.names()):
                    cells.pack(f"{name} ", archive)
    if typed.report:
        from click_set_report import write_report

        write_report(cells, asked, typed.out / "report")
        if typed.archive:
            cells.pack(archive=typed.out / "report" / cells.archive.name)
        print(typed.out / "report" / "README.md")


def show_plan(jobs: list[Job], cells: Cells) -> None:
    """What is left to do, and roughly how long it takes on one core (or, with --gpu, in one process)."""
    left = wanted(jobs, cells)
    total = 0.0
    for rank in sorted({job.rank for job in left.values()}):
        own = [job for job in left.values() if job.rank == rank]
        minutes = sum(job.seconds for job in own) / 60
        total += minutes
        stage = "default settings" if rank < len(SETS) else "searches and tuned rows"
        print(f"\n{SETS[rank % len(SETS)]}, {stage}: {len(own)} jobs, {minutes:.0f} core-minutes")
        for job in own:
            print(f"  {job.name}: {job.seconds / 60:.1f} ({' or '.join(job.lanes)})")
    print(f"\n{len(left)} of {len(jobs)} jobs, {total:.0f} core-minutes")


if __name__ == "__main__":
    main()
