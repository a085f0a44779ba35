"""The two protocols of a data set: `fair`, the default, and `paper`, the authors' own split files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.datasets.catalogue import DataSet, Protocol
from accord.data.datasets.rated_logs import Repeats, read_by_time, read_divided
from accord.data.ids import pc
from accord.data.reading import read_table
from accord.errors import DataError, SettingError


@dataclass(frozen=True)
class Benchmark:
    """A data set ready for a comparison; every table has the columns user and item."""

    name: str
    protocol: Protocol
    train: pa.Table
    valid: pa.Table
    test: pa.Table
    """Clean pairs, for the final test and nowhere else."""
    known: pa.Table
    """Pairs whose ids the models know, besides those of the training log."""
    clean_train: pa.Table | None
    """The truly clean training rows, for the `oracle` row alone."""
    ks: tuple[int, ...]
    ratings: pa.Table | None = None
    """Training pairs with their rating, to judge by and nothing else."""
    repeats: Repeats | None = None
    """Rows of a rated log that repeat a pair, where they were counted."""

    @property
    def sizes(self) -> dict[str, int]:
        return {"train": self.train.num_rows, "valid": self.valid.num_rows, "test": self.test.num_rows}

    @property
    def cold_users(self) -> str:
        """`paper` leaves users without a training row to the model."""
        return "model" if self.protocol == "paper" else "popularity"


def load_benchmark(entry: DataSet, protocol: Protocol, root: Path | None = None) -> Benchmark:
    """Read a data set and split it by a protocol."""
    folder = entry.require(root)
    if protocol not in ("fair", "paper"):
        raise SettingError(f"Unknown protocol '{protocol}': choose fair or paper.")
    if protocol not in entry.protocols:
        raise SettingError(f"Data set '{entry.name}' has no split files of the paper's authors; choose fair.")
    if protocol == "fair" and entry.rated and (folder / entry.rated).is_file():
        return _of_ratings(entry, folder / entry.rated)
    return _from_split_files(entry, protocol, folder)


def _of_ratings(entry: DataSet, path: Path) -> Benchmark:
    """A rated log: ratings are looked up for the final test, for the oracle, and to judge by."""
    log = (read_divided if entry.divided else read_by_time)(path)
    rows = log.pairs.num_rows + log.repeats.rows
    users, items = (len(pc.unique(log.pairs[name])) for name in ("user", "item"))
    if (rows, users, items) != (entry.interactions, entry.users, entry.items):
        raise DataError(f"'{path}' is not {entry.title}: {rows} clicks of {users} users on {items} items.")
    return Benchmark(
        entry.name,
        "fair",
        train=log.of("train"),
        valid=log.of("valid"),
        test=log.of("test", entry.clean_from),
        known=log.pairs.select(["user", "item"]),
        clean_train=log.of("train", entry.liked_from),
        ks=entry.ks,
        ratings=log.rated("train"),
        repeats=log.repeats,
    )


def _from_split_files(entry: DataSet, protocol: Protocol, folder: Path) -> Benchmark:
    names = {
        split: file.name
        for file in entry.files
        for split in ("train", "valid", "test")
        if f".{split}." in file.name
    }
    tables = {split: read_table(folder / name)[0] for split, name in names.items()}
    train, valid, test = (_pairs(tables[split]) for split in ("train", "valid", "test"))
    known = pa.concat_tables([train, valid, test])
    rated = tables["train"].num_columns > 2
    liked = ratings = None
    if rated:
        rating = np.asarray(tables["train"].column(2).cast(pa.float64()))
        liked = train.filter(pa.array(rating >= entry.liked_from))
        ratings = train.append_column("rating", pa.array(rating))
    if protocol == "fair":  # a pair belongs to the first split that holds it
        train = _without(train, [])
        valid = _without(valid, [train])
        test = _without(test, [train, valid])
    return Benchmark(entry.name, protocol, train, valid, test, known, liked, entry.ks, ratings)


def _pairs(table: pa.Table) -> pa.Table:
    return pa.table({"user": table.column(0), "item": table.column(1)})


def _without(table: pa.Table, earlier: list[pa.Table]) -> pa.Table:
    """The distinct pairs of a table that are in no earlier one."""
    seen = {pair for other in earlier for pair in _tuples(other)}
    kept = []
    for pair in _tuples(table):
        kept.append(pair not in seen)
        seen.add(pair)
    return table.filter(pa.array(kept))


def _tuples(table: pa.Table) -> list[tuple[Any, Any]]:
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
