"""What to compare: the rows and cells of a study, their settings, and what tells them apart."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from accord import __version__
from accord.data.ids import pc
from accord.data.reading import read_table
from accord.errors import DataError, SettingError, nearest
from accord.studies.budget import Budget
from accord.studies.machines import machine
from accord.studies.spaces import Space
from accord.training import Checkpoints, Hook

CELLS, UNFINISHED = "cells", "unfinished"
"""Folders of what is done, and of trainings that are written down while they go on."""
ORACLE = "oracle"
"""Normal training on the truly clean rows: a reference that uses knowledge no method has."""


NO_SEARCH = "none: the settings as given"


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
        for part in _text_of(column):  # the same words on every machine, whatever the version of Arrow
            digest.update(part)
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


class Cell(NamedTuple):
    """One training of a comparison."""

    model: str
    method: str
    seed: int

    @property
    def row(self) -> str:
        return row_name(self.model, self.method)

    @property
    def name(self) -> str:
        return f"{self.row} seed{self.seed}".replace(" ", "-")


class Job(NamedTuple):
    """A cell that is to be trained, of a study that may be one of several."""

    study: Any
    cell: Cell
    folder: Path
    """Where the metrics of each user or example go."""


Keep = Callable[[Job, dict[str, Any]], None]


class Study(ABC):
    """What to compare. A task's own study adds its data, and says how a cell is trained and measured."""

    methods: Sequence[str]
    models: Sequence[str]
    seeds: int
    settings: dict[str, Any]
    protocol: dict[str, Any]
    tuned: dict[str, dict[str, Any]]
    """Settings that a search found, by row; they go before all others."""
    budget: Budget | None
    """The search that found them."""
    only_tuned: bool
    """Whether rows that no search has found settings for are left alone."""
    variants: Mapping[str, Mapping[str, Any]]
    """Rows that are a method with settings of its own: ``{"deca dp": {"method": "deca", "sub_tasks": "dp"}}``."""
    follows: Mapping[str, str] = {}
    """Methods that take the settings found for another, whose search would be theirs."""

    known_methods: ClassVar[Iterable[str]] = ()
    validation_metric: ClassVar[str] = ""
    needs_no_model: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[tuple[str, ...]] = ()
    """What has changed in how cells are made of the same settings and data: older ones are made anew."""

    def rows(self) -> list[tuple[str, str]]:
        """(model, method) of every row; a method that needs no model stands once."""
        once = [("", method) for method in self.methods if method in self.needs_no_model]
        return once + [(m, n) for m in self.models for n in self.methods if n not in self.needs_no_model]

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

    def search_words(self, method: str) -> str:
        """How the settings of a method's rows were found."""
        return NO_SEARCH if self.budget is None else self.budget.words_of(self.searched(method))

    def is_searched_so(self, method: str, words: str) -> bool:
        """Whether a cell that says so tells how the settings of its method's rows are found here."""
        return words == NO_SEARCH if self.budget is None else self.budget.is_told(words, self.searched(method))

    def trained(self, method: str) -> str:
        """The method by which a row is trained."""
        return "normal" if method == ORACLE else str(self.variants.get(method, {}).get("method", method))

    def searched(self, method: str) -> Space:
        """What is searched for a row: its method's space, less what the row itself or the settings fix."""
        fixed = {name.rpartition(".")[2] for name in self.settings} | set(self.variants.get(method, {}))
        return {name: values for name, values in self.space(self.trained(method)).items() if name not in fixed}

    def ready(self, cell: Cell) -> bool:
        """Whether a cell's settings are known: in a tuned comparison, after its row has been searched."""
        if not self.only_tuned or not self.searched(cell.method):
            return True
        return any(name in self.tuned for name in self.found_for(cell.model, cell.method))

    def check(self) -> None:
        """Refuse what cannot be run before anything is trained."""
        if not self.methods or not self.models:
            raise SettingError("No methods were given; for example --methods normal,deca,deca-p.")
        for model, method in self.rows():
            self.check_settings(self.settings_of(model, method, 0))
        for name in self.settings:
            owner, dot, plain = name.rpartition(".")
            refuse_varied(plain)
            if dot and owner not in self.known_methods:
                raise SettingError(
                    f"Setting '{name}' is for an unknown method: {nearest(owner, self.known_methods)}"
                )
        if self.seeds < 1:
            raise SettingError("At least one seed is needed.")

    @abstractmethod
    def check_settings(self, values: dict[str, Any]) -> Any:
        """Settings of a cell, refused in one sentence where they are wrong."""

    @abstractmethod
    def run(
        self, jobs: Sequence[Job], hooks: Sequence[Hook | None], keep: Keep, unfinished: Checkpoints | None = None
    ) -> None:
        """Train and measure a group, each cell kept as it is ready, with the metrics of each user or example.

        In ``unfinished`` trainings are written down while they go on.
        """

    @abstractmethod
    def inputs(self) -> list[Any]:
        """Files and tables whose change makes a cell stale."""

    @abstractmethod
    def validate(
        self,
        settings: Sequence[dict[str, Any]],
        method: str,
        hooks: Sequence[Hook | None],
        unfinished: Checkpoints | None = None,
    ) -> list[float]:
        """Train with each of the settings: the noisy validation metric of what was kept. No truth is read.

        Where a training diverged it is not a number.
        """

    @abstractmethod
    def space(self, method: str) -> Space:
        """What is searched for a method."""

    def groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Jobs that `run` trains together; those of studies that differ in their noise alone may be."""
        return [[job] for job in jobs]

    def validated_at_once(self) -> int:
        """Trainings that `validate` makes together."""
        return 1

    def facts(self, fitted: Any, selection: str, uses_knowledge: bool) -> dict[str, Any]:
        """What a cell's file says of a training, whatever the task."""
        metrics = fitted.metrics_
        return {
            "accord": __version__,
            "protocol": self.protocol,
            "uses_knowledge": uses_knowledge,
            "machine": machine(fitted.settings.device),
            "settings": fitted.settings.model_dump(),
            "selection": selection,
            "validation": metrics["validation"],
            "seconds": metrics["train_seconds"],
            "epochs": metrics["epochs"],
            "metrics": kept_metric(metrics["validation"], self.validation_metric),
        }

    def identity(self, cell: Cell) -> str:
        """Changes when the settings or the input files do."""
        settings = self.settings_of(*cell)
        words = [json.dumps(settings, sort_keys=True, default=str), cell.method]
        words += [json.dumps(self.protocol, sort_keys=True, default=str), *self.identity_words(), *self.rules]
        for source in self.inputs():
            if isinstance(source, str | os.PathLike):
                stat = Path(source).stat() if Path(source).exists() else None
                words.append(f"{source}:{stat.st_size if stat else 0}:{stat.st_mtime_ns if stat else 0}")
            elif source is not None:
                words.append(self._digest_of(source))
        return hashlib.blake2b("\n".join(words).encode(), digest_size=12).hexdigest()

    @cached_property
    def _digests(self) -> dict[int, tuple[Any, str]]:
        return {}

    def _digest_of(self, source: Any) -> str:
        """Made once: what a study holds stays as it is."""
        if id(source) not in self._digests:
            self._digests[id(source)] = source, self.digest(source)  # held, so that no other takes its place
        return self._digests[id(source)][1]

    def digest(self, source: Any) -> str:
        return _digest(source)

    def identity_words(self) -> list[str]:
        return []

    def remarks(self, summary: dict[str, Any]) -> list[str]:
        """What a person should know about a table."""
        if any(row["seeds"] and not row["metrics"] for row in summary["rows"]):
            return ["Nothing could be measured: nothing is held out for validation, and no clean test was given."]
        return []

    def tested(self) -> str:
        """The metric of each user or example that the paired test compares."""
        return ""

    def tested_mean(self) -> str:
        """What a table calls its mean."""
        return self.tested()


VARIED = ("model", "method", "seed")
"""What rows and seeds are made of: no setting for all of them, and nothing to search."""


def refuse_varied(name: str) -> None:
    if name in VARIED:
        raise SettingError(
            f"'{name}' cannot be set for all rows and seeds alike; say it with --{name} or --{name}s."
        )


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


def row_name(model: str, method: str) -> str:
    return f"{model} {method}".strip()
