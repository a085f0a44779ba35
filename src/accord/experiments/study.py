"""What to compare: the rows and cells of a study, their settings, and their identities."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from accord import __version__
from accord.data.ids import pc
from accord.data.reading import read_table
from accord.errors import AccordError, DataError, SettingError, nearest
from accord.estimators.base import Cache
from accord.estimators.fitting import batched, fit_together, stack_key, together
from accord.experiments.budget import Budget
from accord.experiments.machine import machine
from accord.methods import METHODS, Space, methods_of
from accord.tasks.base import FILE, ORACLE, Cell, CellData, Measurement, Task, row_name
from accord.training import Callback, Checkpoints

CELLS, CHECKPOINTS = "cells", "checkpoints"
"""Folders of finished cells, and of checkpoints of the trainings that run."""
NO_SEARCH = "none: the settings as given"
MOST = 100_000
"""Seeds of a study, and trials of a search."""
VARIED = ("model", "method", "seed")
"""What rows and seeds are made of: no setting for all of them, and nothing to search."""


class Job(NamedTuple):
    """A cell that is to be trained, of a study that may be one of several."""

    study: Study
    cell: Cell
    folder: Path
    """Where the metrics of each user or example go."""


Keep = Callable[[Job, dict[str, Any]], None]


@dataclass(frozen=True)
class Study:
    """Models × methods × seeds on the data of a task."""

    task: Task
    methods: Sequence[str]
    models: Sequence[str]
    seeds: int = 3
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of every cell; ``method.name`` sets one method's alone."""
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings that a search found, by row; they go before all others."""
    budget: Budget | None = None
    """The search that found them."""
    only_tuned: bool = False
    """Whether rows that no search has found settings for are left alone."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Rows that are a method with settings of its own: ``{"deca dp": {"method": "deca", "sub_tasks": "dp"}}``."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """Methods that take the settings found for another, whose search would be theirs."""
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    """Further measurements of every cell, by name."""
    row_rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By method, what changed in how its rows are made, besides what its method says itself."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """By method, the search of its rows where that is not the one of all others."""
    timed: bool = False
    """Whether time is measured: each cell is trained alone, without checkpoints."""

    # -- rows and settings -------------------------------------------------------------------------------

    @property
    def validation_metric(self) -> str:
        """By which epochs and settings are chosen, in every row alike."""
        return str(self.settings.get("metric", self.task.metric))

    @property
    def rules(self) -> tuple[str, ...]:
        return self.task.rules

    @property
    def protocol(self) -> dict[str, Any]:
        return self.task.protocol

    def rows(self) -> list[tuple[str, str]]:
        """(model, method) of every row; a method that needs no model is listed once."""
        alone = [m for m in self.methods if self.task.knows(m) and not METHODS.find(m).needs_model]
        rows = [(model, m) for model in self.models for m in self.methods if m not in alone]
        return [("", m) for m in alone] + [row for row in rows if row not in self.left_out]

    @cached_property
    def left_out(self) -> list[tuple[str, str]]:
        """Rows of models that are solved, and methods that learn by gradients; the models have a row of normal."""
        if "normal" not in self.methods:
            return []
        rows = [(model, method) for model in self.models for method in self.methods]
        return [(model, method) for model, method in rows if not self.task.takes(model, self.trained(method))]

    def settings_of(self, model: str, method: str, seed: int) -> dict[str, Any]:
        """Settings of a cell; ``method.name`` sets one method's alone."""
        trained, own = self.trained(method), dict(self.variants.get(method, {}))
        chosen: dict[str, Any] = {"model": model or "mf", "seed": seed}
        for name, value in self.settings.items():
            owner, dot, plain = name.rpartition(".")
            if not dot:
                chosen[name] = value
            elif owner in (method, trained):
                chosen[plain] = value
        found = next((self.tuned[name] for name in self.found_for(model, method) if name in self.tuned), {})
        return chosen | found | own | {"method": trained}

    def found_for(self, model: str, method: str) -> list[str]:
        """Rows whose search a row takes its settings from, the first that there is."""
        other = "normal" if method == ORACLE else self.follows.get(method, method)
        return [row_name(model, name) for name in (method, other)]

    def search_words(self, method: str, model: str = "") -> str:
        """How the settings of a row were found."""
        budget = self.budgets.get(method, self.budget)
        return NO_SEARCH if budget is None else budget.words_of(self.searched(method, model))

    def same_search(self, method: str, words: str, model: str = "") -> bool:
        """Whether these words of a cell describe the search of its row here."""
        return (
            words == NO_SEARCH if self.budget is None else self.budget.matches(words, self.searched(method, model))
        )

    def trained(self, method: str) -> str:
        """The method by which a row is trained."""
        return "normal" if method == ORACLE else str(self.variants.get(method, {}).get("method", method))

    def searched(self, method: str, model: str = "") -> Space:
        """What is searched for a row: the space of its method and model, less what the row or the settings fix."""
        fixed = {name.rpartition(".")[2] for name in self.settings} | set(self.variants.get(method, {}))
        whole = self.task.space(self.trained(method), model)
        return {name: values for name, values in whole.items() if name not in fixed}

    def ready(self, cell: Cell) -> bool:
        """Whether a cell can be trained: in a tuned comparison, after its row has been searched."""
        if not self.task.ready(cell.method):
            return False
        if not self.only_tuned or not self.searched(cell.method, cell.model):
            return True
        return any(name in self.tuned for name in self.found_for(cell.model, cell.method))

    def check(self) -> None:
        """Refuse what cannot be run before anything is trained."""
        if not self.methods or not self.models:
            raise SettingError("No methods were given; for example methods=['normal', 'deca', 'deca-p'].")
        for model, method in self.rows():
            self.task.check_settings(self.settings_of(model, method, 0))
        for name in self.settings:
            owner, dot, plain = name.rpartition(".")
            refuse_varied(plain)
            if dot and plain == "metric":
                raise SettingError(f"'{name}': rows are chosen by one metric; give metric for all of them.")
            if dot and not self.task.knows(owner):
                known = methods_of(self.task.name)
                raise SettingError(f"Setting '{name}' is for an unknown method: {nearest(owner, known)}")
        if self.seeds < 1:
            raise SettingError("At least one seed is needed.")
        if self.seeds > MOST:
            raise SettingError(f"{self.seeds} seeds are more than anybody can wait for; give at most {MOST}.")
        self.task.check(self.methods)

    # -- training ----------------------------------------------------------------------------------------

    def groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Jobs that `run` trains together, each study's own or, where their data are alike, of several.

        Where time is measured all rows come before the next seed, so that a machine that is slower for a while is
        so for all of them.
        """
        by_seed = sorted(jobs, key=lambda job: job.cell.seed)  # those of one seed may share a prior
        if self.timed:
            return [[job] for job in by_seed]
        alike: dict[Any, list[Job]] = {}
        for job in by_seed:
            group = job.study.task.stack_group(job.cell)
            key = None if group is None else stack_key(job.study._estimator(job.cell))
            alike.setdefault((group, key or ""), []).append(job)
        made = []
        for own in alike.values():
            study, cell, _ = own[0]
            most = study._together(cell) // study.task.trainings_of(cell.method)
            made += batched(own, max(1, most))
        return made

    def _estimator(self, cell: Cell) -> Any:
        return self.task.estimator(self.settings_of(*cell))

    def _together(self, cell: Cell) -> int:
        """How many trainings like that of a cell are made together."""
        estimator = self._estimator(cell)
        data = self.task.cell_data(cell.method, cell.seed, estimator.settings, self.task.shared)
        return together(estimator, data.sources[0], self._cache)

    def validated_at_once(self) -> int:
        """Trainings that `validate` makes together."""
        return self._together(Cell(self.models[0], self.methods[0], 0))

    @cached_property
    def _cache(self) -> Cache:
        return Cache()

    @cached_property
    def _lasting(self) -> dict[Any, Any]:
        """Members of the last council: cells that differ in the student alone share them."""
        return {}

    def run(
        self, jobs: Sequence[Job], callbacks: Sequence[Callback | None], keep: Keep, checkpoints: Checkpoints | None
    ) -> None:
        """Train and measure a group, each cell kept as it is ready, with the metrics of each user or example."""
        each = [_CellTraining(job, self.task.shared) for job in jobs]
        owners = [(one, k) for one in each for k in range(len(one.data.sources))]
        asked = dict(zip(map(id, each), callbacks, strict=True))

        def fitted(k: int) -> None:
            owners[k][0].one_is_ready(keep)

        fit_together(
            [one.estimators[k] for one, k in owners],
            [one.data.sources[k] for one, k in owners],
            callbacks=[asked[id(one)] if k == 0 else None for one, k in owners],
            fitted=fitted,
            checkpoint=None if self.timed else checkpoints,
            cache=Cache(lasting=None if self.timed else self._lasting),
        )

    def validate(
        self,
        settings: Sequence[dict[str, Any]],
        method: str,
        callbacks: Sequence[Callback | None],
        checkpoints: Checkpoints | None = None,
    ) -> list[float]:
        """Train with each of the settings: the noisy validation metric of what was kept. No truth is read.

        Where a training diverged it is not a number.
        """
        estimators = [self.task.estimator(one) for one in settings]
        sources = [
            self.task.cell_data(method, int(one["seed"]), estimator.settings, self.task.shared).sources[0]
            for one, estimator in zip(settings, estimators, strict=True)
        ]
        sources = [{**source, "eval_set": None} for source in sources]
        errors: dict[int, AccordError] = {}
        fit_together(
            estimators,
            sources,
            callbacks=callbacks,
            failed=errors.__setitem__,
            checkpoint=checkpoints,
            judge=False,
            cache=Cache(lasting=self._lasting),
        )
        for error in errors.values():
            if isinstance(error, DataError | SettingError):
                raise error
        return [nan if k in errors else self._value(one) for k, one in enumerate(estimators)]

    def _value(self, estimator: Any) -> float:
        return validation_value(estimator.validation_, self.validation_metric)

    def description(self, estimator: Any, cell: Cell) -> dict[str, Any]:
        """What a cell's file says of a training, whatever the task."""
        metrics = estimator.metrics_
        return {
            "accord": __version__,
            "protocol": self.protocol,
            "uses_knowledge": self.task.uses_knowledge(cell.method),
            "machine": machine(estimator.settings.device),
            "settings": estimator.settings.model_dump(),
            "selection": self.task.selection(estimator),
            "validation": metrics["validation"],
            "seconds": metrics["train_seconds"],
            "epochs": metrics["epochs"],
            "metrics": kept_metric(metrics["validation"], self.validation_metric),
        }

    # -- what tells cells apart --------------------------------------------------------------------------

    def identity(self, cell: Cell) -> str:
        """Changes when the settings or the contents of the input do."""
        return self._identity(self.settings_of(*cell), [cell.method, *self.rules_of(cell.method)])

    def identity_of_all(self) -> str:
        """The same, of whatever rows and seeds."""
        return self._identity(self.settings, [])

    def _identity(self, settings: Mapping[str, Any], more: list[str]) -> str:
        words = [json.dumps(dict(settings), sort_keys=True, default=str), *more]
        protocol = {name: value for name, value in self.protocol.items() if name != FILE}
        words += [json.dumps(protocol, sort_keys=True, default=str)]
        words += [*self.task.identity_words(list(self.measurements)), *self.rules]
        for source in self.task.inputs():
            if source is not None:
                words.append(self._digest_of(source))
        return hashlib.blake2b("\n".join(words).encode(), digest_size=12).hexdigest()

    def rules_of(self, method: str) -> tuple[str, ...]:
        """What changed in how the rows of a method are made."""
        trained = self.trained(method)
        own = METHODS.find(trained).rules if self.task.knows(trained) else ()
        return (*own, *self.row_rules.get(method, ()))

    def _digest_of(self, source: Any) -> str:
        """Made once: what a task holds stays as it is."""
        key = "digest", id(source)
        if key not in self.task.shared:
            digest = _digest(self.task.comparable(source))
            self.task.shared[key] = source, digest  # held, so that no other takes its id
        return self.task.shared[key][1]

    def remarks(self, summary: dict[str, Any]) -> list[str]:
        """What a person should know about a table."""
        own = self.task.remarks()
        if self.left_out:
            models = " and ".join(dict.fromkeys(model for model, _ in self.left_out))
            methods = ", ".join(dict.fromkeys(method for _, method in self.left_out))
            own = [*own, f"Solved without gradients, so without rows of {methods}: {models}"]
        if any(row["seeds"] and not row["metrics"] for row in summary["rows"]):
            return [
                "Nothing could be measured: nothing is held out for validation, and no clean test was given.",
                *own,
            ]
        return own

    def tested(self) -> str:
        """The metric of each user or example that rows are compared by."""
        return self.task.tested()

    def tested_mean(self) -> str:
        """What a table calls its mean."""
        return self.task.tested_mean()


