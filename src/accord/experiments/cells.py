"""Where the finished cells of a comparison are kept: by default in a folder, each a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from accord.data.parquet_files import read_parquet_file
from accord.estimators.run_folder import read_json, write_json
from accord.experiments.study import CELLS
from accord.files import copy_whole
from accord.tasks.base import Cell


class CellStore(Protocol):
    """The finished cells of one comparison."""

    @property
    def folder(self) -> Path:
        """Where trainings write what they measure of each user or example."""
        ...

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A finished cell; None where there is none."""
        ...

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a finished cell."""
        ...

    def values(self, cell: Cell, column: str) -> np.ndarray | None:
        """A metric of each user or example of a cell; None where it is not at hand."""
        ...

    def copy_from(self, other: Any, cell: Cell) -> None:
        """Copy a cell, with its values, out of another store of the same kind."""
        ...


class CellFiles:
    """Two files a cell, in the folder `cells` of a comparison: JSON, and Parquet for its values."""

    def __init__(self, out: Path) -> None:
        self.folder = out / CELLS

    def read(self, cell: Cell) -> dict[str, Any] | None:
        path = self.folder / f"{cell.name}.json"
        return read_json(path) if path.is_file() else None

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        write_json(self.folder / f"{cell.name}.json", result)

    def values(self, cell: Cell, column: str) -> np.ndarray | None:
        path = self.folder / f"{cell.name}.parquet"
        if not path.is_file():
            return None
        return np.asarray(read_parquet_file(path, [column], inside=True)[column], float)

    def copy_from(self, other: CellFiles, cell: Cell) -> None:
        for suffix in (".parquet", ".json"):  # the file that says a cell is finished comes last
            path = other.folder / f"{cell.name}{suffix}"
            if path.is_file():
                copy_whole(path, self.folder / path.name)
