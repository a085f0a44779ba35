"""How the rows of seven click sets are made: the seeds of a row, and the trials of a search, as one stack."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from accord.estimators import Recommender, fit_together
from accord.experiments.machine import machine
from accord.methods.assembly import Taught
from accord.tasks.base import ORACLE as CLEAN
from accord.tasks.clicks import ClickTask
from accord.training import Checkpoints, resolve_device
from click_set_jobs import (
    BATCH,
    METHODS_OF,
    ORACLE,
    PATIENCE,
    SMALL,
    STUDENT,
    VALID_USERS,
    Asked,
    first_trials,
    row_of,
    second_trials,
    solved_trials,
    trials_of,
)
from council_click_logs import benchmark_of
from council_click_work import Student, validation
from job_pool import Cell, Cells, Job

METRIC, RECALL, K = "ndcg@20", "recall@20", 20


def do(asked: Asked, job: Job, cells: Cells) -> Cell:
    """Do one job; it writes cells of its own as it goes, and makes none that is there."""
    bench = Bench(asked, job, cells)
    made = WORKS[job.work](bench)
    return made if made is not None else Cell({"seconds": bench.seconds}, {})


class Bench:
    """A set, the settings that all its rows have in common, and where cells go."""

    def __init__(self, asked: Asked, job: Job, cells: Cells) -> None:
        self.asked, self.cells, self.given = asked, cells, job.given
        self.name: str = job.given["set"]
        self.model: str = job.given.get("model", "")
        self.data = benchmark_of(self.name, asked.data, asked.tiny)
        self.task = ClickTask.of_benchmark(self.data)
        self.started = time.perf_counter()
        on_gpu = job.given["lane"] == "gpu"
        if on_gpu:
            Taught.LARGEST = Taught.MOST  # what the teacher says of all pairs: a step that is replayed looks it up
        self.common: dict[str, Any] = {
            "epochs": asked.epochs(self.name),
            "patience": PATIENCE,
            "batch_size": BATCH[self.name not in SMALL],
            "valid_users": VALID_USERS,
            "updates": "dense",
            "cold_users": self.data.cold_users,
            "device": "cuda" if on_gpu else "cpu",
        }

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """Keywords of `fit`: every click, or (for the oracle alone) the clean ones."""
        usual = Recommender(**self.common).settings
        kinds = ["normal"] if self.data.clean_train is None else ["normal", CLEAN]
        return {kind: dict(self.task.cell_data(kind, 0, usual, {}).sources[0]) for kind in kinds}

    # -- rows ------------------------------------------------------------------------------------------

    def row(self, model: str, method: str, stage: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> None:
        """A row's cell, unless it is there: all its seeds, trained as one stack where they can be."""
        name = row_of(self.name, model, method, stage, seeds)
        if not self.cells.has(name):
            self.cells.write(name, self.fitted(model, method, settings, seeds))

    def fitted(self, model: str, method: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> Cell:
        source = self.sources[CLEAN if method == ORACLE else "normal"]
        own = {
            "method": "normal" if method == ORACLE else method,
            **({"model": model} if model else {}),
            **settings,
        }
        recs = [self.made({**own, "seed": seed}) for seed in seeds]
        started, before = time.perf_counter(), time.process_time()
        fit_together(recs, source, judge=False)
        figures = {"wall": time.perf_counter() - started, "cpu": time.process_time() - before}
        return self.measured(recs, figures | {"settings": dict(settings), "seeds": list(seeds)})

    def measured(self, recs: Sequence[Recommender], figures: dict[str, Any]) -> Cell:
        """The clean test, which decides nothing: NDCG@20 of every user, in the order of their ids."""
        for rec in recs:
            rec._move(resolve_device(self.common["device"]))
        each = [rec.evaluate_users(self.data.test, k=(K,)) for rec in recs]
        orders = [np.argsort(np.asarray(one.users.to_pylist()), kind="stable") for one in each]
        values = np.stack([one.metrics[METRIC][order] for one, order in zip(each, orders, strict=True)])
        figures |= {
            METRIC: [float(one.metrics[METRIC].mean()) for one in each],
            RECALL: [float(one.metrics[RECALL].mean()) for one in each],
            "valid": [validation(rec) for rec in recs],
            "epochs": [len(rec.history_) for rec in recs],
            "machine": machine(self.common["device"]),
        }
        return Cell(figures, {METRIC: values.astype(np.float32)})

    # -- searches --------------------------------------------------------------------------------------

    def trials(self, name: str, fixed: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> None:
        """Noisy validation alone of some settings, as one stack; no truth is read."""
        if self.cells.has(name):
            return
        failed: dict[int, Any] = {}
        recs = [self.made({**fixed, **one, "seed": 0}) for one in tried]
        fit_together(recs, self.sources["normal"], judge=False, failed=failed.__setitem__, checkpoint=None)
        values = [float("nan") if k in failed else validation(rec) for k, rec in enumerate(recs)]
        found = [value if np.isfinite(value) else -1.0 for value in values]
        self.cells.write(name, Cell({"tried": [dict(one) for one in tried], "values": found}, {}))

    def made(self, own: Mapping[str, Any]) -> Any:
        values: dict[str, Any] = {**self.common, **own}
        return (Student if own["method"] == STUDENT else Recommender)(**values)

    def usual(self, model: str, method: str) -> tuple[float, dict[str, Any]]:
        """The trial of the default settings, by the first seed of its row."""
        return self.cells.read(row_of(self.name, model, method, "default", self.seeds_of(model))).figures["valid"][
            0
        ], {}

    def seeds_of(self, model: str) -> Sequence[int]:
        return self.asked.seeds if model not in ("popularity", "ease", "rp3beta") else (0,)

    def best(self, usual: tuple[float, dict[str, Any]], *names: str) -> dict[str, Any]:
        """The settings of the best noisy validation; the default ones where none is above them."""
        found = [self.cells.read(name).figures for name in names]
        tried = [pair for one in found for pair in zip(one["values"], one["tried"], strict=True)]
        return max([usual, *tried], key=lambda one: one[0])[1]

    # -- councils --------------------------------------------------------------------------------------

    def council(self) -> tuple[Student, dict[str, Any]]:
        """A council of a seed; its members come from the shelf of this machine where they are there."""
        shelf = Checkpoints(self.cells.work / "members")
        served = self.made({"method": STUDENT, "seed": self.given["seed"], "serve": STUDENT})
        started = time.perf_counter()
        fit_together([served], self.sources["normal"], checkpoint=shelf, judge=False)
        served._move(resolve_device(self.common["device"]))  # students ask it, there
        notes = served.notes_["council"]
        kept = {name: notes.get(name) for name in ("weights", "kappa", "caution", "noise_share", "lost")}
        return served, kept | {"wall": time.perf_counter() - started}

    def student(self, model: str, settings: Mapping[str, Any]) -> tuple[Student, dict[str, Any]]:
        """A student of the council that this process has heard."""
        started = time.perf_counter()
        rec = self.made({"method": STUDENT, "model": model, "seed": self.given["seed"], **settings})
        fit_together([rec], self.sources["normal"], judge=False)
        return rec, {"wall": time.perf_counter() - started, "settings": dict(settings)}

    def students(self, settings: Mapping[str, Mapping[str, Any]]) -> Cell:
        """The council itself, and a student of each model."""
        served, figures = self.council()
        cell = self.measured([served], figures)
        students: dict[str, Any] = {}
        for model, own in settings.items():
            rec, found = self.student(model, own)
            one = self.measured([rec], found)
            students[model], cell.arrays[f"student {model}"] = one.figures, one.arrays[METRIC]
        return Cell(cell.figures | {"students": students}, cell.arrays)


# -- jobs ------------------------------------------------------------------------------------------------


def defaults(bench: Bench) -> None:
    """Every method of a model with default settings, and the oracle where it is known what is clean."""
    for method in (*METHODS_OF, *((ORACLE,) if CLEAN in bench.sources else ())):
        bench.row(bench.model, method, "default", {}, bench.asked.seeds)


def search(bench: Bench) -> None:
    """The search of every method of a model, and the row with what it found.

    Normal's first round is DeCA(p)'s as well, whose prior is trained normally. The ensemble and the oracle take
    what was found for normal.
    """
    name, model, trials = bench.name, bench.model, bench.asked.trials
    found: dict[str, dict[str, Any]] = {}
    for method in METHODS_OF:
        if method == "ensemble":
            found[method] = found["normal"]
        else:
            begins = "normal" if method == "deca-p" else method
            first, second = trials_of(name, model, begins, 1), trials_of(name, model, method, 2)
            bench.trials(first, {"model": model, "method": begins}, first_trials(trials))
            common = bench.best(bench.usual(model, begins), first)
            bench.trials(second, {"model": model, "method": method}, second_trials(method, trials, common))
            rounds = (second,) if method == "deca-p" else (first, second)
            found[method] = bench.best(bench.usual(model, method), *rounds)
        bench.row(model, method, "tuned", found[method], bench.asked.seeds)
    if CLEAN in bench.sources:
        bench.row(model, ORACLE, "tuned", found["normal"], bench.asked.seeds)


def solved(bench: Bench) -> None:
    """A model that is solved, or popularity, with default settings."""
    method, model = ("popularity", "") if bench.model == "popularity" else ("normal", bench.model)
    name = row_of(bench.name, bench.model, "normal", "default", bench.seeds_of(bench.model))
    if not bench.cells.has(name):
        bench.cells.write(name, bench.fitted(model, method, {}, bench.seeds_of(bench.model)))


def solved_search(bench: Bench) -> None:
    model, trials = bench.model, solved_trials(bench.model, bench.asked.trials)
    names = [f"{trials_of(bench.name, model, 'normal', 1)} trial {k}" for k in range(len(trials))]
    for name, one in zip(names, trials, strict=True):
        bench.trials(name, {"model": model, "method": "normal"}, [one])
    bench.row(model, "normal", "tuned", bench.best(bench.usual(model, "normal"), *names), bench.seeds_of(model))


def council(bench: Bench) -> Cell:
    return bench.students({model: {} for model in bench.asked.models})


def student_search(bench: Bench) -> None:
    """Of the student's own settings alone: all students of a set have the same members."""
    name, model, trials = bench.name, bench.model, bench.asked.trials
    first, second = trials_of(name, model, STUDENT, 1), trials_of(name, model, STUDENT, 2)
    usual = bench.cells.read(f"{name} 0 council").figures["students"][model]["valid"][0], {}
    fixed = {"model": model, "method": STUDENT}
    if not (bench.cells.has(first) and bench.cells.has(second)):
        bench.council()
    bench.trials(first, fixed, first_trials(trials))
    bench.trials(second, fixed, second_trials(STUDENT, trials, bench.best(usual, first)))


def students_tuned(bench: Bench) -> Cell:
    found = {}
    for model in bench.asked.models:
        usual = bench.cells.read(f"{bench.name} 0 council").figures["students"][model]["valid"][0], {}
        found[model] = bench.best(usual, *(trials_of(bench.name, model, STUDENT, k) for k in (1, 2)))
    return bench.students(found)


WORKS: dict[str, Any] = {
    "defaults": defaults,
    "search": search,
    "solved": solved,
    "solved search": solved_search,
    "council": council,
    "student search": student_search,
    "students tuned": students_tuned,
}
