"""How each job of a measurement of councils is done: trainings, councils with their students, searches, time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from accord.estimators import Recommender, fit_together
from accord.estimators.base import Cache, Convening, Prepared
from accord.experiments.machine import machine
from accord.training import Checkpoints
from council_click_jobs import Asked
from council_click_logs import Log, log_of
from job_pool import Cell, Cells, Job

METRIC, TESTED = "ndcg@20", ("ndcg@20", "recall@20")
NOTED = ("weights", "kappa", "caution", "quality_weights", "noise_share", "judged", "lost")
"""What is kept of what a council says of itself, besides its members."""


class Student(Recommender):
    """Students of one process share the council that was convened for the first."""

    held: ClassVar[list[Any]] = []

    def _council(
        self, prepared: Prepared, source: Mapping[str, Any], cache: Cache, callback: Any, checkpoint: Any
    ) -> Convening:
        if not self.held:
            self.held.append((yield from super()._council(prepared, source, cache, callback, checkpoint)))
        return self.held[0]


def do(asked: Asked, job: Job, cells: Cells) -> Cell:
    """Do one job."""
    log = log_of(job.given["log"], job.given["seed"], asked.data, asked.tiny)
    common = {"seed": job.given["seed"], "device": asked.device, **log.settings}
    common |= {"epochs": 2} if asked.tiny else {}
    return WORKS[job.work](log, {**job.given, "common": common}, cells)


def train(log: Log, given: Mapping[str, Any], cells: Cells) -> Cell:
    """One training, with the best settings of a search where there was one."""
    settings = {**given["settings"], **best_of(cells, given.get("trials", ()))}
    rec = Recommender(**given["common"], **settings)
    fit_together([rec], log.source)
    figures, values = measured(rec, log)
    return Cell(figures | {"settings": settings}, {METRIC: values})


def council(log: Log, given: Mapping[str, Any], cells: Cells) -> Cell:
    """A council that serves itself, and students of it; members are kept for other councils of this machine."""
    shelf = Checkpoints(cells.work / "members")
    common = {**given["common"], "method": "council", **given["settings"]}
    started = time.perf_counter()
    served = Student(**common, serve="council")
    fit_together([served], log.source, checkpoint=shelf)
    figures, values = measured(served, log)
    notes = served.notes_["council"]
    figures |= {name: notes.get(name) for name in NOTED} | {"settings": given["settings"]}
    figures |= {"members": notes["members"], "wall": time.perf_counter() - started, "doubt": served.doubt_}
    arrays = {METRIC: values}
    figures["students"] = {}
    for model, own in given.get("students", {"gmf": {}}).items():
        own = {**own, **best_of(cells, given.get("trials", ()))}
        student = Student(model=model, **common, **own)
        fit_together([student], log.source)
        found, arrays[f"student {model}"] = measured(student, log)
        figures["students"][model] = {name: found[name] for name in (*TESTED, "valid", "seconds")} | {
            "settings": own
        }
    return Cell(figures, arrays)


def trials(log: Log, given: Mapping[str, Any], cells: Cells) -> Cell:
    """Noisy validation alone, of some settings; no truth is read."""
    values: list[float] = []
    made = Student if given["settings"]["method"] == "council" else Recommender
    shelf = Checkpoints(cells.work / "members") if made is Student else None
    for own in given["tried"]:
        failed: dict[int, Any] = {}
        rec = made(**given["common"], **given["settings"], **own)
        fit_together([rec], log.source, checkpoint=shelf, judge=False, failed=failed.__setitem__)
        value = float("nan") if failed else validation(rec)
        values.append(value if np.isfinite(value) else -1.0)
    return Cell({"tried": given["tried"], "values": values}, {})


def best_of(cells: Cells, names: Sequence[str]) -> dict[str, Any]:
    """The settings of the best noisy validation among the cells of a search; none where there was none."""
    found = [cells.read(name).figures for name in names]
    tried = [pair for one in found for pair in zip(one["values"], one["tried"], strict=True)]
    return max(tried, key=lambda one: one[0])[1] if tried else {}


def cost(log: Log, given: Mapping[str, Any], cells: Cells) -> Cell:
    """Seconds of a training with nothing beside it and nothing kept from others."""
    rec = Recommender(**given["common"], **given["settings"])
    started = time.perf_counter()
    fit_together([rec], log.source)
    seconds = time.perf_counter() - started
    own = sum(r["train_seconds"] + r["valid_seconds"] for r in rec.history_)
    figures: dict[str, Any] = {"seconds": seconds, "learning": own, "machine": machine("cpu"), METRIC: None}
    council = rec.notes_.get("council")
    if council is not None:
        by_kind: dict[str, float] = {}
        for member in council["members"]:
            by_kind[member["model"]] = by_kind.get(member["model"], 0.0) + member["seconds"]
        figures |= {"members": len(council["members"]), "by_kind": by_kind}
    return Cell(figures, {})


WORKS = {"train": train, "council": council, "trials": trials, "cost": cost}


def validation(rec: Recommender) -> float:
    return float(list(rec.validation_.values())[-1][METRIC])


def measured(rec: Recommender, log: Log) -> tuple[dict[str, Any], np.ndarray]:
    """The clean test, noisy validation, and how known noise is found; and NDCG@20 of every user."""
    ranked = rec.evaluate_users(log.test, k=(20,))
    figures: dict[str, Any] = {metric: float(ranked.metrics[metric].mean()) for metric in TESTED}
    figures["valid"] = validation(rec)
    figures["seconds"] = sum(r["train_seconds"] + r["valid_seconds"] for r in rec.history_)
    figures["found"] = {what: rec.evaluate_issues(table) for what, table in log.noise.items()}
    return figures, ranked.metrics[METRIC].astype(np.float32)
