"""The cells of a study: one file each while they are made, one table of all when their part is complete.

Several processes and machines may work in the folder of a study. Each cell is written whole to a file of its own.
Where a cell has both a file and a row of the table, the file counts. Packing moves the files of a part into the
table: the new table replaces the old one before the files go, so that whoever looks for the file first
finds the cell.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.data.parquet_files import read_parquet_file
from accord.data.text_arrays import refuse_long_words
from accord.errors import DataError, first_line
from accord.estimators.run_folder import read_json, write_json
from accord.experiments.study import CELLS, Cell
from accord.files import copy_whole, whole_file
from accord.locks import locked
from accord.memory import refuse_too_large
from accord.plain import GROWTH

TABLE, VALUES, LOCK = "cells.parquet", "values.parquet", ".cells.lock"
"""Of all cells of a study; of what they measure of each user or example; held while they are rewritten."""
PLAIN: dict[str, pa.DataType] = {
    **{"model": pa.string(), "method": pa.string(), "seed": pa.int64(), "identity": pa.string()},
    **{"search_budget": pa.string(), "accord": pa.string(), "uses_knowledge": pa.bool_()},
    **{"selection": pa.string(), "seconds": pa.float64(), "epochs": pa.int64(), "inject": pa.float64()},
}
"""Columns with a type of their own. Everything else is JSON, one column for each name; a gap: the cell lacks it."""
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, pa.ArrowException)
ADVICE = "remove it, and the same command makes the cells again"
"""What damaged tables raise, and what to do about it."""
WAIT = 60.0
"""Seconds to wait for another process that packs."""

Key = tuple[str, str, str, int]
"""Part, model, method and seed."""


class _Values(NamedTuple):
    """Of each user or example of a cell; ``file`` is empty, or tells measurements of one cell apart."""

    file: str
    column: str
    values: Any


class StudyCells:
    """The cells of a part of a study: a `CellStore`. They are read from files and from the table of the study."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path / CELLS

    def _key(self, cell: Cell) -> Key:
        return self.path.name, cell.model, cell.method, cell.seed

    def _file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def _values_file(self, cell: Cell, file: str) -> Path:
        return self.folder / ".".join(word for word in (cell.name, file, "parquet") if word)

    def _packed(self, cell: Cell) -> dict[str, Any] | None:
        return _table(self.path.parent).cell(self._key(cell))

    def read(self, cell: Cell) -> dict[str, Any] | None:
        return _read_file(self._file(cell)) or self._packed(cell)

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file(cell), result)

    def values(self, cell: Cell, column: str, file: str = "") -> np.ndarray | None:
        """Of each user or example, from a file next to the cell's, or packed with the same cell."""
        path = self._values_file(cell, file)
        try:
            if path.is_file():
                return np.asarray(read_parquet_file(path, [column], inside=True)[column], float)
        except DataError:  # another process may have packed it
            if path.is_file():
                raise
        return next((one.values for one in self._packed_values(cell) if one[:2] == (file, column)), None)

    def _packed_values(self, cell: Cell) -> list[_Values]:
        unpacked = _read_file(self._file(cell))
        if unpacked is not None and not _is_same(unpacked, self._packed(cell)):
            return []
        return _values(self.path.parent).get(self._key(cell), [])

    def copy_from(self, other: StudyCells, cell: Cell) -> None:
        """The file that says that a cell is finished comes last."""
        result = other.read(cell)
        if result is None:
            return
        values = other._values_file(cell, "")
        if values.is_file():
            copy_whole(values, self._values_file(cell, ""))
        else:
            self._values_file(cell, "").unlink(missing_ok=True)  # of a cell that is replaced
            columns = {one.column: one.values for one in other._packed_values(cell) if not one.file}
            if columns:
                with whole_file(self._values_file(cell, "")) as draft:
                    parquet.write_table(pa.table(columns), draft)
        self.write(cell, result)

    def pack(self, columns: Collection[str]) -> bool:
        """Move all cell files of the part into the tables of the study, with these columns of their values.

        False where another process packs for so long that they were left as they are.
        """
        if not any(self.folder.glob("*.json")):
            return True
        with locked(self.path.parent / LOCK, wait=WAIT, without=False) as alone:
            if alone:
                self._pack(columns)
        return alone

    def _pack(self, columns: Collection[str]) -> None:
        study = self.path.parent
        packed, table, values = list[tuple[Path, Any]](), dict(_table(study).cells()), dict(_values(study))
        for path in sorted(self.folder.glob("*.json")):
            stamp, result = _stamp(path), read_json(path)
            cell = _named_in(path, result)
            if cell is None:
                continue
            key = self._key(cell)
            own = [(one, _stamp(one)) for one in sorted(self.folder.glob(f"{escape(path.stem)}.*parquet"))]
            fresh = [one for file, _ in own for one in _read_values(file, path.stem, columns)]
            stays = values.get(key, []) if _is_same(result, table.get(key)) else []
            merged = {one[:2]: one for one in [*stays, *fresh]}
            values.pop(key, None)
            values |= {key: list(merged.values())} if merged else {}
            table[key] = result
            packed += [*own, (path, stamp)]
        write_tables(study, table, values)
        for path, stamp in packed:
            if _stamp(path) == stamp:  # not rewritten meanwhile
                path.unlink(missing_ok=True)


def _read_file(path: Path) -> dict[str, Any] | None:
    """A cell file, unless another process has just packed it."""
    if not path.is_file():
        return None
    try:
        found = read_json(path)
    except DataError:
        if path.is_file():
            raise
        return None
    return found if isinstance(found, dict) else None  # what is no cell is made again


