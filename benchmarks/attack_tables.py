"""Tables for `attack.py`: generated CSV beside Python's own reader, and Arrow types value by value."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from accord.data import reading
from accord.data.clicks import load_clicks
from accord.data.ids import Ids
from accord.errors import AccordError
from accord.estimators.run_folder import read_ids, write_ids

LETTERS = ["a", "Z", "0", "7", " ", "é", "日", "😀", "'", ".", "-", "_", ";", "|", "#", "\\"]
QUOTED = ['"', ",", "\t", "\n", "\r\n", "\r", '"",', '\n"']


def generated_csv(rng: random.Random, place: Path) -> Iterator[str]:
    """One text of a random dialect, read row by row as Python reads it; says what differs."""
    suffix, separator = rng.choice([(".csv", ","), (".tsv", "\t")])
    path, width = place / f"log{suffix}", rng.randint(2, 5)
    ending = rng.choice(["\n", "\r\n"])
    quoting: Any = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    odd = rng.random() < 0.6
    rows = [[_cell(rng, odd) for _ in range(width)] for _ in range(rng.choice([1, 5, 60, 700]))]
    header = [rng.choice(["user", "item", "note", "tijd", "x y"]) + str(k) for k in range(width)]
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=ending, quoting=quoting).writerows([header, *rows])
    written = text.getvalue() if rng.random() < 0.8 else text.getvalue().removesuffix(ending)
    content = (b"\xef\xbb\xbf" if rng.random() < 0.2 else b"") + written.encode()
    path.write_bytes(content)
    expected = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator))
    if any(len(row) != width for row in expected):
        return  # Python writes some carriage returns without quotes: then it is no table for itself either
    block, reading.BLOCK = reading.BLOCK, rng.choice([4096, 65536, reading.BLOCK])
    try:
        table, _ = reading.read_table(path)
        found = [table.column_names, *([row[name] for name in table.column_names] for row in table.to_pylist())]
    except AccordError as error:
        longest = max(len(separator.join(row).encode()) for row in expected)
        if longest < reading.BLOCK // 2:
            yield f"refused: {error}; {content[:400]!r}"
        return
    finally:
        reading.BLOCK = block
    if found != expected:
        wrong = next(
            (k for k, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), "length"
        )
        yield f"row {wrong} differs: {content[:400]!r}"


def _cell(rng: random.Random, odd: bool) -> str:
    pool = LETTERS + (QUOTED if odd else [])
    return "".join(rng.choice(pool) for _ in range(rng.randint(1, rng.choice([3, 12, 12, 300]))))


def arrow_types(rng: random.Random, place: Path) -> Iterator[str]:
    """A log whose ids are of random Arrow types, through Parquet and a run's own table of ids."""
    rows = rng.randint(1, 200)
    users, items = (_typed(rng, rows) for _ in range(2))
    table = pa.table({"user": users, "item": items})
    if rng.random() < 0.5:
        parquet.write_table(table, place / "log.parquet")
    try:
        clicks = load_clicks(place / "log.parquet" if (place / "log.parquet").exists() else table)
    except AccordError:
        if (
            any(_is_plain(column.type) for column in (users, items))
            and _is_plain(users.type)
            and _is_plain(items.type)
        ):
            yield f"refused: {users.type}, {items.type}"
        return
    pairs = zip(
        clicks.user_ids.take(clicks.users).to_pylist(), clicks.item_ids.take(clicks.items).to_pylist(), strict=True
    )
    found = {(str(user), str(item)) for user, item in pairs}
    expected = {(str(user), str(item)) for user, item in zip(users.to_pylist(), items.to_pylist(), strict=True)}
    if _is_plain(users.type) and _is_plain(items.type) and found != expected:
        yield f"{users.type}, {items.type}: {sorted(found ^ expected)[:4]}"
    write_ids(place / "ids.parquet", clicks.user_ids, clicks.item_ids)
    for ids, again in zip((clicks.user_ids, clicks.item_ids), read_ids(place / "ids.parquet"), strict=True):
        if not _same(ids, again):
            yield f"ids of {users.type}, {items.type} are others when they are read again"


def _same(one: Ids, other: Ids) -> bool:
    return one.values.type == other.values.type and one.values.to_pylist() == other.values.to_pylist()


def _is_plain(kind: pa.DataType) -> bool:
    """Integers and text, of which nothing may be refused or changed."""
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _typed(rng: random.Random, rows: int) -> pa.Array:
    bits = rng.choice([8, 16, 32, 64])
    whole = [rng.randrange(0, 1 << (bits - 2)) for _ in range(9)]
    words = ["".join(rng.choice(LETTERS) for _ in range(4)).strip() + str(k) for k in range(9)]
    when = datetime(2020, 1, 1)
    values: Any
    kind, values = rng.choice(
        [
            (getattr(pa, f"int{bits}")(), whole),
            (getattr(pa, f"uint{bits}")(), whole),
            (pa.string(), words),
            (pa.large_string(), words),
            (pa.dictionary(pa.int32(), pa.string()), words),
            (pa.dictionary(pa.int8(), pa.int64()), whole),
            (pa.float64(), [float(k) for k in range(9)]),
            (pa.float64(), [k + 0.5 for k in range(9)]),
            (pa.decimal128(20, 2), [Decimal(k) for k in range(9)]),
            (pa.binary(), [word.encode() for word in words]),
            (pa.bool_(), [True, False]),
            (pa.timestamp("us"), [when + timedelta(days=k) for k in range(9)]),
            (pa.list_(pa.int64()), [[k] for k in range(9)]),
            (pa.null(), [None]),
        ]
    )
    chosen: Any = [rng.choice(values) for _ in range(rows)]
    if pa.types.is_dictionary(kind):
        return pa.array(chosen, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(chosen, kind)
