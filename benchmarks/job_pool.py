"""Many small measurements on the cores of a machine: a process for each job, a file for each result; resumable."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accord.files import whole_file

FIGURES = "figures"
"""What a cell's file calls its JSON."""


@dataclass(frozen=True)
class Job:
    """One measurement, which writes one cell."""

    name: str
    work: str
    """What is done; the program knows it by this name."""
    given: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    """Jobs that come first: their cells are read, or the files that they leave."""
    leaves: bool = False
    """Whether others need the files that it leaves in the work folder, and not its cell alone."""
    seconds: float = 30.0
    """Roughly; the longest is begun first."""
    alone: bool = False
    """Whether nothing may run beside it, as its time is measured."""
    rank: int = 0
    """Jobs of a lower rank are begun first."""
    lanes: tuple[str, ...] = ("cpu",)
    """Where it may run."""


class Cell(NamedTuple):
    """What a job has found."""

    figures: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Cells:
    """Results in a folder, each a file; all of them may be packed into one archive, from which others begin."""

    def __init__(self, out: Path) -> None:
        self.folder, self.archive, self.work = out / "cells", out / "cells.zip", out / "work"
        for folder in (self.folder, self.work):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.npz"))

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def write(self, name: str, cell: Cell) -> None:
        with whole_file(self.path(name)) as draft, draft.open("wb") as file:
            arrays: dict[str, Any] = {FIGURES: np.array(json.dumps(cell.figures)), **cell.arrays}
            np.savez_compressed(file, **arrays)

    def read(self, name: str) -> Cell:
        with np.load(self.path(name)) as kept:
            arrays = {key: kept[key] for key in kept.files if key != FIGURES}
            return Cell(json.loads(str(kept[FIGURES])), arrays)

    def marked(self, name: str) -> Path:
        """The mark that a job's files are in the work folder of this machine."""
        return self.work / f"{name}.left"

    def pack(self, beginning: str = "", archive: Path | None = None) -> None:
        """All cells, or those whose names begin so, as one file."""
        with whole_file(archive or self.archive) as draft, zipfile.ZipFile(draft, "w") as packed:
            for name in self.names():
                if name.startswith(beginning):
                    packed.write(self.path(name), f"{name}.npz")

    def unpack(self, archive: Path | None = None) -> int:
        """Take cells that are not at hand from an archive; how many there were."""
        archive = archive or self.archive
        if not archive.is_file():
            return 0
        with zipfile.ZipFile(archive) as packed:
            missing = [one for one in packed.namelist() if not self.has(Path(one).stem)]
            for one in missing:
                with whole_file(self.folder / Path(one).name) as draft:
                    draft.write_bytes(packed.read(one))
        return len(missing)


Work = Callable[[Job, Cells], Cell]


def wanted(jobs: Sequence[Job], cells: Cells) -> dict[str, Job]:
    """Jobs without a cell, and those whose files such jobs need and that are not on this machine."""
    every = {job.name: job for job in jobs}
    found = {job.name: job for job in jobs if not cells.has(job.name)}
    waiting = list(found.values())
    while waiting:
        for name in waiting.pop().after:
            other = every.get(name)
            if other is not None and name not in found and other.leaves and not cells.marked(name).is_file():
                found[name] = other
                waiting.append(other)
    return found


def run_jobs(
    jobs: Sequence[Job],
    cells: Cells,
    work: Work,
    *,
    workers: int | Mapping[str, int],
    minutes: float,
    grace: float = 0.2,
) -> bool:
    """Do what is not done, side by side; whether all is done.

    No job is begun after so many minutes, and after ``grace`` more those that run are ended. ``workers`` are
    processes, of each lane where there are several; a job is given the name of the lane in which it runs.
    """
    slots = workers if isinstance(workers, Mapping) else {"cpu": workers}
    started, context = time.monotonic(), multiprocessing.get_context("spawn")
    left = wanted(jobs, cells)
    awaited = {name for job in left.values() for name in job.after}
    order = sorted(left.values(), key=lambda job: (job.alone, job.rank, job.name not in awaited, -job.seconds))
    print(f"{len(left)} of {len(jobs)} jobs to do, {workers} at a time", flush=True)
    running: dict[Any, tuple[Job, float, str]] = {}
    failed: set[str] = set()

    def minutes_gone() -> float:
        return (time.monotonic() - started) / 60

    def ready(job: Job) -> bool:
        if any(name in left or name in failed for name in job.after):
            return False
        beside = [other for other, *_ in running.values()]
        return not (job.alone and beside) and not any(other.alone for other in beside)

    def free() -> list[str]:
        return [lane for lane, most in slots.items() if sum(one[2] == lane for one in running.values()) < most]

    def next_job() -> tuple[Job, str] | None:
        """The first job that may begin, in the first of its lanes that is free."""
        lanes = free()
        for job in order if lanes else ():
            lane = next((one for one in job.lanes if one in lanes), None)
            if lane is not None and ready(job):
                return job, lane
        return None

    while running or (order and minutes_gone() < minutes):
        for process in [one for one in running if not one.is_alive()]:
            job, begun, _ = running.pop(process)
            process.join()
            seconds = time.monotonic() - begun
            if process.exitcode == 0 and cells.has(job.name):
                left.pop(job.name)
                print(f"{minutes_gone():5.1f} min: {job.name}, {seconds:.0f} s; {len(left)} left", flush=True)
            else:
                failed.add(job.name)
                print(f"{job.name} FAILED after {seconds:.0f} s (exit {process.exitcode})", flush=True)
        while minutes_gone() < minutes:
            found = next_job()
            if found is None:
                break
            job, lane = found
            order.remove(job)
            own = replace(job, given={**job.given, "lane": lane})
            process = context.Process(target=partial(_child, work, own, cells), daemon=True)
            process.start()
            running[process] = job, time.monotonic(), lane
        if not running and not any(ready(job) for job in order):
            break
        if running and minutes_gone() > minutes + grace:
            for process, (job, *_) in running.items():
                print(f"{job.name} is ended; it goes on in the next call", flush=True)
                process.terminate()
                process.join()
            break
        time.sleep(0.1)
    print(f"{len(left)} jobs left, {len(failed)} of them failed", flush=True)
    return not left


def _child(work: Work, job: Job, cells: Cells) -> None:
    import torch

    torch.set_num_threads(int(job.given.get("threads", 1)))
    try:
        cells.write(job.name, work(job, cells))
    except Exception:
        with (cells.work / "errors.txt").open("a") as file:
            file.write(f"{job.name}\n{traceback.format_exc()}\n")
        raise
    if job.leaves:
        cells.marked(job.name).touch()
