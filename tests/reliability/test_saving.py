"""A write is whole or not there: kills, full disks and failing writes leave the old run as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from accord import Classifier, Recommender
from accord.data.simulator import Simulation
from accord.errors import DataError
from accord.estimators import run_folder

OLD, NEW = 1, 2


def recommender(made: Simulation, seed: int) -> Recommender:
    return Recommender(method="normal", epochs=1, dims=4, seed=seed).fit(made.log())


def classifier(seed: int) -> Classifier:
    X = [[float(k % 3), float(k)] for k in range(30)]
    return Classifier(method="normal", epochs=1, seed=seed).fit(X, [k % 3 for k in range(30)])


def fitted(kind: str, made: Simulation, seed: int) -> Any:
    return recommender(made, seed) if kind == "recommender" else classifier(seed)


FILES = {"recommender": 6, "classifier": 5}
"""Files of a run that are written by the functions that fail here."""


@pytest.mark.parametrize("kind", ["recommender", "classifier"])
def test_a_disk_that_fills_up_at_any_file(
    kind: str, made: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    fitted(kind, made, OLD).save(run)
    new = fitted(kind, made, NEW)
    for fails_at in range(FILES[kind]):
        left = [fails_at]

        def full(real: Any, left: list[int] = left) -> Any:
            def write(*args: Any, **more: Any) -> Any:
                if left[0] == 0:
                    raise OSError(28, "No space left on device")
                left[0] -= 1
                return real(*args, **more)

            return write

        with monkeypatch.context() as patch:
            for name in ("write_json", "write_lines", "write_weights"):
                patch.setattr(run_folder, name, full(getattr(run_folder, name)))
            for name in ("write_table", "ParquetWriter"):
                patch.setattr(parquet, name, full(getattr(parquet, name)))
            with pytest.raises(DataError, match="No space left"):
                new.save(run)
        loaded = (Recommender if kind == "recommender" else Classifier).load(run)
        assert loaded.settings.seed == OLD
        assert [p.name for p in tmp_path.iterdir()] == ["run"]
    new.save(run)
    assert (Recommender if kind == "recommender" else Classifier).load(run).settings.seed == NEW


def test_files_that_may_not_grow(made: Simulation, tmp_path: Path) -> None:
    """The kernel refuses to write beyond a size: as on a full disk, but for real."""
    run = tmp_path / "run"
    recommender(made, OLD).save(run)
    program = (
        "import resource, sys\n"
        "from accord import Recommender\n"
        "rec = Recommender.load(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))\n"
        "try:\n    rec.save(sys.argv[1])\nexcept ValueError as error:\n    print(error)\n    sys.exit(2)\n"
    )
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for limit in (0, 10, 700, 5000):
        done = subprocess.run([sys.executable, "-c", program, run, str(limit)], capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert "cannot be written" in done.stdout
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
        assert [p.name for p in tmp_path.iterdir()] == ["run"]


DIES = """
import os, shutil, signal, sys
from pathlib import Path
from accord import Recommender
from accord.estimators import run_folder

source, run, moment = sys.argv[1], sys.argv[2], int(sys.argv[3])
new = Recommender.load(source)
renames, real = [0], Path.rename

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def rename(self, target):
    renames[0] += 1
    if renames[0] == moment:
        dies()
    return real(self, target)

Path.rename = rename
if moment == 0:
    run_folder.write_lines = dies
if moment == 3:
    rmtree = shutil.rmtree
    shutil.rmtree = lambda *args, **more: dies() if renames[0] == 2 else rmtree(*args, **more)
new.save(run)
"""


@pytest.mark.parametrize("moment", range(4))
def test_a_kill_while_a_run_is_replaced(moment: int, made: Simulation, tmp_path: Path) -> None:
    """In the middle of writing, before the first rename, between the two, and after both."""
    run, source = tmp_path / "here" / "run", tmp_path / "new"
    run.parent.mkdir()
    recommender(made, OLD).save(run)
    new = recommender(made, NEW)
    new.save(source)
    done = subprocess.run([sys.executable, "-c", DIES, str(source), str(run), str(moment)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    left = sorted(run.parent.rglob("*"))
    assert Recommender.load(run).settings.seed == (NEW if moment == 3 else OLD)
    assert sorted(run.parent.rglob("*")) == left  # reading changes nothing
    assert run.exists() == (moment != 2)
    new.save(run)
    assert Recommender.load(run).settings.seed == NEW
    assert [p.name for p in run.parent.iterdir()] == ["run"]
