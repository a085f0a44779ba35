"""The script of pages, apart from the page: how it compares, filters and writes CSV."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pytest

from accord.cli.output import for_spreadsheets

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")
ODD = [
    "=1+1",
    "+1",
    "-1",
    "-a",
    "@x",
    "'=1",
    ' "=2',
    "\t=",
    "\r",
    "\n@",
    "＝3",
    "1,5",
    "+2e3",
    "-0.5",
    "",
    " a ",
    'q"q',
]


def ran(program: str, given: Any = None) -> Any:
    """What a program in the script's own language returns, of values that it is given."""
    script = files("accord.report").joinpath("scripts", "rows.js").read_text(encoding="utf-8")
    whole = f"{script}\nconst given = {json.dumps(given)};\nconsole.log(JSON.stringify((() => {{ {program} }})()));"
    done = subprocess.run([NODE or "node", "-"], input=whole, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_numbers_are_sorted_by_size_words_with_numbers_too_and_what_is_missing_last() -> None:
    columns = [[0.5, None, -2, 1e-9, 0.5], ["u10", "u9", "", "u1", "U2"], ["img2.png", "img10.png", "img1.png"]]
    program = "return given.map((c) => [false, true].map((down) => sorted([...c.keys()], (at) => c[at], down)));"
    numbers, words, names = ran(program, columns)
    assert numbers == [[2, 3, 0, 4, 1], [0, 4, 3, 2, 1]]  # of equals, the first stays first, both ways
    assert words == [[3, 4, 1, 0, 2], [0, 1, 4, 3, 2]]
    assert names == [[2, 0, 1], [1, 0, 2]]


def test_filters_are_met_together() -> None:
    draw = random.Random(0)
    rows: list[list[Any]] = [
        [draw.choice(["Ash", "birch", "x"]), draw.choice("ab"), draw.random(), draw.randrange(5)] for _ in range(60)
    ]
    asked: list[dict[str, Any]] = [
        {
            "words": draw.choice(["", " as ", "I", "zzz", "0"]),
            "equal": draw.choice([[], [[1, "a"]], [[0, "x"], [1, "b"]]]),
            "ranges": draw.choice([[], [[2, 0.25, 0.75]], [[2, 0, 0.5], [3, 1, 3]], [[3, 2, 2]]]),
        }
        for _ in range(40)
    ]
    found = ran("return given[1].map((one) => filtered(given[0], one));", [rows, asked])
    for one, places in zip(asked, found, strict=True):
        word = one["words"].strip().lower()
        expected = [
            at
            for at, row in enumerate(rows)
            if all(row[k] == v for k, v in one["equal"])
            and all(low <= row[k] <= high for k, low, high in one["ranges"])
            and (not word or any(word in cell.lower() for cell in row[:2]))
        ]
        assert places == expected
    assert len({len(places) for places in found}) > 4


def test_csv_holds_the_cells_and_is_safe_for_spreadsheets_by_the_rule_of_the_command_line() -> None:
    rows = [[text, 0.25, -3, None] for text in [*ODD, "a,b", "two\nlines"]]
    text = ran("return csv(given[0], given[1]);", [["name", "q", "n", "none"], rows])
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[0] == ["name", "q", "n", "none"]
    assert [row[1:] for row in read[1:]] == [["0.25", "-3", ""]] * len(rows)
    safe = for_spreadsheets(pa.table({"name": [row[0] for row in rows]}))["name"].to_pylist()
    assert [row[0] for row in read[1:]] == safe
    assert sum(one != row[0] for one, row in zip(safe, rows, strict=True)) >= 8
