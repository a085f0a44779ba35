"""Options that say what to train on, as data of a task."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from accord.cli import ui
from accord.cli.words import refuse_given
from accord.errors import SettingError

if TYPE_CHECKING:
    from accord.estimators.base import Estimator
    from accord.tasks.base import Task
    from accord.tasks.fit_jobs import FitJob
    from accord.tasks.label_sources import LabelExamples

FOR_CLICKS = "cannot be given with labelled data; for these see --noise and --truth"
FOR_LABELS = "is for labelled data; for clicks see accord compare --inject"
OWN_SPLIT = "cannot be given with a data set of the catalogue, which has columns and parts of its own"
AS_IT_IS = "cannot be given with a data set of the catalogue, which is as it is"


@dataclass(frozen=True)
class Given(ABC):
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
    more: dict[str, Any] = field(default_factory=dict)
    """Of a click log: query, weight, trusted, on_missing."""

    usual_model: ClassVar[str]

    @property
    def columns(self) -> dict[str, str | None]:
        return {"user": self.user, "item": self.item, "time": self.time}

    @abstractmethod
    def refuse_other_task(self, *, clean: Path | None = None, **of_clicks: object) -> None:
        """Options that say nothing about data of this task."""

    @abstractmethod
    def check(self, values: dict[str, Any]) -> type[Estimator]:
        """The estimator that will be fitted, its settings checked before any file is read."""

    @abstractmethod
    def refuse_ranks(self, count: int) -> None:
        """Data that several ranks cannot learn from together."""

    @abstractmethod
    def fit_job(self, values: dict[str, Any], clean: Path | None) -> FitJob: ...

    @abstractmethod
    def read(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        """The data as a task, and settings that they ask for."""

    @abstractmethod
    def _typed(self) -> dict[str, Any]: ...

    def as_typed(self) -> list[str]:
        """The same options, as words of another command."""
        given = {name: value for name, value in self._typed().items() if value is not None}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return words + [word for name in self.ignore for word in ("--ignore", name)]


def given_data(data: Path, **typed: Any) -> Given:
    """Labelled data are a name of the catalogue, a folder, or a table with a label; all else is a click log."""
    from accord.data.datasets.names import LABELLED_NAMES

    named = str(data) in LABELLED_NAMES and not data.exists()
    told = typed.get("label") is not None or typed.get("labels") is not None
    from accord.data.labelled_files import LABEL_FILES
    from accord.data.reading import parts_of

    labels = any((data / name).is_file() for name in LABEL_FILES) if data.is_dir() else False
    folder = data.is_dir() and (labels or not parts_of(data))
    kind = GivenLabels if named or folder or told else GivenClicks
    return kind(data, **typed)


def place(typed: str) -> Any:
    """A path, or the address of a database as it is."""
    from accord.data.databases import is_address

    return Address(typed) if is_address(typed) else Path(typed)


class Address(str):
    """The address of a database, which has no path."""

    suffix = "address"

    def exists(self) -> bool:
        return False

    def is_dir(self) -> bool:
        return False


class GivenClicks(Given):
    """A click log, or a data set of the catalogue under one of its protocols."""

    usual_model = "gmf"

    def refuse_other_task(self, *, clean: Path | None = None, **of_clicks: object) -> None:
        kind = "" if self.noise_kind == "uniform" else self.noise_kind
        refuse_given(FOR_LABELS, noise=self.noise, noise_kind=kind, clean=clean)

    def check(self, values: dict[str, Any]) -> type[Estimator]:
        from accord.estimators import Recommender

        Recommender.check_settings(values)
        return Recommender

    def refuse_ranks(self, count: int) -> None:
        """Which models can be divided is known where the training is prepared."""

    def fit_job(self, values: dict[str, Any], clean: Path | None) -> FitJob:
        from accord.tasks.fit_jobs import click_job

        benchmark = self._benchmark("fair", **self.columns)
        if benchmark is None:
            return click_job(self._log(), values, self.columns | self.more, self.valid)
        refuse_given(OWN_SPLIT, **self._unusual())
        job = click_job(benchmark.train, values, {}, self.valid or benchmark.valid, benchmark.known)
        return replace(job, notes={"catalogue": benchmark.name})

    def read(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        from accord.tasks.clicks import ClickTask

        benchmark = self._benchmark(protocol, truth=truths, valid=self.valid, k=ks, **self.columns)
        if benchmark is None:
            return ClickTask(self._log(), truths, self.columns, self.valid, list(ks) or [20], inject=inject), {}
        return ClickTask.of_benchmark(benchmark, inject=inject), {"cold_users": benchmark.cold_users}

    def _log(self) -> Any:
        """What was piped in is read at once."""
        from accord.data.reading import read_standard_input
        from accord.plain import read_stream

        if str(self.data) != "-":
            return self.data
        return read_standard_input(read_stream(sys.stdin.buffer, "The standard input"))

    def _unusual(self) -> dict[str, Any]:
        return {name: value for name, value in self.more.items() if value != "drop"}

    def _benchmark(self, protocol: str, **own_split: object) -> Any:
        """The data set of a name under a protocol; nothing where a file is meant.

        ``own_split`` are options that say what a data set of the catalogue says itself.
        """
        from accord.data.datasets.benchmarks import load_benchmark
        from accord.data.datasets.catalogue import find_data_set

        name = str(self.data)
        if self.data.exists() or self.data.suffix or os.sep in name or name == "-":
            return None
        entry = find_data_set(name)
        refuse_given(OWN_SPLIT, **own_split)
        if protocol == "paper" and entry.caveat:
            ui.say(f"The files of {entry.title}: {entry.caveat}.")
        return load_benchmark(entry, protocol)  # pyright: ignore[reportArgumentType]

    def _typed(self) -> dict[str, Any]:
        return {**self.columns, "valid": self.valid}


class GivenLabels(Given):
    """Labelled data: a data set of the catalogue, a folder of images, or a table."""

    usual_model = "auto"

    def refuse_other_task(self, *, clean: Path | None = None, **of_clicks: object) -> None:
        more = {name: value for name, value in self.more.items() if value != "drop"}
        refuse_given(FOR_CLICKS, **self.columns, valid=self.valid, **more, **of_clicks)

    def check(self, values: dict[str, Any]) -> type[Estimator]:
        from accord.estimators import Classifier

        Classifier.check_settings(values)
        self._drawn()
        return Classifier

    def refuse_ranks(self, count: int) -> None:
        raise SettingError(
            f"Labelled data cannot be divided over {count} ranks, as click logs can; start accord without torchrun."
        )

    def fit_job(self, values: dict[str, Any], clean: Path | None) -> FitJob:
        from accord.tasks.fit_jobs import label_job

        noise, kind, matrix = self._drawn()
        return label_job(self._examples(), values, noise, kind, clean, matrix)

    def read(
        self, truths: Sequence[Path], ks: Sequence[int], protocol: str, inject: float
    ) -> tuple[Task, dict[str, Any]]:
        noise, kind, matrix = self._drawn()
        examples = self._examples()
        if len(truths) > 1:
            raise SettingError("Labelled data take one --truth: a file of clean examples to test by.")
        task = examples.task(noise, kind, truths[0] if truths else None, matrix)
        return task, {"augment": examples.augment}

    def _drawn(self) -> tuple[float, str, Any]:
        """The share of labels that are drawn anew, the kind of noise, and the matrix where a file of one is named;
        then all labels are drawn from it unless a share is given."""
        from accord.data.noise import MATRIX, check_kind, read_noise_matrix

        path = Path(self.noise_kind)
        if path.suffix and path.exists():
            return self.noise or 1.0, MATRIX, read_noise_matrix(path)
        check_kind(self.noise_kind)
        if self.noise_kind == MATRIX:
            raise SettingError(
                "Noise by a matrix needs its file: noise_kind=matrix.csv, a row of numbers on each line."
            )
        return self.noise, self.noise_kind, None

    def _examples(self) -> LabelExamples:
        from accord.tasks.label_sources import LabelSource, read_examples

        own = {"label": self.label, "labels": self.labels, "size": self.size, "ignore": self.ignore}
        if LabelSource(self.data).named:
            refuse_given(AS_IT_IS, **own)
        with reading_images() as tick:
            return read_examples(LabelSource(self.data, **own, tick=tick))

    def _typed(self) -> dict[str, Any]:
        own: dict[str, Any] = {"label": self.label, "labels": self.labels, "size": self.size}
        return own | (self._typed_noise() if self._drawn()[0] else {})

    def _typed_noise(self) -> dict[str, Any]:
        return {"noise": f"{self._drawn()[0]:g}", "noise-kind": self.noise_kind}


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
