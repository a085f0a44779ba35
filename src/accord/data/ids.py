"""Raw ids in and out: each distinct user or item id gets a row number, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from accord.errors import DataError, UnknownIdError

pc: Any = pyarrow.compute
"""Untyped: pyarrow makes these functions at import, where type checkers do not see them."""
NO_ID = ("", "nan", "NaN", "null", "NULL", "None", "<NA>", "NaT", "\\N")
"""Texts that programs write where there is no id."""
EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}
"""Up to where every whole number is a float of its own."""
MISSING = -1
"""The row number of an id that is missing."""
VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types that polars uses, which Arrow can take no values out of, and what they become."""


@dataclass(frozen=True)
class Ids:
    """Distinct raw ids, strings or 64-bit integers, in the order of their row numbers."""

    values: pa.Array
    kind: str = "id"

    def __len__(self) -> int:
        return len(self.values)

    def take(self, codes: np.ndarray) -> pa.Array:
        """The raw ids of row numbers."""
        return self.values.take(pa.array(codes))

    def find(self, raw: Any) -> np.ndarray:
        """Row numbers of raw ids, −1 where an id is unknown; '7' finds 7 and 7 finds '7'."""
        array = raw if isinstance(raw, pa.Array | pa.ChunkedArray) else as_id_array(raw, self.kind)
        if pa.types.is_dictionary(array.type):
            array = plain_values(array)
        try:
            found = pc.index_in(self._alike(_whole_or_none(array)), value_set=self.values)
        except pa.ArrowException as error:
            raise DataError(f"{array.type} values are no {self.kind} ids; give strings or integers.") from error
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def require(self, raw: Any) -> np.ndarray:
        """Row numbers of raw ids; unknown ones are named in the error."""
        codes = self.find(raw)
        if (codes < 0).any():
            unknown = self.unknown(raw)
            shown = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
            raise UnknownIdError(
                f"Unknown {self.kind}{'s' if len(unknown) > 1 else ''}: {shown}; the model knows only "
                f"the {self.kind}s of its training log."
            )
        return codes

    def unknown(self, raw: Any) -> list[str]:
        """Those of some raw ids that are not known, in words."""
        array = as_id_array(raw, self.kind)
        return [str(array[int(k)].as_py()) for k in np.flatnonzero(self.find(array) < 0)]

    def extended(self, raw: Any) -> Ids:
        """These ids and, after them, those of ``raw`` that are new."""
        array = pc.unique(raw)
        new = self._alike(array.filter(pa.array(self.find(array) < 0)))
        new = new.combine_chunks() if isinstance(new, pa.ChunkedArray) else new
        if new.null_count:  # text among integers
            text = pa.concat_arrays([pc.cast(self.values, pa.string()), pc.cast(array, pa.string())])
            return Ids(pc.unique(text), self.kind)
        return Ids(pa.concat_arrays([self.values, new]), self.kind)

    def _alike(self, array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if array.type == self.values.type:
            return array
        if pa.types.is_integer(self.values.type):
            text = _without_point_zero(pc.cast(array, pa.string()))
            return pc.cast(pc.if_else(_are_integers(text), text, None), self.values.type)
        return pc.cast(array, self.values.type)


def as_id_array(raw: Any, kind: str) -> pa.Array:
    """One id or many, as an Arrow array of strings or integers."""
    if isinstance(raw, pa.ChunkedArray):
        raw = raw.combine_chunks()
    if isinstance(raw, str | bytes | int | np.integer):
        raw = [raw]
    try:
        return raw if isinstance(raw, pa.Array) else pa.array(_plain(raw))
    except OverflowError as error:
        raise DataError(f"These {kind} ids hold integers of more than 64 bits; give them as strings.") from error
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"These {kind} ids are neither all strings nor all integers.") from error


def _plain(raw: Any) -> Sequence[Any] | np.ndarray:
    return raw if isinstance(raw, np.ndarray | list) else list(raw)