class _CellTraining:
    """The trainings of a cell, mostly one."""

    def __init__(self, job: Job, shared: dict[Any, Any]) -> None:
        self.job, (study, cell, _) = job, job
        first = study._estimator(cell)
        self.data: CellData = study.task.cell_data(cell.method, cell.seed, first.settings, shared)
        more = (study._estimator(cell) for _ in self.data.sources[1:])
        self.estimators = [first, *more]
        self._ready = 0

    def one_is_ready(self, keep: Keep) -> None:
        """Measure the cell when its last training is done."""
        self._ready += 1
        if self._ready < len(self.estimators):
            return
        study, cell, folder = self.job
        path = folder / f"{cell.name}.parquet"
        result = study.description(self.estimators[0], cell)
        measured = study.task.measured(self.estimators, self.data, cell, path)
        special = cell.method in study.task.special_rows
        metrics = measured.pop("metrics") if special else result["metrics"] | measured.pop("metrics")
        result |= measured | {"metrics": metrics}
        if study.measurements and not special:
            further = study.measurements.items()
            also = {name: measure(self.estimators[0], study.task, self.data, path) for name, measure in further}
            result["also"] = also
        keep(self.job, result)


def refuse_varied(name: str) -> None:
    if name in VARIED:
        raise SettingError(f"'{name}' cannot be set for all rows and seeds alike; say it with {name}= or {name}s=.")


