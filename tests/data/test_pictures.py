"""Pictures of every depth, orientation, size and form are read as they are, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from PIL import Image

from accord import memory
from accord.data import pictures
from accord.data.labelled_files import Labelled, read_image_folder
from accord.data.pictures import read_pictures
from accord.errors import DataError

BYTES = np.random.default_rng(0).integers(0, 256, (6, 5)).astype(np.uint8)


def read(folder: Path, *names: str, **how: object) -> Labelled:
    return read_image_folder(folder, pa.table({"file": names, "label": ["x"] * len(names)}), **how)  # pyright: ignore


@pytest.mark.parametrize(
    ("array", "depth"),
    [
        ((BYTES / 255).astype(np.float32), "fractions"),
        (BYTES.astype(np.int32), "32 bits"),
        (BYTES.astype(np.int32) * 1000, "32 bits"),
        (BYTES.astype(np.uint16) * 16, "16 bits"),  # twelve bits of a camera
        (BYTES.astype(np.uint16) * 257, "16 bits"),
        (BYTES, "8 bits"),
    ],
)
@pytest.mark.parametrize("name", ["a.tif", "a.png"])
def test_deep_pictures_keep_their_numbers(array: np.ndarray, depth: str, name: str, tmp_path: Path) -> None:
    if name == "a.png" and depth in ("fractions", "32 bits"):
        pytest.skip("PNG has no such pixels")
    Image.fromarray(array).save(tmp_path / name)
    data = read(tmp_path, name)
    np.testing.assert_array_equal(data.inputs[0, ..., 0], array)
    assert data.inputs.dtype == (np.uint8 if depth == "8 bits" else np.float32)
    assert data.notes["depth"] == depth


def test_a_picture_without_numbers_or_of_another_depth_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "nan.tif")
    with pytest.raises(DataError, match="NaN or infinite"):
        read(tmp_path, "nan.tif")
    Image.fromarray(BYTES).save(tmp_path / "a.png")
    Image.fromarray(BYTES.astype(np.uint16)).save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b.png' \(data row 2\) has pixels of 16 bits.*a.png.*8 bits"):
        read(tmp_path, "a.png", "b.png")
    with pytest.raises(DataError, match="those trained on have 8 bits"):
        read(tmp_path, "b.png", depth="8 bits")


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize("kind", ["jpg", "png", "tif"])
def test_a_photograph_is_seen_as_it_was_taken(tag: int, kind: str, tmp_path: Path) -> None:
    seen = np.zeros((16, 24), np.uint8)  # what a person sees: bright at the top left
    seen[:8, :8] = 255
    turns = {  # how the sensor lay
        1: np.array,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: np.transpose,
        6: np.rot90,
        7: lambda a: np.rot90(a, 2).T,
        8: lambda a: np.rot90(a, -1),
    }
    photo = Image.fromarray(np.ascontiguousarray(turns[tag](seen)))
    exif = photo.getexif()
    exif[0x0112] = tag
    photo.save(tmp_path / f"p.{kind}", exif=exif, quality=100)
    pixels = read(tmp_path, f"p.{kind}").inputs[0, ..., 0]
    assert pixels.shape == seen.shape
    assert np.abs(pixels.astype(int) - seen).max() < 30


def test_sizes_are_brought_together_with_a_note(tmp_path: Path) -> None:
    for k, (width, height) in enumerate([(300, 100), (200, 100), (160, 80)]):
        Image.new("L", (width, height), 60 * k).save(tmp_path / f"{k}.png")
    names = ("0.png", "1.png", "2.png")
    data = read(tmp_path, *names)
    assert data.inputs.shape == (3, 32, 64, 1)  # 200×100, the longer side of 64 pixels
    assert data.inputs[:, 5, 5, 0].tolist() == [0, 60, 120]
    (remark,) = data.notes["remarks"]
    assert remark == "3 of 3 images, of 3 size(s), were brought to 64×32 pixels; size=N chooses another size"
    assert read(tmp_path, *names, size=7).inputs.shape == (3, 7, 7, 1)
    assert read(tmp_path, *names, like=(9, 4, 3)).inputs.shape == (3, 9, 4, 3)
    same = read(tmp_path, "0.png", "0.png")
    assert same.inputs.shape == (2, 100, 300, 1)
    assert same.notes["remarks"] == []
    Image.new("RGB", (4, 4)).save(tmp_path / "c.png")
    with pytest.raises(DataError, match=r"c.png.*1 channel"):
        read(tmp_path, "c.png", like=(4, 4, 1))


def test_what_does_not_fit_into_memory_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(5):
        Image.effect_noise((1000, 1000), 50).save(tmp_path / f"{k}.png")
    monkeypatch.setattr(memory, "machine_memory", lambda: 4_500_000)
    monkeypatch.setattr(pictures, "_pixels", lambda *_: pytest.fail("decoded"))
    with pytest.raises(DataError, match="5 images of 1000×1000 pixels needs up to 5.0 MB.*smaller size"):
        read(tmp_path, *(f"{k}.png" for k in range(5)))


def test_images_and_arrays_in_memory() -> None:
    gray, colour = Image.fromarray(BYTES), Image.fromarray(np.stack([BYTES] * 3, 2))
    read = read_pictures([gray, colour, BYTES, BYTES[..., None]], ["a", "b", "c", "d"])
    assert read.pixels.shape == (4, 6, 5, 3)
    assert (read.pixels == read.pixels[0]).all()
    floats = read_pictures([BYTES / 255.0, BYTES[:, :4] / 255.0], ["a", "b"])
    assert floats.depth == "fractions"
    assert len(floats.remarks) == 1
    with pytest.raises(DataError, match="b cannot be read as an image"):
        read_pictures([BYTES, np.zeros((2, 2, 2, 2))], ["a", "b"])


def classes(folder: Path) -> Path:
    for k, name in enumerate(["cat", "dog", "dog/puppies"]):
        (folder / name).mkdir(parents=True)
        for n in range(2):
            Image.new("L", (4, 4), 50 * k + n).save(folder / name / f"{n}.png")
    return folder


def test_one_folder_for_each_class(tmp_path: Path) -> None:
    folder = classes(tmp_path / "pets")
    (folder / "notes.txt").write_text("x")
    (folder / ".hidden.png").write_text("x")
    Image.new("L", (4, 4)).save(folder / "lost.png")
    data = read_image_folder(folder)
    assert data.labels.tolist() == ["cat"] * 2 + ["dog"] * 4
    assert data.names is not None
    assert data.names.tolist() == [f"{d}/{n}.png" for d in ("cat", "dog", "dog/puppies") for n in (0, 1)]
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 50, 51, 100, 101]
    assert data.notes["remarks"] == [f"2 file(s) in '{folder}' are no images of a class and were left out"]
    csv.write_csv(pa.table({"image": ["cat/0.png", "lost.png"], "class": ["a", "b"]}), folder / "labels.csv")
    found = read_image_folder(folder)  # its file of labels comes first
    assert found.labels.tolist() == ["a", "b"]
    assert found.notes["labels"] == str(folder / "labels.csv")


def test_a_folder_without_labels_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="labels.csv or a folder for each class.*neither.*labels=FILE"):
        read_image_folder(tmp_path)
    folder = tmp_path / "cat"
    folder.mkdir()
    Image.new("L", (4, 4)).save(folder / "0.png")
    with pytest.raises(DataError, match="one class alone, 'cat'"):
        read_image_folder(tmp_path)
    (tmp_path / "dog").mkdir()
    secret = tmp_path.parent / "secret.png"
    Image.new("L", (4, 4)).save(secret)
    (tmp_path / "dog" / "link.png").symlink_to(secret)
    with pytest.raises(DataError, match="leads out of"):
        read_image_folder(tmp_path)
