"""The two protocols of a data set: `fair`, the default, and `paper`, the authors' own split files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.clicks import load_clicks, match_pairs, pair_keys
from accord.data.datasets.catalogue import DataSet, Protocol
from accord.data.reading import read_table
from accord.data.splits import three_way
from accord.errors import DataError, SettingError

LIKED = 4
"""Ratings from here on are likes, for the `oracle` row alone."""


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
    if protocol == "fair" and (folder / "ml-100k.inter").is_file():
        return _by_time(entry, folder / "ml-100k.inter")
    return _from_split_files(entry, protocol, folder)


def _by_time(entry: DataSet, raw: Path) -> Benchmark:
    """Each user's rows by time 8:1:1; the rating is looked up for the final test alone."""
    table, _ = read_table(raw)
    clicks = load_clicks(table)
    if len(clicks) != entry.interactions or len(clicks.user_ids) != entry.users:
        raise DataError(f"'{raw}' is not {entry.title}: {len(clicks)} clicks of {len(clicks.user_ids)} users.")
    train, valid, test = three_way(clicks, (0.1, 0.1), seed=0, by="time")
    rows = match_pairs(table, clicks.user_ids, clicks.item_ids)
    order = np.argsort(pair_keys(rows.users, rows.items, len(clicks.item_ids)))
    rating = np.asarray(table["rating"].cast(pa.float64()))[order]
    of = dict(zip(clicks.keys.tolist(), rating.tolist(), strict=True))
    clean_test = test.subset(np.array([of[k] == 5 for k in test.keys.tolist()]))
    liked = train.subset(np.array([of[k] >= LIKED for k in train.keys.tolist()]))
    tables = [_pairs(split.to_table()) for split in (train, valid, clean_test, clicks, liked)]
    rated = tables[0].append_column("rating", pa.array([of[k] for k in train.keys.tolist()]))
    return Benchmark(entry.name, "fair", *tables, ks=entry.ks, ratings=rated)


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
        liked = train.filter(pa.array(rating >= LIKED))
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
