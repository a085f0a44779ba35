"""Times of clicks, in whatever form they come, as numbers that grow with time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.errors import DataError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
ADVICE = "give numbers or ISO dates, or leave it out: time=''."
FORMS = {
    "numbers": r"^[+-]?([0-9.]+([eE][+-]?[0-9]+)?|(?i:nan|inf(inity)?))$",
    "dates with a zone": r"[T ][0-9:.]+ ?(Z|[+-][0-9]{2}:?([0-9]{2})?)$",
    "dates without a zone": "",
}
"""Times of several forms cannot be compared."""


def read_times(column: pa.ChunkedArray, where: str, name: str) -> tuple[np.ndarray, pa.DataType | None]:
    """Times as numbers, and the type of dates in which they go out again."""
    bad = DataError(f"Column '{name}' of {where} cannot be read as times; {ADVICE}")
    try:
        column = _plain(column)
        if pa.types.is_large_string(column.type):
            column = pc.if_else(pc.equal(column, ""), None, column)
            column = _parsed(column, where, name)
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise DataError(
                f"{column.null_count} missing times in column '{name}' of {where} (the first in data row {row}); "
                "drop or fill those rows, or leave it out: time=''."
            )
        if pa.types.is_temporal(column.type):
            return _numbers(column)
        values = np.asarray(column)
    except pa.ArrowException as error:
        raise bad from error
    if values.dtype.kind not in "iuf":
        raise bad
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise DataError(f"{count} missing times in column '{name}' of {where}; drop or fill those rows.")
    return values, None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text, numbers or dates, whichever of Arrow's types they came in."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    if pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64())
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pc.cast(column, pa.large_string())
    return column


def _numbers(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.DataType]:
    """Dates to the microsecond, or, of ages that have too many of these, in their own unit."""
    exact = pa.timestamp("us", getattr(column.type, "tz", None))
    options = pyarrow.compute.CastOptions(exact, allow_time_truncate=True)
    try:
        return np.asarray(pc.cast(pc.cast(column, options=options), pa.int64())), exact
    except pa.ArrowException:
        if not pa.types.is_timestamp(column.type):
            raise
        return np.asarray(pc.cast(column, pa.int64())), column.type


def _parsed(text: pa.ChunkedArray, where: str, name: str) -> pa.ChunkedArray:
    """Numbers, or ISO dates, with a zone or without, to the microsecond or finer."""
    for kind in (pa.int64(), pa.uint64(), pa.float64(), *_dates()):
        try:
            return pc.cast(text, kind)
        except pa.ArrowException:
            continue
    groups = _by_form(pc.drop_null(pc.unique(text)))
    for values in groups.values():
        if not _are_dates(values):
            raise DataError(
                f"Column '{name}' of {where} holds '{_first_bad(values)[:80]}', which is no time; {ADVICE}"
            )
    (one, first), (other, second), *_ = groups.items()
    raise DataError(
        f"Column '{name}' of {where} has {one} beside {other}, such as '{first[0].as_py()[:80]}' and "
        f"'{second[0].as_py()[:80]}'; give all in one form, or leave it out: time=''."
    )


def _by_form(values: pa.Array) -> dict[str, pa.Array]:
    """Words by their form: those of one form can be compared, if all are times."""
    groups: dict[str, pa.Array] = {}
    for words, pattern in FORMS.items():
        marked = pc.match_substring_regex(values, pattern)
        groups[words], values = values.filter(marked), values.filter(pc.invert(marked))
    return {words: found for words, found in groups.items() if len(found)}


def _first_bad(values: pa.Array) -> str:
    """The first word that is no time, of words of one form."""
    if len(values) == 1:
        return values[0].as_py()
    first, rest = values[: len(values) // 2], values[len(values) // 2 :]
    return _first_bad(rest if _are_dates(first) else first)


def _dates() -> tuple[pa.DataType, ...]:
    return tuple(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC"))


def _are_dates(text: pa.Array) -> bool:
    for kind in (pa.float64(), *_dates()):
        try:
            pc.cast(text, kind)
            return True
        except pa.ArrowException:
            continue
    return False
