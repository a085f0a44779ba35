"""Tables of Arrow: what they will take is known before it is unpacked, and none is refused that fits."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import memory
from accord.data import arrow_files
from accord.data.arrow_files import _need, read_arrow_file
from accord.data.text_arrays import decoded_bytes
from accord.errors import DataError

COLUMNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "numbers": lambda rng, rows: rng.normal(size=rows),
    "zeros": lambda rng, rows: np.zeros(rows, np.int16),
    "words": lambda rng, rows: pa.array([f"w{k % 9}" if k % 5 else None for k in range(rows)]),
    "kinds": lambda rng, rows: pa.array([f"kind {k % 3}" for k in range(rows)]).dictionary_encode(),
    "lists": lambda rng, rows: pa.array([[k] * (k % 4) for k in range(rows)]),
    "truths": lambda rng, rows: pa.array([k % 2 == 0 for k in range(rows)]),
    "nothing": lambda rng, rows: pa.nulls(rows),
    "views": lambda rng, rows: pa.array([f"a word of some length {k}" for k in range(rows)], pa.string_view()),
}


def written(table: pa.Table, compression: str | None, rows: int = 50, **more: Any) -> bytes:
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression, **more)
    with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return buffer.getvalue()


@settings(deadline=None)
@given(
    names=st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True),
    rows=st.integers(0, 200),
    each=st.integers(1, 100),
    seed=st.integers(0, 99),
)
def test_what_is_needed_is_what_the_same_table_takes_unpacked(
    names: list[str], rows: int, each: int, seed: int
) -> None:
    """As many bytes as the batches have that are not packed, less their padding, and the packed ones on the way."""
    rng = np.random.default_rng(seed)
    table = pa.table({name: COLUMNS[name](rng, rows) for name in names})
    plain = written(table, None, each)
    bodies = _need(io.BytesIO(plain), len(plain))
    assert bodies <= len(plain)
    for compression in ("zstd", "lz4"):
        packed = written(table, compression, each)
        need = _need(io.BytesIO(packed), len(packed))
        buffers = 8 * 6 * len(names) * (2 + rows // each)  # each is padded to eight bytes
        assert bodies - buffers <= need <= bodies + buffers + len(packed)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_packed_table_is_refused_before_it_is_unpacked(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"x": np.zeros(5_000_000), "label": np.zeros(5_000_000, np.int8)})
    feather.write_feather(table, tmp_path / "x.feather", compression=compression)
    assert read_arrow_file(tmp_path / "x.feather").equals(table)  # where it fits
    monkeypatch.setattr(arrow_files.pyarrow.feather, "read_table", lambda *_, **__: pytest.fail("it was unpacked"))
    monkeypatch.setattr(memory, "machine_memory", lambda: 44_000_000)
    with pytest.raises(DataError, match=r"x\.feather' needs up to 45\.\d MB of memory, but this machine has 44"):
        read_arrow_file(tmp_path / "x.feather")
    monkeypatch.setattr(memory, "machine_memory", lambda: 1 << 40)
    monkeypatch.setattr(memory, "HARMLESS", 1 << 20)
    monkeypatch.setattr(memory, "MOST_GROWTH", 20)
    with pytest.raises(DataError, match=r"x\.feather' would grow from .* in files to 45\.\d MB in memory"):
        read_arrow_file(tmp_path / "x.feather")


LONG = pa.array(["a" * 10_000, "b" * 5_000, None])
OFTEN = pa.array([0, 1, 1, None, 2] * 1000, pa.int32())


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(OFTEN, LONG),
        pa.DictionaryArray.from_arrays(OFTEN, LONG.cast(pa.string_view())),
        pa.concat_arrays([LONG.cast(pa.large_string()).take(OFTEN)]).cast(pa.string_view()),
    ],
    ids=["dictionary", "dictionary of views", "views"],
)
def test_long_words_of_many_rows_are_counted(
    column: pa.Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded_bytes(pa.chunked_array([column])) == 20_000_000
    assert decoded_bytes(pa.chunked_array([column[1:], column[:1]])) == 20_000_000
    feather.write_feather(pa.table({"x": column}), tmp_path / "x.arrow")
    monkeypatch.setattr(memory, "HARMLESS", 19_000_000)
    monkeypatch.setattr(memory, "MOST_GROWTH", 1)
    with pytest.raises(DataError, match="would grow from"):
        read_arrow_file(tmp_path / "x.arrow")


def test_batches_that_are_read_again_and_again_are_refused(tmp_path: Path) -> None:
    """A footer that names one batch many times, larger than all are."""
    content = written(pa.table({"x": np.arange(100_000.0)}), None, 10_000)
    size = int.from_bytes(content[-10:-6], "little")
    first, *others = arrow_files._blocks(content[-10 - size : -10])
    assert len(others) == 9
    most = struct.pack("<qixxxxq", first[0], first[1], 5 * first[2])
    for other in others:
        content = content.replace(struct.pack("<qixxxxq", *other), most)
    (tmp_path / "x.arrow").write_bytes(content)
    with pytest.raises(DataError, match="its batches lie over one another"):
        read_arrow_file(tmp_path / "x.arrow")


@given(data=st.data())
def test_a_spoiled_table_is_one_sentence(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = bytearray(written(pa.table({"x": np.arange(60.0), "y": ["w"] * 60}), "zstd", 20))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 5))
        content[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    path = tmp_path_factory.getbasetemp() / "spoiled.arrow"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    said = "'spoiled.arrow'"
    try:
        read_arrow_file(path)
    except DataError as error:
        said = str(error)
    assert "spoiled.arrow'" in said
    assert "\n" not in said


def test_tables_of_other_writers(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1.5, 2.5], "w": ["a", "b"]}).write_ipc(tmp_path / "polars.arrow", compression="zstd")
    assert read_arrow_file(tmp_path / "polars.arrow")["w"].to_pylist() == ["a", "b"]
    with pytest.deprecated_call():
        feather.write_feather(pa.table({"x": [1, 2]}), tmp_path / "old.feather", version=1)
        assert read_arrow_file(tmp_path / "old.feather")["x"].to_pylist() == [1, 2]
    for words in (b"", b"ARROW1", b"no table at all", b"ARROW1" * 5):
        (tmp_path / "none.arrow").write_bytes(words)
        with pytest.raises(DataError, match=r"none\.arrow' cannot be read as a table of Arrow"):
            read_arrow_file(tmp_path / "none.arrow")
