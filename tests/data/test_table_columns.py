"""Columns of every kind become numbers, the same whenever they come; what cannot be learned from is named."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.column_values import days, kind_of, numbers
from accord.data.frames import as_table, index_of, take_rows, with_columns
from accord.data.table_columns import TableColumns
from accord.errors import DataError

N = 60
RNG = np.random.default_rng(0)
WORDS = ["red apple", "green pear", "blue plum", "ripe fig"]
MIXED = pa.table(
    {
        "row": pa.array([f"a{k:03}" for k in range(N)]),
        "size": pa.array([None if k % 7 == 0 else float(k * k) for k in range(N)]),
        "city": pa.array([["Oslo", "Rome", "Bonn"][k % 3] for k in range(N)]).dictionary_encode(),
        "born": pa.array([date(2020, 1, 1) + timedelta(days=11 * k) for k in range(N)]),
        "text": pa.array([f"{WORDS[k % 4]} {k}" for k in range(N)]),
        "same": pa.array([7] * N),
        "gone": pa.nulls(N),
        "list": pa.array([[k] for k in range(N)]),
    }
)


def test_every_kind_of_column_and_why_some_are_left_out() -> None:
    columns = TableColumns.learn(MIXED)
    assert [(one.name, one.kind) for one in columns.encoders] == [
        ("size", "number"),
        ("city", "category"),
        ("born", "date"),
        ("text", "text"),
    ]
    assert columns.left_out == {
        "row": "is an id",
        "same": "is the same in every row",
        "gone": "is empty",
        "list": f"holds values of type {MIXED['list'].type}",
    }
    values = columns.encode(MIXED)
    assert values.shape == (N, columns.width)
    assert np.isfinite(values).all()
    size, missing = values[:, 0], values[:, 1]
    known = [float(k * k) for k in range(N) if k % 7]
    np.testing.assert_array_equal(missing, [k % 7 == 0 for k in range(N)])
    np.testing.assert_array_equal(size[missing == 0], np.float32(known))
    assert set(size[missing == 1]) == {np.float32(np.median(known))}
    np.testing.assert_array_equal(
        values[:, 2:5], np.eye(3)[[{"Bonn": 0, "Oslo": 1, "Rome": 2}[w] for w in MIXED["city"].to_pylist()]]
    )


def test_encoders_are_kept_as_plain_data_and_answer_the_same() -> None:
    columns = TableColumns.learn(MIXED)
    again = TableColumns.from_state(json.loads(json.dumps(columns.state())), columns.arrays())
    part = MIXED.slice(3, 20)
    np.testing.assert_array_equal(again.encode(part), columns.encode(MIXED)[3:23])
    shuffled = part.select(part.column_names[::-1])  # found by name
    np.testing.assert_array_equal(again.encode(shuffled), again.encode(part))
    assert (TableColumns.learn(MIXED).encode(MIXED) == columns.encode(MIXED)).all()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s["encoders"].clear(),
        lambda s: s["encoders"][0].update(kind="pickle"),
        lambda s: s["encoders"][0].update(median=None),
        lambda s: s["encoders"][0].update(median=float("nan")),
        lambda s: s["encoders"][0].update(more=1),
        lambda s: s["encoders"][0].update(marked=2),
        lambda s: s["encoders"][1].update(known=[1]),
        lambda s: s["encoders"][2].update(turns=["century"]),
        lambda s: s["encoders"].append(dict(s["encoders"][0])),
        lambda s: s["names"].append("size"),
        lambda s: s["names"].append("other"),
        lambda s: s["left_out"].update(row=1),
    ],
)
def test_a_damaged_state_is_refused(spoil: Any) -> None:
    columns = TableColumns.learn(MIXED)
    state = json.loads(json.dumps(columns.state()))
    spoil(state)
    with pytest.raises((ValueError, KeyError)):
        TableColumns.from_state(state, columns.arrays())


def test_damaged_weights_of_texts_are_refused() -> None:
    columns = TableColumns.learn(MIXED)
    for name, array in columns.arrays().items():
        for bad in (array[:-1] if array.ndim == 1 else array[:, :-1], array * np.nan):
            with pytest.raises(ValueError, match="fit together"):
                TableColumns.from_state(columns.state(), {**columns.arrays(), name: bad})


def test_what_was_not_seen_in_training() -> None:
    table = pa.table({"city": ["Oslo", "Rome", "Bonn"] * 10, "n": [1.0, 2.0, 3.0] * 10})
    columns = TableColumns.learn(table)
    values = columns.encode(pa.table({"city": ["Paris", None], "n": [None, 9.0]}))
    np.testing.assert_array_equal(values, [[0, 0, 0, 2], [0, 0, 0, 9]])
    with pytest.raises(DataError, match="held numbers in training and holds words now"):
        columns.encode(pa.table({"city": ["Oslo"], "n": ["nine"]}))
    with pytest.raises(DataError, match="no column n, which was learned from"):
        columns.encode(pa.table({"city": ["Oslo"]}))
    with pytest.raises(DataError, match="infinite or beyond 3e38, the first in data row 2"):
        columns.encode(pa.table({"city": ["Oslo"] * 2, "n": [1.0, float("inf")]}))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2.5", " 3e4 ", "", "NA", ".5"], "number"),
        (["007", "008"], "words"),  # codes
        (["1,5", "2,5"], "words"),
        (["2024-01-31", "", "2023/12/01"], "date"),
        (["2024-01-31T10:00:00Z", "2024-01-31 10:00:00+02:00"], "date"),
        (["2024-13-31", "12.01.2024"], "words"),
        (["", "NaN", None], "empty"),
        ([True, None], "number"),
        ([timedelta(seconds=3)], "number"),
        ([datetime(2020, 1, 1)], "date"),
        ([b"x"], "other"),
    ],
)
def test_kinds_of_values(values: list[Any], kind: str) -> None:
    column = pa.chunked_array([pa.array(values)])
    if values != ["2024-13-31", "12.01.2024"]:
        assert kind_of(column) == kind
    if kind == "number":
        assert np.isfinite(numbers(column, "x")).sum() == sum(v not in ("", "NA", None) for v in values)


def test_times_are_the_same_with_and_without_zones() -> None:
    text = pa.chunked_array(
        [["2024-01-31T10:00:00Z", "2024-01-31 12:00:00+02:00", "2024-01-31T10:00", "2024-01-31 10:00:00 UTC"]]
    )
    stamp = pa.chunked_array([pa.array([datetime(2024, 1, 31, 10)] * 4, pa.timestamp("ns"))])
    zoned = stamp.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Asia/Tokyo"))
    for column in (text, stamp, zoned):
        np.testing.assert_allclose(days(column), 19753 + 10 / 24, rtol=0, atol=1e-9)


def test_ids_by_name_and_by_order_and_what_is_none() -> None:
    rng = np.random.default_rng(1)
    frame = {
        "user_id": rng.permutation(10**6)[:N],
        "Unnamed: 0": np.arange(N) + 5,
        "count": np.arange(N) * 3,  # steady, but not by one
        "n": np.arange(N),
        "price": rng.normal(size=N),
        "comment": [f"{k} is fine" for k in range(N)],
        "kind_id": np.arange(N) % 4,
        "review": [chr(0x4E00 + k) * 12 for k in range(N)],  # a language without blanks
    }
    left_out = TableColumns.learn(pa.table(frame)).left_out
    assert left_out == {"user_id": "is an id", "Unnamed: 0": "is an id", "n": "numbers the rows"}
    few = pa.table({"user_id": [3, 1, 2], "x": [1.0, 2.0, 4.0]})
    assert not TableColumns.learn(few).left_out
    with pytest.raises(DataError, match="no column to learn from: 'a' is the same in every row"):
        TableColumns.learn(pa.table({"a": [1] * N}))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.integers(-(10**6), 10**6)), min_size=2, max_size=40))
def test_any_column_of_pandas_is_read_or_refused(values: list[Any]) -> None:
    table = as_table(pd.DataFrame({"a": pd.Series(values, dtype=object), "b": np.arange(len(values)) * 1.5}))
    assert table.num_rows == len(values)
    encoded = TableColumns.learn(table).encode(table)
    assert encoded.shape[0] == len(values)
    assert np.isfinite(encoded).all()


def test_tables_of_every_library_say_the_same() -> None:
    frame = pd.DataFrame(
        {"n": [1, None, 3] * 10, "w": pd.Categorical(["a", "b", "a"] * 10, categories=list("abcz"))}
    )
    tables = [
        as_table(one)
        for one in (frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame))
    ]
    first = TableColumns.learn(tables[0])
    assert first.width == 3  # a number, where it is missing, and one of two words; z is in no row
    for table in tables:
        np.testing.assert_array_equal(TableColumns.learn(table).encode(table), first.encode(tables[0]))
    assert index_of(frame) is None
    own = index_of(frame.set_index(pd.Index([f"r{k}" for k in range(30)])))
    assert own is not None
    assert own[2].as_py() == "r2"


def test_rows_and_columns_keep_the_kind_of_table() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int8"), "b": list("xyz")}, index=[7, 5, 3])
    rows = np.array([2, 0])
    cut = take_rows(frame, rows)
    assert cut.index.tolist() == [3, 7]
    assert cut.dtypes.equals(frame.dtypes)
    polar = pl.from_pandas(frame)
    assert take_rows(polar, rows)["b"].to_list() == ["z", "x"]
    assert take_rows([1, 2, 3], rows) == [3, 1]
    for one in (frame, polar, as_table(frame)):
        more = with_columns(one, {"c": np.arange(3)})
        assert list(getattr(more, "column_names", more.columns)) == ["a", "b", "c"]
        with pytest.raises(DataError, match="column 'a' already"):
            with_columns(one, {"a": np.arange(3)})
