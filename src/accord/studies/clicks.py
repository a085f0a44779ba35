"""Comparisons on click logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as parquet

from accord.data.clicks import load_clicks
from accord.data.datasets.benchmarks import Benchmark
from accord.data.reading import open_table
from accord.errors import AccordError, DataError, SettingError
from accord.estimators import Recommender, make_settings
from accord.estimators.run_folder import kept_epochs
from accord.estimators.stacking import (
    MAY_DIFFER,
    Source,
    StackError,
    batched,
    can_stack,
    fit_stacked,
    stack_size,
)
from accord.files import whole_file
from accord.methods import METHODS
from accord.studies.budget import Budget
from accord.studies.materials import NEEDS_TRUTH, Materials, clean_only, with_false_clicks
from accord.studies.spaces import Space, clicks_space
from accord.studies.study import ORACLE, Job, Keep, Study, validation_value
from accord.training import Checkpoints, Hook, resolve_device


@dataclass(frozen=True)
class Comparison(Study):
    """What to compare: a log, models, methods, seeds, settings, and the truth if it is known."""

    log: Any
    methods: Sequence[str]
    seeds: int = 3
    models: Sequence[str] = ("gmf",)
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of every cell; ``method.name`` sets one method's alone."""
    truths: Sequence[Any] = ()
    """Files with clean test pairs, or with is_noise for each click."""
    columns: dict[str, str | None] = field(default_factory=dict)
    valid: Any = None
    ks: Sequence[int] = (20,)
    known: Any = None
    clean_log: Any = None
    inject: float = 0.0
    """Share of random false clicks added to training alone."""
    protocol: dict[str, Any] = field(default_factory=dict)
    """Written into every cell: protocol, split sizes, and the like."""
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: Budget | None = None
    only_tuned: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ratings: Any = None
    """Training pairs with their rating, to judge by and nothing else."""
    measurements: Mapping[str, Callable[[Recommender, Any, Path], Any]] = field(default_factory=dict)
    """Further measurements of every cell, by name: of a fitted recommender, the ratings and the path of the cell,
    beside which they may write."""
    test_epochs: bool = False
    """Whether the clean test is measured after every epoch, for measurements of the history."""
    timed: bool = False
    """Whether time is measured: each cell is trained alone, without checkpoints."""

    known_methods: ClassVar[Any] = METHODS
    validation_metric: ClassVar[str] = "ndcg@20"
    needs_no_model: ClassVar[tuple[str, ...]] = ("popularity",)
    rules: ClassVar[tuple[str, ...]] = (
        "in validation, as in the test, users without a training click are ranked for by popularity",
        "every machine updates whole tables",
        "no click that is tested by is added as a false one",
    )

    @staticmethod
    def of_benchmark(benchmark: Benchmark, **choices: Any) -> Comparison:
        """A data set of the catalogue under one of its protocols."""
        settings = {"cold_users": benchmark.cold_users} | choices.pop("settings", {})
        return Comparison(
            log=benchmark.train,
            valid=benchmark.valid,
            truths=[benchmark.test],
            known=benchmark.known,
            clean_log=benchmark.clean_train,
            ks=benchmark.ks,
            settings=settings,
            ratings=benchmark.ratings,
            protocol={"data": benchmark.name, "protocol": benchmark.protocol, "sizes": benchmark.sizes},
            **choices,
        )

    def tested(self) -> str:
        return f"ndcg@{max(self.ks)}"

    def check(self) -> None:
        super().check()
        if not 0 <= self.inject <= 10:
            raise SettingError(f"A share of {self.inject:g} false clicks makes no sense; give for example 0.2.")
        _, noise = sort_truths(self.truths)
        if ORACLE in self.methods and self.clean_log is None and noise is None and not self.inject:
            raise DataError(NEEDS_TRUTH)

    def check_settings(self, values: dict[str, Any]) -> Any:
        return make_settings(values)

    def inputs(self) -> list[Any]:
        return [self.log, self.valid, *self.truths, self.known, self.clean_log, self.ratings]

    def identity_words(self) -> list[str]:
        return [json.dumps(list(self.ks)), str(self.inject), json.dumps(list(self.measurements))]

    def run(
        self, jobs: Sequence[Job], hooks: Sequence[Hook | None], keep: Keep, unfinished: Checkpoints | None = None
    ) -> None:
        pairs, noise = sort_truths(self.truths)
        settings, method = [self.settings_of(*job.cell) for job in jobs], jobs[0].cell.method
        checkpoints = None if self.timed else unfinished  # writing them takes time
        recommenders, every, errors = self._fitted(settings, method, hooks, noise, checkpoints)
        for k, (job, rec, materials) in enumerate(zip(jobs, recommenders, every, strict=True)):
            if k not in errors:
                path = job.folder / f"{job.cell.name}.parquet"
                keep(job, self._measured(rec, materials, pairs, path, method))
        for error in errors.values():  # after the others are kept
            raise error

    def validate(
        self,
        settings: Sequence[dict[str, Any]],
        method: str,
        hooks: Sequence[Hook | None],
        unfinished: Checkpoints | None = None,
    ) -> list[float]:
        recommenders, _, errors = self._fitted(settings, method, hooks, None, unfinished, judge=False)
        return [nan if k in errors else self._value(rec) for k, rec in enumerate(recommenders)]

    def _value(self, rec: Recommender) -> float:
        return validation_value(kept_epochs(rec.history_, rec.settings.restore), self.validation_metric)

    def _fitted(
        self,
        settings: Sequence[dict[str, Any]],
        method: str,
        hooks: Sequence[Hook | None],
        noise: Any,
        unfinished: Checkpoints | None,
        judge: bool = True,
    ) -> tuple[list[Recommender], list[Materials], dict[int, AccordError]]:
        """Recommenders of one method, fitted as one stack where they can be; and those that diverged."""
        errors: dict[int, AccordError] = {}
        recommenders = [Recommender(**one) for one in settings]
        by_seed = {seed: self._materials(method, seed, noise) for seed in {int(one["seed"]) for one in settings}}
        if not self.inject:  # one log for all seeds
            by_seed = dict.fromkeys(by_seed, next(iter(by_seed.values())))
        materials = [by_seed[int(one["seed"])] for one in settings]
        sources = [self._source(one) for one in materials]
        if len(recommenders) > 1 and can_stack(recommenders):
            try:
                more = {"judge": judge, "checkpoint": unfinished}
                fit_stacked(recommenders, sources, hooks=hooks, failed=errors.__setitem__, **more)
                return recommenders, materials, errors
            except StackError:  # their training parts differ in what a stack must share
                recommenders = [Recommender(**one) for one in settings]
        for rec, source, hook in zip(recommenders, sources, hooks, strict=True):
            given = source._asdict()
            rec.fit(given.pop("log"), hook=hook, checkpoint=unfinished, **given.pop("columns"), **given)
        return recommenders, materials, errors

    def _source(self, materials: Materials) -> Source:
        columns = self.columns if materials.log is self.log else {}
        watch = sort_truths(self.truths)[0] if self.test_epochs else None
        return Source(materials.log, materials.valid, materials.known, materials.seen, columns, watch)

    def groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The seeds of a row are one stack, and so are rows that differ in what the runs of a stack may.

        Not where their time is measured: then all rows come before the next seed, so that a machine that is slower
        for a while is so for all of them.
        """
        if self.timed:
            return [[job] for job in sorted(jobs, key=lambda job: job.cell.seed)]
        alike: dict[Any, list[Job]] = {}
        for job in sorted(jobs, key=lambda job: job.cell.seed):  # those of one seed may share a prior
            alike.setdefault((id(job.study), _stack_words(job)), []).append(job)
        return [part for own in alike.values() for part in batched(own, self._stacked_at_once(*own[0].cell[:2]))]

    def validated_at_once(self) -> int:
        return self._stacked_at_once(self.models[0], self.methods[0])

    def _stacked_at_once(self, model: str, method: str) -> int:
        settings = make_settings(self.settings_of(model, method, 0))
        return stack_size(settings, *self._size)

    @cached_property
    def _size(self) -> tuple[int, int]:
        clicks = load_clicks(self.log, known=self.known, **self.columns)
        return len(clicks.user_ids), len(clicks.item_ids)

    def space(self, method: str) -> Space:
        return clicks_space(method)

    def _materials(self, method: str, seed: int, noise: Any) -> Materials:
        materials = Materials(self.log, self.valid, self.known, noise)
        if self.inject:
            share = make_settings(self.settings_of(self.models[0], "normal", seed)).valid_share
            spared = [table for table in (self.known, sort_truths(self.truths)[0]) if table is not None]
            materials = with_false_clicks(materials, self.inject, self.columns, seed, share, spared)
            if method == ORACLE:
                return clean_only(materials, None)
        return clean_only(materials, self.clean_log) if method == ORACLE else materials

    def _measured(
        self, rec: Recommender, materials: Materials, pairs: Any, path: Path, method: str
    ) -> dict[str, Any]:
        result = self.facts(rec, _selection(rec), method == ORACLE)
        result["inject"] = self.inject
        if pairs is not None:
            rec._move(resolve_device(rec.settings.device))
            ranked = rec.evaluate_users(pairs, k=self.ks)
            rec._move("cpu")
            with whole_file(path) as draft:
                parquet.write_table(ranked.table(), draft)
            result["ranking"] = ranked.means()
            result["metrics"] |= shown_of(result["ranking"], max(self.ks))
        if materials.noise is not None and method != ORACLE:
            result["detection"] = rec.evaluate_issues(materials.noise)
            result["metrics"]["noise auc"] = result["detection"]["roc_auc"]
        if self.measurements:
            measured = {name: measure(rec, self.ratings, path) for name, measure in self.measurements.items()}
            result["also"] = measured
        return result


def _stack_words(job: Job) -> str:
    """The same for cells whose runs can be one stack, and are trained on the same clicks."""
    settings = make_settings(job.study.settings_of(*job.cell))
    return f"{settings.model_dump_json(exclude=set(MAY_DIFFER))} {job.cell.method == ORACLE}"


def shown_of(ranking: Mapping[str, Any], k: int) -> dict[str, float]:
    """What a table shows of a ranking: NDCG and recall and, where some users have no training click, that of the
    others."""
    wanted = [n for n in ranking if n.split("@")[0] in ("ndcg", "recall") or n == f"warm ndcg@{k}"]
    return {name: ranking[name] for name in wanted}


def sort_truths(truths: Sequence[Any]) -> tuple[Any, Any]:
    """(file of clean test pairs, file of clicks with is_noise), told apart by their columns."""
    pairs = noise = None
    for truth in truths:
        table, _ = open_table(truth)
        if "is_noise" in table.column_names:
            noise = truth
        else:
            pairs = truth
    return pairs, noise


def _selection(rec: Recommender) -> str:
    if rec.settings.restore == "last":
        return "none, the last epoch"
    return f"best epoch by NDCG@20 on held-out clicks ({rec.notes_['split']})"
