"""Raw ids to row numbers and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data import load_clicks
from accord.data.ids import NO_ID, Ids, encode
from accord.errors import DataError, UnknownIdError

RAW = st.one_of(
    st.lists(st.text(min_size=1, max_size=5).filter(lambda text: text not in NO_ID), min_size=1, max_size=30),
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30),
)


@given(RAW)
def test_encode_and_take_are_inverse(raw: list[str] | list[int]) -> None:
    codes, ids = encode(pa.chunked_array([pa.array(raw)]), "user", "the table", "user")
    back = ids.take(codes).to_pylist()
    assert [str(value) for value in back] == [str(value) for value in raw]
    assert ids.find(raw).tolist() == codes.tolist()
    assert len(ids) == len(set(map(str, raw)))


def test_text_finds_numbers_and_numbers_find_text() -> None:
    assert Ids(pa.array([7, 10])).find(["10", "7", "07", "x"]).tolist() == [1, 0, -1, -1]
    assert Ids(pa.array(["7", "a"])).find([7, 8]).tolist() == [0, -1]


def test_unknown_ids_are_named() -> None:
    with pytest.raises(UnknownIdError, match="Unknown users: nobody, 404"):
        Ids(pa.array(["a", "b"]), "user").require(["a", "nobody", "404"])


def test_integers_of_nineteen_digits_are_found_as_text() -> None:
    large = [2**62, 2**63 - 1, -(2**63) + 1, 5]
    codes, ids = encode(pa.chunked_array([pa.array(large)]), "user", "log", "user")
    assert codes.tolist() == [0, 1, 2, 3]
    assert ids.find([str(value) for value in large]).tolist() == [0, 1, 2, 3]
    assert ids.find([str(2**63), str(-(2**64)), "05", "+5"]).tolist() == [-1, -1, -1, -1]
    written = encode(pa.chunked_array([pa.array([str(2**62), "7"])]), "user", "log", "user", from_text=True)[1]
    assert pa.types.is_integer(written.values.type)
    beyond = encode(pa.chunked_array([pa.array([str(2**63), "7"])]), "user", "log", "user")[1]
    assert pa.types.is_string(beyond.values.type)


def test_integers_of_more_than_64_bits_are_refused_in_a_sentence() -> None:
    ids = encode(pa.chunked_array([pa.array([1, 2])]), "user", "log", "user")[1]
    with pytest.raises(DataError, match="more than 64 bits"):
        ids.find([2**70])


USED = ["c", "a", "c", "b", "a"]
CATEGORIES = ["z", "a", "y", "b", "c"]
"""Neither in the order of USED, nor all used."""


def categorical_columns() -> dict[str, Any]:
    text = pa.array(USED).dictionary_encode()
    return {
        "pandas": pa.chunked_array([pa.array(pd.Categorical(USED, categories=CATEGORIES))]),
        "polars Enum": pa.table(pl.DataFrame({"c": pl.Series(USED, dtype=pl.Enum(CATEGORIES))}))["c"],
        "a slice": pa.chunked_array([pa.array(["x", *USED, "y"]).dictionary_encode()[1:6]]),
        "a value twice": pa.chunked_array([pa.DictionaryArray.from_arrays([3, 0, 1, 2, 0], ["a", "c", "b", "c"])]),
        "dictionaries apart": pa.chunked_array(
            [text[:2], text[:0], pa.DictionaryArray.from_arrays(pa.array([0, 2, 1], pa.int32()), ["c", "a", "b"])]
        ),
    }


@pytest.mark.parametrize("form", sorted(categorical_columns()))
def test_categories_are_encoded_as_the_strings_they_stand_for(form: str) -> None:
    """Only ids that a row uses, in order of first appearance."""
    codes, ids = encode(categorical_columns()[form], "user", "the table", "user")
    plain_codes, plain_ids = encode(pa.chunked_array([USED]), "user", "the table", "user")
    assert codes.tolist() == plain_codes.tolist() == [0, 1, 0, 2, 1]
    assert ids.values.equals(plain_ids.values)


def test_parts_of_a_column_without_any_category_are_missing_ids() -> None:
    none, some = (pa.array(own, pa.string()).dictionary_encode() for own in ([None, None], ["b", None, "a"]))
    for parts, wanted in (([none, some], [-1, -1, 0, -1, 1]), ([some, none], [0, -1, 1, -1, -1])):
        codes, ids = encode(pa.chunked_array(parts), "user", "the table", "user", drop=True)
        assert codes.tolist() == wanted
        assert ids.values.to_pylist() == ["b", "a"]


@pytest.mark.parametrize("form", sorted(categorical_columns()))
def test_categories_are_found_as_the_strings_they_stand_for(form: str) -> None:
    ids = Ids(pa.array(["b", "a"]))
    assert ids.find(categorical_columns()[form]).tolist() == [-1, 1, -1, 0, 1]


def test_categories_of_numbers_are_encoded_as_the_numbers() -> None:
    whole = pa.chunked_array([pa.array(pd.Categorical([5, 3, 5], categories=[3, 4, 5]))])
    codes, ids = encode(whole, "user", "the table", "user")
    assert (codes.tolist(), ids.values.to_pylist()) == ([0, 1, 0], [5, 3])
    floats = pa.chunked_array([pa.array(pd.Categorical([5.0, 3.0, 5.0], categories=[3.0, 4.5, 5.0]))])
    codes, ids = encode(floats, "user", "the table", "user")
    assert (codes.tolist(), ids.values.to_pylist()) == ([0, 1, 0], [5, 3])


@pytest.mark.parametrize("where", ["indices", "dictionary"])
def test_a_missing_category_is_named_by_its_row(where: str) -> None:
    missing = {
        "indices": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", "b"])),
        "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b", None])),
    }
    with pytest.raises(DataError, match="1 missing user id in column 'user' .* data row 3"):
        encode(pa.chunked_array([missing[where]]), "user", "the table", "user")
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b", None, ""]))
    assert len(encode(pa.chunked_array([unused]), "user", "the table", "user")[1]) == 2


@pytest.mark.parametrize("known", [False, True])
def test_a_filtered_categorical_log_is_the_log_as_strings(known: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": [f"u{k}" for k in rng.integers(0, 40, 500)],
            "item": [f"{'old' if k < 15 else 'new'}{k}" for k in rng.integers(0, 30, 500)],
        }
    ).astype("category")
    log, more = frame[frame["item"].str.startswith("new")], frame[:50]
    clicks = load_clicks(log, known=more if known else None)
    plain = load_clicks(log.astype(str), known=more.astype(str) if known else None)
    assert clicks.user_ids.values.equals(plain.user_ids.values)
    assert clicks.item_ids.values.equals(plain.item_ids.values)
    assert np.array_equal(clicks.keys, plain.keys)
    assert np.array_equal(clicks.counts, plain.counts)


@pytest.mark.parametrize("base", [1_000, 10_000_000_000, 2**53 - 10])
@pytest.mark.parametrize("kind", ["float", "integer", "text", "text of floats", "decimal", "dictionary"])
def test_whole_floats_are_found_in_whatever_form(base: int, kind: str) -> None:
    """Text of floats above 1e10 is '1e+10', which no id is."""
    numbers = [base + k for k in range(8)]
    log = pa.table({"user": pa.array(numbers, pa.float64()), "item": [1.0, 2.0] * 4})
    ids = load_clicks(log).user_ids
    forms = {
        "float": pa.array([*map(float, numbers)]),
        "integer": pa.array(numbers),
        "text": pa.array([str(n) for n in numbers]),
        "text of floats": pa.array([f"{n}.0" for n in numbers]),
        "decimal": pa.array(numbers, pa.decimal128(30, 0)).cast(pa.decimal128(30, 2)),
        "dictionary": pa.array([*map(float, numbers)]).dictionary_encode(),
    }
    assert ids.find(forms[kind]).tolist() == list(range(8))
    assert ids.find(pa.array([numbers[0] + 0.5 if base < 2**50 else 0.5, None])).tolist() == [-1, -1]