def encode(
    column: pa.ChunkedArray, kind: str, where: str, name: str, *, from_text: bool = False, drop: bool = False
) -> tuple[np.ndarray, Ids]:
    """Row numbers of a column, in order of first appearance, and the ids of these rows.

    In a column ``from_text``, such as of a CSV file, which knows strings alone, integers are recognised. A missing
    id is an error; with ``drop`` it has the row number −1.
    """
    if pa.types.is_dictionary(column.type):
        column = _without_unused_categories(column)
    column = readable(column, kind, where, name)
    encoded = pc.dictionary_encode(column).combine_chunks() if column.num_chunks else None
    if encoded is None:
        return np.empty(0, np.int32), Ids(pa.array([], pa.string()), kind)
    if isinstance(encoded, pa.ChunkedArray):  # combine_chunks gives chunks back where one would overflow
        encoded = pa.concat_arrays(encoded.chunks)
    with _unreadable(kind, where, name):
        codes, values = _present(encoded)
    ids = ids_of(values, kind, where, name, from_text=from_text)
    absent = np.flatnonzero(codes < 0)
    if len(absent) and not drop:
        refuse_missing(len(absent), int(absent[0]), kind, where, name)
    return codes, ids


def readable(column: pa.ChunkedArray, kind: str, where: str, name: str) -> pa.ChunkedArray:
    """A column of strings or integers; what is neither is refused."""
    if not _can_be_ids(column.type):
        raise DataError(
            f"Column '{name}' of {where} is of type {column.type}; {kind} ids are strings or integers, so turn it "
            "into strings."
        )
    return _whole_numbers(column, kind, where, name) if pa.types.is_floating(_value_type(column.type)) else column


def ids_of(values: pa.Array, kind: str, where: str, name: str, *, from_text: bool = False) -> Ids:
    """Distinct values of a column as ids."""
    with _unreadable(kind, where, name):
        return Ids(_canonical(values, from_text), kind)


@contextmanager
def _unreadable(kind: str, where: str, name: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"Column '{name}' of {where} cannot be read as {kind} ids, strings or integers of 64 bits; turn it "
            "into strings."
        ) from error


def _present(encoded: pa.DictionaryArray) -> tuple[np.ndarray, pa.Array]:
    """Row numbers among the values that are ids, −1 for the others, and these values."""
    values, indices = encoded.dictionary, encoded.indices
    if indices.null_count:  # else it would be a copy of all
        indices = pc.fill_null(indices, MISSING)
    codes = np.asarray(indices, dtype=np.int32)
    absent = np.asarray(are_missing(values))
    if not absent.any():
        return codes, values
    numbers = np.where(absent, MISSING, np.cumsum(~absent) - 1).astype(np.int32)
    return np.where(codes < 0, MISSING, numbers[codes]), values.filter(pa.array(~absent))


def are_missing(values: pa.Array) -> pa.Array:
    missing = pc.is_null(values, nan_is_null=pa.types.is_floating(values.type))
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        values = pc.cast(values, pa.large_string())
    if pa.types.is_string_view(values.type):
        values = pc.cast(values, pa.large_string())
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return missing
    return pc.or_(missing, pc.is_in(values, value_set=pa.array(NO_ID, values.type)))


