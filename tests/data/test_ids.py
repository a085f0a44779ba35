"""Raw ids to row numbers and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.ids import Ids, encode
from accord.errors import UnknownIdError

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
