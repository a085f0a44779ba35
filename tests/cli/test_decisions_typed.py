"""`accord apply`, `accord decisions` and `accord fit --decisions`, as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from accord import Classifier, Recommender
from accord.cli.main import run as run_command

Typed = Callable[..., int]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    def run(*words: object) -> int:
        monkeypatch.setattr("sys.argv", ["accord", *map(str, words)])
        try:
            run_command()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = ["x1,x2,kind"]
    for k in range(90):
        kind = "yes" if k % 2 else "no"
        rows.append(f"{k % 2 + (k % 7) / 10:.1f},{(k % 5) / 10:.1f},{kind if k % 9 else 'no'}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def reviewed(table: Path, tmp_path: Path) -> Path:
    """A run on whose labels two people decided."""
    clf = Classifier(method="normal", epochs=3, seed=0).fit(str(table), "kind")
    clf.decide([1, 2], "keep", reviewer="r1").decide(9, "fix", label="yes", reviewer="r1")
    clf.decide(4, "drop", reviewer="r1").decide(2, "drop", reviewer="r2")
    clf.save(tmp_path / "run")
    return tmp_path / "run"


def test_apply_writes_the_file_with_the_decisions_in_it(reviewed: Path, table: Path, typed: Typed) -> None:
    out = table.with_name("cleaned.csv")
    assert typed("apply", reviewed, "--out", out) == 0
    before, after = (pyarrow.csv.read_csv(path).to_pylist() for path in (table, out))
    expected = [row | ({"kind": "yes"} if k == 9 else {}) for k, row in enumerate(before) if k != 4]
    assert after == expected


def test_apply_says_what_was_decided(reviewed: Path, typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("apply", reviewed, "--out", reviewed.with_name("a.parquet"), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["decided"] == {"keep": 1, "fix": 1, "drop": 1, "unsure": 1}
    assert said["differing"] == 1
    assert said["count"] == 89


def test_apply_takes_neither_the_place_of_the_file_nor_of_the_run(
    reviewed: Path, table: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_bytes()
    for out in (table, reviewed / "labels.parquet"):
        assert typed("apply", reviewed, "--out", out) == 2
    assert table.read_bytes() == before
    assert typed("apply", reviewed, "--out", table.with_name("x.csv"), "--undecided", "maybe") == 2
    assert "keep or drop" in capsys.readouterr().err
    assert not table.with_name("x.csv").exists()


def test_a_run_that_nobody_reviewed_is_one_sentence(
    table: Path, tmp_path: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    Classifier(method="normal", epochs=1, seed=0).fit(str(table), "kind").save(tmp_path / "new")
    for words in (
        ("apply", tmp_path / "new", "--out", tmp_path / "x.csv"),
        ("decisions", "show", tmp_path / "new"),
        ("decisions", "export", tmp_path / "new"),
    ):
        assert typed(*words) == 2
        assert "Nobody has decided anything" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_decisions_go_out_and_are_learnt_from(
    reviewed: Path, table: Path, typed: Typed, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = table.with_name(name), table.with_name("again")
    assert typed("decisions", "export", reviewed, "--out", file) == 0
    words = ("fit", table, "--label", "kind", "--method", "normal", "--epochs", 2, "--out", out)
    assert typed(*words, "--decisions", file) == 0
    notes = Classifier.load(out).notes_["decisions"]
    assert (notes["keep"], notes["fix"], notes["drop"], notes["differing"]) == (1, 1, 1, 1)
    assert "learnt from decisions of 2 reviewer(s): 1 keep, 1 fix, 1 drop" in capsys.readouterr().err
    assert typed(*words, "--overwrite", "--decisions", reviewed) == 2  # it holds decisions, which would be lost
    assert "would be lost" in capsys.readouterr().err


def test_a_reviewed_run_is_taken_as_it_is(reviewed: Path, table: Path, typed: Typed) -> None:
    out = table.with_name("again")
    words = ("fit", table, "--label", "kind", "--method", "normal", "--epochs", 2, "--out", out)
    assert typed(*words, "--decisions", reviewed) == 0
    assert Classifier.load(out).notes_["decisions"]["reviewers"] == 2


def test_decisions_that_are_none_are_one_sentence(
    table: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    out = table.with_name("again")
    words = ("fit", table, "--label", "kind", "--epochs", 1, "--out", out, "--decisions")
    assert typed(*words, table) == 2
    assert "no column 'decision'" in capsys.readouterr().err
    assert typed(*words, table.with_name("nothing.csv")) == 2
    assert not out.exists()


def test_what_several_people_decided_is_joined(
    reviewed: Path, tmp_path: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.csv"
    more.write_text("index,decision,reviewer\n1,drop,r3\n50,keep,r3\n")
    out, differ = tmp_path / "all.parquet", tmp_path / "differ.csv"
    assert typed("decisions", "merge", reviewed, more, "--out", out, "--disagreements", differ) == 0
    assert "r1, r2, r3" in capsys.readouterr().err
    assert pyarrow.parquet.read_table(out).num_rows == 7
    rows = {(row["index"], row["reviewer"]) for row in pyarrow.csv.read_csv(differ).to_pylist()}
    assert rows == {(1, "r1"), (1, "r3"), (2, "r1"), (2, "r2")}
    assert typed("decisions", "merge", more, "--out", out) == 2
    assert typed("decisions", "merge", reviewed, more, "--out", more) == 2


def test_show_says_how_far_the_list_can_be_trusted(
    reviewed: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("decisions", "show", reviewed, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["decided"] == 4
    assert said["words"] == "what you would decide"


def test_a_log_comes_back_byte_by_byte_but_for_what_was_dropped(tmp_path: Path, typed: Typed) -> None:
    lines = ["user;item;note"] + [f'u{k % 12};i{(5 * k) % 17};"say {k}"' for k in range(150)]
    log = tmp_path / "log.csv"
    log.write_bytes(("\r\n".join(lines) + "\r\n").encode())
    rec = Recommender(model="gmf", method="normal", epochs=1, seed=0).fit(str(log))
    first = rec.clicks_
    pair = (first.user_ids.take(first.users)[0].as_py(), first.item_ids.take(first.items)[0].as_py())
    rec.decide([pair], "drop").save(tmp_path / "run")
    assert typed("apply", tmp_path / "run", "--out", tmp_path / "cleaned.csv") == 0
    kept = [line for line in lines if not line.startswith(f"{pair[0]};{pair[1]};")]
    assert len(kept) < len(lines)
    assert (tmp_path / "cleaned.csv").read_bytes() == ("\r\n".join(kept) + "\r\n").encode()


def test_decisions_on_clicks_are_learnt_from(tmp_path: Path, typed: Typed) -> None:
    log = pa.table({"user": [f"u{k % 12}" for k in range(150)], "item": [f"i{(5 * k) % 17}" for k in range(150)]})
    pyarrow.parquet.write_table(log, tmp_path / "log.parquet")
    told = tmp_path / "told.csv"
    told.write_text("user,item,decision\nu0,i0,drop\nu1,i5,keep\n")
    out = tmp_path / "run"
    words = ("fit", tmp_path / "log.parquet", "--method", "normal", "--epochs", 1, "--out", out)
    assert typed(*words, "--decisions", told) == 0
    rec = Recommender.load(out)
    assert rec.notes_["decisions"]["drop"] == 1
    assert len(rec.decisions_) == 2
