"""A table of any columns as one array of numbers: what was learned of each column, kept as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.column_encoders import KINDS, ONE_HOT, Categories, Dates, Encoder, Numbers, Texts
from accord.data.column_values import is_text, kind_of, numbers, plain, words
from accord.data.columns import listed
from accord.data.ids import pc
from accord.errors import DataError
from accord.memory import refuse_too_large

ID_NAME = re.compile(r"(?i:(.*[ _.-])?(id|ids|uuid|guid|index|key|row)|unnamed: 0|rownames?|)|.*[a-z]I[Dd]")
"""Names that columns of ids have."""
CODE = r"^[A-Za-z0-9_.:@/+#{}-]{1,64}$"
"""Words that may be ids."""
FEWEST = 20
"""Rows by which a column of ids can be told from one of few distinct values."""
ID_SHARE = 0.95
"""Share of distinct values from which a column with the name of an id is one."""


class WrongColumnError(DataError, TypeError):
    """A column that holds something else than in training."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a training table, and how each becomes numbers."""

    names: list[str]
    """All columns, in order."""
    encoders: list[Encoder]
    """Of those that are learned from."""
    left_out: dict[str, str]
    """Why the others are not."""

    @staticmethod
    def learn(table: pa.Table) -> TableColumns:
        """Look at every column: which are learned from, and how."""
        names = list(table.column_names)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"The table has several columns '{twice}'; give each its own name.")
        encoders, left_out = [], {}
        for name in names:
            column = plain(table[name])
            kind = kind_of(column)
            reason = _not_learned_from(name, column, kind)
            if reason is not None:
                left_out[name] = reason
            else:
                encoders.append(_encoder(name, column, kind))
        if not encoders:
            found = "; ".join(f"'{name}' {why}" for name, why in left_out.items()) or "it has none"
            raise DataError(f"The table has no column to learn from: {found}.")
        return TableColumns(names, encoders, left_out)

    def encode(self, table: pa.Table) -> np.ndarray:
        """(rows, width) of float32; columns are found by their names."""
        lost = [one.name for one in self.encoders if one.name not in table.column_names]
        if lost:
            raise DataError(f"The table has no column {listed(lost)}, which was learned from.")
        rows, width = table.num_rows, self.width
        words = f"A table of {rows:,} rows, which become {width} numbers each,"
        refuse_too_large(4 * rows * width, words, "give fewer rows, or fewer columns")
        values, at = np.empty((rows, width), np.float32), 0
        for one in self.encoders:
            part = one.encode(_like_training(one, plain(table[one.name])))
            values[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return values

    @property
    def width(self) -> int:
        return sum(one.width + one.marked for one in self.encoders)

    def numbers(self) -> list[Numbers]:
        """The columns that hold numbers."""
        return [one for one in self.encoders if isinstance(one, Numbers)]

    def remarks(self) -> list[str]:
        """What a person should know, in sentences."""
        if not self.left_out:
            return []
        return ["Columns left out: " + "; ".join(f"'{name[:80]}' {why}" for name, why in self.left_out.items())]

    # -- keeping -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All but the arrays, as JSON has it."""
        encoders = [one.state() for one in self.encoders]
        return {"names": self.names, "encoders": encoders, "left_out": self.left_out}

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"{k}.{name}": array for k, one in enumerate(self.encoders) for name, array in one.arrays().items()}

    @staticmethod
    def from_state(state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TableColumns:
        """Build them again; what does not fit together is a ValueError."""
        names, left_out = state["names"], state["left_out"]
        encoders: list[Encoder] = []
        for k, stored in enumerate(state["encoders"]):
            made = KINDS[stored["kind"]]
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{k}.")}
            given: dict[str, Any] = {name: value for name, value in stored.items() if name != "kind"} | own
            if set(given) != {field.name for field in fields(made)} or type(given["marked"]) is not bool:
                raise ValueError("a column is not described as its kind is")
            one = made(**given)
            one.check()
            encoders.append(one)
        known = [one.name for one in encoders]
        sound = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        if not sound or not encoders or set(known) | set(left_out) != set(names) or len(set(known)) < len(known):
            raise ValueError("the columns do not fit together")
        if not all(isinstance(why, str) for why in left_out.values()):
            raise ValueError("nothing is said of a column that was left out")
        return TableColumns(list(names), encoders, dict(left_out))


def _not_learned_from(name: str, column: pa.ChunkedArray, kind: str) -> str | None:
    """Why a column is left out, if it is: it is empty, the same everywhere, an id, or of no known kind."""
    if kind in ("empty", "other"):
        return "is empty" if kind == "empty" else f"holds values of type {column.type}"
    text = words(column) if is_text(column.type) else column
    known = pc.drop_null(text)
    distinct = len(pc.unique(known))
    if distinct == 1 and not text.null_count and len(column) > 1:
        return "is the same in every row"
    if len(column) < FEWEST or distinct < ID_SHARE * len(column) or kind == "date":
        return None
    named = ID_NAME.fullmatch(name.strip()) is not None
    if kind == "words":
        codes = pc.all(pc.match_substring_regex(known, CODE)).as_py()
        return "is an id" if codes and (named or distinct == len(column)) else None
    values = numbers(column, name)
    if not (values == np.round(values)).all():
        return None
    return "is an id" if named else "numbers the rows" if (np.diff(values) == 1).all() else None


def _encoder(name: str, column: pa.ChunkedArray, kind: str) -> Encoder:
    if kind == "number":
        return Numbers.learn(name, column)
    if kind == "date":
        return Dates.learn(name, column)
    few = pc.count_distinct(pc.drop_null(words(column))).as_py() <= ONE_HOT
    return Categories.learn(name, column) if few else Texts.learn(name, column)


def _like_training(one: Encoder, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that can be encoded: words may come as numbers, but numbers and dates do not come as words."""
    found = kind_of(column)
    if isinstance(one, Categories | Texts):
        if found != "other":
            return column if is_text(column.type) else column.cast(pa.large_string())
    elif found in (one.kind, "empty"):
        return column
    held, holds = (_many(kind) if kind != "other" else str(column.type) for kind in (one.kind, found))
    raise WrongColumnError(f"Column '{one.name}' held {held} in training and holds {holds} now.")


def _many(kind: str) -> str:
    return {"category": "words", "text": "words", "empty": "nothing", "words": "words"}.get(kind, f"{kind}s")
