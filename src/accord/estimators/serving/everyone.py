"""Lists for every user: block by block, or into a Parquet file that is resumed where it stopped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from accord.data.parquet_files import parquet_facts, read_parquet_file
from accord.errors import DataError, SettingError
from accord.estimators.export.forms import vectors_of
from accord.estimators.recommender_serving import scorer_of
from accord.estimators.serving.lists import Wanted, best_lists, block_of
from accord.estimators.serving.products import LEAST, Products
from accord.evaluation.ranking import Scorer
from accord.files import behind_links, remove_files, whole_file, write_whole
from accord.locks import locked, owner_of
from accord.plain import read_json, refuse_links
from accord.stored import bytes_of

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

ROWS = 1 << 20
"""Rows of a part, which is one row group of the file: so much is lost at most when a call is killed."""
SUFFIX, TASK, LOCK = ".parts", "task.json", "lock"
PART = re.compile(r"part-\d{6}\.parquet")
OWN = re.compile(rf"{PART.pattern}|task\.json")
DRAFTS = re.compile(rf"\.({OWN.pattern})\..+\.tmp")
IDENTITY = b"accord.lists"
"""Under which a finished file says what it holds."""
Told = Callable[[int, int], None]
"""Is told how many users are done, and of how many."""


class AllLists:
    """The lists of all users, or of one rank's share of them. A loop over it gives tables, block by block."""

    def __init__(self, rec: Recommender, wanted: Wanted, rank: int = 0, world: int = 1) -> None:
        if not 0 <= rank < world:
            raise SettingError(f"Rank {rank} of {world} is none: ranks are counted from 0.")
        self.rec, self.wanted, self.rank, self.world = rec, wanted, rank, world
        count = len(rec.user_ids_)
        self.first, self.last = count * rank // world, count * (rank + 1) // world

    def __len__(self) -> int:
        """How many users there are lists for."""
        return self.last - self.first

    def __iter__(self) -> Iterator[Any]:
        return (self.rec._shown(table) for _, table in self._blocks(self.first, self.last))

    def to_table(self) -> Any:
        """All lists as one table, for as many users as fit into memory: user, rank, item, score."""
        parts = [table for _, table in self._blocks(self.first, self.last)]
        return self.rec._shown(pa.concat_tables(parts) if parts else self._empty())

    def write(self, path: str | Path, callback: Told = lambda done, of: None) -> Path:
        """Write the lists into a Parquet file, which is whole or not there; of several ranks, a file in a folder.

        What is done so far is kept in a folder next to the file. A call that was killed goes on there when it is
        given again; parts of another model or of other settings are made anew. A file that was finished with the
        same model and settings stays as it is.
        """
        place = behind_links(Path(path))
        if self.world > 1:
            if place.exists() and not place.is_dir():
                raise DataError(f"'{place}' is a file; {self.world} processes write into a folder, so name one.")
            place = place / f"recs-{self.rank:05d}-of-{self.world:05d}.parquet"
        elif place.exists() and not place.is_file():
            raise DataError(f"'{place}' is no plain file; name a file that ends with .parquet.")
        identity = self.identity()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if parquet_facts(place).get(IDENTITY) == identity.encode():
                callback(len(self), len(self))
            else:
                _Writing(self, place, identity).run(callback)
        except OSError as error:
            raise DataError(f"'{place}' cannot be written: {error.strerror or error}.") from error
        return place

    def identity(self) -> str:
        """What two calls have in common that write the same lists: model, clicks, ids and what is asked for."""
        rec, made = self.rec, hashlib.blake2b(digest_size=16)
        asked = [self.wanted.k, self.wanted.exclude_seen, self.rank, self.world, rec.settings.cold_users, ROWS]
        made.update(json.dumps(asked).encode())
        for ids in (rec.user_ids_, rec.item_ids_):
            for buffer in ids.values.buffers()[1:]:
                made.update(b"" if buffer is None else memoryview(buffer))
        arrays = [rec.clicks_.users, rec.clicks_.items, rec.part_]
        arrays += [] if self.wanted.items is None else [self.wanted.items]
        tensors = [one for _, network in sorted(rec.networks_.items()) for one in network.state_dict().values()]
        first = torch.arange(min(2, len(rec.user_ids_)))
        with torch.no_grad():  # a model that came fitted may have no weights
            tensors.append(rec._target.scores(first))
        for one in [*arrays, *(tensor.detach().cpu().numpy() for tensor in tensors)]:
            for some in bytes_of(one):
                made.update(some)
        return made.hexdigest()

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, pa.Table]]:
        rec = self.rec
        seen = rec._seen() if self.wanted.exclude_seen else None
        users = torch.arange(first, last)
        scorer = self._scorer()
        for done, found in best_lists(scorer, users, len(rec.item_ids_), self.wanted, seen):
            yield done, found.table(rec.user_ids_.values[first:last], rec.item_ids_)

    def _scorer(self) -> Scorer | Products:
        """Products of vectors, where the model has these and the catalogue is large; else its scores."""
        vectors = vectors_of(self.rec) if len(self.rec.item_ids_) >= LEAST else None
        if vectors is not None and (products := Products(*vectors)).worth(self.wanted.k):
            return products
        return scorer_of(self.rec, self.rec._training())

    def _empty(self) -> pa.Table:
        user, item = self.rec.user_ids_.values.type, self.rec.item_ids_.values.type
        return pa.schema({"user": user, "rank": pa.int64(), "item": item, "score": pa.float32()}).empty_table()


