"""A run in use, as it is typed: all users, newcomers, new clicks, going on, and files for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

from accord import Recommender
from accord.data.simulator import Simulation


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "log.parquet"
    parquet.write_table(made.log().rename_columns(["user", "thing", *made.log().column_names[2:]]), path)
    return path


@pytest.fixture(scope="module")
def run(log: Path) -> Path:
    folder = log.with_name("run")
    Recommender(model="mf", method="normal", epochs=1, dims=4, batch_size=512).fit(log, item="thing").save(folder)
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_all_users(accord: Any, run: Path, tmp_path: Path, alone: None) -> None:
    place = tmp_path / "recs.parquet"
    code, out, err = accord("recommend", run, "--all", "-k", 3, "--out", place, "--json")
    assert code == 0, err
    assert json.loads(out) == {"written": str(place), "users": 300}
    assert parquet.read_table(place).equals(Recommender.load(run).recommend_all(3).to_table())


def test_a_share_of_the_users(accord: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        assert accord("recommend", run, "--all", "-k", 2, "--out", tmp_path / "recs")[0] == 0
    names = [f"recs-{rank:05d}-of-00003.parquet" for rank in range(3)]
    assert sorted(path.name for path in (tmp_path / "recs").iterdir()) == names
    assert parquet.read_table(tmp_path / "recs").num_rows == 600


@pytest.mark.parametrize(("rank", "world"), [("3", "3"), ("-1", "2"), ("a", "2"), ("0", "0")])
def test_a_rank_that_is_none(
    accord: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, world: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    code, _, err = accord("recommend", run, "--all", "--out", tmp_path / "recs")
    assert code == 2
    assert f"RANK={rank} and WORLD_SIZE={world} name no process of several" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--all"], "name it with --out"),
        (["--all", "--out", "recs.csv"], "end with .parquet"),
        (["--all", "--out", "recs.parquet", "--user", "u1"], "--user cannot be given with --all"),
        (["--all", "--out", "recs.parquet", "--format", "csv"], "--format cannot be given with --all"),
        (["--history", "new.csv", "--user", "u1"], "leave --user and --users out"),
        ([], "--history FILE or --all"),
    ],
)
def test_what_cannot_be_asked_together(
    accord: Any,
    run: Path,
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = accord("recommend", run, *words)
    assert code == 2
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_newcomers(accord: Any, run: Path, tmp_path: Path) -> None:
    table = pa.table({"user": ["new", "new", "newer"], "thing": ["i1", "i2", "i7"]})
    csv.write_csv(table, tmp_path / "new.csv")
    code, _, err = accord(
        "recommend", run, "--history", tmp_path / "new.csv", "-k", 4, "--out", tmp_path / "o.parquet"
    )
    assert code == 0, err
    assert parquet.read_table(tmp_path / "o.parquet").equals(Recommender.load(run).recommend_for(table, 4))
    code, _, err = accord("recommend", run, "--history", tmp_path / "new.csv", "--out", tmp_path / "new.csv")
    assert code == 2
    assert "write to another file" in err


def test_new_clicks(accord: Any, run: Path, tmp_path: Path) -> None:
    table = pa.table({"user": ["u1", "u2", "new", "new"], "thing": ["i1", "i2", "i7", "strange"]})
    parquet.write_table(table, tmp_path / "new.parquet")
    code, _, err = accord("audit", run, "--log", tmp_path / "new.parquet")
    assert code == 2
    assert "Unknown item: strange" in err
    words = ["--log", tmp_path / "new.parquet", "--on-unknown", "skip"]
    code, out, err = accord("audit", run, *words, "--out", tmp_path / "judged.parquet", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["judged"], told["skipped"], told["unknown"], told["new_users"]) == (3, 1, ["strange"], 1)
    expected = Recommender.load(run).judge(table, on_unknown="skip")
    assert parquet.read_table(tmp_path / "judged.parquet").equals(expected)
    assert told["flagged"] == sum(expected["is_label_issue"].to_pylist())
    code, _, err = accord("audit", run, *words, "--write-clean", tmp_path / "clean.csv")
    assert code == 2
    assert "--write-clean cannot be given with --log" in err


def test_going_on(accord: Any, run: Path, log: Path, tmp_path: Path) -> None:
    """With the run's settings and columns, unless others are named; the settings of the new run are saved."""
    more = pa.concat_tables(
        [parquet.read_table(log).select(["user", "thing"]), pa.table({"user": ["n", "n"], "thing": ["i1", "i2"]})]
    )
    parquet.write_table(more, tmp_path / "more.parquet")
    code, _, err = accord(
        "fit", "--from", run, tmp_path / "more.parquet", "--out", tmp_path / "further", "--epochs", 2
    )
    assert code == 0, err
    assert "gone on from an earlier run: 300 users known and 1 new" in " ".join(err.split())
    made = Recommender.load(tmp_path / "further")
    assert (made.settings.model, made.settings.dims, made.settings.epochs) == ("mf", 4, 2)
    assert made.notes_["warm_start"]["new_users"] == 1
    code, _, err = accord("fit", "digits", "--from", run, "--out", tmp_path / "digits")
    assert code == 2
    assert "--from cannot be given with labelled data" in err
    code, _, err = accord("fit", "--from", run, log, "--out", tmp_path / "other", "--set", "dims=8")
    assert code == 2
    assert "such as dims" in err
    assert not (tmp_path / "other").exists()


def test_files_for_other_programs(accord: Any, run: Path, tmp_path: Path) -> None:
    code, out, err = accord("export", run, "--to", tmp_path / "out", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert {*told["files"], "config.json"} == {path.name for path in (tmp_path / "out").iterdir()}
    code, _, err = accord("export", run, "--to", tmp_path / "out")
    assert code == 2
    assert "exists already" in err
    assert accord("export", run, "--to", tmp_path / "out", "--overwrite")[0] == 0
    before = {path: path.read_bytes() for path in run.iterdir()}
    assert accord("export", run, "--to", run, "--overwrite")[0] == 2
    assert accord("export", run, "--to", run / "out")[0] == 2
    assert {path: path.read_bytes() for path in run.iterdir()} == before
