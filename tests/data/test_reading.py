"""Every form a log can come in, and one clear sentence for what cannot be read."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accord.data import load_clicks, reading
from accord.data.clicks import match_pairs
from accord.data.merging import _sorted, pair_keys
from accord.errors import DataError

ROWS = {"user": ["b", "a", "b", "a"], "item": ["x", "y", "z", "y"], "ts": [4, 3, 2, 1]}
PAIRS = {("b", "x"), ("a", "y"), ("b", "z")}


def pairs(source: Any, **columns: str) -> set[tuple[Any, Any]]:
    table = load_clicks(source, **columns).to_table()
    return set(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_table_reads_alike(tmp_path: Path) -> None:
    table = pa.table(ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    csv = write(tmp_path / "log.csv", "user,item,ts\nb,x,4\na,y,3\nb,z,2\na,y,1\n")
    tsv = write(tmp_path / "log.tsv", "user\titem\tts\nb\tx\t4\na\ty\t3\nb\tz\t2\na\ty\t1\n")
    inter = write(
        tmp_path / "log.inter",
        "user_id:token\titem_id:token\ttimestamp:float\nb\tx\t4\na\ty\t3\nb\tz\t2\na\ty\t1\n",
    )
    sources = [table, ROWS, pd.DataFrame(ROWS), pl.DataFrame(ROWS), tmp_path / "log.parquet", csv, tsv, str(inter)]
    for source in sources:
        clicks = load_clicks(source)
        assert pairs(source) == PAIRS
        assert (len(clicks), clicks.merged, sorted(clicks.counts.tolist())) == (3, 1, [1, 1, 2])
        assert sorted(clicks.times.tolist()) == [1, 2, 4]  # the first of the repeated clicks counts


def test_sparse_matrix_rows_are_users() -> None:
    matrix = scipy.sparse.csr_matrix([[0, 2, 0], [1, 0, 1]])
    assert pairs(matrix) == {(0, 1), (1, 0), (1, 2)}


def test_ids_come_back_as_they_were(tmp_path: Path) -> None:
    zeros = write(tmp_path / "zeros.csv", "user,item\n007,a b\n7,ä\n")
    assert pairs(zeros) == {("007", "a b"), ("7", "ä")}
    numbers = write(tmp_path / "numbers.csv", "userId,movieId\n7,10\n8,-3\n")
    assert pairs(numbers) == {(7, 10), (8, -3)}
    assert pairs({"user": [2**60, 1], "item": ["p", "q"]}) == {(2**60, "p"), (1, "q")}
    assert pairs(pd.DataFrame({"user": [1.0, 2.0], "item": ["p", "q"]})) == {(1, "p"), (2, "q")}


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    odd = {"who": [1, 2], "what": [3, 4], "item": [5, 6], "user_id": [7, 8]}
    clicks = load_clicks(odd)
    assert (clicks.columns.user, clicks.columns.item) == ("user_id", "item")
    assert pairs(odd, user="who", item="what") == {(1, 3), (2, 4)}
    bare = write(tmp_path / "split.rating", "1\t10\t5\n2\t11\t3\n")
    assert load_clicks(bare).columns.note == "user=1, item=2, time=none (no header row)"
    assert pairs(bare) == {(1, 10), (2, 11)}


def test_dates_are_times_and_go_out_as_dates(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,date\na,x,2024-01-02\na,y,2024-01-01\nb,x,2023-05-01\n")
    table = load_clicks(log).to_table()
    assert pa.types.is_timestamp(table["date"].type)
    assert str(table["date"][0].as_py()) == "2024-01-02 00:00:00"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", "", "is empty"),
        ("header.csv", "user,item\n", "no rows"),
        ("one.csv", "user\na\n", "one column"),
        ("gap.csv", "user,item\n,x\nnull,y\n", "No row of .* has both a user and an item"),
        ("ragged.csv", "user,item\na,x\nb\n", "cannot be read"),
        ("strange.xyz", "user,item\na,x\n", "does not know"),
        ("twice.csv", "user,user\na,x\n", "names a column twice"),
        ("nothing.csv", "colour,shape\nred,round\n", "No user column found"),
        ("times.csv", "user,item,ts\na,x,1\nb,x,soon\n", "holds 'soon', which is no time"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, content: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        load_clicks(write(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_what_their_name_says(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table(ROWS), tmp_path / "log.csv")
    with pytest.raises(DataError, match="not a text file"):
        load_clicks(tmp_path / "log.csv")
    with pytest.raises(DataError, match="not a Parquet file"):
        load_clicks(write(tmp_path / "log.parquet", "user,item\na,x\n"))
    with pytest.raises(DataError, match="cannot be opened"):
        load_clicks(tmp_path / "missing.csv")
    (tmp_path / "latin.csv").write_bytes("user,item\nä,x\n".encode("latin-1"))
    with pytest.raises(DataError):
        load_clicks(tmp_path / "latin.csv")


def test_unknown_column_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'item'"):
        load_clicks(ROWS, item="itm")


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_ids_are_counted_with_their_place(gap: float | None) -> None:
    with pytest.raises(DataError, match="1 missing user id .* first in data row 2"):
        load_clicks(pa.table({"user": pa.array([1.0, gap, 3.0]), "item": [1, 2, 3]}), on_missing="refuse")


def test_movielens_in_both_forms(movielens: Path) -> None:
    raw = load_clicks(movielens / "ml-100k.inter")
    assert (len(raw), len(raw.user_ids), len(raw.item_ids)) == (100_000, 943, 1682)
    split = load_clicks(movielens / "ml-100k.train.rating")
    assert (len(split), len(split.user_ids), len(split.item_ids)) == (79_619, 943, 1611)


def test_parquet_of_more_rows_than_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal values take next to nothing in a file, and eight bytes each in memory."""
    path = tmp_path / "bomb.parquet"
    pa.parquet.write_table(
        pa.table({"user": np.zeros(1_000_000, np.int64), "item": np.zeros(1_000_000, np.int64)}), path
    )
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("accord.memory.machine_memory", lambda: 10_000_000)
    monkeypatch.setattr(pa.parquet.ParquetFile, "read", lambda *words: pytest.fail("it was read"))
    with pytest.raises(DataError, match=r"1,000,000 rows needs up to .* MB of memory"):
        load_clicks(path)


