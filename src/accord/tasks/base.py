"""What every task offers to experiments and to the command line, so that these need not know which task it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from accord.estimators.base import Estimator
from accord.estimators.setting_rules import takes
from accord.estimators.settings import searched_space
from accord.methods import METHODS, Space, method_of

FILE = "file"
"""What a protocol calls the file or folder of the data: where these lie makes no other cells."""
ORACLE = "oracle"
"""Normal training on the truly clean rows: a reference that uses knowledge no method has."""


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


def row_name(model: str, method: str) -> str:
    return f"{model} {method}".strip()


@dataclass(frozen=True)
class CellData:
    """What a cell is trained on."""

    sources: list[dict[str, Any]]
    """Keyword arguments of the estimator's `fit`, of every training that the cell takes; mostly of one."""
    noise: Any = None
    """What is known of the noise in it, to judge by and nothing else."""


Measurement = Callable[..., Any]
"""A further measurement of a cell: (estimator, task, the cell's data, the path of its values)."""


@dataclass(frozen=True)
class Task(ABC):
    """Data of a task as a person gave them, and what is known of their truth."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The metric of noisy validation."""
    units: ClassVar[str] = "users"
    """What the clean test has many of: intervals are over these, and over seeds."""
    rules: ClassVar[tuple[str, ...]] = ()
    """What has changed in how cells are made of the same settings and data: older ones are made anew."""
    special_rows: ClassVar[tuple[str, ...]] = ()
    """Rows that are no method, besides the oracle."""

    protocol: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Written into every cell: data set, split sizes, noise and the like."""

    @cached_property
    def shared(self) -> dict[Any, Any]:
        """What several cells are made of, and what was computed of it."""
        return {}

    # -- training ----------------------------------------------------------------------------------------

    @abstractmethod
    def estimator_class(self) -> type[Estimator]:
        """The estimator of the task."""

    def estimator(self, settings: Mapping[str, Any]) -> Any:
        return self.estimator_class()(**settings)

    def check_settings(self, values: dict[str, Any]) -> Any:
        """Settings of a cell, refused in one sentence where they are wrong."""
        return self.estimator_class().check_settings(values)

    @abstractmethod
    def check(self, methods: Sequence[str]) -> None:
        """Refuse rows that these data cannot have."""

    @abstractmethod
    def cell_data(self, method: str, seed: int, settings: Any, cache: dict[Any, Any]) -> CellData:
        """What a cell is trained on; ``cache`` holds what several cells share."""

    def stack_group(self, cell: Cell) -> Any:
        """Cells of one group may be trained as one stack; those of None are trained alone."""
        return ()

    def ready(self, method: str) -> bool:
        """Whether what a row needs is installed."""
        return True

    def trainings_of(self, method: str) -> int:
        """How many trainings a cell of a method takes."""
        return 1

    # -- searching ---------------------------------------------------------------------------------------

    def knows(self, method: str) -> bool:
        """Whether there is such a method for this task."""
        return method in METHODS and self.name in METHODS.find(method).tasks

    def takes(self, model: str, method: str) -> bool:
        """Whether a method trains a model: some learn by gradients, and some models have none."""
        return not self.knows(method) or takes(method, model, self.name)

    def space(self, method: str, model: str = "") -> Space:
        """What is searched for a method and a model; nothing where nothing is trained."""
        return searched_space(self.name, method, model)

    # -- measuring ---------------------------------------------------------------------------------------

    @abstractmethod
    def measured(self, estimators: Sequence[Any], data: CellData, cell: Cell, path: Path) -> dict[str, Any]:
        """What a cell's file says besides the training: metrics, detection. Values of each user or example are
        written to ``path``."""

    @abstractmethod
    def selection(self, estimator: Any) -> str:
        """By what an estimator's epoch was chosen, in words."""

    def uses_knowledge(self, method: str) -> bool:
        """Whether a row uses knowledge that no method has."""
        return method == ORACLE or (self.knows(method) and method_of(method, self.name).uses_clean_labels)

    @abstractmethod
    def tested(self) -> str:
        """The metric of each user or example that rows are compared by."""

    def tested_mean(self) -> str:
        """What a table calls its mean."""
        return self.tested()

    def remarks(self) -> list[str]:
        """What a person should know about a table."""
        return []

    # -- what makes a cell stale -------------------------------------------------------------------------

    @abstractmethod
    def inputs(self) -> list[Any]:
        """Tables and arrays whose change makes a cell stale, as they were read; wherever they came from."""

    @abstractmethod
    def identity_words(self, measurements: Sequence[str]) -> list[str]:
        """More words that distinguish cells."""

    def comparable(self, source: Any) -> Any:
        """An input as it is compared."""
        return source
