"""Click logs as people have them, on the command line: in, and out again."""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from accord import Recommender

FAST = ["--epochs", "1", "--set", "dims=4", "--method", "normal"]
ROWS = [
    (f"u{u}", f"{i:03d}", f'"{u}"";\n{i}"', f"{u}.50") for u in range(20) for i in range(15) if (u * 7 + i * 5) % 3
]
TEXT = "user;item;note;price\n" + "".join(f"{';'.join(row)}\n" for row in [*ROWS, *ROWS[:9], ("", "001", "x", "1")])


@pytest.fixture
def run(accord, tmp_path: Path) -> Path:
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    code, _, err = accord("fit", tmp_path / "log.csv.gz", "--out", tmp_path / "run", *FAST)
    assert code == 0, err
    assert "1 row(s) of the log have no user or no item" in err
    return tmp_path / "run"


def rows_of(text: str) -> list[str]:
    return text.replace(";\n", ";§").splitlines()


def test_the_cleaned_log_has_the_form_of_the_log(accord, run: Path, tmp_path: Path) -> None:
    target, issues = tmp_path / "clean.csv.gz", tmp_path / "issues.parquet"
    code, _, err = accord(
        "audit", run, "--share", "0.3", "--write-clean", target, "--out", tmp_path / "issues.parquet"
    )
    assert code == 0, err
    assert "(1 of them without a user or an item) written to" in err
    listed = parquet.read_table(issues).to_pylist()
    flagged = {(row["user"], row["item"]) for row in listed if row["is_label_issue"]}
    want = [line for line in rows_of(TEXT) if tuple(line.split(";")[:2]) not in flagged]
    assert rows_of(gzip.decompress(target.read_bytes()).decode()) == want
    assert 0 < len(want) < len(rows_of(TEXT))


def test_issues_are_written_beside_every_row(accord, run: Path, tmp_path: Path) -> None:
    code, _, err = accord("audit", run, "--share", "0.3", "--write-issues", tmp_path / "judged.csv")
    assert code == 0, err
    found = rows_of((tmp_path / "judged.csv").read_text())
    assert found[0] == "user;item;note;price;label_quality;is_label_issue"
    assert [line.rsplit(";", 2)[0] for line in found] == rows_of(TEXT)
    issues = Recommender.load(run).find_label_issues(0.3).to_pandas().set_index(["user", "item"])
    for line in found[1:-1]:
        user, item, *_, quality, flag = line.split(";")
        assert float(quality) == pytest.approx(issues.label_quality[user, item], rel=1e-5)
        assert flag == str(issues.is_label_issue[user, item]).lower()
    assert found[-1].endswith(";x;1;;§")  # nothing is said of a row without a user


def test_another_form_is_written_as_a_table(accord, run: Path, tmp_path: Path) -> None:
    assert accord("audit", run, "--share", "0", "--write-clean", tmp_path / "clean.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "clean.parquet")
    assert table.column_names == ["user", "item", "note", "price"]
    assert table["item"].to_pylist() == [*(row[1] for row in [*ROWS, *ROWS[:9]]), "001"]


def test_a_log_that_was_moved_or_changed(accord, run: Path, tmp_path: Path) -> None:
    moved = (tmp_path / "log.csv.gz").rename(tmp_path / "moved.csv.gz")
    words = ["audit", run, "--write-clean", tmp_path / "clean.csv"]
    code, _, err = accord(*words)
    assert (code, "is not that log any more" in err) == (2, True)
    assert accord(*words, "--data", moved)[0] == 0
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TEXT.replace("u1;", "u2;").encode()))
    before = (tmp_path / "clean.csv").read_bytes()
    assert accord(*words)[0] == 2
    assert accord(*words, "--data", tmp_path / "log.csv.gz")[0] == 2
    assert (tmp_path / "clean.csv").read_bytes() == before


