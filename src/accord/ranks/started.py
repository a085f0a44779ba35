"""How this process was started: alone, or as one of several by torchrun. Nothing here needs torch."""

from __future__ import annotations

import os

_TOGETHER = [False]


def is_one_of_many() -> bool:
    """Whether this process was started as one of several."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def together(whether: bool = True) -> None:
    """From now on all ranks do one thing together, and what one of them says is true of all."""
    _TOGETHER[0] = whether


def speaks() -> bool:
    """Whether this process tells a person what happens: of ranks that work together, the first one does."""
    return not (_TOGETHER[0] and is_one_of_many()) or os.environ.get("RANK", "0") == "0"


def is_restarted() -> bool:
    """Whether torchrun started this process again, after one of the ranks had died."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
