"""Bombs that are refused before anything is decoded, and honest files of the same kinds that are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.reliability.hostile import png, tiff_tags

from accord import Recommender, memory
from accord.data import parquet_files
from accord.data.clicks import load_clicks
from accord.data.image_heads import open_image
from accord.data.labelled_files import read_image_folder, read_labelled_table
from accord.data.parquet_files import read_parquet_file
from accord.data.parquet_pages import read_chunks
from accord.data.reading import read_table
from accord.errors import DataError
from accord.estimators import allocations
from accord.plain import open_plain


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow reads no value."""

    class File(pq.ParquetFile):
        def read(self, *args: Any, **more: Any) -> Any:
            raise AssertionError("something was decoded")

    monkeypatch.setattr(parquet_files.pyarrow.parquet, "ParquetFile", File)


@pytest.mark.parametrize("read", [load_clicks, read_table, lambda path: read_labelled_table(path, label="user")])
def test_long_ids_that_are_repeated(read: Callable[[Path], Any], tmp_path: Path) -> None:
    """837 bytes that would be 2 GB of text."""
    indices = pa.array([k % 2 for k in range(8000)], pa.int32())
    ids = pa.DictionaryArray.from_arrays(indices, ["a" * 250_000, "b" * 250_000])
    table = pa.table({"user": ids, "item": [k % 50 for k in range(8000)]})
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "x.parquet").stat().st_size < 2000
    with pytest.raises(DataError, match=r"8,000 rows would grow from 0\.0 MB in files to 4\.0 GB"):
        read(tmp_path / "x.parquet")


@pytest.mark.usefixtures("undecoded")
@pytest.mark.parametrize("gaps", [True, False])
def test_gaps_of_wide_values_and_many_rows(gaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HARMLESS", 20_000_000)
    table = pa.table({"user": pa.nulls(300, pa.binary(100_000)) if gaps else pa.array([[0] * 100_000] * 20)})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(DataError, match="would grow"):
        read_parquet_file(tmp_path / "x.parquet")


def test_texts_that_share_their_beginnings_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HARMLESS", 20_000_000)
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"user": "DELTA_BYTE_ARRAY"}}
    pq.write_table(pa.table({"user": ["x" * 500_000] * 100}), tmp_path / "x.parquet", compression="zstd", **options)
    with pytest.raises(DataError, match="rows were read, would grow"):
        read_parquet_file(tmp_path / "x.parquet")
    honest = pa.table({"user": [f"user-{k:06}" for k in range(50_000)]})
    pq.write_table(honest, tmp_path / "y.parquet", **options)
    assert read_parquet_file(tmp_path / "y.parquet").equals(honest)


def test_one_long_text_among_many_short_ones_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows times the longest text would be 2 GB; what rows have is little."""
    words = ["a", "bb"] * 10_000 + ["c" * 100_000]
    table = pa.table({"user": words, "lists": [[word] for word in words], "n": np.arange(20_001)})
    pq.write_table(table, tmp_path / "x.parquet")
    monkeypatch.setattr(memory, "machine_memory", lambda: 50_000_000)
    assert read_parquet_file(tmp_path / "x.parquet").equals(table)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_footers_and_pages_are_read_as_arrow_reads_them(compression: str, version: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "user": [f"u{k % 100}" for k in range(3000)],
            "n": pa.array([None, 2, 3] * 1000),
            "lists": [["a", "bb"], [], None] * 1000,
            "within": [{"x": 1.5, "y": [{"z": True}]}] * 3000,
        }
    )
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, compression=compression, data_page_version=version, row_group_size=700)
    theirs = pq.ParquetFile(path)
    with open_plain(path) as file:
        chunks = read_chunks(file)
    columns, groups = theirs.metadata.num_columns, theirs.metadata.num_row_groups
    assert len(chunks) == columns * groups
    for k, chunk in enumerate(chunks):
        told, leaf = theirs.metadata.row_group(k // columns).column(k % columns), theirs.schema.column(k % columns)
        assert chunk.leaf.name == leaf.path
        assert chunk.leaf.lists == leaf.max_repetition_level
        assert chunk.leaf.lists + chunk.leaf.gaps == leaf.max_definition_level
        assert (chunk.values, chunk.end - chunk.start) == (told.num_values, told.total_compressed_size)
        assert chunk.rows == theirs.metadata.row_group(k // columns).num_rows
    assert read_parquet_file(path).equals(table)
    assert read_parquet_file(path, ["lists"]).equals(table.select(["lists"]))


def test_a_run_that_asks_for_larger_networks_than_its_weights(tmp_path: Path) -> None:
    log = {"user": list("aabbccdd"), "item": list("wxyzwyxz")}
    Recommender(method="normal", dims=4, epochs=1).fit(log).save(tmp_path / "run")
    both = pa.table({"users": pa.array([np.arange(20_000)]), "items": pa.array([np.arange(4)])})
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    pq.write_table(both, tmp_path / "run" / "ids.parquet", compression="zstd", **options)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["settings"]["dims"] = 4096
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="networks that are larger than its weights"):
        Recommender.load(tmp_path / "run")


def test_a_run_that_asks_for_many_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes time and memory to build, however small it is."""
    monkeypatch.setattr(allocations, "FURTHER", 1 << 22)
    log = {"user": list("aabbccdd"), "item": list("wxyzwyxz")}
    Recommender(method="normal", dims=1, epochs=1).fit(log).save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["networks"] = dict.fromkeys((f"n{k}" for k in range(2_000)), config["settings"]["model"])
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="networks that are larger than its weights"):
        Recommender.load(tmp_path / "run")


def test_images_are_refused_by_their_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(15):
        (tmp_path / f"{k}.png").write_bytes(png(9000, 9000) if k == 0 else (tmp_path / "0.png").read_bytes())
    labels = {"file": [f"{k}.png" for k in range(15)], "label": [k % 2 for k in range(15)]}
    with pytest.raises(DataError, match=r"15 images of 9000×9000 pixels would grow"):
        read_image_folder(tmp_path, labels)
    monkeypatch.setattr(memory, "machine_memory", lambda: 100_000_000)
    with (
        pytest.raises(DataError, match=r"'.*0.png' of 9000×9000 pixels needs up to"),
        open_image(tmp_path / "0.png"),
    ):
        pass


@pytest.mark.parametrize("copies", [1, 20_000])
def test_tags_that_are_copies_of_one_another(copies: int, tmp_path: Path) -> None:
    (tmp_path / "x.tif").write_bytes(tiff_tags(copies, 100_000))
    words = "has tags of" if copies > 1 else "cannot identify"
    with pytest.raises(Exception, match=words), open_image(tmp_path / "x.tif"):
        pass


def test_a_label_that_is_long_where_rows_are_many(tmp_path: Path) -> None:
    """As an array every label takes as much as the longest: 4 GB out of 4 MB."""
    rows = 1_000_000
    table = pa.table({"label": pa.array(["a"] * (rows - 1) + ["b" * 6000]), "x": np.zeros(rows)})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"text of column 'label' .* needs up to|label of 6000 characters"):
        read_labelled_table(tmp_path / "x.parquet")