@pytest.mark.parametrize(
    "twice", [["--write-issues", "clean.csv"], ["--out", "clean.csv"], ["--write-issues", "log.csv.gz"]]
)
def test_nothing_is_written_over_the_log_or_twice(accord, run: Path, tmp_path: Path, twice: list[str]) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, _, err = accord("audit", run, "--write-clean", tmp_path / "clean.csv", twice[0], tmp_path / twice[1])
    assert (code, "write to another file" in err) == (2, True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("form", ["text", "gzip", "parquet"])
def test_a_log_from_a_pipe(accord, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = TEXT.encode()
    if form == "gzip":
        content = gzip.compress(content)
    if form == "parquet":
        buffer = io.BytesIO()
        parquet.write_table(pa.table(dict(zip(("user", "item"), zip(*ROWS, strict=True), strict=False))), buffer)
        content = buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = accord("fit", "-", "--out", tmp_path / "run", *FAST)
    assert code == 0, err
    assert f"{len(ROWS)} clicks of 20 users on 15 items" in out + err
    code, _, err = accord("audit", tmp_path / "run", "--write-clean", tmp_path / "clean.csv")
    assert (code, "give it with --data FILE" in err) == (2, True)
    (tmp_path / "log.csv").write_text(TEXT)
    if form != "parquet":
        assert (
            accord("audit", tmp_path / "run", "--write-clean", tmp_path / "c.csv", "--data", tmp_path / "log.csv")[
                0
            ]
            == 0
        )


def test_databases_weights_and_trust(accord, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE clicks (who TEXT, what TEXT, seconds REAL, sure TEXT)")
        rows = [(u, i, k % 7, ["yes", "no", None][k % 3]) for k, (u, i, *_) in enumerate(ROWS)]
        connection.executemany("INSERT INTO clicks VALUES (?, ?, ?, ?)", rows)
        connection.execute("CREATE TABLE others (x)")
    words = ["fit", tmp_path / "shop.db", "--out", tmp_path / "run", *FAST]
    code, _, err = accord(*words)
    assert (code, "has the tables clicks, others" in err) == (2, True)
    more = ["--user", "who", "--item", "what", "--weight", "seconds", "--trusted", "sure"]
    code, _, err = accord(*words, "--query", "SELECT * FROM clicks ORDER BY who, what", *more)
    assert code == 0, err
    code, _, err = accord("audit", tmp_path / "run", "--write-clean", tmp_path / "clean.csv")
    assert code == 0, err
    head, *clean = csv.reader((tmp_path / "clean.csv").read_text().splitlines())
    assert head == ["who", "what", "seconds", "sure"]
    sure = [row[3] for row in clean]
    assert ("no" in sure, sure.count("yes")) == (False, sum(row[3] == "yes" for row in rows))


def test_a_folder_of_parts_is_a_log(accord, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for k in range(2):
        own = ROWS[k::2]
        parquet.write_table(
            pa.table({"user": [r[0] for r in own], "item": [r[1] for r in own]}), tmp_path / f"parts/{k}.parquet"
        )
    code, out, err = accord("fit", tmp_path / "parts", "--out", tmp_path / "run", *FAST)
    assert code == 0, err
    assert f"{len(ROWS)} clicks" in out + err
    assert accord("audit", tmp_path / "run", "--write-clean", tmp_path / "clean.parquet", "--share", "0")[0] == 0
    assert parquet.read_table(tmp_path / "clean.parquet").num_rows == len(ROWS)


def test_options_of_clicks_are_refused_with_labels(accord, tmp_path: Path) -> None:
    code, _, err = accord("fit", "digits", "--weight", "w", "--out", tmp_path / "run")
    assert (code, "--weight" in err) == (2, True)


def test_an_interrupted_fit_keeps_every_option_of_its_log(accord, tmp_path: Path) -> None:
    """What is typed is checked by its types when it is read back; nothing of it is left out."""
    from accord.cli.commands.training import fit
    from accord.cli.fit import Typed, _checked

    asked = set(inspect.signature(inspect.unwrap(fit)).parameters) - {"resume", "checkpoint", "json"}
    assert asked == set(Typed.__annotations__)
    words = dict.fromkeys(Typed.__annotations__) | {"data": "log.csv", "out": "run", "noise": 0.0, "seed": 0}
    words |= {"noise_kind": "uniform", "device": "cpu", "overwrite": False, "query": "SELECT 1", "weight": "w"}
    words |= {"trusted": "sure", "on_missing": "refuse"}
    assert _checked(words, tmp_path) == words
    for name in ("query", "weight", "trusted", "on_missing"):  # kept before there were such options
        del words[name]
    assert _checked(words, tmp_path) == words


def test_logs_for_spreadsheet_programs(accord, tmp_path: Path) -> None:
    rows = [(f"u{u}", f"={i}+1") for u in range(8) for i in range(6)]
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    assert accord("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *FAST)[0] == 0
    clean, issues = tmp_path / "clean.csv.gz", tmp_path / "issues.csv"
    both = ["--write-clean", clean, "--write-issues", issues, "--share", "0"]
    assert accord("audit", tmp_path / "run", *both)[0] == 0
    assert gzip.decompress(clean.read_bytes()) == (tmp_path / "log.csv").read_bytes()
    assert accord("audit", tmp_path / "run", *both, "--spreadsheet")[0] == 0
    for text in (gzip.decompress(clean.read_bytes()).decode(), issues.read_text()):
        assert [row[1] for row in csv.reader(text.splitlines())][1:] == [f"'{item}" for _, item in rows]
    code, _, err = accord("audit", tmp_path / "run", "--out", tmp_path / "x.json", "--spreadsheet")
    assert (code, "--spreadsheet is for CSV" in err) == (2, True)


def test_judged_files_for_spreadsheet_programs(accord, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("label\n" + "=a\nb\n" * 9)
    np.save(tmp_path / "p.npy", np.tile([[0.9, 0.1], [0.2, 0.8]], (9, 1)))
    words = ["audit", "--labels", tmp_path / "y.csv", "--pred-probs", tmp_path / "p.npy", "--spreadsheet"]
    code, _, err = accord(*words)
    assert (code, "--spreadsheet is for CSV" in err) == (2, True)
    code, _, err = accord(*words, "--write-issues", tmp_path / "out.csv", "--classes", "=a,b")
    assert code == 0, err
    table = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert {row["label"] for row in table} == {"'=a", "b"}