def test_strings_of_digits_stay_strings_where_a_table_says_so(tmp_path: Path) -> None:
    """A CSV file knows strings alone, so integers are recognised there."""
    typed = pd.DataFrame({"user": ["1", "2", "1"], "item": ["7", "8", "8"]})
    assert pairs(typed) == {("1", "7"), ("2", "8"), ("1", "8")}
    assert pairs(write(tmp_path / "log.csv", "user,item\n1,7\n2,8\n1,8\n")) == {(1, 7), (2, 8), (1, 8)}


@pytest.mark.parametrize("word", ["2024-01-04T10:00:00Z", "2024-01-04T12:00:00+02:00", "2024-01-04 10:00:00"])
@pytest.mark.parametrize("finer", ["", ".123456789"])
def test_times_with_a_zone_and_finer_than_a_microsecond(word: str, finer: str, tmp_path: Path) -> None:
    word = word.replace(":00:00", f":00:00{finer}", 1)
    clicks = load_clicks(write(tmp_path / "log.csv", f"user,item,ts\na,x,{word}\nb,y,{word}\n"))
    expected = pd.Timestamp("2024-01-04 10:00").value // 1000 + (123456 if finer else 0)
    assert clicks.times is not None
    assert clicks.times.tolist() == [expected] * 2
    assert str(clicks.to_table()["ts"].type) == ("timestamp[us]" if " " in word else "timestamp[us, tz=UTC]")


