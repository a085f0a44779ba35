"""Ids of a log that is read part after part: each gets its row number as soon as it is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.ids import VIEWS, Ids, are_missing, ids_of, plain_values, readable, refuse_missing
from accord.errors import DataError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""


class Coder:
    """Row numbers of a column's values, in order of first appearance over all parts.

    What is held are the distinct values. A part is looked up among them by hashing both, so that parts should be at
    least as long as there are values: then every row costs the same.
    """

    def __init__(self, kind: str, where: str, name: str, *, from_text: bool = False) -> None:
        self.kind, self.where, self.name, self.from_text = kind, where, name, from_text
        self.values: pa.Array | None = None
        self._rows = 0
        self._missing, self._first_missing = 0, 0

    def __len__(self) -> int:
        return 0 if self.values is None else len(self.values)

    @property
    def missing(self) -> tuple[int, int]:
        """How many values were missing so far, and the row of the first one."""
        return self._missing, self._first_missing

    def plain(self, column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, np.ndarray]:
        """Each row's own value, and where there is one."""
        if pa.types.is_dictionary(column.type):
            column = plain_values(column)
        column = readable(column, self.kind, self.where, self.name)
        column = pc.cast(column, VIEWS.get(column.type, column.type))
        present = ~np.asarray(are_missing(column))
        absent = len(present) - int(present.sum())
        if absent and not self._missing:
            self._first_missing = self._rows + int((~present).argmax())
        self._missing, self._rows = self._missing + absent, self._rows + len(present)
        return column, present

    def codes(self, column: pa.ChunkedArray) -> np.ndarray:
        """The row numbers of plain values, none of which is missing."""
        before = [] if self.values is None else [self.values]
        if before and before[0].type != column.type:
            raise DataError(
                f"The parts of {self.where} have several types in column '{self.name}'; give them one type."
            )
        encoded = pc.dictionary_encode(pa.chunked_array([*before, *column.chunks], column.type))
        if not encoded.num_chunks:
            return np.empty(0, np.int32)
        self.values = encoded.chunk(encoded.num_chunks - 1).dictionary
        own = [np.asarray(chunk.indices) for chunk in encoded.chunks[len(before) :]]
        return np.concatenate(own).astype(np.int32, copy=False) if own else np.empty(0, np.int32)

    def ids(self, drop: bool) -> Ids:
        """All values as ids; missing ones are an error unless they were to be dropped."""
        if not drop:
            refuse_missing(self._missing, self._first_missing, self.kind, self.where, self.name)
        values = pa.array([], pa.string()) if self.values is None else self.values
        return ids_of(values, self.kind, self.where, self.name, from_text=self.from_text)
