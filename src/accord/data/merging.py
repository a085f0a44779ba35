"""Repeated pairs of a log made one: sorted by user and then by item, at once or some users after the other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from accord.data.log_rows import LogRows
from accord.data.marks import mean_weights, one_mark
from accord.stored import AT_ONCE, Growing, blocks, release, scattered

SORTED = AT_ONCE
"""Rows that are sorted at a time; those of one user are never parted."""


def pair_keys(users: np.ndarray, items: np.ndarray, n_items: int) -> np.ndarray:
    keys = np.multiply(users, n_items, dtype=np.int64)
    keys += items
    return keys


def merged(keys: np.ndarray, values: Mapping[str, np.ndarray], n_items: int, where: str) -> dict[str, Any]:
    """What is known of each distinct pair, sorted. Both ``keys``, the pairs, and ``values`` are of rows."""
    keys, order = _sorted(keys)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    counts = np.diff(first, append=len(keys))
    keys = keys[first]
    found: dict[str, Any] = {
        "users": (keys // n_items).astype(np.int32),
        "items": (keys % n_items).astype(np.int32),
        "counts": counts.astype(np.min_scalar_type(counts.max(initial=0))),  # mostly a byte each, of millions
        "first_rows": order[first],
    }
    if "times" in values:
        found["times"] = np.minimum.reduceat(values["times"][order], first)
    if "weights" in values:
        found["weights"] = mean_weights(values["weights"][order], first, counts)
    if "marks" in values:
        found["marks"] = one_mark(values["marks"][order], first, where)
    return found


def merged_in_files(rows: LogRows, n_items: int, where: str) -> dict[str, Any]:
    """The same of rows in files, into files: rows are thrown into buckets of users, and each bucket is sorted."""
    sizes, bucket = _buckets(rows)
    columns = {"users": rows.users, "items": rows.items, **rows.values}
    thrown = scattered(columns, lambda own: bucket[own["users"]], sizes)
    made: dict[str, Growing] = {}
    most = 0
    for first, last in pairwise([0, *sizes.cumsum().tolist()]):
        own = {name: column[first:last] for name, column in thrown.items()}
        keys = pair_keys(own.pop("users"), own.pop("items"), n_items)
        number = own.pop("rows")
        found = merged(keys, own, n_items, where)
        first_rows = number[found["first_rows"]]
        found["first_rows"] = first_rows if rows.rows is None else rows.rows[first_rows]
        most = max(most, int(found["counts"].max(initial=0)))
        found["counts"] = found["counts"].astype(np.int32)
        for name, values in found.items():
            if name not in made:
                made[name] = Growing(values.dtype)
            made[name].append(values)
        release(*thrown.values(), rows.rows)
    result = {name: file.array() for name, file in made.items()}
    return result | {"counts": _narrowed(result["counts"], np.min_scalar_type(most))}


def _buckets(rows: LogRows) -> tuple[np.ndarray, np.ndarray]:
    """How many rows each bucket has, and the bucket of each user."""
    degrees = np.zeros(len(rows.user_ids), np.int64)
    for (users,) in blocks(rows.users):
        degrees += np.bincount(users, minlength=len(degrees))
    ends = degrees.cumsum()
    bucket = (ends - degrees) // SORTED
    _, bucket = np.unique(bucket, return_inverse=True)
    sizes = np.bincount(bucket, degrees).astype(np.int64)
    return sizes, bucket.astype(np.min_scalar_type(len(sizes)))


def _narrowed(values: np.ndarray, dtype: Any) -> np.ndarray:
    """The same numbers in a smaller type."""
    file = Growing(dtype)
    for (some,) in blocks(values):
        file.append(some.astype(dtype))
    return file.array()


def _sorted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in increasing order, and where each was; of equal ones the first comes first.

    It is done in place where it can be: each further array of ten million numbers is 80 MB.
    """
    bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    kind = np.int32 if bits < 32 else np.int64
    keys <<= bits  # one sort of numbers is faster than one of places
    keys |= np.arange(len(keys), dtype=kind)
    keys.sort()
    order = np.empty(len(keys), kind)
    np.bitwise_and(keys, (1 << bits) - 1, out=order, casting="unsafe")
    keys >>= bits
    return keys, order