def _named_in(path: Path, result: Any) -> Cell | None:
    """The cell of a file, where its name is of the same one; other files stay where they are."""
    if isinstance(result, dict) and all(name in result for name in Cell._fields):
        cell = Cell(*(result[name] for name in Cell._fields))
        return cell if cell.name == path.stem else None
    return None


def _is_same(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    """Whether they are of the same training; the words about its search may differ."""
    if other is None:
        return False
    return {**one, "search_budget": ""} == {**other, "search_budget": ""}


def _read_values(path: Path, stem: str, columns: Collection[str]) -> list[_Values]:
    file = path.name.removeprefix(stem).removesuffix("parquet").strip(".")
    table = read_parquet_file(path, inside=True)
    return [_Values(file, name, np.asarray(table[name], float)) for name in table.column_names if name in columns]


# -- the tables ----------------------------------------------------------------------------------------


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """A table with other columns, or other values, than those that are written here is one sentence."""
    try:
        yield
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(f"'{path}' holds no cells of a study ({first_line(error)}); {ADVICE}.") from error


def _keys(table: pa.Table, path: Path, *more: str) -> Iterator[tuple[Any, ...]]:
    """The key of each row, and further columns of words."""
    kinds = {"part": pa.string(), **PLAIN}
    columns = {name: table[name].cast(kinds.get(name, pa.string())) for name in ("part", *Cell._fields, *more)}
    for name, column in columns.items():
        if column.null_count:
            raise ValueError(f"'{name}' has gaps")
        refuse_long_words(column, f"column '{name}' of '{path}'")
    return zip(*(column.to_pylist() for column in columns.values()), strict=True)


class _Table:
    """A table of cells, each decoded when it is asked for."""

    def __init__(self, table: pa.Table, path: Path) -> None:
        self._path = path
        with _damage_named(path):
            self._columns = {
                name: table[name].cast(PLAIN.get(name, table[name].type)) for name in table.column_names
            }
            self._rows: dict[Key, int] = {key: row for row, key in enumerate(_keys(table, path))}

    def cell(self, key: Key) -> dict[str, Any] | None:
        row = self._rows.get(key)
        if row is None:
            return None
        with _damage_named(self._path):
            said = {name: column[row].as_py() for name, column in self._columns.items() if name != "part"}
            return {
                name: value if name in PLAIN else self._decoded(value)
                for name, value in said.items()
                if value is not None
            }

    def _decoded(self, text: str) -> Any:
        refuse_too_large(GROWTH["json"] * len(text), f"A cell of '{self._path}'", ADVICE)
        return json.loads(text)

    def cells(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        for key in self._rows:
            cell = self.cell(key)
            assert cell is not None
            yield key, cell


def parts_of(study: Path) -> set[str]:
    """Folders of parts that have a packed cell."""
    return {key[0] for key in _table(study)._rows}


def write_tables(study: Path, cells: dict[Key, dict[str, Any]], values: dict[Key, list[_Values]]) -> None:
    """All cells of a study, in order; the same bytes for the same cells. The table of cells comes last."""
    if not values:
        (study / VALUES).unlink(missing_ok=True)
    else:
        own = [(key, one) for key in sorted(values) for one in sorted(values[key], key=lambda one: one[:2])]
        columns = dict(zip(("part", *Cell._fields), zip(*(key for key, _ in own), strict=True), strict=True))
        columns |= {name: [getattr(one, name) for _, one in own] for name in ("file", "column")}
        lists = pa.array([one.values for _, one in own], pa.list_(pa.float64()))
        _write(study / VALUES, pa.table({**columns, "values": lists}))
    keys = sorted(cells)
    more = sorted({name for cell in cells.values() for name in cell if name not in PLAIN})
    table: dict[str, Any] = {"part": pa.array([key[0] for key in keys], pa.string())}
    for name, kind in PLAIN.items():
        table[name] = pa.array([cells[key].get(name) for key in keys], kind)
    for name in more:
        said = [_json(cells[key][name]) if name in cells[key] else None for key in keys]
        table[name] = pa.array(said, pa.large_string())
    _write(study / TABLE, pa.table(table))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _write(path: Path, table: pa.Table) -> None:
    with whole_file(path, flush=True) as draft:
        parquet.write_table(table, draft, compression="zstd", compression_level=19)


def _table(study: Path) -> _Table:
    return _load(study / TABLE, _stamp(study / TABLE))


def _values(study: Path) -> dict[Key, list[_Values]]:
    return _load_values(study / VALUES, _stamp(study / VALUES))


@lru_cache(maxsize=4)
def _load(path: Path, stamp: Any) -> _Table:
    kinds = {"part": pa.string(), **PLAIN}
    empty = pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    return _Table(read_parquet_file(path, inside=True) if stamp else empty, path)


@lru_cache(maxsize=4)
def _load_values(path: Path, stamp: Any) -> dict[Key, list[_Values]]:
    found: dict[Key, list[_Values]] = {}
    if stamp:
        table = read_parquet_file(path, inside=True)
        with _damage_named(path):
            lists = table["values"].cast(pa.list_(pa.float64()))
            for (*key, file, column), values in zip(_keys(table, path, "file", "column"), lists, strict=True):
                found.setdefault(tuple(key), []).append(_Values(file, column, values.values.to_numpy()))
    return found


def _stamp(path: Path) -> Any:
    """Changes when the file does; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
