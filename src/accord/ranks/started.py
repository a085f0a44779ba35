"""How this process was started: alone, or as one of several by torchrun. Nothing here needs torch."""

from __future__ import annotations

import os


def is_one_of_many() -> bool:
    """Whether this process was started as one of several."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def speaks() -> bool:
    """Whether this process is the one of all that tells a person what happens."""
    return not is_one_of_many() or os.environ.get("RANK", "0") == "0"


def is_restarted() -> bool:
    """Whether torchrun started this process again, after one of the ranks had died."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
