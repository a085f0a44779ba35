"""`accord split`: files that the other commands take, and bad input that leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = zip(rng.integers(0, 40, 900), rng.integers(0, 50, 900), rng.integers(1, 6, 900), strict=True)
    path = tmp_path / "ratings.csv"
    lines = [f"u{u},i{i},{r},{1000 + k}" for k, (u, i, r) in enumerate(rows)]
    path.write_text("\n".join(["user,item,rating,time", *lines]))
    return path


def test_a_rated_log_becomes_files_for_fit_evaluate_and_compare(accord: Any, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    _, answer, _ = accord("split", ratings, "--clean", "rating>=4", "--by", "global-time", "--out", out, "--json")
    said = json.loads(answer)
    assert {path.name for path in out.iterdir()} == {f"{n}.parquet" for n in said["files"]} | {"config.json"}
    assert said["clean"] == "rating>=4"
    assert "rating" not in parquet.read_table(out / "train.parquet").column_names
    assert min(map(int, parquet.read_table(out / "test.parquet")["rating"].to_pylist())) >= 4
    fast = ("--set", "epochs=1", "--set", "dims=4")
    run = tmp_path / "run"
    accord("fit", out / "train.parquet", "--valid", out / "valid.parquet", "--out", run, *fast)
    assert "pairs" in accord("evaluate", run, "--truth", out / "test.parquet")[1]
    truths = ("--truth", out / "test.parquet", "--truth", out / "clicks.parquet", "--valid", out / "valid.parquet")
    words = ("--methods", "normal,oracle", "--seeds", 1, "--out", tmp_path / "cmp")
    code, shown, _ = accord("compare", out / "train.parquet", *truths, *words, *fast)
    assert code == 0
    assert "oracle" in shown


def test_folds_have_files_of_their_own(accord: Any, ratings: Path, tmp_path: Path) -> None:
    accord("split", ratings, "--folds", 3, "--out", tmp_path / "folds")
    names = {f"{name}-{k}.parquet" for name in ("train", "valid", "test") for k in (1, 2, 3)}
    assert {path.name for path in (tmp_path / "folds").iterdir()} == names | {"config.json"}
    config = json.loads((tmp_path / "folds" / "config.json").read_text())
    assert sum(one["test"] for one in config["parts"]) == sum(
        config["parts"][0][n] for n in ("train", "valid", "test")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--clean", "rating>="], "is not understood"),
        (["--clean", "stars>=4"], "No column 'stars'"),
        (["--by", "tim"], "did you mean 'time'"),
        (["--test", "0.95"], "leave nothing"),
        (["--folds", "1"], "make no test"),
        (["--folds", "3", "--by", "time"], "leave --by and --test out"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: list[str], said: str, accord: Any, ratings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "parts"
    code, _, err = accord("split", ratings, "--out", out, *words)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()


def test_a_split_takes_the_place_of_a_split_alone(accord: Any, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    accord("split", ratings, "--out", out)
    code, _, err = accord("split", ratings, "--out", out)
    assert code == 2
    assert "exists already" in err
    assert accord("split", ratings, "--out", out, "--seed", 1, "--overwrite")[0] == 0
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    code, _, err = accord("split", ratings, "--out", other, "--overwrite")
    assert code == 2
    assert "left alone" in err
