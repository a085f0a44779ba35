"""A log in Parquet files that several ranks read together: each some groups of rows, of which the clicks then go to
the ranks of their users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import torch

from accord.data.clicks import Clicks
from accord.data.coding import Coder
from accord.data.ids import VIEWS, Ids, refuse_missing
from accord.data.log_rows import Origin, Scanned, hash_of_ids, no_clicks, readers, scan
from accord.data.merging import merged, pair_keys
from accord.data.parquet_parts import ParquetParts, Share
from accord.data.reading import OpenLog
from accord.data.shared_ids import numbered
from accord.ranks.group import Ranks
from accord.stored import AT_ONCE, slices, trim

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""


def in_groups(log: OpenLog) -> bool:
    """Whether several ranks can read a log together: Parquet files, of which pairs and times alone are read."""
    return isinstance(log.table, ParquetParts) and log.columns.weight is None and log.columns.trusted is None


def description(log: OpenLog) -> str:
    """What ranks that read the same files know of them before they read a row."""
    table = log.table
    sizes = [path.stat().st_size for path in table.files]
    return json.dumps([log.columns.names, table.schema.to_string(), table.rows, sizes])


def read_own_clicks(log: OpenLog, drop: bool, ranks: Ranks) -> Clicks | None:
    """The clicks of this rank's users, with the same row numbers as if one process had read the log.

    Nothing where the times of some part do not tell by themselves what they are.
    """
    share: Share = ranks.agreed(lambda: log.table.shares(ranks.size)[ranks.rank])
    found = ranks.agreed(lambda: scan(log, False, share))
    if any(ranks.numbers(int(any(one.unlike for one in found.others.values())))):
        return None
    times, time_type = ranks.agreed(lambda: _times(found, log))
    if len(set(ranks.texts("" if times is None else f"{times.dtype} {time_type}"))) > 1:
        return None
    rows, clicks = (sum(ranks.numbers(count)) for count in (found.total, len(found.users)))
    ids: list[tuple[np.ndarray, Ids]] = []
    for coder in (found.of_users, found.of_items):
        if not drop:
            _refuse_missing(coder, share, ranks)
        if not clicks:
            raise no_clicks(log.where)
        ids.append(numbered(_values(coder, log), coder.kind, log.where, coder.name, ranks))
        coder.values = None
    (users, user_ids), (items, item_ids) = ids
    trim()  # ids were looked up in large tables
    origin = Origin(rows, rows - clicks, _fingerprint(found, share, (users, items), (user_ids, item_ids), ranks))
    columns = [users, items] + ([] if times is None else [times])
    arrived = _dealt(columns, found, share, ranks)
    own = [np.concatenate([some[k] for some in arrived]) for k in range(len(columns) + 1)]
    del arrived
    order = np.argsort(own[-1], kind="stable")
    own = [one[order] for one in own]
    values = {} if times is None else {"times": own[2]}
    made = merged(pair_keys(own[0], own[1], len(item_ids)), values, len(item_ids), log.where)
    small = rows == clicks and rows < 1 << 31
    made["first_rows"] = own[-1][made["first_rows"]].astype(np.int32 if small else np.int64)
    most = max(ranks.numbers(int(made["counts"].max(initial=0))))
    made["counts"] = made["counts"].astype(np.min_scalar_type(most))
    kept: dict[str, Any] = {"columns": log.columns, "time_type": time_type, "origin": origin}
    return Clicks(user_ids=user_ids, item_ids=item_ids, **kept, **made)


def _refuse_missing(coder: Coder, share: Share, ranks: Ranks) -> None:
    count, first = coder.missing
    each = list(zip(ranks.numbers(count), ranks.numbers(share.first + first), strict=True))
    where = min((row for count, row in each if count), default=0)
    refuse_missing(sum(count for count, _ in each), where, coder.kind, coder.where, coder.name)


def _values(coder: Coder, log: OpenLog) -> pa.Array:
    """The distinct values that a rank has read; of the column's type where it has read none."""
    if coder.values is not None:
        return coder.values
    kind = log.table.schema.field(coder.name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.array([], pa.int64() if pa.types.is_floating(kind) else VIEWS.get(kind, kind))


def _times(found: Scanned, log: OpenLog) -> tuple[np.ndarray | None, pa.DataType | None]:
    """The times of the rows that were read, and their type; the same type on a rank that has no rows."""
    if "times" not in found.others:
        return None, None
    if len(found.users):
        return found.others["times"].array(log, None)
    name, read = readers(log)["times"]
    return read(pa.chunked_array([], log.table.schema.field(name).type))


def _rounds(found: Scanned, share: Share, ranks: Ranks) -> Iterator[tuple[slice, np.ndarray]]:
    """Some rows of this rank after the other, and their numbers in the log; as often on every rank."""
    count = len(found.users)
    for k in range(max(ranks.numbers(-(-count // AT_ONCE)))):
        own = slice(min(count, k * AT_ONCE), min(count, (k + 1) * AT_ONCE))
        rows = np.arange(own.start, own.stop) if found.rows is None else np.asarray(found.rows[own])
        yield own, share.first + rows


def _dealt(columns: list[np.ndarray], found: Scanned, share: Share, ranks: Ranks) -> list[list[np.ndarray]]:
    """Users, items, times if there are any, and row numbers of the clicks of this rank's users, in pieces."""
    pieces = []
    for own, rows in _rounds(found, share, ranks):
        users, items = columns[0][found.users[own]], columns[1][found.items[own]]
        sent = [users.astype(np.int32), items.astype(np.int32), *(one[own] for one in columns[2:]), rows]
        to = torch.from_numpy(users % ranks.size)
        pieces.append([one.numpy() for one in ranks.dealt([torch.from_numpy(np.array(one)) for one in sent], to)])
    return pieces


def _fingerprint(
    found: Scanned, share: Share, numbers: tuple[np.ndarray, ...], ids: tuple[Ids, Ids], ranks: Ranks
) -> str:
    """The fingerprint of the whole log, for which all row numbers pass through the first rank."""
    made = hash_of_ids(*ids)
    dropped = any(ranks.numbers(int(found.rows is not None)))
    counts = ranks.numbers(len(found.users))

    def column(k: int, own: slice) -> np.ndarray:
        if k < 2:
            return numbers[k][(found.users, found.items)[k][own]].astype(np.int32)
        return share.first + (np.arange(own.start, own.stop) if found.rows is None else found.rows[own])

    for k in range(3 if dropped else 2):
        for rank, count in enumerate(counts):
            for rows in slices(count):
                own = column(k, rows if rank == ranks.rank else slice(0, 0))
                for part in ranks.at_first(torch.from_numpy(np.ascontiguousarray(own))):
                    made.update(part.numpy().data)
    return ranks.texts(made.hexdigest() if ranks.leads else "")[0]


def places_of(users: np.ndarray, n_users: int, ranks: Ranks) -> tuple[np.ndarray, int]:
    """The place of each click of this rank among those of all ranks, sorted by user, and how many these are."""
    most, size = -(-n_users // ranks.size), ranks.size
    own = np.bincount(users // size, minlength=most)
    all_of = ranks.each(torch.from_numpy(own)).T.flatten()  # user i is in row i div N of rank i mod N
    starts = (all_of.cumsum(0) - all_of)[ranks.rank :: size].numpy()
    shift = starts - (np.cumsum(own) - own)
    return np.repeat(shift, own) + np.arange(len(users)), int(all_of.sum())