def _without_unused_categories(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column over the values its rows use alone, each once, in order of first appearance.

    Categories that no row uses (of a filtered pandas frame, a polars Enum) would be ids without a click.
    """
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks or not _can_be_ids(column.type):
        return column
    own = [pc.dictionary_encode(chunk.indices) for chunk in chunks]
    used = [_dictionary(chunk).take(codes.dictionary) for chunk, codes in zip(chunks, own, strict=True)]
    values = pc.unique(pa.chunked_array(used)).drop_null()  # the same value may be in several dictionaries
    places = [pc.index_in(some, value_set=values) for some in used]
    codes = [of.take(codes.indices) for of, codes in zip(places, own, strict=True)]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(each, values) for each in codes])


def _dictionary(chunk: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array."""
    values = chunk.dictionary
    return pc.cast(values, VIEWS.get(values.type, values.type))


def plain_values(array: pa.DictionaryArray | pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column with each row's own value."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    rows = [_dictionary(chunk).take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(rows) if rows else pa.chunked_array([], array.type.value_type)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _can_be_ids(kind: pa.DataType) -> bool:
    inner = _value_type(kind)
    if isinstance(inner, pa.BaseExtensionType):
        return False
    return not pa.types.is_nested(inner) and not pa.types.is_dictionary(inner)


def refuse_missing(count: int, first: int, kind: str, where: str, name: str) -> None:
    """An error where ids are missing, the first of them in a row."""
    if count:
        raise DataError(
            f"{count} missing {kind} id{'s' if count > 1 else ''} in column '{name}' of {where} "
            f"(the first in data row {first + 1}); drop those rows or fill them in."
        )


def _whole_numbers(column: pa.ChunkedArray, kind: str, where: str, name: str) -> pa.ChunkedArray:
    """Floats as the integers they stand for; what is missing stays missing."""
    if pa.types.is_dictionary(column.type):
        column = plain_values(pa.chunked_array(column.chunks, column.type))
    exact = EXACT[column.type]
    column = pc.if_else(pc.is_null(column, nan_is_null=True), None, pc.cast(column, pa.float64()))
    if pc.any(pc.greater(pc.abs(column), float(exact))).as_py():
        raise DataError(
            f"Column '{name}' of {where} holds floats above {exact:,}, where several {kind} ids may be one "
            "number; give the column as integers or strings."
        )
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowException as error:
        raise DataError(
            f"Column '{name}' of {where} holds fractions; {kind} ids are strings or integers."
        ) from error


def _whole_or_none(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Floats and decimals as integers, and none where they are fractions: a log of them has integers too."""
    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if not pa.types.is_floating(array.type):
        return array
    array = pc.cast(array, pa.float64())
    whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), float(sys.maxsize)))
    return pc.cast(pc.if_else(whole, array, None), pa.int64())


def _decimals(array: Any) -> Any:
    """Whole decimals as integers; others as text."""
    try:
        return pc.cast(array, pa.int64())
    except pa.ArrowException:
        return pc.cast(array, pa.string())


def _are_integers(text: pa.Array) -> pa.Array:
    """True for text that is a 64-bit integer as it is written, without zeros or signs too many."""
    short = pc.match_substring_regex(text, r"^(0|-?[1-9][0-9]{0,17})$")
    long = pc.match_substring_regex(text, r"^-?[1-9][0-9]{18}$")
    digits = pc.replace_substring(text, "-", "", max_replacements=1)
    return pc.or_(short, pc.and_(long, pc.less_equal(digits, str(2**63 - 1))))


def _without_point_zero(text: pa.Array) -> pa.Array:
    """'7.0', as programs write 7 once an id of the column was missing, as '7'."""
    return pc.replace_substring_regex(text, r"^(-?[0-9]+)\.0$", r"\1")


def _canonical(values: pa.Array, from_text: bool) -> pa.Array:
    """Strings as strings, integers as int64; what is ``from_text`` and all canonical integers becomes integers.

    Integers beyond 64 bits with a sign are strings.
    """
    if pa.types.is_decimal(values.type):
        values = _decimals(values)
    if pa.types.is_integer(values.type):
        try:
            return pc.cast(values, pa.int64())
        except pa.ArrowException:
            return pc.cast(values, pa.string())
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    text = pc.cast(values, pa.string())
    if from_text and len(text):
        if pc.all(pc.ends_with(text, ".0")).as_py():
            plain = _without_point_zero(text)
            text = plain if pc.count_distinct(plain).as_py() == len(text) else text
        if pc.all(_are_integers(text)).as_py():
            return pc.cast(text, pa.int64())
    return text
