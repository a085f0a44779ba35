"""Where the finished cells of a comparison are kept: by default in a folder, each a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from accord.data.parquet_files import is_whole, read_parquet_file
from accord.errors import DataError
from accord.estimators.run_folder import write_json
from accord.experiments.stored import read_stored
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


def read_values(path: Path, column: str) -> np.ndarray:
    """A metric of each user or example."""
    try:
        found = read_parquet_file(path, [column], inside=True)[column]
        values = np.asarray(found.cast(pa.float64()), float)
    except (pa.ArrowException, DataError) as error:
        raise DataError(
            f"'{path}' does not hold {column}; remove it and the cell beside it to make it again."
        ) from error
    if found.null_count or not len(values):
        raise DataError(f"'{path}' has gaps; remove it and the cell beside it to make it again.")
    return values


class CellFiles:
    """Two files a cell, in the folder `cells` of a comparison: JSON, and Parquet for its values."""

    def __init__(self, out: Path) -> None:
        self.folder = out / CELLS

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A cell that is damaged, or whose values are, is made again."""
        found = read_stored(self.folder / f"{cell.name}.json", "cell")
        return found if is_whole(self.folder / f"{cell.name}.parquet") else None

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        write_json(self.folder / f"{cell.name}.json", result)

    def values(self, cell: Cell, column: str) -> np.ndarray | None:
        path = self.folder / f"{cell.name}.parquet"
        return read_values(path, column) if path.is_file() else None

    def copy_from(self, other: CellFiles, cell: Cell) -> None:
        for suffix in (".parquet", ".json"):  # the file that says a cell is finished comes last
            path = other.folder / f"{cell.name}{suffix}"
            if path.is_file():
                copy_whole(path, self.folder / path.name)
