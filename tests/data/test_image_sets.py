"""Image sets: file formats, and folders and tables of one's own."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from PIL import Image

from accord.data.datasets.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.datasets.names import LABELLED_NAMES
from accord.data.labelled_files import read_image_folder, read_labelled_table
from accord.errors import DataError

RNG = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def test_names_are_those_of_the_catalogue() -> None:
    assert tuple(IMAGE_SETS) == LABELLED_NAMES


def test_idx_files_plain_and_packed(tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    (tmp_path / "a").write_bytes(idx(images))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(images)))
    assert np.array_equal(read_idx(tmp_path / "a"), images)
    assert np.array_equal(read_idx(tmp_path / "a.gz"), images)
    for name, content in (("b", b"\1\2"), ("c", b"x" * 40), ("d.gz", b"x" * 40), ("e", idx(images)[:-1])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="IDX"):
            read_idx(tmp_path / name)


def test_cifar_in_both_forms_is_the_same(tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(6)
    rows = np.concatenate([labels[:, None].astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(6, -1)], 1)
    (tmp_path / "a.bin").write_bytes(rows.tobytes())
    Image.fromarray(images.reshape(6, 1024, 3)).save(tmp_path / "a.png")
    (tmp_path / "labels.json").write_text(json.dumps(labels.tolist()))
    for pixels, numbers in (
        read_cifar_binary([tmp_path / "a.bin"]),
        read_png_sheets([tmp_path / "a.png"], 32, tmp_path / "labels.json"),
    ):
        assert np.array_equal(pixels, images)
        assert np.array_equal(numbers, labels)
    (tmp_path / "a.bin").write_bytes(rows.tobytes()[:-1])
    with pytest.raises(DataError, match="binary"):
        read_cifar_binary([tmp_path / "a.bin"])
    (tmp_path / "labels.json").write_text("[1]")
    with pytest.raises(DataError, match="1 labels for 6 images"):
        read_png_sheets([tmp_path / "a.png"], 32, tmp_path / "labels.json")


def test_digits_need_no_file_and_their_parts_are_apart() -> None:
    data = IMAGE_SETS["digits"].load()
    assert data.inputs.shape == (1297, 8, 8, 1)
    assert data.inputs.max() == 255
    assert len(data.test_labels) == 500
    together = np.concatenate([data.inputs, data.test_inputs]).reshape(1797, -1)
    assert len(np.unique(together, axis=0)) > 1790


def test_sets_not_at_hand_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="accord data get cifar10` and set ACCORD_DATA"):
        IMAGE_SETS["cifar10"].load(tmp_path)


# -- one's own files ---------------------------------------------------------------------------------------


def photos(folder: Path) -> pa.Table:
    folder.mkdir()
    names = [f"p{k}.png" for k in range(6)]
    for k, name in enumerate(names):
        Image.fromarray(np.full((5, 4), 40 * k, np.uint8)).save(folder / name)
    return pa.table({"file": names, "label": ["cat", "dog"] * 3})


def test_a_folder_of_images(tmp_path: Path) -> None:
    table = photos(tmp_path / "photos")
    csv.write_csv(table, tmp_path / "labels.csv")
    seen: list[tuple[int, int]] = []
    data = read_image_folder(tmp_path / "photos", tmp_path / "labels.csv", tick=lambda *now: seen.append(now))
    assert data.inputs.shape == (6, 5, 4, 1)
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160, 200]
    assert data.labels.tolist() == ["cat", "dog"] * 3
    assert data.names is not None
    assert seen[-1] == (6, 6)
    Image.new("RGB", (4, 5), (255, 0, 0)).save(tmp_path / "photos" / "p3.png")
    assert read_image_folder(tmp_path / "photos", table).inputs.shape == (6, 5, 4, 3)
    assert read_image_folder(tmp_path / "photos", table, size=7).inputs.shape == (6, 7, 7, 3)


def test_bad_folders_are_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    table = photos(folder)
    cases = [
        (pa.table({"file": ["p0.png", "../x.png"], "label": ["a", "b"]}), "leads out of"),
        (pa.table({"file": ["p0.png", "p9.png"], "label": ["a", "b"]}), "row 2.*not there"),
        (pa.table({"file": ["p0.png"], "kind": ["a"]}), "name it with label=COLUMN"),
        (pa.table({"file": ["p\0.png"], "label": ["a"]}), "row 1"),
        (pa.table({"file": ["p" * 300], "label": ["a"]}), "row 1"),
        (pa.table({"label": ["a"], "x": ["b"]}), "call it 'file'"),
        (pa.table({"file": ["p0.png", "p1.png"], "label": ["a", None]}), "missing.*row 2"),
    ]
    for labels, words in cases:
        with pytest.raises(DataError, match=words):
            read_image_folder(folder, labels)
    (folder / "p2.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="no image, or damaged"):
        read_image_folder(folder, table)


def test_a_table_with_labels(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.5], "b": [True, False], "kind": ["x", "y"], "note": ["p", "q"]})
    for write, name in ((csv.write_csv, "t.csv"), (parquet.write_table, "t.parquet")):
        write(table.drop_columns(["b"]), tmp_path / name)
        data = read_labelled_table(tmp_path / name, "kind", ("note",))
        assert data.inputs.tolist() == [[1.0], [2.5]]
        assert data.labels.tolist() == ["x", "y"]
    assert read_labelled_table(table, "kind", ("note",)).inputs.tolist() == [[1.0, 1.0], [2.5, 0.0]]
    assert read_labelled_table(pa.table({"v": [1, 2], "label": ["3", "10"]})).labels.tolist() == [3, 10]
    assert read_labelled_table(pa.table({"v": [1, 2], "label": ["03", "10"]})).labels.tolist() == ["03", "10"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": ["x", "x"], "label": [0, 1]}, "no column to learn from: 'a' is the same"),
        ({"a": [1.0, float("inf")], "label": [0, 1]}, "infinite or beyond 3e38, the first in data row 2"),
        ({"a": [1.0, 2.0], "label": [0.5, 1]}, "fractions"),
        ({"a": [1.0, 1e39], "label": [0, 1]}, "beyond 3e38"),
        ({"a": [1.0, 2.0], "label": ["", "z"]}, "data row 1"),
        ({"label": [0, 1]}, "no columns"),
        ({"a": [1.0], "b": [2.0]}, "No label column"),
    ],
)
def test_bad_tables_are_one_sentence(columns: dict[str, list], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_labelled_table(pa.table(columns))
