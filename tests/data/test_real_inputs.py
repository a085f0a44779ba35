"""Hostile but real click logs: what a person gets for each. No row is lost without a word, nothing ends in a
traceback, and none needs more than two lines of Python."""

from __future__ import annotations

import bz2
import gzip
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

from accord import Recommender
from accord.errors import AccordError, DataWarning

PAIRS = [(u, i) for u in range(6) for i in range(8) if (u * 3 + i * 5) % 4]
USERS, ITEMS = [f"u{u}" for u, _ in PAIRS], [f"i{i}" for _, i in PAIRS]
FRAME = {"user": USERS, "item": ITEMS}
WHEN = [datetime(2024, 1, 1) + timedelta(hours=k) for k in range(len(PAIRS))]


def text(sign: str = ",", end: str = "\n", head: str = "user,item", rows: list[str] | None = None) -> str:
    rows = [f"{u},{i}" for u, i in zip(USERS, ITEMS, strict=True)] if rows is None else rows
    return end.join([head, *rows, ""]).replace(",", sign)


def file(name: str, content: str | bytes) -> Callable[[Path], Any]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def table(columns: dict[str, Any]) -> Callable[[Path], Any]:
    return lambda folder: pa.table(columns)


def sqlite(folder: Path) -> Path:
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE clicks (user TEXT, item TEXT)")
        connection.executemany("INSERT INTO clicks VALUES (?, ?)", zip(USERS, ITEMS, strict=True))
    return folder / "shop.sqlite"


def duck(folder: Path) -> Path:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE clicks (user TEXT, item TEXT, kind TEXT)")
        rows = [(u, i, "view") for u, i in zip(USERS, ITEMS, strict=True)]
        connection.executemany("INSERT INTO clicks VALUES (?, ?, ?)", [*rows, ("u9", "i9", "error")])
    return folder / "shop.duckdb"


def address(folder: Path) -> str:
    pytest.importorskip("sqlalchemy")
    return f"sqlite:///{sqlite(folder)}"


def parts(folder: Path) -> Path:
    (folder / "log").mkdir()
    whole = pa.table(FRAME)
    pyarrow.parquet.write_table(whole.slice(0, 11), folder / "log" / "part-00000.parquet")
    pyarrow.parquet.write_table(whole.slice(11), folder / "log" / "part-00001.parquet")
    (folder / "log" / "_SUCCESS").touch()
    return folder / "log"


def zst(folder: Path) -> Path:
    with pa.output_stream(folder / "log.tsv.zst", compression="zstd") as out:
        out.write(text("\t").encode())
    return folder / "log.tsv.zst"


def mixed(values: list[Any]) -> pa.Array:
    return pa.array([*values, *USERS[len(values) :]])


@dataclass
class Case:
    make: Callable[[Path], Any]
    users: int = 6
    items: int = 8
    dropped: int = 0
    refused: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """Further keywords of the one call that is made."""


