"""Files made to do harm: nothing in them is run, nothing is written outside its place, and text stays text."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from accord import Classifier, Recommender
from accord.data.clicks import load_clicks
from accord.data.datasets import fetching
from accord.data.datasets.entries import DataFile, Entry, package_of
from accord.data.datasets.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.data.labelled_files import read_image_folder, read_labelled_table
from accord.errors import AccordError, DataError
from accord.estimators import run_folder
from accord.report.page import write_classifier_report, write_run_report
from accord.training import Checkpoint
from accord.training.checkpoints import FORMAT

SCRIPT = "<script>alert('x')</script>"


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def payloads(marker: Path) -> list[bytes]:
    """A pickle, a file of torch.save, and an archive of NumPy, each of which would leave the marker."""
    whole = io.BytesIO()
    torch.save({"weights": Payload(marker)}, whole)
    array = io.BytesIO()
    np.savez(array, allow_pickle=True, x=np.array([Payload(marker)], dtype=object))
    return [pickle.dumps(Payload(marker)), pickle.dumps(Payload(marker), 0), whole.getvalue(), array.getvalue()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recommender's run folder and a classifier's, with ids and names that are no plain words."""
    place = tmp_path_factory.mktemp("runs")
    users = [f"u{k % 7}" for k in range(30)] + ["../../etc/x", "/etc/passwd", SCRIPT, "a&b"]
    items = [k % 5 for k in range(30)] + [0, 1, 2, 3]
    log = {"user": users, "item": [f"{SCRIPT}{k}" for k in items]}
    rec = Recommender(method="normal", dims=4, epochs=1, batch_size=16, seed=0).fit(log)
    rec.save(place / "recommender", also=lambda draft: write_run_report(rec, draft / run_folder.REPORT))
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8)).astype(np.uint8)
    labels = np.array([SCRIPT, "../../etc/x"])[np.random.default_rng(1).integers(0, 2, 40)]
    clf = Classifier(method="normal", model="mlp", epochs=1, batch_size=16, seed=0)
    clf.fit(images, labels, names=[f"../{SCRIPT}{k}.png" for k in range(40)])
    clf.save(place / "classifier", also=lambda draft: write_classifier_report(clf, draft / run_folder.REPORT))
    return place


# -- loading runs no code ----------------------------------------------------------------------------------


def test_the_payload_works_where_it_is_run(tmp_path: Path) -> None:
    pickle.loads(payloads(tmp_path / "marker")[0])  # noqa: S301
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (Recommender, ["config.json", "weights.safetensors", "ids.parquet", "clicks.parquet", "history.jsonl"]),
        (Classifier, ["config.json", "weights.safetensors", "labels.parquet", "history.jsonl"]),
        (Classifier, ["noise.safetensors", "worst.safetensors"]),
    ],
)
def test_pickles_in_a_run_folder(estimator: Any, names: list[str], runs: Path, tmp_path: Path) -> None:
    run, marker = tmp_path / "run", tmp_path / "marker"
    shutil.copytree(runs / estimator.__name__.lower(), run)
    for name in names:
        good = (run / name).read_bytes()
        for payload in payloads(marker):
            (run / name).write_bytes(payload)
            with pytest.raises(AccordError, match="run"):
                estimator.load(run)
        (run / name).write_bytes(good)
    assert not marker.exists()
    estimator.load(run)


READERS: dict[str, Callable[[Path], Any]] = {
    "clicks.csv": load_clicks,
    "clicks.inter": load_clicks,
    "clicks.parquet": load_clicks,
    "labels.parquet": read_labelled_table,
    "checkpoint.safetensors": lambda path: Checkpoint(path).read(),
    "weights.safetensors": lambda path: run_folder.read_weights(path, {"target": torch.nn.Linear(3, 2)}),
    "images-idx3-ubyte": read_idx,
    "images-idx3-ubyte.gz": read_idx,
    "test_batch.bin": lambda path: read_cifar_binary([path]),
    "sheet.png": lambda path: read_png_sheets([path], 32, path.with_name("labels.json")),
}


