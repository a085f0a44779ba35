"""The one way to write a file: whole, or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, flush: bool = False) -> Iterator[Path]:
    """A file beside ``path`` that takes its place when the block succeeds, and vanishes if not.

    With ``flush`` it is on the disk before it does.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        if flush:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """A text that is there whole or not at all."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="")


def copy_whole(source: Path, target: Path) -> None:
    """A copy that is whole or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as draft:
        shutil.copyfile(source, draft)
