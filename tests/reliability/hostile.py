"""Small files that would become much in memory, made by chance from a seed, and their readers under a limit.

`python tests/reliability/hostile.py FOLDER LIMIT` reads every case of a folder in a process of its own.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sqlite3
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECONDS, SECONDS_EACH = 20, 1
"""For one case at most, and for each file of a folder: an image of 50 million pixels takes half a second."""
Draw = np.random.Generator


# -- files -------------------------------------------------------------------------------------------------


KEYS = {"model": "gmf", "method": "normal", "seed": 0}
"""What a table of cells has besides."""


def parquet(rng: Draw, path: Path, first: str = "user", more: Mapping[str, Any] | None = None) -> None:
    """Text in dictionaries, shared beginnings, constant numbers, gaps of wide values, lists of constants."""
    codec = str(rng.choice(["zstd", "snappy", "gzip", "brotli", "lz4"]))
    options: dict[str, Any] = {"compression": codec, "store_schema": False}
    options["data_page_version"] = str(rng.choice(["1.0", "2.0"]))
    rows, long = int(rng.integers(5_000, 50_000)), int(rng.integers(50_000, 400_000))
    kind = int(rng.integers(7))
    user: Any = pa.array(np.arange(rows) % 7)
    if kind in (0, 1):
        user = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 2, pa.int32()), ["a" * long, "b" * long])
        user = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), user) if kind == 1 else user
    elif kind == 2:
        user = pa.array(["x" * long] * 500 if long < 200_000 else ["x" * 200_000] * 500)
        options |= {"use_dictionary": False, "column_encoding": {first: "DELTA_BYTE_ARRAY"}}
        rows = 500
    elif kind == 3:
        user = pa.nulls(rows, pa.binary(100_000))
    elif kind == 4:
        user = pa.array([[0] * 100_000] * 20)
        rows = 20
    elif kind == 5:
        user = pa.array(np.zeros(rows)).cast(pa.decimal128(38, 0))
    table = pa.table({first: user, "item": np.arange(rows) % 50})
    for name, value in (more or {}).items():
        table = table.append_column(name, pa.array([value] * rows))
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        for _ in range(int(rng.integers(1, 30)) if kind in (2, 4, 5, 6) else 1):
            writer.write_table(table)


def lying_parquet(rng: Draw, path: Path) -> None:
    """Bytes of the footer or of page headers changed, where numbers of rows and of bytes are."""
    pq.write_table(pa.table({"user": ["a", "b"] * 50, "item": np.arange(100)}), path)
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(4, len(content) - 5))
        content[at : at + 5] = b"\xff\xff\xff\xff\x0f" if rng.random() < 0.5 else rng.bytes(5)
    path.write_bytes(content)


def arrow(rng: Draw, path: Path) -> None:
    """Packed buffers of the same number or letter, long words in dictionaries, batches again and again."""
    rows, long = int(rng.integers(10_000, 5_000_000)), int(rng.integers(1_000, 400_000))
    words = pa.array(["a" * long, "b" * long])
    user: Any = [
        lambda: pa.array(np.zeros(rows)),
        lambda: pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 2, pa.int32()), words),
        lambda: words.take(pa.array(np.arange(min(rows, (1 << 28) // long)) % 2)),
        lambda: pa.nulls(rows, pa.binary(8)),
    ][rng.integers(4)]()
    table = pa.table({"user": user, "label": np.arange(len(user)) % 2})
    options = pa.ipc.IpcWriteOptions(compression=str(rng.choice(["zstd", "lz4"])))
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        for _ in range(int(rng.integers(1, 6))):
            writer.write_table(table)
    if rng.random() < 0.4:
        content = bytearray(path.read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(content) - 800, len(content) - 10))
            content[at : at + 4] = rng.bytes(4)
        path.write_bytes(content)


def csv_file(rng: Draw, path: Path) -> None:
    kind = int(rng.integers(5))
    if kind == 0:  # holes that take no place on the disk
        path.write_text("user,item\n")
        os.truncate(path, int(rng.integers(2, 1000)) << 30)
    elif kind == 1:
        path.write_bytes(b"user,item\n" + b"1,1\n" * 8_000_000)
    elif kind == 2:
        path.write_bytes(b"user,item\n" + b",\r" * 9_000_000)
    elif kind == 3:
        path.write_bytes(b"label,item\n" + b"a" * 900 + b",1\n" + b"b,1\n" * 800_000)
    else:
        path.write_bytes(b"user,item\n" + b'"' + b"x\n" * int(rng.integers(1, 9_000_000)))


def packed_file(rng: Draw, path: Path) -> None:
    """Text that is packed a thousand times smaller."""
    row = [b"1,1\n", b",\r", b"a" * 900 + b",1\n", b'"x\n'][rng.integers(4)]
    with gzip.open(path, "wb", 6) as file:
        file.write(b"user,item\n")
        for _ in range(int(rng.integers(20, 200))):
            file.write(row * ((1 << 22) // len(row)))


def parts(rng: Draw, path: Path) -> None:
    """A folder of Parquet files."""
    path.mkdir()
    for k in range(int(rng.integers(2, 6))):
        (parquet if rng.random() < 0.7 else lying_parquet)(rng, path / f"{k}.parquet")


def database(rng: Draw, path: Path) -> None:
    """A few pages of SQLite that give rows of long cells without end, or one that is too long."""
    cell = ["hex(zeroblob(1000000))", "zeroblob(900000000)"][rng.integers(2)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW log AS WITH RECURSIVE rows(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows) "
            f"SELECT n AS user, {cell} AS item FROM rows"
        )
        connection.commit()


SUFFIXES: dict[Any, str] = {
    arrow: ".arrow",
    csv_file: ".csv",
    packed_file: ".csv.gz",
    parts: "",
    database: ".sqlite",
}


def json_text(rng: Draw) -> bytes:
    times = int(rng.integers(100_000, 4_000_000))
    return [
        b"[" * times,
        b"[" + b"{}," * times + b"0]",
        b"[" + b'{"a":1},' * times + b"0]",
        b"[" + b"[]," * times + b"0]",
        b'{"a":' * times,
        b'["' + "\U0001f600".encode() * times + b'"]',
        b"[" + b"1e9," * times + b"0]",
        b"9" * times,
    ][rng.integers(8)]


def tensors(rng: Draw, path: Path) -> None:
    kind = int(rng.integers(5))
    if kind == 0:
        path.write_bytes(struct.pack("<Q", int(rng.integers(1, 1 << 62))) + b"{}")
    elif kind == 1:
        path.write_bytes(struct.pack("<Q", 2) + b"{}")
        os.truncate(path, int(rng.integers(2, 1000)) << 30)
    elif kind == 2:
        many = {f"t{k}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for k in range(300_000)}
        header = json.dumps(many).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header)
    elif kind == 3:
        header = json_text(rng)
        path.write_bytes(struct.pack("<Q", len(header)) + header)
    else:
        one = {"target.x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
        header = json.dumps(one).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header)


def png(width: int, height: int, bits: int = 1, kind: int = 0) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    channels = {0: 1, 2: 3, 6: 4}[kind]
    packer = zlib.compressobj(9)
    row = b"\0" * (1 + (width * bits * channels + 7) // 8)
    packed = b"".join(packer.compress(row) for _ in range(min(height, 9000))) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def tiff_tags(copies: int, size: int) -> bytes:
    """Many tags that all lead to the same bytes."""
    tags = [(256, 3, 1, 2), (257, 3, 1, 2), *((1000 + k, 1, size, 8) for k in range(copies))]
    at = 8 + size
    body = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return struct.pack("<2sHI", b"II", 42, at) + b"\0" * size + struct.pack("<H", len(tags)) + body + b"\0" * 4


def picture(rng: Draw) -> bytes:
    side = int(rng.integers(5_000, 60_000))
    return [
        lambda: png(9000, 9000),
        lambda: png(side, 4000, 8, 2),
        lambda: tiff_tags(20_000, int(rng.integers(100_000, 1_000_000))),
        lambda: struct.pack("<2sIIIIiiHHIIiiII", b"BM", 100, 0, 54, 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0),
        lambda: b"P6\n%d %d\n255\n" % (side, side),
        lambda: b"GIF89a" + struct.pack("<HH", side, side) + b"\x80\0\0" + b"\0" * 6 + b",\0\0\0\0"
        + struct.pack("<HH", side, side) + b"\0\x02\x02\x4c\x01\0;",
        lambda: b"\xff\xd8\xff\xc2" + struct.pack(">HBHHB", 17, 8, side, side, 3) + b"\1\x22\0\2\x11\1\3\x11\1"
        + b"\xff\xda\0\x0c\3\1\0\2\x11\3\x11\0\x3f\0" + b"\0" * 50 + b"\xff\xd9",
    ][rng.integers(7)]()  # fmt: skip


def npz(rng: Draw, path: Path) -> None:
    length = int(rng.integers(1, 3)) << 29
    magic = b"\x93NUMPY\x02\x00" + struct.pack("<I", length)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("clean.npy", "w") as file:
        if rng.random() < 0.5:
            file.write(magic)
            for _ in range(64):
                file.write(b" " * (1 << 20))
        else:
            array = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                array, {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
            )
            file.write(array.getvalue())


def idx(rng: Draw, path: Path) -> None:
    shape = [int(rng.integers(1, 1 << 14)), 28, 28] if rng.random() < 0.3 else [int(rng.integers(1 << 28, 1 << 32))]
    with gzip.open(path, "wb", 1) as file:
        file.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape))
        for _ in range(60):
            file.write(b"\0" * (1 << 20))


def spoiled_run(rng: Draw, path: Path, run: Path) -> None:
    """A run folder that asks for more than it holds."""
    import shutil

    shutil.copytree(run, path)
    config = json.loads((path / "config.json").read_text())
    kind = int(rng.integers(6))
    if kind == 0 and "dims" in config["settings"]:
        config["settings"]["dims"] = 4096
        n = int(rng.integers(10_000, 90_000))
        both = pa.table({"users": pa.array([np.arange(n)]), "items": pa.array([np.arange(4)])})
        options = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
        pq.write_table(both, path / "ids.parquet", compression="zstd", **options)
    elif kind == 1:
        config["networks"] = {f"n{k}": next(iter(config["networks"].values())) for k in range(100_000)}
    elif kind == 2 and "classes" in config:
        config["classes"] = {"type": "<U4096", "values": [f"{k:06}" for k in range(200_000)]}
    elif kind == 3 and "shape" in config:
        config["shape"] = [int(rng.integers(10_000, 1_000_000))] * 2 + [1]
    elif kind == 4:
        (path / "history.jsonl").write_bytes(json_text(rng))
    else:
        tensors(rng, path / "weights.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    if rng.random() < 0.15:
        (path / "config.json").write_bytes(json_text(rng))


# -- readers -----------------------------------------------------------------------------------------------


def readers() -> dict[str, Callable[[Path], Any]]:
    from accord import Classifier, Recommender
    from accord.data.clicks import load_clicks
    from accord.data.datasets.image_files import read_idx
    from accord.data.datasets.label_arrays import read_label_array
    from accord.data.labelled_files import read_image_folder, read_labelled_table
    from accord.data.reading import read_table
    from accord.estimators import run_folder
    from accord.experiments.cells import CellFiles
    from accord.reproduction.cells import StudyCells
    from accord.tasks.base import Cell
    from accord.training import Checkpoint

    cell = Cell("gmf", "normal", 0)
    return {
        "clicks": load_clicks,
        "truth": read_table,
        "labels": lambda path: read_labelled_table(path, "user" if path.suffix == ".parquet" else None),
        "values": lambda path: CellFiles(path).values(cell, "user"),
        "cell": lambda path: CellFiles(path).read(cell),
        "study": lambda path: StudyCells(path / "part").read(cell),
        "checkpoint": lambda path: Checkpoint(path).read(),
        "images": lambda path: read_image_folder(path, path / "labels.csv"),
        "small-images": lambda path: read_image_folder(path, path / "labels.csv", size=8),
        "npz": lambda path: read_label_array(path, ["clean"], 10),
        "idx": read_idx,
        "json": run_folder.read_json,
        "recommender": Recommender.load,
        "classifier": Classifier.load,
    }


def make(folder: Path, count: int, seed: int, runs: dict[str, Path]) -> Iterator[tuple[str, Path]]:
    """Hostile files, each with its reader's name."""
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        kinds = ["clicks", "truth", "labels", "values", "cell", "study", "checkpoint", "images", "small-images"]
        kinds += ["npz", "idx", "json", "recommender", "classifier", "clicks"]
        kind = kinds[k % len(kinds)]
        path = folder / f"{k:04}-{kind}"
        if kind in ("clicks", "truth", "labels"):
            ways = [csv_file, lying_parquet, parquet, parquet, packed_file, parts, database]
            ways += [arrow, arrow, arrow] if kind == "labels" else []
            way = ways[rng.integers(len(ways))]
            path = path.with_suffix(SUFFIXES.get(way, ".parquet"))
            way(rng, path)
        elif kind in ("values", "cell"):
            (path / "cells").mkdir(parents=True)
            parquet(rng, path / "cells" / "gmf-normal-seed0.parquet")
            (path / "cells" / "gmf-normal-seed0.json").write_bytes(json_text(rng))
        elif kind == "study":
            path.mkdir()
            if rng.random() < 0.7:
                first = ["user", "part", "method", "metrics"][rng.integers(4)]
                keys = {"part": "part"} | KEYS if first != "user" else {}
                others = {name: value for name, value in keys.items() if name != first}
                parquet(rng, path / "cells.parquet", first, others)
            else:
                lying_parquet(rng, path / "cells.parquet")
        elif kind == "checkpoint":
            tensors(rng, path)
        elif kind in ("images", "small-images"):
            path.mkdir()
            content, number = picture(rng), int(rng.integers(2, 40))
            for n in range(number):
                (path / str(n)).write_bytes(content)
            (path / "labels.csv").write_text(
                "file,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(number))
            )
        elif kind in ("npz", "idx"):
            path = path.with_suffix(".gz" if kind == "idx" else ".npz")
            (idx if kind == "idx" else npz)(rng, path)
        elif kind == "json":
            path.write_bytes(json_text(rng))
        else:
            spoiled_run(rng, path, runs[kind])
        yield kind, path


