"""Nothing lost on the way back: what comes out is the log itself, all columns, all repeats, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from accord import Recommender
from accord.errors import DataError

ROWS = 120


def messy() -> pd.DataFrame:
    """A log with repeats, further columns of all kinds, a gap, and an order of its own."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=ROWS, freq="h", tz="Europe/Berlin")[::-1],
            "user": [f"u{k}" for k in rng.integers(0, 9, ROWS)],
            "note": [None if k % 7 == 0 else f'say "{k}", please\n' for k in range(ROWS)],
            "item": [f"{k:03d}" for k in rng.integers(0, 12, ROWS)],
            "price": rng.normal(size=ROWS).round(3).astype(np.float32),
            "kind": pd.Categorical(rng.choice(["view", "buy"], ROWS), ["buy", "view", "never"]),
        },
        index=pd.Index(rng.permutation(ROWS) + 1000, name="event"),
    )
    frame.loc[frame.index[5], "user"] = None
    return frame


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    import warnings

    from accord.errors import DataWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


def fitted(log: Any, **more: Any) -> Recommender:
    return Recommender(method="popularity").fit(log, **more)


def arrow(result: Any) -> pa.Table:
    """A result, in whatever kind of table it came."""
    return result if isinstance(result, pa.Table) else pa.table(result)


def expected(rec: Recommender, frame: pd.DataFrame, share: float) -> np.ndarray:
    """Which rows stay, by the list of issues and nothing else."""
    issues = arrow(rec.find_label_issues(share)).to_pandas()
    bad = {(r.user, r.item) for r in issues[issues.is_label_issue].itertuples()}
    assert bad
    return np.array([(u, i) not in bad for u, i in zip(frame["user"], frame["item"], strict=True)])


def test_a_frame_comes_back_as_it_was(tmp_path: Path) -> None:
    frame = messy()
    rec = fitted(frame)
    kept = expected(rec, frame, 0.3)
    clean = rec.cleaned_log(share=0.3)
    pd.testing.assert_frame_equal(clean, frame[kept])
    rec.save(tmp_path / "run")
    again = arrow(Recommender.load(tmp_path / "run").cleaned_log(share=0.3, log=frame)).to_pandas()
    pd.testing.assert_frame_equal(again, frame[kept])


def test_other_tables_come_back_as_they_were() -> None:
    frame = messy().reset_index(drop=True)
    for log in (
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame, preserve_index=False),
        frame.astype(object).where(frame.notna(), None).to_dict("list"),
    ):
        rec = fitted(log)
        kept = expected(rec, frame, 0.3)
        whole = pa.table(log)
        clean = arrow(rec.cleaned_log(share=0.3))
        assert clean.schema.equals(whole.schema)
        assert clean.to_pylist() == [row for row, own in zip(whole.to_pylist(), kept, strict=True) if own]


