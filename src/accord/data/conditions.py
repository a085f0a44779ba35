"""Conditions on the rows of a table, as a person types them: ``rating>=4``, ``dwell > 10 and kind == "long"``.

A condition is comparisons of a column with a value, joined by ``and`` and ``or``; ``and`` binds tighter. It is read
by the few rules below and by nothing else: no word of it is ever run.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.data.columns import begun
from accord.errors import DataError, SettingError, nearest

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
LONGEST = 1000
"""Letters of a condition."""
TOKEN = re.compile(
    r"""\s*(?:(?P<op>>=|<=|==|!=|=|>|<)|(?P<quoted>"[^"]*"|'[^']*'|`[^`]*`)|(?P<word>[^\s<>=!"'`]+))"""
)
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
TRUTHS = {"true": 1.0, "false": 0.0}
HOW = "write comparisons such as rating>=4, joined by and, or"


@dataclass(frozen=True)
class Comparison:
    column: str
    operator: str
    value: str
    quoted: bool
    """Whether the value is words, whatever they look like."""


@dataclass(frozen=True)
class Condition:
    """Comparisons: the rows that meet all of one group meet the condition."""

    words: str
    groups: tuple[tuple[Comparison, ...], ...]

    @property
    def columns(self) -> list[str]:
        """All that it looks at, each once."""
        return list(dict.fromkeys(one.column for group in self.groups for one in group))

    def met(self, table: pa.Table, where: str) -> np.ndarray:
        """True for the rows that meet it; a gap meets no comparison."""
        for name in self.columns:
            if name not in table.column_names:
                raise DataError(f"No column '{name}' in {where} for '{self.words}': {_nearest(name, table)}")
            if table.column_names.count(name) > 1:
                raise DataError(f"{begun(where)} names column '{name}' twice; give each column its own name.")
        found = np.zeros(table.num_rows, bool)
        for group in self.groups:
            own = np.ones(table.num_rows, bool)
            for one in group:
                own &= _met(one, table[one.column], where)
            found |= own
        return found


def _nearest(name: str, table: pa.Table) -> str:
    return nearest(name, table.column_names)


def read_condition(words: str) -> Condition:
    """The condition that was typed.

    >>> read_condition("rating >= 4").groups
    ((Comparison(column='rating', operator='>=', value='4', quoted=False),),)
    """
    if len(words) > LONGEST:
        raise SettingError(f"A condition of {len(words)} letters is too long; {HOW}.")
    tokens = _tokens(words)
    groups: list[list[Comparison]] = [[]]
    for k in range(0, len(tokens), 4):
        own = tokens[k : k + 4]
        if [kind == "op" for kind, _ in own[:3]] != [False, True, False]:
            raise SettingError(f"The condition '{words}' is not understood; {HOW}.")
        (_, column), (_, sign), (kind, value) = own[:3]
        groups[-1].append(Comparison(column, sign, value, kind == "quoted"))
        if len(own) == 4:
            joined = own[3][1].lower() if own[3][0] == "word" else ""
            if joined not in ("and", "or") or k + 4 == len(tokens):
                raise SettingError(f"The condition '{words}' is not understood after '{value}'; {HOW}.")
            groups += [[]] if joined == "or" else []
    if not tokens:
        raise SettingError(f"The condition is empty; {HOW}.")
    return Condition(words, tuple(map(tuple, groups)))


def _tokens(words: str) -> list[tuple[str, str]]:
    """Operators, words and quoted words, each with its kind."""
    found, at = [], 0
    text = words.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise SettingError(f"The condition '{words}' is not understood at '{text[at:].strip()[:20]}'; {HOW}.")
        kind = str(match.lastgroup)
        found.append((kind, match[kind][1:-1] if kind == "quoted" else match[kind]))
        at = match.end()
    return found


def _met(one: Comparison, column: pa.ChunkedArray, where: str) -> np.ndarray:
    compare = OPERATORS[one.operator]
    number = None if one.quoted else _number(one.value)
    if number is not None:
        values, known = _numbers(column, one, where)
        return compare(values, number) & known
    if one.operator not in ("=", "==", "!="):
        raise SettingError(
            f"'{one.column}{one.operator}{one.value}' compares with words, which have no order here; give a "
            "number, or use == or !=."
        )
    try:
        text = pc.cast(column, pa.large_string())
    except pa.ArrowException as error:
        raise DataError(
            f"{begun(where)} has values in column '{one.column}' that are no words, so "
            f"'{one.column}{one.operator}{one.value}' cannot be asked; ask for another column."
        ) from error
    same = pc.equal(text, one.value) if one.operator != "!=" else pc.not_equal(text, one.value)
    return np.asarray(pc.fill_null(same, False))


def _number(value: str) -> float | None:
    if value.lower() in TRUTHS:
        return TRUTHS[value.lower()]
    try:
        number = float(value)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in value else None


def _numbers(column: pa.ChunkedArray, one: Comparison, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column as numbers, and where there are some."""
    kind: Any = column.type
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = _of_text(column)
        elif pa.types.is_boolean(kind):
            column = column.cast(pa.int8())
        column = column.cast(pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise DataError(
            f"{begun(where)} has values in column '{one.column}' that are no numbers, so "
            f"'{one.column}{one.operator}{one.value}' cannot be asked; write the value in quotes to compare words."
        ) from error
    known = ~np.asarray(column.is_null())
    values = np.asarray(pc.fill_null(column, np.nan))
    return values, known & ~np.isnan(values)


def _of_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Words for numbers; empty ones and those of truths are taken for gaps, 0 and 1."""
    text = pc.utf8_trim_whitespace(column)
    low = pc.utf8_lower(text)
    for word, value in TRUTHS.items():
        text = pc.if_else(pc.equal(low, word), str(int(value)), text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
