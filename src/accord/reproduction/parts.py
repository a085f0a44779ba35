"""What a study is declared of: parts, each a table of cells on one data set, and views of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from accord.data.datasets.benchmarks import load_benchmark
from accord.data.datasets.catalogue import find_data_set
from accord.data.datasets.image_sets import IMAGE_SETS, LabelledImages
from accord.errors import SettingError, nearest
from accord.experiments.compare import Wanted
from accord.experiments.study import Study
from accord.experiments.verdicts import Tested
from accord.methods import METHODS, Space
from accord.reproduction.measures import COST, CURVE, MEASUREMENTS
from accord.tasks.base import Task
from accord.tasks.clicks import ClickTask
from accord.tasks.labels import LabelTask

EPOCHS = {"cifar10": 60, "fashion-mnist": 30, "mnist": 20, "digits": 60}
"""Epochs of every phase and method on images."""
VALID_IMAGES = 10_000
"""Held out for validation, but never more than a fifth."""


@dataclass(frozen=True)
class Part:
    """One table of cells: models × methods × seeds on one data set."""

    name: str
    data: str
    methods: tuple[str, ...]
    models: tuple[str, ...] = ("gmf",)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: str = "fair"
    level: float = 0.0
    """Random false clicks, as a share of training; for images the share of labels redrawn."""
    noise_seed: int | None = None
    """Images: the same wrong labels for every seed, where seeds are compared with one another."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Further measurements of every cell: names of `measures.MEASUREMENTS`."""
    trials: int = 0
    """Trials of the search for every row; 0 takes the settings as they are."""
    sampler: str = "random"
    spaces: Mapping[str, Space] = field(default_factory=dict)
    """What is searched for a method of images, instead of its usual space."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """Methods that take the settings found for another."""
    together: str = ""
    """Parts of one name are trained together: they are alike but for their noise."""
    searched_in: str = ""
    """The part in which settings are searched for all that are trained together; by default the part itself."""
    searched_here: tuple[str, ...] = ()
    """Methods whose settings are searched in the part itself all the same."""
    same_as: tuple[str, str] | None = None
    """A study and its part that has the same cells. They and its searches are copied from the same folder."""

    @property
    def folder(self) -> str:
        """Of the part, in the folder of its study."""
        return folder_name(self.name)

    @property
    def is_images(self) -> bool:
        return self.data in IMAGE_SETS

    @property
    def metric(self) -> str:
        """What its rows are judged by: accuracy, or NDCG at the larger K of the paper."""
        return "accuracy" if self.is_images else f"ndcg@{max(find_data_set(self.data).ks)}"

    @property
    def task(self) -> type[Task]:
        return LabelTask if self.is_images else ClickTask

    @property
    def tested(self) -> Tested:
        """What its rows are compared by."""
        return Tested("right" if self.is_images else self.metric, self.metric, self.task.units)

    @property
    def caveat(self) -> str:
        """What is known to be wrong with its data, for all rows alike."""
        return "" if self.is_images or self.protocol != "paper" else find_data_set(self.data).caveat

    @property
    def rules(self) -> tuple[str, ...]:
        """By which its cells are made now."""
        return self.task.rules

    @property
    def row_rules(self) -> dict[str, tuple[str, ...]]:
        """By method, the rules by which its rows are made now, besides those of all rows."""
        rules = {method: self._rules_of(method) for method in self.methods}
        return {method: own for method, own in rules.items() if own}

    def _rules_of(self, method: str) -> tuple[str, ...]:
        trained = str(self.variants.get(method, {}).get("method", method))
        known = trained in METHODS and self.task.name in METHODS.find(trained).tasks
        return (*(METHODS.find(trained).rules if known else ()), *self._searched_rules.get(method, ()))

    @property
    def _searched_rules(self) -> dict[str, tuple[str, ...]]:
        searched = self.searched_here if self.searched_in not in ("", self.name) else ()
        return {method: (f"{method} is searched at every rate",) for method in searched}

    def study(self, root: Path | None, seeds: int, device: str) -> Study:
        """The comparison of this part; data that are not at hand are an error that says so."""
        task, settings = (self._images if self.is_images else self._clicks)(root)
        return Study(
            task,
            methods=self.methods,
            models=self.models,
            seeds=seeds,
            settings={**settings, **self.settings, "device": device},
            variants=self.variants,
            follows=self.follows,
            measurements={name: MEASUREMENTS[task.name][name] for name in self.also},
            row_rules=self._searched_rules,
            timed=COST in self.also,
        )

    def _clicks(self, root: Path | None) -> tuple[Task, dict[str, Any]]:
        benchmark = load_benchmark(find_data_set(self.data), self.protocol, root)  # pyright: ignore
        task = ClickTask.of_benchmark(benchmark, inject=self.level, test_epochs=CURVE in self.also)
        # Whole tables are updated, as on a GPU, wherever it runs.
        return task, {"cold_users": benchmark.cold_users, "updates": "dense"}

    def _images(self, root: Path | None) -> tuple[Task, dict[str, Any]]:
        entry, images = IMAGE_SETS[self.data], _loaded(self.data, root)
        task = LabelTask(
            images.inputs,
            images.labels,
            test=(images.test_inputs, images.test_labels),
            noise=self.level,
            noise_seed=self.noise_seed,
            spaces=dict(self.spaces),
            protocol={"data": self.data, "noise": self.level},
        )
        held = min(0.2, VALID_IMAGES / len(images.labels))
        return task, {"epochs": EPOCHS[self.data], "valid_share": held, "augment": entry.augment}


def folder_name(part: str) -> str:
    return part.replace(" ", "-")


@lru_cache(maxsize=1)
def _loaded(data: str, root: Path | None) -> LabelledImages:
    """Read once for all parts, which then hold the same arrays."""
    return IMAGE_SETS[data].load(root)


@dataclass(frozen=True)
class View:
    """What is shown of a study: a kind of table or figure, of all its parts or some."""

    kind: str
    """table, heat, curves, levels, ratings, agreement or cost."""
    title: str
    parts: tuple[str, ...] = ()
    """Names of parts; none means all."""
    metric: str = ""
    """By default the part's own."""
    paper: str = ""
    """The file of the paper's numbers to show with ours."""


@dataclass(frozen=True)
class Declared:
    """A study."""

    name: str
    title: str
    parts: tuple[Part, ...]
    views: tuple[View, ...]

    def select(self, models: Sequence[str], methods: Sequence[str]) -> Wanted:
        """Which rows are asked for, for machines that share a study; no names mean all."""
        for kind, names in (("models", models), ("methods", methods)):
            known = {one for part in self.parts for one in getattr(part, kind)}
            for name in names:
                if name not in known:
                    raise SettingError(f"Study '{self.name}' has no {kind[:-1]} '{name}': {nearest(name, known)}")
        return lambda model, method: (
            (not model or not models or model in models) and (not methods or method in methods)
        )

    def with_trials(self, trials: int | None) -> Declared:
        """The same with another budget for the parts that are searched."""
        if trials is None:
            return self
        if trials < 1:
            raise SettingError(f"{trials} trials make no search; give trials=1 or more.")
        changed = tuple(replace(part, trials=trials if part.trials else 0) for part in self.parts)
        return replace(self, parts=changed)
