"""Logs that are compressed, piped, in parts or in databases are bounded like plain ones."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord import memory
from accord.data import databases, dialects, parquet_parts
from accord.data.databases import Query
from accord.data.parquet_files import read_parquet_bytes
from accord.data.reading import read_standard_input, read_table
from accord.errors import DataError
from accord.plain import read_stream
from accord.predictions.files import read_array, read_labels

LOG = b"user,item\n" + b"".join(b"u%d,i%d\n" % (k % 7, k % 5) for k in range(200))
BOMB = b"user,item\n" + b"1,1\n" * 2_000_000
ENDLESS = (
    "WITH RECURSIVE rows(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows) SELECT n AS user, n AS item FROM rows"
)


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the blocks that were unpacked to be counted."""
    sizes: list[int] = []
    blocks = dialects.blocks

    def counted(source: Any) -> Any:
        for block in blocks(source):
            sizes.append(len(block))
            yield block

    monkeypatch.setattr(dialects, "blocks", counted)
    return sizes


@pytest.mark.parametrize("suffix", PACKED)
def test_no_more_is_unpacked_than_may_be_there(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: list[int]
) -> None:
    path = tmp_path / f"log.csv{suffix}"
    path.write_bytes(PACKED[suffix](BOMB))
    monkeypatch.setattr(memory, "HARMLESS", 4_000_000)
    monkeypatch.setattr(memory, "MOST_GROWTH", 50)
    monkeypatch.setattr(dialects, "LOOK", 1 << 20)
    with pytest.raises(DataError, match=r"rows would grow from 0\.0 MB in files"):
        read_table(path)
    assert 0 < sum(unpacked) < len(BOMB) / 2


@pytest.mark.parametrize("suffix", PACKED)
def test_what_does_not_fit_is_refused_and_what_fits_is_read(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"log.csv{suffix}"
    path.write_bytes(PACKED[suffix](LOG))
    assert read_table(path)[0].num_rows == 200
    assert read_standard_input(path.read_bytes()).num_rows == 200
    path.write_bytes(PACKED[suffix](BOMB))
    monkeypatch.setattr(memory, "machine_memory", lambda: 50_000_000)
    with pytest.raises(DataError, match=r"2,000,00\d rows needs up to 0\.1 GB of memory"):
        read_table(path)
    with pytest.raises(DataError, match=r"The standard input with 2,000,00\d rows needs up to"):
        read_standard_input(path.read_bytes())


def test_rows_are_counted_only_where_they_might_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: list[int]
) -> None:
    """Two bytes a row at least, and 56 of memory: of 1,000,000 bytes at most 29 MB."""
    (tmp_path / "log.csv").write_bytes(b"user,item\n" + b"1,1\n" * 249_998)
    monkeypatch.setattr(memory, "machine_memory", lambda: 30_000_000)
    monkeypatch.setattr(dialects, "refuse_rows", lambda *_: pytest.fail("they were counted"))
    assert read_table(tmp_path / "log.csv")[0].num_rows == 249_998
    (tmp_path / "log.csv").write_bytes(b"user,item\n" + b'"1\n",1\n' * 100_000)  # quotes are seen all the same
    assert read_table(tmp_path / "log.csv")[0].num_rows == 100_000
    monkeypatch.undo()
    monkeypatch.setattr(memory, "machine_memory", lambda: 20_000_000)
    counted: list[int] = []
    monkeypatch.setattr(dialects, "refuse_rows", lambda size, rows, *_: counted.append(rows))
    (tmp_path / "log.csv").write_bytes(b"user,item\n" + b"1,1\n" * 249_998)
    assert read_table(tmp_path / "log.csv")[0].num_rows == 249_998
    assert counted[-1] == 250_000


def test_parquet_that_is_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"user": np.arange(500_000), "item": np.arange(500_000) % 7}), file)
    assert read_parquet_bytes(file.getvalue(), "the standard input").num_rows == 500_000
    assert read_standard_input(file.getvalue()).column_names == ["user", "item"]
    monkeypatch.setattr(memory, "machine_memory", lambda: 5_000_000)
    with pytest.raises(DataError, match="^The standard input with 500,000 rows needs up to"):
        read_standard_input(file.getvalue())
    with pytest.raises(DataError, match="^The standard input is not a Parquet file"):
        read_standard_input(file.getvalue()[:-20])


