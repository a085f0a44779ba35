"""Small files that would be much in memory: every reader refuses them before anything is built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.reliability import hostile

from accord import Classifier, Recommender

CASES = int(os.environ.get("ACCORD_HOSTILE", "30"))
"""Of the suite; `ACCORD_HOSTILE=200` for the whole attack."""
SEED = int(os.environ.get("ACCORD_SEED", "1"))
LIMIT = 1 << 30


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is of Linux")
def test_no_reader_takes_more_than_a_gigabyte(tmp_path: Path) -> None:
    runs = {"recommender": tmp_path / "recommender", "classifier": tmp_path / "classifier"}
    log = {"user": list("aabbccdd"), "item": list("wxyzwyxz")}
    Recommender(method="normal", dims=4, epochs=1).fit(log).save(runs["recommender"])
    images = np.random.default_rng(0).integers(0, 255, (20, 8, 8)).astype(np.uint8)
    Classifier(method="normal", model="mlp", epochs=1).fit(images, np.arange(20) % 2).save(runs["classifier"])
    cases = [f"{kind} {path.name}" for kind, path in hostile.make(tmp_path, CASES, SEED, runs)]
    (tmp_path / "cases.txt").write_text("\n".join(cases))
    command = [sys.executable, hostile.__file__, str(tmp_path), str(LIMIT)]
    env = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # others reserve a gigabyte beforehand
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    print(f"seed {SEED}: {len(told)} files, most {max(one['bytes'] for one in told) / 1e6:.0f} MB")
    assert len(told) == CASES
    assert not [one for one in told if one["code"] not in (0, 1)], done.stderr[-3000:]
    assert max(one["bytes"] for one in told) < LIMIT
    assert sum(one["code"] == 1 for one in told) > CASES / 2  # refused, not read
