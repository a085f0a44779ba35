"""CIFAR-10N: labels by people for images of another set, read from arrays without unpickling."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from accord.data.datasets.fetching import fetch
from accord.data.datasets.image_sets import IMAGE_SETS, RelabelledSet
from accord.data.datasets.label_arrays import array_names, read_label_array
from accord.data.datasets.names import HUMAN_LABELS
from accord.data.labelled_files import Labelled
from accord.errors import DataError, MissingDataError, SettingError
from accord.tasks.fit_jobs import label_job
from accord.tasks.label_sources import LabelExamples, LabelSource
from accord.tasks.labels import LabelTask

RNG = np.random.default_rng(0)
CLEAN = np.arange(40) % 10
GIVEN = np.where(np.arange(40) < 8, (CLEAN + 1) % 10, CLEAN)


def made(root: Path, kind: str = "aggregate", **arrays: np.ndarray) -> RelabelledSet:
    """Forty images and their labels by people."""
    (root / "cifar10").mkdir()
    (root / "cifar10n").mkdir()
    for number, part in enumerate([CLEAN[:8]] * 5 + [CLEAN[:10]]):
        name = "test_batch" if number == 5 else f"data_batch_{number + 1}"
        labels = part if number == 5 else CLEAN[8 * number : 8 * number + 8]
        pixels = RNG.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], 1)
        (root / "cifar10" / f"{name}.bin").write_bytes(rows.tobytes())
    np.savez(root / "cifar10n" / "labels.npz", **({"clean": CLEAN, "aggregate": GIVEN} | arrays))
    images = replace(IMAGE_SETS["cifar10"], pixels="")
    entry = IMAGE_SETS[f"cifar10n-{kind}"]
    assert isinstance(entry, RelabelledSet)
    return replace(entry, images=images, needs=(images,))


def test_labels_by_people_and_the_truth(tmp_path: Path) -> None:
    entry = made(tmp_path)
    data, plain = entry.load(tmp_path), entry.images.load(tmp_path)
    names = np.array(entry.classes)
    assert data.truth is not None
    assert (data.labels == names[GIVEN]).all()
    assert (data.truth == names[CLEAN]).all()
    assert (data.inputs == plain.inputs).all()
    assert (data.test_labels == plain.test_labels).all()
    assert entry.at_hand(tmp_path)
    assert "already" in fetch(entry, tmp_path)


def test_names_of_the_published_file_are_known(tmp_path: Path) -> None:
    entry = made(tmp_path, "worst", worse_label=GIVEN.astype(np.int8), clean_label=CLEAN.astype(np.uint16))
    assert (entry.load(tmp_path).labels == np.array(entry.classes)[GIVEN]).all()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    entry = made(tmp_path, "random2")
    assert not entry.at_hand(tmp_path)
    with pytest.raises(MissingDataError, match=r"labels\.npz .*cifar-10-100n"):
        entry.load(tmp_path)
    (tmp_path / "cifar10" / "test_batch.bin").unlink()
    with pytest.raises(MissingDataError, match="'cifar10' is not at hand"):
        entry.load(tmp_path)


def test_rows_in_another_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="in the order of its images"):
        made(tmp_path, clean=CLEAN[::-1].copy()).load(tmp_path)


@pytest.mark.parametrize("short", ["aggregate", "clean"])
def test_a_label_for_each_image(tmp_path: Path, short: str) -> None:
    with pytest.raises(DataError, match="in the order of its images"):
        made(tmp_path, **{short: CLEAN[:30]}).load(tmp_path)


def zipped(path: Path, array: np.ndarray | bytes, name: str = "a.npy", pickled: bool = False) -> Path:
    content = io.BytesIO()
    if isinstance(array, bytes):
        content.write(array)
    else:
        np.lib.format.write_array(content, array, allow_pickle=pickled)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(name, content.getvalue())
    return path


def header(shape: str, kind: str = "<i8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([{}, {}], object), "whole numbers"),
        (np.array([0.5, 1.0]), "whole numbers"),
        (np.zeros((2, 2), int), "whole numbers"),
        (np.array([0, 10]), "outside of 0 to 9"),
        (np.array([0, -1]), "outside of 0 to 9"),
        (header("(999999999999,)"), "more than any benchmark"),
        (header("(-5,)"), "labels"),
        (header("(3,)") + bytes(8), "does not hold as many"),
        (header("(1,)") + bytes(16), "does not hold as many"),
        (header("(1,)", "|O"), "whole numbers"),
        (b"no array", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_hostile_arrays_are_one_sentence(tmp_path: Path, array: np.ndarray | bytes, words: str) -> None:
    path = zipped(tmp_path / "x.npz", array, pickled=True)
    with pytest.raises(DataError, match=words):
        read_label_array(path, ("a",), 10)


def test_no_zip_and_no_such_array(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK no zip")
    assert array_names(tmp_path / "x.npz") == set()
    with pytest.raises(DataError, match="cannot be read"):
        read_label_array(tmp_path / "x.npz", ("a",), 10)
    with pytest.raises(DataError, match="no array 'b'"):
        read_label_array(zipped(tmp_path / "y.npz", np.arange(3)), ("b", "c"), 10)


def test_a_task_knows_which_labels_are_wrong() -> None:
    """Noise is measured, the oracle drops it, clean examples are apart, and no noise is added."""
    X, words = RNG.normal(size=(40, 3)), np.array([f"c{k}" for k in range(10)])
    task = LabelTask(X, words[GIVEN], truth=words[CLEAN])
    data = task.cell_data("normal", 0, None, {})
    assert (data.noise.is_noise == (GIVEN != CLEAN)).all()
    assert data.noise.notes() == {"kind": "given", "rate": 0.2, "realised": 0.2}
    assert (data.sources[0]["y"] == words[GIVEN]).all()
    oracle = task.cell_data("oracle", 0, None, {}).sources[0]
    assert (oracle["y"] == words[CLEAN][GIVEN == CLEAN]).all()
    apart = task.cell_data("mw-net", 0, None, {})
    inputs, clean = apart.sources[0]["X"], apart.sources[0]["clean"]
    row = {tuple(x): k for k, x in enumerate(X)}
    assert (apart.sources[0]["y"] == words[GIVEN[[row[tuple(x)] for x in inputs]]]).all()
    assert (clean[1] == words[CLEAN[[row[tuple(x)] for x in clean[0]]]]).all()
    assert "20.0% are wrong" in task.remarks()[0]
    task.check(["cleanlab", "oracle"])
    with pytest.raises(DataError, match="wrong labels of its own"):
        LabelTask(X, words[GIVEN], truth=words[CLEAN], noise=0.1).check(["normal"])
    plain = LabelTask(X, words[GIVEN])
    assert plain.cell_data("normal", 0, None, {}).noise is None


@pytest.mark.parametrize("method", ["normal", "mw-net"])
def test_a_fit_writes_the_truth_and_adds_no_noise(tmp_path: Path, method: str) -> None:
    X, words = RNG.normal(size=(40, 3)), np.array([f"c{k}" for k in range(10)])
    source = LabelSource(Path("people"))
    given = LabelExamples(source, Labelled(X, words[GIVEN], None, {"data": "people"}), truth=words[CLEAN])
    job = label_job(given, {"method": method, "epochs": 1}, 0.0, "uniform", None)
    job.also(tmp_path)
    table = parquet.read_table(tmp_path / "truth.parquet").to_pydict()
    rows = np.array(table.get("row", range(40)))
    assert table["true_label"] == words[CLEAN[rows]].tolist()
    assert table["is_noise"] == (GIVEN != CLEAN)[rows].tolist()
    assert (job.source["y"] == words[GIVEN[rows]]).all()
    assert (job.source["clean"] is None) == (method == "normal")
    if method == "mw-net":
        apart = np.setdiff1d(range(40), rows)
        assert sorted(job.source["clean"][1]) == sorted(words[CLEAN[apart]])
    assert job.notes is not None
    assert job.notes["noise"]["kind"] == "given"
    with pytest.raises(SettingError, match="wrong labels of its own"):
        label_job(given, {"epochs": 1}, 0.1, "uniform", None)


@pytest.mark.data
def test_the_published_shares_of_wrong_labels(movielens: Path) -> None:
    path = movielens.parent / "cifar10n" / "labels.npz"
    if not path.is_file():
        pytest.skip("CIFAR-10N is not at hand")
    clean = read_label_array(path, ("clean", "clean_label"), 10)
    assert np.bincount(clean).tolist() == [5000] * 10
    assert clean[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]  # as in the files of CIFAR-10
    shares = {"aggregate": 0.0901, "random1": 0.1723}
    for kind in HUMAN_LABELS:
        if kind in shares or kind in array_names(path):
            given = read_label_array(path, (kind,), 10)
            assert (given != clean).mean() == pytest.approx(
                shares.get(kind, 0.2), abs=5e-5 if kind in shares else 0.3
            )