def test_a_pipe_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 200_000_000)
    with Path("/dev/zero").open("rb") as endless, pytest.raises(DataError, match="^The standard input needs up to"):
        read_stream(endless, "The standard input")
    assert read_stream(io.BytesIO(LOG * 9), "x") == LOG * 9


def test_parts_ask_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fits alone, but not beside those that were read before."""
    rows = 1_000_000
    for k in range(4):
        pq.write_table(pa.table({"user": np.zeros(rows), "item": np.zeros(rows)}), tmp_path / f"{k}.parquet")
    before = pa.total_allocated_bytes()
    monkeypatch.setattr(memory, "machine_memory", lambda: 80_000_000 - (pa.total_allocated_bytes() - before))
    assert read_table(tmp_path / "3.parquet")[0].num_rows == rows
    with pytest.raises(DataError, match=r"/[123]\.parquet' with 1,000,000 rows needs up to"):
        read_table(tmp_path)


def test_parts_of_several_types_are_made_one_where_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, kinds in (("same", (np.int64, np.int64)), ("several", (np.int32, np.int64))):
        (tmp_path / folder).mkdir()
        for k, kind in enumerate(kinds):
            pq.write_table(pa.table({"user": np.arange(1000).astype(kind)}), tmp_path / folder / f"{k}.parquet")
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(parquet_parts, "refuse_too_large", lambda need, what, advice: asked.append((need, what)))
    assert read_table(tmp_path / "same")[0].num_rows == 2000
    assert asked == []
    assert read_table(tmp_path / "several")[0].num_rows == 2000
    ((need, what),) = asked
    assert 12_000 <= need < 13_000  # gaps may be marked
    assert what == f"'{tmp_path / 'several'}'"


def sqlite(path: Path, select: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW log AS {select}")
        connection.commit()
    return path


def test_a_database_that_gives_rows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sqlite(tmp_path / "log.sqlite", ENDLESS)
    monkeypatch.setattr(memory, "machine_memory", lambda: 10_000_000)
    with pytest.raises(DataError, match=r"log\.sqlite' needs up to .* let the query give fewer rows"):
        read_table(path)
    assert Query(path, "SELECT * FROM log LIMIT 70000").read().num_rows == 70_000


def test_long_cells_of_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="string or blob too big"):
        read_table(sqlite(tmp_path / "one.sqlite", "SELECT 1 AS user, hex(zeroblob(900000000)) AS item"))
    monkeypatch.setattr(memory, "machine_memory", lambda: 30_000_000)
    path = sqlite(tmp_path / "many.sqlite", ENDLESS.replace("n AS item", "hex(zeroblob(1000000)) AS item"))
    with pytest.raises(DataError, match="needs up to"):
        read_table(path)


def test_a_duckdb_file_that_gives_more_than_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "log.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE VIEW log AS SELECT range AS user, range AS item FROM range(100000000000)")
    assert Query(path, "SELECT * FROM log LIMIT 200000").read().num_rows == 200_000
    left = [5_000_000, 4_000_000, 3_000_000, 1_000_000]
    monkeypatch.setattr(memory, "machine_memory", lambda: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(databases, "machine_memory", lambda: 400_000_000)
    with pytest.raises(DataError, match=r"needs up to .* let the query give fewer rows"):
        Query(path).read()


@pytest.mark.parametrize("name", ["log.csv.gz", "log.sqlite", "log.duckdb", "y.npy", "labels.csv"])
def test_pipes_are_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    read: Callable[[Path], Any] = {"y.npy": read_array, "labels.csv": lambda path: read_labels(path, None, 3)}.get(
        name, read_table
    )
    with pytest.raises(DataError, match="is a named pipe"):
        read(path)
    if "log" in name:
        with pytest.raises(DataError, match="is a named pipe"):
            Query(path, "SELECT 1").read()
