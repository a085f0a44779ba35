"""Conditions on rows: what they mean, and that nothing else is understood."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.conditions import read_condition
from accord.errors import AccordError, DataError, SettingError

TABLE = pa.table(
    {
        "rating": pa.array([1.0, 4.0, None, 5.0, 3.5]),
        "kind": pa.array(["long", "short", "long", None, "4"]),
        "liked": pa.array([True, False, None, True, False]),
        "text": pa.array(["1", " 4 ", "", "5", "True"]),
        "two words": pa.array([1, 2, 3, 4, 5]),
    }
)
SIGNS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt}


def met(words: str) -> list[int]:
    return np.flatnonzero(read_condition(words).met(TABLE, "the table")).tolist()


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("rating>=4", [1, 3]),
        ("rating >= 4", [1, 3]),
        ("rating=4", [1]),
        ("rating!=4", [0, 3, 4]),  # a gap meets nothing
        ("rating<4 and kind==long", [0]),
        ("rating<2 or rating>4", [0, 3]),
        ("kind==long and rating<2 or rating>4", [0, 3]),  # and binds tighter
        ("rating>4 or kind==long AND rating<2", [0, 3]),
        ("kind=='4'", [4]),
        ("kind!=long", [1, 4]),
        ("liked=true", [0, 3]),
        ("liked==False", [1, 4]),
        ("text>=4", [1, 3]),
        ("`two words`>3", [3, 4]),
        ('"two words" <= 1', [0]),
        ("rating>-1e3", [0, 1, 3, 4]),
    ],
)
def test_rows_that_meet_a_condition(words: str, rows: list[int]) -> None:
    assert met(words) == rows


@given(
    st.lists(st.floats(-5, 5) | st.none(), min_size=1, max_size=20), st.sampled_from(list(SIGNS)), st.floats(-5, 5)
)
def test_numbers_compare_as_in_python(values: list[float | None], sign: str, value: float) -> None:
    table = pa.table({"x": pa.array(values, pa.float64())})
    found = read_condition(f"x{sign}{value!r}").met(table, "the table")
    assert found.tolist() == [one is not None and SIGNS[sign](one, value) for one in values]


@pytest.mark.parametrize(
    "words",
    [
        *("", " ", "rating", "rating>=", ">=4", "rating>=4 and", "rating>=4 rating>=3", "rating>=4 xor rating<2"),
        *("rating>=4 and or rating<2", "rating>>4", "(rating>=4)>1 5", "rating >= = 4", "'rating>=4", "a" * 2000),
        *("__import__('os').system('x')", "rating.__class__", "[x for x in y]", "rating>=4; import os", "a==b==c"),
    ],
)
def test_what_is_no_condition_is_one_sentence(words: str) -> None:
    with pytest.raises(SettingError, match="rating>=4, joined by and, or"):
        read_condition(words)


@given(st.text(max_size=60))
def test_any_words_are_a_condition_or_one_sentence(words: str) -> None:
    with suppress(AccordError):
        assert read_condition(words).met(TABLE, "the table").dtype == bool


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([[1], [2]]), "no words"),
        (pa.array([b"\xff", b"a"]), "no words"),
        (pa.array([{"a": 1}, None]), "no words"),
    ],
)
def test_values_that_are_no_words_are_one_sentence(values: pa.Array, said: str) -> None:
    with pytest.raises(DataError, match=f"column 'x' that are {said}"):
        read_condition("x==long").met(pa.table({"x": values}), "the table")


def test_a_column_that_is_there_twice_is_one_sentence() -> None:
    table = pa.table([[1, 2], [3, 4]], names=["x", "x"])
    with pytest.raises(DataError, match="names column 'x' twice"):
        read_condition("x>1").met(table, "the table")


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("ratin>=4", DataError, "did you mean 'rating'"),
        ("kind>4", DataError, "are no numbers"),
        ("kind>long", SettingError, "have no order here"),
        ("rating>'4'", SettingError, "have no order here"),
    ],
)
def test_what_cannot_be_asked_of_a_table_says_why(words: str, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        met(words)
