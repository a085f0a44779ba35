"""Files spoiled in thousands of ways: a reader gives what it read, or one sentence of ours that names the file."""

from __future__ import annotations

import contextlib
import gzip
import json
import resource
import shutil
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

from accord import Classifier, Recommender
from accord.data.clicks import load_clicks
from accord.data.datasets.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.data.labelled_files import read_image_folder, read_labelled_table
from accord.data.reading import read_table
from accord.errors import AccordError
from accord.estimators import run_folder
from accord.report.page import write_classifier_report, write_run_report
from accord.training import Checkpoint
from accord.training.checkpoints import State

HUGE = (b"99999999999999999999", b"-1", b"1e999", b"NaN", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff" * 8)
TEXT = {".csv", ".tsv", ".inter", ".json", ".jsonl"}


class Mutator:
    """Spoils bytes in one to three ways, the same ways for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, data: bytes, *, text: bool) -> bytes:
        ways = [self._flip, self._cut, self._insert, self._repeat, self._drop, self._overwrite]
        for _ in range(int(self.rng.integers(1, 4))):
            way = self._swap_lines if text and self.rng.random() < 0.15 else ways[self.rng.integers(len(ways))]
            data = way(data)
        return data

    def _slice(self, data: bytes, longest: int = 64) -> tuple[int, int]:
        start = int(self.rng.integers(0, len(data) + 1))
        return start, min(len(data), start + int(self.rng.integers(1, longest)))

    def _flip(self, data: bytes) -> bytes:
        spoiled = bytearray(data)
        for _ in range(int(self.rng.integers(1, 5)) if spoiled else 0):
            spoiled[self.rng.integers(len(spoiled))] ^= 1 << int(self.rng.integers(8))
        return bytes(spoiled)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._slice(data)[0]]

    def _odd(self) -> bytes:
        choice = int(self.rng.integers(3))
        return (b"\0", HUGE[self.rng.integers(len(HUGE))], self.rng.bytes(int(self.rng.integers(1, 16))))[choice]

    def _insert(self, data: bytes) -> bytes:
        at, _ = self._slice(data)
        return data[:at] + self._odd() + data[at:]

    def _overwrite(self, data: bytes) -> bytes:
        at, odd = self._slice(data)[0], self._odd()
        return data[:at] + odd + data[at + len(odd) :]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._slice(data)
        return data[:end] + data[start:end] * int(self.rng.integers(1, 4)) + data[end:]

    def _drop(self, data: bytes) -> bytes:
        start, end = self._slice(data)
        return data[:start] + data[end:]

    def _swap_lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        one, other = self.rng.integers(len(lines), size=2)
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines)


@dataclass(frozen=True)
class Case:
    """A valid file, how it is read, and how many times it is spoiled."""

    name: str
    make: Callable[[Path], None]
    """Writes the file, and what else is needed beside it."""
    read: Callable[[Path], Any]
    times: int


def log_table() -> pa.Table:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 9, 40), rng.integers(0, 7, 40)
    return pa.table({"user": [f"u{u}" for u in users], "item": items, "ts": np.arange(40) + 1_500_000_000})


def labelled_table() -> pa.Table:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2, 20)).round(3)
    return pa.table({"a": values[0], "b": values[1], "label": ["cat", "dog"] * 10})


def text_of(table: pa.Table, separator: str = ",", header: str | None = None) -> str:
    rows = [separator.join(str(value) for value in row.values()) for row in table.to_pylist()]
    return "\n".join([header or separator.join(table.column_names), *rows]) + "\n"


def text(content: str) -> Callable[[Path], None]:
    return lambda path: void(path.write_text(content))


def parquet(table: pa.Table) -> Callable[[Path], None]:
    return lambda path: pyarrow.parquet.write_table(table, path)


def void(_: Any) -> None:
    return None


def network() -> dict[str, torch.nn.Module]:
    return {"target": torch.nn.Linear(3, 2)}


def write_ids(path: Path) -> None:
    clicks = load_clicks(log_table())
    run_folder.write_ids(path, clicks.user_ids, clicks.item_ids)


def write_checkpoint(path: Path) -> None:
    Checkpoint(path).write(State({"epoch": 3, "history": [{"loss": 0.5}]}, {"net/a": torch.ones(3, 2)}))


IMAGES = np.arange(4 * 5 * 5, dtype=np.uint8).reshape(4, 5, 5)
IDX_IMAGES = struct.pack(">HBBIII", 0, 8, 3, 4, 5, 5) + IMAGES.tobytes()
IDX_LABELS = struct.pack(">HBBI", 0, 8, 1, 4) + bytes([0, 1, 2, 1])
SHEET = np.arange(3 * 16 * 3, dtype=np.uint8).reshape(3, 16, 3)


def raw(content: bytes) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(content))


def write_sheet(path: Path) -> None:
    Image.fromarray(SHEET).save(path.with_name("sheet.png"))
    path.with_name("labels.json").write_text("[0, 1, 2]")


def read_sheet(path: Path) -> Any:
    return read_png_sheets([path.with_name("sheet.png")], 4, path.with_name("labels.json"))


def write_image_folder(path: Path) -> None:
    for k in range(3):
        Image.fromarray(IMAGES[k]).save(path.with_name(f"{k}.png"))
    path.with_name("labels.csv").write_text("file,label\n0.png,cat\n1.png,dog\n2.png,cat\n")


def read_folder(path: Path) -> Any:
    return read_image_folder(path.parent, path.with_name("labels.csv"))


HISTORY = "".join(
    json.dumps({"phase": "one", "epoch": k, "loss": 0.5, "train_seconds": 0.1, "valid_seconds": 0}) + "\n"
    for k in (1, 2)
)
CASES = [
    Case("clicks.csv", text(text_of(log_table())), load_clicks, 1200),
    Case("clicks.tsv", text(text_of(log_table(), "\t")), load_clicks, 700),
    Case(
        "clicks.inter",
        text(text_of(log_table(), "\t", "user_id:token\titem_id:token\ttimestamp:float")),
        load_clicks,
        700,
    ),
    Case("clicks.parquet", parquet(log_table()), load_clicks, 1200),
    Case("plain.parquet", parquet(labelled_table()), read_table, 500),
    Case("labelled.csv", text(text_of(labelled_table())), read_labelled_table, 700),
    Case("labelled.parquet", parquet(labelled_table()), read_labelled_table, 900),
    Case("facts.json", text(json.dumps({"a": [1, 2.5, None], "b": {"c": "é"}})), run_folder.read_json, 600),
    Case("history.jsonl", text(HISTORY), lambda path: run_folder.read_history(path, "accuracy"), 600),
    Case("ids.parquet", write_ids, run_folder.read_ids, 800),
    Case(
        "judged.parquet",
        parquet(labelled_table()),
        lambda path: run_folder.read_parquet(path, ["a", "label"]),
        500,
    ),
    Case(
        "weights.safetensors",
        lambda path: run_folder.write_weights(path, network()),
        lambda path: run_folder.read_weights(path, network()),
        900,
    ),
    Case("checkpoint.safetensors", write_checkpoint, lambda path: Checkpoint(path).read(), 900),
    Case("images-idx3-ubyte", raw(IDX_IMAGES), read_idx, 600),
    Case("labels-idx1-ubyte", raw(IDX_LABELS), read_idx, 400),
    Case("images-idx3-ubyte.gz", raw(gzip.compress(IDX_IMAGES, mtime=0)), read_idx, 600),
    Case("test_batch.bin", raw(bytes(range(256)) * 24 + b"\1\2"), lambda path: read_cifar_binary([path]), 300),
    Case("sheet.png", write_sheet, read_sheet, 500),
    Case("labels.json", write_sheet, read_sheet, 400),
    Case("labels.csv", write_image_folder, read_folder, 400),
    Case("1.png", write_image_folder, read_folder, 300),
]
RUN_TIMES = 60
"""Spoilings of each file of a run folder."""


def said(read: Callable[[], Any], what: str) -> str | None:
    """What our error says; None where all went well. No other error may come."""
    try:
        read()
    except AccordError as error:
        return str(error)
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return None


def refused(read: Callable[[], Any], named: str, what: str) -> bool:
    """Whether it was refused, in one sentence that names the place."""
    words = said(read, what)
    if words is None:
        return False
    assert named in words, f"{what}: {words}"
    assert "\n" not in words, f"{what}: {words}"
    assert len(words) < 2000, f"{what}: {words}"
    return True


def spoil(path: Path, read: Callable[[], Any], named: str, times: int, seed: int) -> int:
    """Read a file spoiled again and again; returns how often it was refused."""
    good, mutate, count = path.read_bytes(), Mutator(seed), 0
    for k in range(times):
        bad = mutate(good, text=path.suffix in TEXT)
        path.write_bytes(bad)
        count += refused(read, named, f"mutation {k} of {path.name}, {bad[:3000]!r}")
    path.write_bytes(good)
    return count


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_readers_raise_only_our_error(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "In Here" / case.name
    path.parent.mkdir()
    case.make(path)
    case.read(path)  # the file is valid before it is spoiled
    named = str(path.parent) if case.read is read_folder else str(path)
    assert spoil(path, lambda: case.read(path), named, case.times, seed=len(case.name)) > 0


@pytest.fixture(scope="module")
def recommender_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("recommender") / "run"
    Recommender(method="deca-p", model="gmf", dims=4, epochs=2, batch_size=16, seed=0).fit(log_table()).save(run)
    return run


@pytest.fixture(scope="module")
def classifier_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("classifier") / "run"
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 5, 5)).astype(np.uint8), np.array(["cat", "dog"])[np.arange(40) % 2]
    clf = Classifier(method="deca-p", model="mlp", epochs=2, batch_size=16, seed=0)
    clf.fit(images, labels, names=[f"{k}.png" for k in range(40)]).save(run)
    return run


def use_recommender(run: Path) -> None:
    """Load, and ask all that a loaded run is asked."""
    rec = Recommender.load(run)
    rec.find_label_issues(), rec.judged_clicks(), rec.metrics_, repr(rec)
    users = rec.user_ids_.values.slice(0, 2)
    rec.recommend(users, k=3)
    rec.predict(users, rec.item_ids_.values.slice(0, 2))
    write_run_report(rec, run.parent / "report.html")


def use_classifier(run: Path) -> None:
    clf = Classifier.load(run)
    clf.find_label_issues(), clf.metrics_, repr(clf)
    clf.predict(np.zeros((2, *clf.shape_)))
    write_classifier_report(clf, run.parent / "report.html")


RECOMMENDER_FILES = ["config.json", "weights.safetensors", "ids.parquet", "clicks.parquet", "history.jsonl"]
CLASSIFIER_FILES = [
    *("config.json", "weights.safetensors", "labels.parquet", "history.jsonl"),
    *("noise.safetensors", "worst.safetensors"),
]


@pytest.mark.parametrize("name", RECOMMENDER_FILES)
def test_recommenders_with_one_spoiled_file(recommender_run: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / "Run"
    shutil.copytree(recommender_run, run)
    use_recommender(run)
    assert spoil(run / name, lambda: use_recommender(run), str(run), RUN_TIMES, seed=7) > 0


@pytest.mark.parametrize("name", CLASSIFIER_FILES)
def test_classifiers_with_one_spoiled_file(classifier_run: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / "Run"
    shutil.copytree(classifier_run, run)
    use_classifier(run)
    assert spoil(run / name, lambda: use_classifier(run), str(run), RUN_TIMES, seed=8) > 0


ODD = [None, True, -1, 0, 1.5, 10**30, float("inf"), float("nan")]
ODD += ["", "x", "../../x", "<U99999999", [], [1], {}, {"a": 1}]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a JSON value something can be put."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for name, part in inner for place in places(part, (*at, name)))]


def put(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    if not at:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    if other == "x" and len(at) == 1 and isinstance(copy, dict):
        del copy[at[0]]
    else:
        copy[at[0]] = put(value[at[0]], at[1:], other)
    return copy


def tamper_json(path: Path, use: Callable[[], None], named: str, times: int) -> int:
    """Values of another kind in every place, some thousands of ways; returns how often it was refused."""
    good, rng, count = path.read_bytes(), np.random.default_rng(3), 0
    lines = good.decode().splitlines() if path.suffix == ".jsonl" else [good.decode()]
    ways = [(k, at, odd) for k, line in enumerate(lines) for at in places(json.loads(line)) for odd in ODD]
    for way in rng.permutation(len(ways))[:times]:
        k, at, odd = ways[way]
        spoiled = [*lines[:k], json.dumps(put(json.loads(lines[k]), at, odd)), *lines[k + 1 :]]
        path.write_text("\n".join(spoiled))
        count += refused(use, named, f"{odd!r} at {at} of {path.name}")
    path.write_bytes(good)
    return count


def tamper_table(path: Path, use: Callable[[], None], named: str) -> int:
    """Columns of other types, with gaps, out of range, out of order, gone; other numbers of rows."""
    good, table, count = path.read_bytes(), pyarrow.parquet.read_table(path), 0
    rows = table.num_rows
    others = [
        *(pa.nulls(rows, kind) for kind in (pa.null(), pa.int64(), pa.string(), pa.list_(pa.int64()))),
        *(pa.array(np.full(rows, value)) for value in (-1, 0, 7, 127, 2**40, 0.5, np.nan, np.inf, -1e300, True)),
        *(pa.array([value] * rows) for value in ("x", b"\xff", [1], [None], ["a", "b"], {"a": 1}, [])),
        *(pa.array([value] * rows) for value in (datetime(1, 1, 1), date(9999, 1, 1), Decimal("1.5"))),
        pa.array(np.arange(rows)),
        pa.array(np.arange(rows)[::-1]),
        pa.array([1] * (rows - 1) + [None]),
    ]
    for k, name in enumerate(table.column_names):
        for other in others:
            pyarrow.parquet.write_table(table.set_column(k, name, other), path)
            count += refused(use, named, f"{other.type} {other[:2]} as {name} of {path.name}")
        for changed in (table.remove_column(k), table.append_column(name, table[name])):
            pyarrow.parquet.write_table(changed, path)
            assert refused(use, named, f"{name} of {path.name} gone or there twice")
    for changed in (table.slice(0, 0), pa.concat_tables([table, table]), table.slice(0, max(1, rows // 2))):
        pyarrow.parquet.write_table(changed, path)
        count += refused(use, named, f"{changed.num_rows} rows in {path.name}")
    path.write_bytes(good)
    return count


def tamper_tensors(path: Path, use: Callable[[], None], named: str) -> int:
    """Tensors of other types and shapes, or gone."""
    good, tensors, count = path.read_bytes(), load_file(path), 0
    for name, tensor in tensors.items():
        others = [tensor.astype(kind) for kind in ("int8", "int64", "float16", "float64", "bool")]
        others += [tensor[None], tensor[:-1], tensor.reshape(-1)[:0], np.full_like(tensor, -1)]
        for other in [*others, tensor * np.nan if tensor.dtype.kind == "f" else tensor]:
            save_file({**tensors, name: np.ascontiguousarray(other)}, path)
            count += refused(use, named, f"{other.dtype} {other.shape} as {name} of {path.name}")
        save_file({other: value for other, value in tensors.items() if other != name}, path)
        assert refused(use, named, f"{name} of {path.name} gone")
    path.write_bytes(good)
    return count


def tamper(path: Path, use: Callable[[], None], named: str) -> int:
    if path.suffix == ".parquet":
        return tamper_table(path, use, named)
    return tamper_tensors(path, use, named) if path.suffix == ".safetensors" else tamper_json(path, use, named, 250)


@pytest.mark.parametrize("name", RECOMMENDER_FILES)
def test_recommenders_that_were_tampered_with(recommender_run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(recommender_run, tmp_path / "Run")
    run = tmp_path / "Run"
    assert tamper(run / name, lambda: use_recommender(run), str(run)) > 0


@pytest.mark.parametrize("name", CLASSIFIER_FILES)
def test_classifiers_that_were_tampered_with(classifier_run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(classifier_run, tmp_path / "Run")
    run = tmp_path / "Run"
    assert tamper(run / name, lambda: use_classifier(run), str(run)) > 0


def test_there_are_ten_thousand_of_them() -> None:
    runs = RUN_TIMES * (len(RECOMMENDER_FILES) + len(CLASSIFIER_FILES))
    assert sum(case.times for case in CASES) + runs >= 10_000


# -- headers that claim more than there is -----------------------------------------------------------------


def refused_in_bounds(path: Path, read: Callable[[Path], Any]) -> None:
    """Refused within seconds, and with no more than some memory."""
    with contextlib.suppress(OSError):  # where it can be, the peak of earlier tests is forgotten
        Path("/proc/self/clear_refs").write_text("5")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    assert refused(lambda: read(path), str(path), path.name)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < MEMORY
    assert time.perf_counter() - began < 10


MEMORY = 300 << 20


@pytest.mark.parametrize("content", [b"x" * 5_000_000, b"user,item\n" + b"x" * 5_000_000, b"a," * 2_500_000])
def test_a_line_of_megabytes(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_bytes(content)
    refused_in_bounds(path, load_clicks)


def test_a_footer_that_claims_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "clicks.parquet"
    pyarrow.parquet.write_table(log_table(), path)
    good = path.read_bytes()
    for size in (2**31 - 1, 2**31, 2**32 - 1, len(good), len(good) - 8):
        path.write_bytes(good[:-8] + struct.pack("<I", size) + b"PAR1")
        refused_in_bounds(path, load_clicks)


def test_an_idx_header_that_claims_gigabytes(tmp_path: Path) -> None:
    path, packed = tmp_path / "images-idx3-ubyte", tmp_path / "images-idx3-ubyte.gz"
    for shape in ((2**31, 28, 28), (2**32 - 1,) * 3, (1000, 28, 28)):
        header = struct.pack(">HBB3I", 0, 8, 3, *shape)
        path.write_bytes(header + bytes(100))
        packed.write_bytes(gzip.compress(header + bytes(100)))
        refused_in_bounds(path, read_idx)
        refused_in_bounds(packed, read_idx)


@pytest.mark.parametrize("shape", [(4, 5, 5), (2**31, 28, 28)])
def test_a_small_file_that_unpacks_to_gigabytes(shape: tuple[int, int, int], tmp_path: Path) -> None:
    path = tmp_path / "images-idx3-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(">HBB3I", 0, 8, 3, *shape))
        for _ in range(500):
            file.write(bytes(1 << 20))
    refused_in_bounds(path, read_idx)


@pytest.mark.parametrize("claim", [2**40, 2**60, 2**64 - 1])
def test_a_safetensors_header_that_claims_gigabytes(claim: int, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    run_folder.write_weights(path, network())
    path.write_bytes(struct.pack("<Q", claim) + path.read_bytes()[8:])
    refused_in_bounds(path, lambda path: run_folder.read_weights(path, network()))
    refused_in_bounds(path, lambda path: Checkpoint(path).read())


def test_nesting_without_end(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[" * 1_000_000)
    refused_in_bounds(path, run_folder.read_json)
    refused_in_bounds(path, run_folder.read_lines)
