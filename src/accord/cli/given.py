"""Options that say what to train on, as data of a task."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli import ui
from accord.cli.words import refuse_given
from accord.errors import SettingError

if TYPE_CHECKING:
    from accord.tasks.base import Task
    from accord.tasks.fit_jobs import FitJob

FOR_CLICKS = "cannot be given with labelled data; for these see --noise and --truth"
FOR_LABELS = "is for labelled data; for clicks see accord compare --inject"
OWN_SPLIT = "cannot be given with a data set of the catalogue, which has columns and parts of its own"
AS_IT_IS = "cannot be given with a data set of the catalogue, which is as it is"


@dataclass(frozen=True)
class Given:
    """What was typed to say where the data are."""

    data: Path
    user: str | None = None
    item: str | None = None
    time: str | None = None
    valid: Path | None = None
    label: str | None = None
    labels: Path | None = None
    size: int | None = None
    ignore: list[str] = field(default_factory=list)
    noise: float = 0.0
    noise_kind: str = "uniform"

    @property
    def task(self) -> str:
        """Labelled data are a name of the catalogue, a folder, or a table with a label; all else is a click log."""
        from accord.data.datasets.names import LABELLED_NAMES

        named = str(self.data) in LABELLED_NAMES and not self.data.exists()
        labelled = named or self.data.is_dir() or self.label is not None or self.labels is not None
        return "labels" if labelled else "clicks"

    @property
    def columns(self) -> dict[str, str | None]:
        return {"user": self.user, "item": self.item, "time": self.time}

    def usual_model(self) -> str:
        return {"clicks": "gmf", "labels": "auto"}[self.task]

    def refuse_other_task(self, **further: object) -> None:
        """Options that say nothing about data of this task."""
        if self.task == "labels":
            refuse_given(FOR_CLICKS, **self.columns, valid=self.valid, **further)
        else:
            refuse_given(FOR_LABELS, noise=self.noise)

    def check(self, values: dict[str, Any]) -> Any:
        """The estimator that will be fitted, its settings checked, before any file is read."""
        from accord.estimators import Recommender

        if self.task == "clicks":
            Recommender.check_settings(values)
            return Recommender
        from accord.data.noise import check_kind
        from accord.estimators import Classifier

        Classifier.check_settings(values)
        check_kind(self.noise_kind)
        return Classifier

    def fit_job(self, values: dict[str, Any], clean: Path | None) -> FitJob:
        from accord.tasks.fit_jobs import click_job, label_job

        if self.task == "labels":
            return label_job(self._examples(), values, self.noise, self.noise_kind, clean)
        benchmark = self._benchmark("fair", **self.columns)
        if benchmark is None:
            return click_job(self.data, values, self.columns, self.valid)
        return click_job(benchmark.train, values, {}, self.valid or benchmark.valid, benchmark.known)

    def read(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        """The data as a task, and settings that they ask for."""
        return (self._read_labels if self.task == "labels" else self._read_clicks)(truths, ks, protocol, inject)

    def _read_labels(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        from accord.data.noise import check_kind

        check_kind(self.noise_kind)
        given = self._examples()
        if len(truths) > 1:
            raise SettingError("Labelled data take one --truth: a file of clean examples to test by.")
        task = given.task(self.noise, self.noise_kind, truths[0] if truths else None)
        return task, {"augment": given.augment}

    def _read_clicks(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        from accord.tasks.clicks import ClickTask

        benchmark = self._benchmark(protocol, truth=truths, valid=self.valid, k=ks, **self.columns)
        if benchmark is None:
            columns = self.columns
            return ClickTask(self.data, truths, columns, self.valid, list(ks) or [20], inject=inject), {}
        return ClickTask.of_benchmark(benchmark, inject=inject), {"cold_users": benchmark.cold_users}

    def _benchmark(self, protocol: str, **own_split: object) -> Any:
        """The data set of a name under a protocol; nothing where a file is meant.

        ``own_split`` are options that say what a data set of the catalogue says itself.
        """
        from accord.data.datasets.benchmarks import load_benchmark
        from accord.data.datasets.catalogue import find_data_set

        name = str(self.data)
        if self.data.exists() or self.data.suffix or os.sep in name:
            return None
        entry = find_data_set(name)
        refuse_given(OWN_SPLIT, **own_split)
        if protocol == "paper" and entry.caveat:
            ui.say(f"The files of {entry.title}: {entry.caveat}.")
        return load_benchmark(entry, protocol)  # pyright: ignore[reportArgumentType]

    def _examples(self) -> Any:
        from accord.tasks.label_sources import LabelSource, read_examples

        source = LabelSource(self.data, self.label, self.labels, self.size, self.ignore)
        if source.named:
            typed = {"label": self.label, "labels": self.labels, "size": self.size, "ignore": self.ignore}
            refuse_given(AS_IT_IS, **typed)
        with reading_images() as tick:
            return read_examples(LabelSource(self.data, self.label, self.labels, self.size, self.ignore, tick))

    def as_typed(self) -> list[str]:
        """The same options, as words of another command."""
        if self.task == "labels":
            told: dict[str, Any] = {"label": self.label, "labels": self.labels, "size": self.size}
            told |= {"noise": f"{self.noise:g}", "noise-kind": self.noise_kind} if self.noise else {}
        else:
            told = {**self.columns, "valid": self.valid}
        words = [word for name, value in told.items() if value is not None for word in (f"--{name}", str(value))]
        return words + [word for name in self.ignore for word in ("--ignore", name)]


@contextmanager
def reading_images() -> Iterator[Callable[[int, int], None]]:
    """A bar for images that are read; it is there once there are some."""
    with ui.bar() as progress:
        task: list[Any] = []

        def tick(done: int, total: int) -> None:
            if not task:
                task.append(progress.add_task("reading images", total=None, note=""))
            if done % 50 == 0 or done == total:
                progress.update(task[0], completed=done, total=total, note=f"{done} of {total}")

        yield tick