@pytest.mark.parametrize("name", ["log.parquet", "parts"])
def test_parquet_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    frame = messy().reset_index(drop=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if name == "parts":
        (tmp_path / name).mkdir()
        pyarrow.parquet.write_table(table.slice(0, 50), tmp_path / name / "a.parquet")
        pyarrow.parquet.write_table(table.slice(50), tmp_path / name / "b.parquet")
    else:
        pyarrow.parquet.write_table(table, tmp_path / name)
    table = pyarrow.parquet.read_table(tmp_path / name)  # as Parquet keeps it
    rec = fitted(tmp_path / name)
    rec.save(tmp_path / "run")
    clean = Recommender.load(tmp_path / "run").cleaned_log(share=0.3)  # found again where it was
    assert clean.schema.equals(table.schema)
    assert clean.to_pandas().dtypes.equals(table.to_pandas().dtypes)
    assert clean.to_pylist() == table.filter(pa.array(expected(rec, frame, 0.3))).to_pylist()
    assert b"accord" not in b"".join(clean.schema.metadata or {})


def test_text_comes_back_as_text_with_integers_recognised(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user;item;n\n7;01;1.50\n8;02;\n7;01;x\n9;02;é\n", encoding="utf-8")
    rec = fitted(tmp_path / "log.csv")
    assert rec.cleaned_log(share=0).to_pydict() == {
        "user": [7, 8, 7, 9], "item": ["01", "02", "01", "02"], "n": ["1.50", "", "x", "é"],
    }  # fmt: skip


def test_issues_name_their_rows() -> None:
    frame = messy().reset_index(drop=True)
    issues = arrow(fitted(frame).find_label_issues()).to_pandas()
    groups = frame.reset_index().groupby(["user", "item"])["index"]
    first, size = groups.min(), groups.size()
    for row in issues.itertuples():
        assert (row.row, row.rows) == (first[row.user, row.item], size[row.user, row.item])
    assert issues.rows.sum() == ROWS - 1  # one row has no user


def test_a_log_with_issues_has_every_row() -> None:
    frame = messy()
    frame["label_quality"] = 3
    rec = fitted(frame)
    judged = rec.log_with_issues(share=0.2)
    pd.testing.assert_frame_equal(judged[list(frame.columns)], frame)
    issues = arrow(rec.find_label_issues(0.2)).to_pandas().set_index(["user", "item"])
    for row in judged.itertuples():
        if row.user is None or row.user != row.user:
            assert pd.isna(row.accord_label_quality)
        else:
            assert row.accord_label_quality == issues.label_quality[row.user, row.item]
            assert row.is_label_issue == issues.is_label_issue[row.user, row.item]


def test_another_log_is_refused(tmp_path: Path) -> None:
    frame = messy()
    rec = fitted(frame)
    for other in (frame[::-1], frame.iloc[:-1], frame.assign(item=frame["item"].to_numpy()[::-1])):
        with pytest.raises(DataError, match="other pairs or another order"):
            rec.cleaned_log(log=other)
    frame.loc[frame.index[0], "item"] = "changed since"
    with pytest.raises(DataError, match="other pairs or another order"):
        rec.cleaned_log()


def test_a_recorded_path_tells_nothing_of_another_file(tmp_path: Path) -> None:
    """Whoever made a run folder chose the path in it."""
    (tmp_path / "log.csv").write_text("user,item\na,x\nb,y\n")
    fitted(tmp_path / "log.csv").save(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    (tmp_path / "secret.csv").write_text("root,secret words\n1,2\n")
    for place in ("secret.csv", "log.csv.gone"):
        words = json.loads(config.read_text())
        words["source"]["path"] = str(tmp_path / place)
        config.write_text(json.dumps(words))
        with pytest.raises(DataError, match="is not that log any more") as caught:
            Recommender.load(tmp_path / "run").cleaned_log()
        assert "words" not in str(caught.value)
    words["source"]["rows"] = "many"
    config.write_text(json.dumps(words))
    with pytest.raises(DataError, match="damaged"):
        Recommender.load(tmp_path / "run")


def test_a_run_folder_keeps_no_address(tmp_path: Path) -> None:
    import sqlite3

    pytest.importorskip("sqlalchemy")
    (tmp_path / "TOPSECRET").mkdir()
    with sqlite3.connect(tmp_path / "TOPSECRET" / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE clicks AS SELECT 'a' AS user, 'x' AS item UNION ALL SELECT 'b', 'y'")
    address = f"sqlite:///{tmp_path}/TOPSECRET/shop.sqlite"
    rec = fitted(address, query="SELECT user, item FROM clicks")
    rec.save(tmp_path / "run")
    assert "TOPSECRET" not in "".join(p.read_text(errors="replace") for p in (tmp_path / "run").iterdir())
    assert rec.cleaned_log(share=0).num_rows == 2
    with pytest.raises(DataError) as caught:
        fitted("postgresql://bob:S3/CR@ET@127.0.0.1:1/db?user=bob&password=S3CRET", query="SELECT 1")
    assert not {"S3", "CR@", "S3CRET"} & set(str(caught.value).replace("'", " ").split())
    assert "S3CRET" not in str(caught.value)
