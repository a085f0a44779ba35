"""Runs all tests in two halves side by side, one for each core; `make test` does this. Arguments go to pytest.

Those that drive a browser are left out: `make test-browser` runs them.

Two processes of pytest, each with folders of its own: what one half writes, listens at or waits for is its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FIRST = {"cli", "reliability", "docs", "review"}
"""Folders of the first half, with the files beside them; both take about as long."""


def main() -> int:
    folders = sorted(
        path for path in HERE.iterdir() if path.is_dir() and path.name != "browser" and any(path.glob("test_*.py"))
    )
    files = sorted(HERE.glob("test_*.py"))
    first = [path for path in folders if path.name in FIRST] + files
    halves = (first, [path for path in folders if path.name not in FIRST])
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:
        other = subprocess.Popen(words(halves[1]), stdout=kept, stderr=subprocess.STDOUT)
        try:
            code = subprocess.call(words(halves[0]))
            ended = other.wait()
        finally:
            other.kill()
        kept.seek(0)
        print(kept.read(), flush=True)
    return code or ended


def words(paths: list[Path]) -> list[str]:
    return [sys.executable, "-m", "pytest", *sys.argv[1:], *map(str, paths)]


if __name__ == "__main__":
    sys.exit(main())