GAPS = [None, "NaN", "null", "", "None", "<NA>"]
HALF = len(PAIRS) // 2
CASES = {
    "gzip": Case(file("log.csv.gz", gzip.compress(text().encode()))),
    "gzip of two members": Case(
        file("log.csv.gz", gzip.compress(text().encode()[:99]) + gzip.compress(text().encode()[99:]))
    ),
    "bzip2": Case(file("log.csv.bz2", bz2.compress(text().encode()))),
    "zstandard, tabs": Case(zst),
    "semicolons in .csv": Case(file("log.csv", text(";"))),
    "semicolons and decimal commas": Case(
        file(
            "log.csv",
            text(rows=[f"{u};{i};1,5" for u, i in zip(USERS, ITEMS, strict=True)], head="user;item;stars"),
        )
    ),
    "tabs in .csv": Case(file("log.csv", text("\t"))),
    "commas in .tsv": Case(file("log.tsv", text())),
    "byte order mark and Windows ends": Case(file("log.csv", "\ufeff" + text(end="\r\n"))),
    "UTF-16 of a spreadsheet": Case(file("log.csv", text().encode("utf-16")), refused="UTF-16"),
    "gzip cut short": Case(
        file("log.csv.gz", gzip.compress(text().encode())[:-20]), refused="cannot be decompressed"
    ),
    "gzip that is none": Case(file("log.csv.gz", text()), refused="cannot be decompressed"),
    "folder of parts": Case(parts),
    "folder without parts": Case(lambda folder: folder, refused="folder without Parquet files"),
    "SQLite with one table": Case(sqlite),
    "DuckDB with a query": Case(duck, more={"query": "SELECT user, item FROM clicks WHERE kind = 'view'"}),
    "query with an error": Case(sqlite, more={"query": "SELECT usr FROM clicks"}, refused="no such column"),
    "address with a query": Case(address, more={"query": "SELECT user, item FROM clicks"}),
    "address without a query": Case(address, refused="needs a query"),
    "missing ids in CSV": Case(file("log.csv", text() + ",i1\nu1,\nNaN,i2\nnull,i3\nNULL,i3\n"), dropped=5),
    "missing ids in a table": Case(
        table({"user": [*USERS, *GAPS], "item": [*ITEMS, *["only here"] * len(GAPS)]}), dropped=len(GAPS)
    ),
    "missing ids refused": Case(
        file("log.csv", text() + ",i1\n"), more={"on_missing": "refuse"}, refused="1 missing user id"
    ),
    "missing ids of pandas": Case(
        lambda folder: pd.DataFrame({"user": [*USERS, None, np.nan], "item": [*ITEMS, "i1", "i2"]}), dropped=2
    ),
    "floats since one was missing": Case(
        lambda folder: pd.DataFrame({"user": [*(u for u, _ in PAIRS), None], "item": [*ITEMS, "i1"]}), dropped=1
    ),
    "floats in CSV since one was missing": Case(
        file("log.csv", text(rows=[*(f"{u}.0,i{i}" for u, i in PAIRS), ",i1"])), dropped=1
    ),
    "floats beyond what they can tell apart": Case(
        table({"user": pa.array([2.0**53 + 2 * u for u, _ in PAIRS]), "item": ITEMS}), refused="may be one number"
    ),
    "integers beyond 64 bits with a sign": Case(
        table({"user": pa.array([2**63 + u for u, _ in PAIRS], pa.uint64()), "item": ITEMS})
    ),
    "decimals of a database": Case(
        table({"user": pa.array([u for u, _ in PAIRS]).cast(pa.decimal128(30, 2)), "item": ITEMS})
    ),
    "unused categories": Case(
        lambda folder: pd.DataFrame({**FRAME, "item": pd.Categorical(ITEMS, [f"i{k}" for k in range(99)])})
    ),
    "nothing in a dictionary": Case(
        table(
            {
                "user": pa.DictionaryArray.from_arrays(
                    pa.array([u % 3 for u, _ in PAIRS], pa.int32()), pa.array([None, "a", "b"])
                ),
                "item": ITEMS,
            }
        ),
        users=2,
        dropped=sum(u % 3 == 0 for u, _ in PAIRS),
    ),
    "floats in a dictionary": Case(
        table({"user": pa.array([float(u) for u, _ in PAIRS]).dictionary_encode(), "item": ITEMS})
    ),
    "numbers and text in one column of pandas": Case(
        lambda folder: pd.DataFrame({"user": [1, *USERS[1:]], "item": ITEMS}), refused="column user"
    ),
    "integers of pandas beyond 64 bits": Case(
        lambda folder: pd.DataFrame({"user": [2**70, *USERS[1:]], "item": ITEMS}), refused="cannot be read"
    ),
    "lazy frame of polars": Case(lambda folder: pl.DataFrame(FRAME).lazy()),
    "ISO times of polars": Case(lambda folder: pl.DataFrame({**FRAME, "ts": [str(w) for w in WHEN]})),
    "ISO times with a zone of pandas": Case(
        lambda folder: pd.DataFrame({**FRAME, "ts": [w.replace(tzinfo=UTC).isoformat() for w in WHEN]})
    ),
    "ISO times with and without a zone": Case(
        table({**FRAME, "ts": [w.isoformat() + ("Z" if k % 2 else "") for k, w in enumerate(WHEN)]}),
        refused="dates with a zone beside dates without a zone",
    ),
    "one time is a word": Case(
        table({**FRAME, "ts": [*(str(w) for w in WHEN[1:]), "yesterday"]}), refused="'yesterday', which is no time"
    ),
    "matrix": Case(lambda folder: scipy.sparse.csr_matrix((np.ones(len(PAIRS)), tuple(zip(*PAIRS, strict=True))))),
    "named pair of odd columns": Case(file("log.csv", text(head="wer,was")), more={"user": "wer", "item": "was"}),
    "a weight is missing": Case(
        table({**FRAME, "seconds": [None, *range(1, len(PAIRS))]}),
        more={"weight": "seconds"},
        refused="1 value.* no weights",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_person_gets(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    rec, log = Recommender(method="popularity"), case.make(tmp_path)
    if "weight" in case.more:
        rec = Recommender(method="normal", epochs=1, dims=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if case.refused:
            with pytest.raises(AccordError, match=case.refused) as caught:
                rec.fit(log, **case.more)
            assert "\n" not in str(caught.value)
            assert "--" not in str(caught.value)
            return
        rec.fit(log, **case.more)
    assert (len(rec.user_ids_), len(rec.item_ids_)) == (case.users, case.items)
    words = [str(one.message) for one in said if one.category is DataWarning]
    assert (words == []) if not case.dropped else (len(words) == 1 and words[0].startswith(f"{case.dropped} row"))
    assert rec.notes_.get("dropped", 0) == case.dropped
    clean = rec.cleaned_log(share=0.0)
    assert len(clean) == rec.clicks_.counts.sum() + case.dropped
    assert len(clean) == rec.clicks_.origin.rows  # pyright: ignore[reportOptionalMemberAccess]
