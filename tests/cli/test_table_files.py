"""A table in a file, and its file back: without wrong labels, with marks or with others, cell by cell as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from PIL import Image

from accord import Classifier
from accord.data import reading
from accord.estimators.tables_back import original_table
from mixed_tables import mixed


def written(path: Path, frame: pd.DataFrame) -> Path:
    """A file of a table, in the format of its name."""
    suffix = "".join(path.suffixes)
    if suffix == ".parquet":
        frame.to_parquet(path, compression="zstd")
    elif suffix in (".arrow", ".feather"):
        feather.write_feather(pa.Table.from_pandas(frame), path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix.startswith(".tsv") else ",")
    return path


FORMATS = [".csv", ".tsv", ".csv.gz", ".parquet", ".arrow", ".feather"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_comes_back_cell_by_cell(accord: Any, suffix: str, tmp_path: Path) -> None:
    if suffix.endswith(".gz") and ".gz" not in reading.READABLE:
        pytest.skip("compressed text is not read")
    frame = pd.concat([mixed(), mixed().iloc[:5]], ignore_index=True)
    frame["kind"] = frame["kind"].where(np.arange(len(frame)) % 9 > 0, "ash")
    frame["zip"] = [f"0{k % 10}10" for k in range(len(frame))]
    frame["count"] = pd.array([k % 100 for k in range(len(frame))], "Int8")
    file = written(tmp_path / f"t{suffix}", frame)
    run, clean, marked = (tmp_path / name for name in ("run", f"clean{suffix}", f"marked{suffix}"))
    words = ["--label", "kind", "--method", "normal", "--epochs", "4", "--out", run]
    code, _, err = accord("fit", file, *words)
    assert code == 0, err
    assert "Columns left out: 'plant_id'" in err
    code, _, err = accord("audit", run, "--write-clean", clean, "--write-issues", marked)
    assert code == 0, err
    clf, before = Classifier.load(run), original_table(file)
    kept = np.flatnonzero(~clf.is_issue_)
    assert 0 < len(kept) < len(frame)
    after = original_table(clean)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.equals(before.take(pa.array(kept)))  # every cell
    more = original_table(marked)
    assert more.select(before.column_names).equals(before)
    assert more.column_names[-3:] == ["predicted_label", "label_quality", "is_label_issue"]
    if suffix == ".parquet":
        pd.testing.assert_frame_equal(
            pd.read_parquet(clean), pd.read_parquet(file).iloc[kept].reset_index(drop=True)
        )
    for how in ("beside", "replace"):
        code, _, err = accord("audit", run, "--write-clean", tmp_path / f"{how}{suffix}", "--relabel", how)
        assert code == 0, err
        relabelled = original_table(tmp_path / f"{how}{suffix}")
        assert relabelled.num_rows == len(frame)
        name = "predicted_label" if how == "beside" else "kind"
        assert relabelled[name].to_pylist() == clf.classes_[clf.predicted_].tolist()
        assert relabelled.drop_columns([name]).equals(before if how == "beside" else before.drop_columns(["kind"]))


def test_a_file_that_moved_or_changed(accord: Any, tmp_path: Path) -> None:
    file, run = written(tmp_path / "t.csv", mixed()), tmp_path / "run"
    assert accord("fit", file, "--label", "kind", "--method", "normal", "--epochs", "1", "--out", run)[0] == 0
    moved = file.rename(tmp_path / "elsewhere.csv")
    code, _, err = accord("audit", run, "--write-clean", tmp_path / "clean.csv")
    assert code == 2
    assert "t.csv' cannot be opened" in err
    code, _, err = accord("audit", run, "--write-clean", tmp_path / "clean.csv", "--data", moved)
    assert code == 0, err
    lines = moved.read_text().replace("birch\n", "oak\n")
    moved.write_text(lines)
    code, _, err = accord("audit", run, "--write-clean", tmp_path / "other.csv", "--data", moved)
    assert code == 2
    assert "not the one that was fitted on" in err
    assert not (tmp_path / "other.csv").exists()
    code, _, err = accord("audit", run, "--relabel", "beside")
    assert code == 2
    assert "--write-clean" in err


def test_the_labels_of_a_folder_of_images_come_back(accord: Any, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(40):
        Image.new("L", (8, 8), 200 * (k % 2) + k).save(folder / f"{k}.png")
    table = pa.table({"file": [f"{k}.png" for k in range(40)], "taken": ["2024"] * 40, "label": ["a", "b"] * 20})
    parquet.write_table(table, folder / "labels.parquet")
    code, _, err = accord("fit", folder, "--method", "normal", "--epochs", "3", "--out", tmp_path / "run")
    assert code == 0, err
    code, _, err = accord("audit", tmp_path / "run", "--share", "0.1", "--write-clean", tmp_path / "clean.parquet")
    assert code == 0, err
    clean = parquet.read_table(tmp_path / "clean.parquet")
    assert clean.schema == table.schema
    assert clean.num_rows == 36
