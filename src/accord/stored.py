"""Arrays in files, for logs that are larger than memory.

A file has no name: it is gone when nobody uses its array any more, whatever ends the process. It lies in the
folder for temporary files (the variable TMPDIR). An array is mapped into memory: the system reads the pages that
are looked at. `release` gives pages back that are not needed for now, so that they take no memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet, finalize

import numpy as np

from accord.errors import DataError
from accord.memory import free_disk, in_bytes

AT_ONCE = 1 << 22
"""Rows that are held at a time."""
_MAPS: WeakSet[mmap.mmap] = WeakSet()
"""What lies in files and is in use."""


def stored(count: int, dtype: Any) -> np.ndarray:
    """An array of zeros in a file."""
    kind = np.dtype(dtype)
    file = _new_file()
    with file:
        try:
            if count:
                os.posix_fallocate(file.fileno(), 0, count * kind.itemsize)  # a full disk is found out now
        except OSError as error:
            raise _no_room(count * kind.itemsize) from error
        return _mapped(file, kind, count)


def like(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array of zeros, as long as another, in a file where that one is."""
    return stored(len(array), dtype) if is_stored(array) else np.zeros(len(array), dtype)


def is_stored(array: Any) -> bool:
    return isinstance(array, np.memmap)


def release(*arrays: np.ndarray | None) -> None:
    """Give the pages of arrays in files back; what was written stays."""
    for array in arrays:
        mapped = getattr(array, "_mmap", None)
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def release_all() -> None:
    """Give the pages of all arrays in files back."""
    for mapped in list(_MAPS):
        mapped.madvise(mmap.MADV_DONTNEED)


def trim() -> None:
    """Give memory back that was freed and is kept for later: by Arrow, and by the C library."""
    import pyarrow as pa

    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()


def slices(count: int, size: int | None = None) -> Iterator[slice]:
    """Some rows after the other."""
    size = size or AT_ONCE
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def blocks(*arrays: np.ndarray, size: int | None = None) -> Iterator[tuple[np.ndarray, ...]]:
    """Some rows of arrays of one length at a time; pages that were read are given back."""
    for rows in slices(len(arrays[0]), size):
        yield tuple(array[rows] for array in arrays)
        release(*arrays)


def bytes_of(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, which are not copied where they lie in one piece; of a file, some rows at a time."""
    for (some,) in blocks(array) if is_stored(array) else [(array,)]:
        yield np.ascontiguousarray(some).reshape(-1).view(np.uint8).data


def slices_of_users(users: np.ndarray, size: int | None = None) -> Iterator[slice]:
    """Clicks that are sorted by user, some whole users after the other; all at once where they are in memory."""
    start, count, size = 0, len(users), size or AT_ONCE
    while start < count:
        stop = min(count, start + size) if is_stored(users) else count
        if stop < count:
            first = int(np.searchsorted(users[start:stop], users[stop]))
            stop = start + first if first else int(np.searchsorted(users, users[stop], side="right"))
        yield slice(start, stop)
        start = stop


def where_true(values: np.ndarray, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """True where values meet a condition; in a file where they are."""
    mask = like(values, bool)
    for rows in slices(len(values)):
        mask[rows] = of(values[rows])
        release(values, mask)
    return mask


def tally(values: np.ndarray, count: int) -> list[int]:
    """How often each of the first ``count`` whole numbers is in an array."""
    found = np.zeros(count, np.int64)
    for (some,) in blocks(values):
        found += np.bincount(some, minlength=count)
    return found.tolist()


class Growing:
    """An array in a file that is written from its beginning to its end."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.count = np.dtype(dtype), 0
        self._file = _new_file()
        finalize(self, self._file.close)

    def append(self, values: np.ndarray) -> None:
        try:
            self._file.write(np.ascontiguousarray(values, self.dtype).data)
        except OSError as error:
            raise _no_room(values.size * self.dtype.itemsize) from error
        self.count += len(values)

    def array(self) -> np.ndarray:
        """The whole array; nothing can be added any more."""
        try:
            self._file.flush()
        except OSError as error:
            raise _no_room(0) from error
        with self._file:
            return _mapped(self._file, self.dtype, self.count)


def chosen(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The values at which a mask is true (or at increasing positions); in a file where they are."""
    if not is_stored(values) or rows.dtype != bool:
        return values[rows]
    if all(bool(some.all()) for (some,) in blocks(rows)):
        return values
    file = Growing(values.dtype)
    for own, some in blocks(values, rows):
        file.append(own[np.asarray(some)])
    return file.array()


class Positions:
    """Positions all over arrays, whose values are wanted in this order."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    @cached_property
    def _ascending(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.rows)
        return order, self.rows[order]

    def of(self, values: np.ndarray) -> np.ndarray:
        """The values there; a file is gone through from its beginning to its end, a stretch after the other."""
        if not is_stored(values) or len(values) <= AT_ONCE:
            found = values[self.rows]
            release(values)
            return found
        order, rows = self._ascending
        found = np.empty(len(rows), values.dtype)
        for stretch in slices(len(values)):
            first, last = np.searchsorted(rows, (stretch.start, stretch.stop))
            if first < last:
                found[order[first:last]] = values[rows[first:last]]
                release(values)
        return found


def scattered(
    columns: Mapping[str, np.ndarray], bucket: Callable[[Mapping[str, np.ndarray]], np.ndarray], sizes: np.ndarray
) -> dict[str, np.ndarray]:
    """Columns in files, bucket after bucket, and the ``rows`` they come from; within a bucket these increase.

    ``bucket`` says where each of some rows belongs, and ``sizes`` how many belong to each.
    """
    count = int(sizes.sum())
    number = np.int32 if count < 1 << 31 else np.int64
    thrown = {name: stored(count, column.dtype) for name, column in columns.items()}
    thrown["rows"] = stored(count, number)
    filled, done = sizes.cumsum() - sizes, 0
    for parts in blocks(*columns.values()):
        own = dict(zip(columns, parts, strict=True))
        where = bucket(own)
        own["rows"] = np.arange(done, done + len(where), dtype=number)
        done += len(where)
        order = np.argsort(where, kind="stable")
        here = np.bincount(where, minlength=len(sizes))
        for name, values in own.items():
            values, start = values[order], 0
            for k in np.flatnonzero(here):
                thrown[name][filled[k] : filled[k] + here[k]] = values[start : start + here[k]]
                start += here[k]
        filled += here
        release(*thrown.values())
    return thrown


def _new_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="accord-")
    except OSError as error:
        place = tempfile.gettempdir()
        raise DataError(
            f"No file can be made in '{place}' ({error.strerror}); set TMPDIR to a folder on a disk with room."
        ) from error


def _mapped(file: IO[bytes], dtype: np.dtype, count: int) -> np.ndarray:
    if not count:
        return np.empty(0, dtype)
    array = np.memmap(file, dtype, "r+", shape=(count,))
    _MAPS.add(array._mmap)  # pyright: ignore[reportAttributeAccessIssue]
    return array


def _no_room(need: int) -> DataError:
    free, place = free_disk(Path(tempfile.gettempdir()))
    return DataError(
        f"The log is larger than memory and is kept in files, but '{place}' has {in_bytes(free)} free, and "
        f"the next file needs {in_bytes(need)}; make room, or set TMPDIR to a folder on a disk with more."
    )