class _Writing:
    """One file that is written, and the folder of its parts."""

    def __init__(self, lists: AllLists, place: Path, identity: str) -> None:
        self.lists, self.place, self.identity = lists, place, identity
        self.folder = place.with_name(place.name + SUFFIX)
        per_block = block_of(len(lists.rec.item_ids_))
        self.users = per_block * max(1, ROWS // (per_block * lists.wanted.k))

    def run(self, callback: Told) -> None:
        self._refuse_strange()
        self.folder.mkdir(exist_ok=True)
        with locked(self.folder / LOCK) as ours:
            if not ours:
                owner = owner_of(self.folder / LOCK) or "another process"
                raise DataError(f"'{self.place}' is being written by {owner}; wait, or name another file.")
            self._refuse_strange()
            if self._task() != self.identity:
                remove_files(self.folder, OWN)
                write_whole(self.folder / TASK, json.dumps({"lists": self.identity}) + "\n")
            starts = range(self.lists.first, self.lists.last, self.users)
            parts = [self.folder / f"part-{number:06d}.parquet" for number in range(len(starts))]
            for first, part in zip(starts, parts, strict=True):
                self._make(part, first, callback)
            self._join(parts)
            remove_files(self.folder, OWN)
            (self.folder / LOCK).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _make(self, part: Path, first: int, callback: Told) -> None:
        """One part, unless it is there."""
        lists = self.lists
        last = min(first + self.users, lists.last)
        if parquet_facts(part, inside=True).get(IDENTITY) == f"{self.identity} {first}".encode():
            return callback(last - lists.first, len(lists))
        tables = []
        for done, table in lists._blocks(first, last):
            tables.append(table)
            callback(first - lists.first + done, len(lists))
        marked = pa.concat_tables(tables).replace_schema_metadata({IDENTITY: f"{self.identity} {first}"})
        with whole_file(part) as draft:
            parquet.write_table(marked, draft)

    def _join(self, parts: list[Path]) -> None:
        schema = self.lists._empty().schema.with_metadata({IDENTITY: self.identity})
        with whole_file(self.place) as draft, parquet.ParquetWriter(draft, schema) as file:
            for part in parts:
                file.write_table(read_parquet_file(part, inside=True).replace_schema_metadata(schema.metadata))

    def _task(self) -> str | None:
        """What the parts in the folder are of."""
        try:
            stored = read_json(self.folder / TASK)
        except DataError:
            return None
        return stored.get("lists") if isinstance(stored, dict) else None

    def _refuse_strange(self) -> None:
        """A folder that is not one of parts is neither written to nor removed."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise DataError(f"'{self.folder}' is no folder of parts; move it away or name another file.")
        if not self.folder.is_dir():
            return
        refuse_links(self.folder)
        for path in self.folder.iterdir():
            if not OWN.fullmatch(path.name) and path.name != LOCK and not DRAFTS.fullmatch(path.name):
                raise DataError(
                    f"'{self.folder}' holds '{path.name}', which is no part of these lists, so it is left alone; "
                    "move it away or name another file."
                )