def test_a_missing_time_is_named_by_its_row(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,ts\na,x,3\nb,y,\n")
    with pytest.raises(DataError, match="1 missing times in column 'ts' of .* \\(the first in data row 2\\)"):
        load_clicks(log)


def test_the_time_is_a_column_of_its_own(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item\na,x\nb,y\n")
    with pytest.raises(DataError, match="Column 'user' .* cannot be the time as well"):
        load_clicks(log, time="user")


def test_ids_of_odd_types_are_refused_with_advice() -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), bytes(range(16))], pa.binary(16)))
    with pytest.raises(DataError, match="turn it into strings"):
        load_clicks(pa.table({"user": uuids, "item": ["x", "y"]}))
    hashes = pa.array([2**63 + 1, 2**63 + 2], pa.uint64())  # too large for the integers that ids are: text
    assert pairs(pa.table({"user": hashes, "item": ["x", "y"]})) == {(str(2**63 + 1), "x"), (str(2**63 + 2), "y")}


CELLS = st.text(st.sampled_from('ab,"\t \r\né'), max_size=12)
"""Cells that a writer has to quote, and what stands in them beside."""


@settings(deadline=None)
@example(header=["", ",", ","], rows=[["", "", ",a"]], form=("\n", csv.QUOTE_ALL), suffix=".tsv", more=0)
@example(header=["", ",", ","], rows=[["", "", ","]], form=("\n", csv.QUOTE_ALL), suffix=".tsv", more=0)
@given(
    header=st.lists(CELLS, min_size=3, max_size=3),
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=20),
    form=st.sampled_from([("\n", csv.QUOTE_ALL), ("\r\n", csv.QUOTE_ALL), ("\r\n", csv.QUOTE_MINIMAL)]),
    suffix=st.sampled_from([".csv", ".tsv"]),
    more=st.integers(0, 200),
)
def test_quoted_cells_are_read_as_pythons_csv_module_reads_them(
    header: list[str], rows: list[list[str]], form: tuple[str, Any], suffix: str, more: int
) -> None:
    """Wherever a block ends."""
    names = [f"c{k}{cell}".strip() for k, cell in enumerate(header)]
    with TemporaryDirectory() as folder:
        path = Path(folder, f"log{suffix}")
        (end, quoting), delimiter, sizes = form, reading.SEPARATORS[suffix], []
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
            for row in [names, *rows]:
                writer.writerow(row)
                sizes.append(file.tell())
        with path.open(newline="", encoding="utf-8") as file:
            expected = list(csv.reader(file, delimiter=delimiter))
        assert expected == [names, *rows]
        longest = int(np.diff(sizes, prepend=0).max())
        with patch.object(reading, "BLOCK", longest + 16 + more):
            table, _ = reading.read_table(path)
            last = reading.read_log(path, user=names[2], item=names[1], time="")[0]
    assert table.column_names == names
    assert [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)] == rows
    assert last.column(0).to_pylist() == [row[2] for row in rows]


