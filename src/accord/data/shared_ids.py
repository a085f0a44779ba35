"""Ids that several ranks number together, though none of them holds all: each rank keeps those of its hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import torch

from accord.data.ids import Ids, ids_of
from accord.ranks.group import Ranks
from accord.stored import slices

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
FACTOR, MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Odd numbers that spread hashes."""
AT_ONCE = 1 << 18
"""Texts that are hashed at a time."""


@dataclass(frozen=True)
class ElsewhereIds(Ids):
    """Ids that the first rank holds; here it is known how many there are."""

    count: int = 0

    def __len__(self) -> int:
        return self.count


def numbered(raw: pa.Array, kind: str, where: str, name: str, ranks: Ranks) -> tuple[np.ndarray, Ids]:
    """The row numbers of a rank's distinct values among those of all ranks, in order of first appearance, rank
    after rank; and all ids, on the first rank.

    A value goes to the rank of its hash, which sees who has it first. That one gives it its number.
    """
    values = _of_one_type(raw, kind, where, name, ranks)
    owners = hashes(values) % np.uint64(ranks.size)
    order = np.argsort(owners, kind="stable")
    send = np.bincount(owners.astype(np.int64), minlength=ranks.size).tolist()
    counts = ranks.exchange(torch.tensor(send), [1] * ranks.size, [1] * ranks.size).tolist()
    theirs = exchanged(values.take(pa.array(order)), send, counts, ranks)
    same = np.asarray(pc.dictionary_encode(theirs).indices)
    _, first = np.unique(same, return_index=True)  # what comes is ordered by rank
    is_first = torch.zeros(len(theirs), dtype=torch.uint8)
    is_first[torch.from_numpy(first)] = 1
    new = np.empty(len(values), bool)
    new[order] = ranks.exchange(is_first, counts, send).numpy().astype(bool)
    each = ranks.numbers(int(new.sum()))
    numbers = sum(each[: ranks.rank]) + np.cumsum(new) - 1
    told = ranks.exchange(torch.from_numpy(numbers[order]), send, counts).numpy()
    answers = torch.from_numpy(told[first][same])
    numbers[order] = ranks.exchange(answers, counts, send).numpy()
    own = values.filter(pa.array(new))
    whole = exchanged(own, [len(own)] + [0] * (ranks.size - 1), each if ranks.leads else [0] * ranks.size, ranks)
    return numbers, Ids(whole, kind) if ranks.leads else ElsewhereIds(whole, kind, sum(each))


def _of_one_type(raw: pa.Array, kind: str, where: str, name: str, ranks: Ranks) -> pa.Array:
    """Values as ids: integers, or strings if they are that on any rank."""
    values = ranks.agreed(lambda: ids_of(raw, kind, where, name).values)
    strings = max(ranks.numbers(int(len(raw) > 0 and pa.types.is_string(values.type))))
    if strings and not pa.types.is_string(values.type):
        return pc.cast(raw, pa.string())
    return values if strings or pa.types.is_integer(values.type) else pa.array([], pa.int64())


def exchanged(array: pa.Array, send: Sequence[int], receive: Sequence[int], ranks: Ranks) -> pa.Array:
    """Integers or strings for every rank, one rank after the other, for those that they have for this one."""
    if pa.types.is_integer(array.type):
        return pa.array(ranks.exchange(torch.from_numpy(np.array(array)), send, receive).numpy())
    ends, content = _text_of(array)
    lengths = ranks.exchange(torch.from_numpy(np.diff(ends)), send, receive).numpy()
    bounds = ends[np.cumsum([0, *send])]
    arrived = np.concatenate(([0], np.cumsum(lengths)))
    incoming = np.diff(arrived[np.cumsum([0, *receive])]).tolist()
    text = ranks.exchange(torch.from_numpy(content.copy()), np.diff(bounds).tolist(), incoming).numpy()
    buffers = [None, pa.py_buffer(arrived.astype(np.int64)), pa.py_buffer(text)]
    return pc.cast(pa.Array.from_buffers(pa.large_string(), len(lengths), buffers), pa.string())


def _text_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where strings begin and end among their bytes, and the bytes."""
    _, offsets, content = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    held = np.frombuffer(b"" if content is None else content, np.uint8)
    return ends - ends[0], held[ends[0] : ends[-1]]


def hashes(values: pa.Array) -> np.ndarray:
    """A number of 64 bits for each integer or string, the same on every machine."""
    if pa.types.is_integer(values.type):
        return _mixed(np.array(values).view(np.uint64))
    found = np.empty(len(values), np.uint64)
    for rows in slices(len(values), AT_ONCE):
        ends, content = _text_of(values[rows.start : rows.stop])
        lengths = np.diff(ends)
        powers = np.cumprod(np.full(int(lengths.max(initial=0)), FACTOR))
        place = np.arange(len(content)) - np.repeat(ends[:-1], lengths)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum((content + np.uint64(1)) * powers[place])))
        found[rows] = _mixed(sums[ends[1:]] - sums[ends[:-1]])
    return found


def _mixed(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(32))) * MIXER
    return numbers ^ (numbers >> np.uint64(29))
