"""The one way to write a file: whole, or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def whole_file(path: Path, *, flush: bool = False) -> Iterator[Path]:
    """A file beside ``path`` that takes its place when the block succeeds, and vanishes if not.

    With ``flush`` it is on the disk before it does. Where a link leads to a file, that is replaced and the link
    stays; into a device or a pipe it is copied.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with TemporaryDirectory() as folder:
            draft = Path(folder, path.name)
            yield draft
            with draft.open("rb") as file, path.open("wb") as target:
                shutil.copyfileobj(file, target)
        return
    path = behind_links(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        if flush:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def behind_links(path: Path) -> Path:
    """The place that a link leads to; a path that is none as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_whole(path: Path, text: str) -> None:
    """A text that is there whole or not at all."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="")


def copy_whole(source: Path, target: Path) -> None:
    """A copy that is whole or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as draft:
        shutil.copyfile(source, draft)
