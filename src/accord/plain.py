"""Opening what others may have prepared: plain files alone, and inside our own folders nothing behind a link."""

from __future__ import annotations

import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from accord.errors import DataError
from accord.memory import refuse_too_large

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}
BLOCK, LOOK = 1 << 20, 1 << 26
"""Bytes that are read together, and after which memory is asked."""
GROWTH = {"text": 6, "json": 50, "lines": 40}
"""Bytes of memory that a byte of a file may become: as text, as values of JSON, as a list of lines."""

AGAIN = "fit the run again, or remove the checkpoint"
"""What to do about tensors that are damaged."""


def size_of(path: Path, *, inside: bool = False) -> int:
    """The bytes of a plain file; anything else is refused, and nothing is opened.

    A file ``inside`` a folder of ours is no link either. What is not there is an OSError.
    """
    found = os.lstat(path) if inside else os.stat(path)
    _refuse_special(path, found.st_mode)
    return found.st_size


def open_plain(path: Path, *, inside: bool = False) -> BufferedReader:
    """A plain file, opened to be read. A pipe, a device or a socket is refused without waiting for it."""
    size_of(path, inside=inside)
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", *(("O_NOFOLLOW",) if inside else ())):
        flags |= getattr(os, name, 0)
    file = os.open(path, flags)
    try:
        _refuse_special(path, os.fstat(file).st_mode)  # it may have been exchanged meanwhile
        return open(file, "rb")
    except BaseException:
        os.close(file)
        raise


def _refuse_special(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no plain file")
        where = " inside a folder of accord" if kind == "a link" else ""
        raise DataError(f"'{path}' is {kind}{where}; give a plain file.")


def read_plain(path: Path, *, kind: str = "text", inside: bool = False) -> str:
    """The text of a plain file, where memory suffices for what is made of it."""
    with open_plain(path, inside=inside) as file:
        size = os.fstat(file.fileno()).st_size
        refuse_too_large(GROWTH[kind] * size, f"'{path}'", "give a smaller file")
        # What grows meanwhile is cut, and what has no size, as in /proc, is read to its end.
        return file.read(size or -1).decode("utf-8-sig" if kind == "lines" else "utf-8")


def read_stream(file: BinaryIO, what: str) -> bytes:
    """All that comes out of a pipe, as long as memory suffices for it."""
    blocks, size, look = list[bytes](), 0, LOOK
    for block in iter(lambda: file.read(BLOCK), b""):
        blocks.append(block)
        size += len(block)
        if size >= look:  # what is there is joined, and then read as a table
            look = size + LOOK
            refuse_too_large(2 * size, what, "pipe less into it")
    return b"".join(blocks)


def read_json(path: Path, *, inside: bool = True) -> Any:
    """The values of a JSON file of a folder of ours."""
    try:
        return json.loads(read_plain(path, kind="json", inside=inside))
    except DataError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' cannot be read as JSON: {error}.") from error


def tensor_shapes(path: Path, *, inside: bool = True) -> dict[str, Any]:
    """The header of a safetensors file: type, shape and place of each tensor. What would not fit is refused."""
    with open_plain(path, inside=inside) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise DataError(f"'{path}' is damaged: no file of tensors, or cut off; {AGAIN}.")
        refuse_too_large(GROWTH["json"] * length + 2 * size, f"'{path}'", "give a smaller file")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise DataError(f"'{path}' is damaged: its header cannot be read ({error}); {AGAIN}.") from error
    if not isinstance(header, dict):
        raise DataError(f"'{path}' is damaged: its header has no names; {AGAIN}.")
    return header


def refuse_links(folder: Path, leave: tuple[str, ...] = ()) -> None:
    """Refuse a folder of ours that holds a link, a pipe, a device or a socket, at any depth.

    ``leave`` are names at the top that are only written, which replaces what is there.
    """
    open_folders = [folder]
    while open_folders:
        with os.scandir(open_folders.pop()) as entries:
            for entry in entries:
                if entry.name in leave and Path(entry.path).parent == folder:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    open_folders.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    kind = KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "no plain file")
                    raise DataError(
                        f"'{entry.path}' is {kind}, and '{folder}' holds plain files alone: remove it, or copy the "
                        "file itself there."
                    )