@pytest.mark.parametrize("asked", [True, False])
def test_quoted_line_ends_of_many_blocks(asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ids, and of a text that nobody asked for; what looks like a row in it is none."""
    monkeypatch.setattr(reading, "BLOCK", 1 << 12)
    text = "good\nnice, but, small"
    users = [f"u{k}\n{text}" if asked else f"u{k}" for k in range(997)]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "the\nitem", "review"])
        writer.writerows([user, f"i{k % 101}", text * (k % 5)] for k, user in enumerate(users))
    assert path.stat().st_size > 5 << 12
    assert pairs(path, item="the\nitem") == {(user, f"i{k % 101}") for k, user in enumerate(users)}


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 1 << 12)
    log = write(tmp_path / "log.csv", "user,item\n" + "a,x\n" * 10 + 'a,"x\n' + "a,x\n" * 5000)
    with pytest.raises(DataError, match="a row has more than 4 KiB, or a quote that is never closed"):
        load_clicks(log)
    wide = write(tmp_path / "wide.csv", '"user' + "\nx" * reading.HEAD + '",item\na,x\n')
    with pytest.raises(DataError, match="first line of more than 64 KiB"):
        load_clicks(wide)


def test_text_after_the_header_may_be_of_another_encoding_where_nobody_asks(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes("user,item,title\na,x,ä\n".encode("latin-1"))
    assert pairs(tmp_path / "log.csv") == {("a", "x")}


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_what_was_read_of_a_file_stands_for_the_file(name: str, tmp_path: Path) -> None:
    """Numbers are recognised in what was text, and in messages the file keeps its name."""
    if name == "log.csv":
        path = write(tmp_path / name, "user,item,note\n7,10,a\n8,11,b\n7,10,c\n")
    else:
        path = tmp_path / name
        pyarrow.parquet.write_table(pa.table({"user": ["7", "8"], "item": ["10", "11"]}), path)
    table, place = reading.read_table(path)
    path.unlink()
    handed_on = reading.read_table(table)
    assert (handed_on[0] is table, handed_on[1]) == (True, place)
    assert pairs(table) == ({(7, 10), (8, 11)} if name == "log.csv" else {("7", "10"), ("8", "11")})
    assert match_pairs(table, *(load_clicks(table).user_ids, load_clicks(table).item_ids)).known.all()
    with pytest.raises(DataError, match=f"No column 'who' in '.*{name}' for the user"):
        load_clicks(table, user="who")
    blank = table.set_column(0, "user", pa.array([None] * len(table), pa.string()))
    with pytest.raises(DataError, match=f"missing user ids in column 'user' of '.*{name}'"):
        load_clicks(blank, on_missing="refuse")


def test_a_parquet_file_does_not_say_of_itself_that_it_was_text(tmp_path: Path) -> None:
    table = pa.table({"user": ["7"], "item": ["10"]}).replace_schema_metadata({reading.TEXT_KEY: ""})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    assert pairs(tmp_path / "log.parquet") == {("7", "10")}


def test_a_truth_of_other_ids_is_refused_wherever_it_is_matched() -> None:
    clicks = load_clicks({"user": [f"u{k}" for k in range(300)], "item": [f"i{k}" for k in range(300)]})

    def match(known: int, *, allow_unknown: bool = False) -> Any:
        rows = [f"u{k}" if k < known else f"U-{k}" for k in range(300)]
        return match_pairs(
            {"user": rows, "item": [f"i{k}" for k in range(300)]},
            clicks.user_ids,
            clicks.item_ids,
            allow_unknown=allow_unknown,
        )

    assert match(3).known.sum() == 3
    for known in (0, 2):
        with pytest.raises(
            DataError, match=f"{known} of 300 rows of the table have user ids .* such as 'u0' .* 'U-"
        ):
            match(known)
        assert match(known, allow_unknown=True).known.sum() == known


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("user,item\na,b\n", ","),
        ("user;item\na;b\n", ";"),
        ("user;item;price\na;b;1,5\nc;d;2,5\n", ";"),  # not the comma of decimals
        ("user;item;price, EUR\na;b;1\n", ";"),  # nor that of the header
        ("user,item,tags\na,b,x;y;z\nc,d,x;y\n", ","),  # nor a list in a cell
        ('user,item,note\na,b,"x;y;z"\nc,d,"x;y;z"\n', ","),
        ("user|item\na|b\n", "|"),
        ("1;2\n3;4\n", ";"),
    ],
)
def test_the_sign_between_columns_is_seen(text: str, sign: str, tmp_path: Path) -> None:
    file, _ = reading.open_table(write(tmp_path / "log.csv", text))
    assert file.separator == sign


MIXED = {
    (
        "1577836800",
        "2020-01-01",
    ): "numbers beside dates without a zone, such as '1577836800' and '2020-01-01'; give",
    ("2020-01-01T10:00Z", "1.5e9"): "numbers beside dates with a zone, such as '1.5e9' and '2020-01-01T10:00Z'",
    (
        "2020-01-01",
        "2020-01-01T10:00Z",
    ): "a zone beside dates without a zone, such as '2020-01-01T10:00Z' and '2020",
    ("2020-01-01T10:00", "2020-01-01 10:00+02"): "dates with a zone beside dates without a zone",
    ("5", "2020-01-01", "soon", "7"): "holds 'soon', which is no time",
    ("5", "2020-01-01", "2020-01-01T10:00Z", "1.2.3"): "holds '1.2.3', which is no time",
    ("2020-01-01", *(f"2020-01-01T10:00:{k}" for k in range(10, 60)), "2020-13-01"): "holds '2020-13-01', which",
}


@pytest.mark.parametrize(("words", "expected"), MIXED.items(), ids=str)
def test_times_of_several_forms(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    rows = "".join(f"u{k},x,{word}\n" for k, word in enumerate(words))
    with pytest.raises(DataError, match=re.escape(expected)):
        load_clicks(write(tmp_path / "log.csv", f"user,item,ts\n{rows}"))


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_times_are_the_same_from_pandas_polars_arrow_and_text(zone: str, tmp_path: Path) -> None:
    words = [f"2024-01-0{k}T10:00:00{zone}" for k in (3, 1, 2)]
    log = {"user": ["a", "b", "c"], "item": ["x", "y", "z"], "ts": words}
    rows = "".join(f"{u},{i},{t}\n" for u, i, t in zip(*log.values(), strict=True))
    frame = pd.DataFrame(log)
    sources = [
        *(log, frame, pl.DataFrame(log), pa.table(log), write(tmp_path / "log.csv", f"user,item,ts\n{rows}")),
        *(frame.assign(ts=pd.to_datetime(frame.ts)), frame.astype({"ts": "category"})),
        pa.table({**log, "ts": pa.array(words, pa.string_view())}),
    ]
    first = load_clicks(log).times
    assert first.tolist() == [
        1704276000000000 + d * 86400000000 - (zone == "+02:00") * 7200000000 for d in (0, -2, -1)
    ]
    for source in sources:
        assert np.array_equal(load_clicks(source).times, first)


def test_times_of_any_size_keep_their_order() -> None:
    def order(values: pa.Array) -> list[int]:
        return np.argsort(load_clicks({"user": [1, 2, 3], "item": [1, 2, 3], "ts": values}).times).tolist()

    assert order(pa.array(["18446744073709551615", "18446744073709551614", "3"])) == [2, 1, 0]
    assert order(pa.array([2**64 - 1, 2**64 - 2, 3], pa.uint64())) == [2, 1, 0]
    assert order(pa.array([2**63 - 1, 2**63 - 2, 3], pa.timestamp("s"))) == [2, 1, 0]
    assert order(pa.array([3, 2, 1]).cast(pa.decimal128(30, 2))) == [2, 1, 0]
    with pytest.raises(DataError, match="missing times"):
        order(pa.array([1.0, 2.0, float("inf")]))


@given(data=st.data(), largest=st.sampled_from([9, 2**31, 2**62]), kind=st.sampled_from([np.int64, np.int32]))
def test_clicks_are_sorted_by_pair_and_then_by_row(data: st.DataObject, largest: int, kind: Any) -> None:
    """As by a stable sort of places, whether numbers and places fit into one number or not."""
    keys = np.array(data.draw(st.lists(st.integers(0, largest), max_size=40)), np.int64)
    order = np.argsort(keys, kind="stable")
    found, rows = _sorted(keys.copy())
    assert found.tolist() == keys[order].tolist()
    assert rows.tolist() == order.tolist()
    users = np.array(data.draw(st.lists(st.integers(-1, 2**31 - 1), max_size=9)), np.int32)
    items = np.full(len(users), 7, kind)
    assert pair_keys(users, items, 2**31).tolist() == [int(user) * 2**31 + 7 for user in users]