def kept_metric(phases: dict[str, dict[str, Any]], metric: str) -> dict[str, float]:
    """The noisy validation metric of what was kept, for a table; nothing where nothing was held out."""
    last = list(phases.values())[-1]
    return {f"valid {metric}": last[metric]} if metric in last else {}


def validation_value(phases: dict[str, dict[str, Any]], metric: str) -> float:
    """The same, for a search, which cannot do without."""
    found = kept_metric(phases, metric)
    if not found:
        raise DataError("Nothing is held out for validation, so there is nothing to choose settings by.")
    return found[f"valid {metric}"]


def _digest(source: Any) -> str:
    """Words that change with the contents of a table or an array."""
    if isinstance(source, np.ndarray):
        text = source.dtype.kind in "OUS"
        raw = "\n".join(map(str, source.ravel())).encode() if text else np.ascontiguousarray(source).tobytes()
        return f"{source.shape} {hashlib.blake2b(raw, digest_size=8).hexdigest()}"
    table, _ = read_table(source)
    digest = hashlib.blake2b(digest_size=8)
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(name.encode())
        for chunk in _text_of(column):  # the same words on every machine, whatever the version of Arrow
            digest.update(chunk)
    return f"{table.shape} {digest.hexdigest()}"


def _text_of(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values of a column as words: how long each is, and all of them."""
    try:
        words: pa.ChunkedArray = column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # such as lists
        yield str(column.to_pylist()).encode()
        return
    yield np.asarray(pc.fill_null(pc.binary_length(words), -1), np.int64).tobytes()
    for chunk in [one for one in words.chunks if len(one)]:
        _, ends, letters = chunk.buffers()
        first, last = np.frombuffer(ends, np.int64)[[chunk.offset, chunk.offset + len(chunk)]]
        yield memoryview(letters or b"")[first:last]


__all__ = [
    "CELLS",
    "CHECKPOINTS",
    "NO_SEARCH",
    "ORACLE",
    "Cell",
    "Job",
    "Keep",
    "Study",
    "kept_metric",
    "refuse_varied",
    "row_name",
    "validation_value",
]