@pytest.mark.parametrize("name", READERS)
def test_pickles_by_the_names_of_our_files(name: str, tmp_path: Path) -> None:
    path, marker = tmp_path / name, tmp_path / "marker"
    for payload in payloads(marker):
        path.write_bytes(payload)
        with pytest.raises(AccordError, match=name):
            READERS[name](path)
    assert not marker.exists()


def test_a_picture_that_is_a_program_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands EPS files to another program; we never let it."""
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nmkdir '{tmp_path / 'marker'}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    folder = tmp_path / "images"
    folder.mkdir()
    lines = ("%!PS-Adobe-3.0 EPSF-3.0", "%%BoundingBox: 0 0 8 8", "%%EndComments", "showpage", "%%EOF", "")
    (folder / "0.png").write_text("\n".join(lines))
    (folder / "labels.csv").write_text("file,label\n0.png,cat\n")
    with pytest.raises(DataError, match="no image, or damaged"):
        read_image_folder(folder, folder / "labels.csv")
    assert not (tmp_path / "marker").exists()


# -- tensors that lie --------------------------------------------------------------------------------------


def tensors(header: Any, data: bytes, size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(kind: str = "F32", shape: tuple[int, ...] = (2, 3), at: tuple[int, int] = (0, 24)) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(at)}


BIAS = entry(shape=(2,), at=(24, 32))
NOTES = {"format": FORMAT, "identity": "", "facts": "{}"}
LIES: dict[str, tuple[Any, bytes, int | None]] = {
    "overlap": ({"target.weight": entry(), "target.bias": entry(shape=(2,), at=(16, 24))}, bytes(24), None),
    "hole": ({"target.weight": entry(), "target.bias": entry(shape=(2,), at=(32, 40))}, bytes(40), None),
    "beyond the end": ({"target.weight": entry(), "target.bias": entry(shape=(2,), at=(24, 32))}, bytes(24), None),
    "backwards": ({"target.weight": entry(at=(24, 0)), "target.bias": BIAS}, bytes(32), None),
    "negative": ({"target.weight": entry(at=(-24, 0)), "target.bias": BIAS}, bytes(32), None),
    "wider type": ({"target.weight": entry("F64"), "target.bias": BIAS}, bytes(32), None),
    "no type": ({"target.weight": entry("PICKLE"), "target.bias": BIAS}, bytes(32), None),
    "product overflows": ({"target.weight": entry(shape=(2**62, 2**62)), "target.bias": BIAS}, bytes(32), None),
    "huge": ({"target.weight": entry(shape=(2**40, 1), at=(0, 2**42))}, bytes(32), None),
    "trailing bytes": ({"target.weight": entry(), "target.bias": BIAS}, bytes(32 + 5), None),
    "header of 2^40": ({"target.weight": entry()}, bytes(24), 2**40),
    "no header": (b"", b"", None),
    "nested": (b"[" * 100_000, b"", None),
}


@pytest.mark.parametrize("name", LIES)
def test_tensors_that_lie(name: str, tmp_path: Path) -> None:
    header, data, size = LIES[name]
    path = tmp_path / "weights.safetensors"
    path.write_bytes(tensors(header, data, size))
    with pytest.raises(AccordError, match="weights.safetensors"):
        run_folder.read_weights(path, {"target": torch.nn.Linear(3, 2)})
    noted = {"__metadata__": NOTES, **header} if isinstance(header, dict) else header
    path.write_bytes(tensors(noted, data, size))
    with pytest.raises(AccordError, match="weights.safetensors"):
        Checkpoint(path).read()


# -- archives ----------------------------------------------------------------------------------------------


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def tar_of(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def hostile_members(outside: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [
        (member("../evil"), b"x"),
        (member("../../evil"), b"x"),
        (member(str(outside / "evil")), b"x"),
        (member("set/a.bin", tarfile.SYMTYPE, str(outside / "secret")), b""),
        (member("set/b.bin", tarfile.LNKTYPE, "../../secret"), b""),
        (member("a.bin", tarfile.SYMTYPE, "../secret"), b""),
        (member("..", tarfile.DIRTYPE), b""),
        (member("set/pipe", tarfile.FIFOTYPE), b""),
    ]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to unpack into, with a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    return folder


def unpack(archive: Path, wanted: str, place: Path) -> None:
    """One member, under a name of our own."""
    file = DataFile("c.bin", "https://here/x", member=wanted)
    fetching._unpack(archive, lambda name: file if name == wanted else None, place)


def test_only_the_wanted_members_of_a_tar_archive_are_written(place: Path, tmp_path: Path) -> None:
    part = place / "x.part"
    tar_of(part, [*hostile_members(tmp_path), (member("set/c.bin"), b"good")])
    unpack(part, "set/c.bin", place)
    assert tree(tmp_path) == {"secret", "data", "data/set", "data/set/x.part", "data/set/c.bin"}
    assert (place / "c.bin").read_bytes() == b"good"


@pytest.mark.parametrize("wanted", ["set/a.bin", "set/b.bin", "set/pipe", "a.bin", ".."])
def test_links_and_pipes_in_a_tar_archive_are_no_files(wanted: str, place: Path, tmp_path: Path) -> None:
    part = place / "x.part"
    tar_of(part, hostile_members(tmp_path))
    unpack(part, wanted, place)
    assert tree(tmp_path) == {"secret", "data", "data/set", "data/set/x.part"}


def test_a_tar_archive_that_unpacks_to_terabytes(place: Path, tmp_path: Path) -> None:
    part = place / "x.part"
    info = member("set/c.bin")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**42)}
    tar_of(part, [(info, b"1\n0\n1\n".ljust(512, b"\0") + b"x" * 512)])
    with pytest.raises(DataError, match="c.bin would unpack to more than a gigabyte"):
        unpack(part, "set/c.bin", place)
    assert sum(path.stat().st_size for path in place.iterdir()) < 1 << 20


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_damaged_archives(kind: str, place: Path) -> None:
    part, rng = place / "x.part", np.random.default_rng(0)
    if kind == "tar":
        tar_of(part, [(member("set/c.bin"), rng.bytes(5000))])
    else:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/c.bin", "1\t2\t3\t4\n" * 50 + rng.bytes(300).hex())
    good = part.read_bytes()
    refused = 0
    for _ in range(400):
        bad = bytearray(good[: rng.integers(1, len(good))] if rng.random() < 0.3 else good)
        bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        part.write_bytes(bad)
        try:
            unpack(part, "set/c.bin", place)
        except DataError:
            refused += 1
        assert tree(place) <= {"x.part", "c.bin"}
    assert refused > 50


@pytest.mark.parametrize("tool", ["npm", "apt"])
def test_a_package_is_searched_for_its_files_alone(
    tool: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(command: list[str], where: Path, out: Path | None = None) -> None:
        odd = [(member(name), b"x") for name in ("package/evil", "package/..", "x.tgz", "package/.c.bin.tmp")]
        tar_of(out or where / "x.tgz", [*hostile_members(tmp_path), *odd, (member("package/c.bin"), b"good")])
        (where / "x.deb").touch()

    monkeypatch.setattr(fetching, "_run", pack)
    good = hashlib.sha256(b"good").hexdigest()
    files = package_of(tool, "x", {"c.bin": good})
    made = Entry(name="set", title="Set", folder="set", terms="", citation="", files=files.files, package=files)
    assert fetching.fetch(made, place.parent, "package") == f"the {tool} package x"
    assert tree(tmp_path) == {"secret", "data", "data/set", "data/set/c.bin"}
    assert (place / "c.bin").read_bytes() == b"good"


def test_only_the_wanted_member_of_a_zip_archive_is_written(place: Path, tmp_path: Path) -> None:
    part = place / "x.part"
    with zipfile.ZipFile(part, "w") as archive:
        for name in ("../evil", "../../evil", str(tmp_path / "evil"), "set/u.data"):
            archive.writestr(name, "1\t2\t3\t4\n")
    unpack(part, "set/u.data", place)
    assert tree(tmp_path) == {"secret", "data", "data/set", "data/set/x.part", "data/set/c.bin"}


def test_a_zip_archive_that_unpacks_to_gigabytes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LARGEST", 1 << 20)
    part = place / "x.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/u.data", bytes(50 << 20))
    with pytest.raises(DataError, match="c.bin would unpack"):
        unpack(part, "set/u.data", place)
    assert tree(place) == {"x.part"}


# -- names that are paths, and text that is markup ---------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "images"
    folder.mkdir(parents=True)
    for path in (folder / "0.png", folder.parent / "outside.png"):
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(path)
    (folder / "link.png").symlink_to(folder.parent / "outside.png")
    (folder / "up").symlink_to(folder.parent)
    (folder / "loop.png").symlink_to(folder / "loop.png")
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../outside.png", "leads out of"),
        ("../../../../../../etc/passwd", "leads out of"),
        ("/etc/passwd", "leads out of"),
        ("link.png", "leads out of"),
        ("up/outside.png", "leads out of"),
        ("0.png\0.exe", "no name of a file"),
        ("x" * 5000, "cannot be read|no name of a file"),
        ("loop.png", "cannot be read|no name of a file"),
        (".", "cannot be read"),
        ("", "cannot be read"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "cannot be read"),
    ],
)
def test_images_are_in_their_folder(name: str, words: str, images: Path) -> None:
    labels = {"file": ["0.png", name], "label": ["cat", "dog"]}
    with pytest.raises(DataError, match=words) as caught:
        read_image_folder(images, labels)
    assert "data row 2" in str(caught.value)
    assert str(images) in str(caught.value)


def test_ids_and_classes_are_never_names_of_files(runs: Path) -> None:
    common = {"config.json", "weights.safetensors", "history.jsonl", "metrics.json", "report.html"}
    assert {path.name for path in runs.iterdir()} == {"recommender", "classifier"}
    assert tree(runs / "recommender") == common | {"ids.parquet", "clicks.parquet"}
    assert tree(runs / "classifier") == common | {"labels.parquet", "noise.safetensors", "worst.safetensors"}
    rec, clf = Recommender.load(runs / "recommender"), Classifier.load(runs / "classifier")
    assert rec.recommend(["../../etc/x", SCRIPT], k=2).num_rows == 4
    assert set(clf.find_label_issues()["given_label"].to_pylist()) == {SCRIPT, "../../etc/x"}


@pytest.mark.parametrize("name", ["recommender", "classifier"])
def test_markup_is_escaped_in_reports(name: str, runs: Path) -> None:
    page = (runs / name / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_markup_in_settings_and_history_is_escaped(runs: Path, tmp_path: Path) -> None:
    """A run folder from elsewhere may hold markup where nobody expects it."""
    shutil.copytree(runs / "recommender", tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["log"]["split"] = SCRIPT
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    history = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    (tmp_path / "run" / "history.jsonl").write_text(
        "\n".join(json.dumps({**json.loads(line), "phase": SCRIPT}) for line in history)
    )
    write_run_report(Recommender.load(tmp_path / "run"), tmp_path / "report.html")
    assert "<script>alert" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_parquet_file_with_types_from_elsewhere_is_data(tmp_path: Path) -> None:
    """The types and notes that a file claims for pandas or Arrow are not acted upon."""
    marker = tmp_path / "marker"
    table = pa.table({"user": ["a", "b"], "item": ["x", "y"]})
    notes = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload(marker)),
    }
    fields = [field.with_metadata(notes) for field in table.schema]
    schema = pa.schema(fields, metadata={b"pandas": b'{"columns": "x"}'})
    pyarrow.parquet.write_table(table.cast(schema), tmp_path / "clicks.parquet")
    with contextlib.suppress(AccordError):
        load_clicks(tmp_path / "clicks.parquet")
    assert not marker.exists()