def main(folder: Path, limit: int) -> None:
    """Read every case in a process of its own that may take so many bytes; one line of JSON for each."""
    from accord.errors import AccordError

    known = readers()
    # What libraries load at their first use is no part of what a file takes.
    import PIL.Image
    import PIL.TiffImagePlugin  # noqa: F401

    before = measured(lambda: 0)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    for line in (folder / "cases.txt").read_text().splitlines():
        kind, _, name = line.partition(" ")
        started = time.monotonic()

        def read(kind: str = kind, name: str = name) -> int:
            most = pages * resource.getpagesize() + limit
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            seconds = SECONDS + SECONDS_EACH * sum(1 for _ in (folder / name).glob("*"))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            try:
                known[kind](folder / name)
            except AccordError as error:
                print(f"{name}: {error}"[:500], file=sys.stderr)
                return 4 if "alloc" in repr(error) or isinstance(error.__cause__, MemoryError) else 1
            except BaseException as error:
                print(f"{name}: {error!r}"[:500], file=sys.stderr)
                return 3
            return 0

        code, most = measured(read)
        told = {"case": name, "code": code, "bytes": most - before}
        print(json.dumps(told | {"seconds": round(time.monotonic() - started, 2)}), flush=True)


def measured(act: Callable[[], int]) -> tuple[int, int]:
    """The exit code of a process that does something, and the most memory that it had."""
    child = os.fork()
    if not child:
        code = 3
        try:
            code = act()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
