"""Raw ids to row numbers and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.ids import Ids, encode
from accord.errors import DataError, UnknownIdError

RAW = st.one_of(
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=30),
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
