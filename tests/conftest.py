"""What the tests share: a small simulation with known truth, a trained recommender, and the research data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    # Triton's interpreter runs the kernels on a CPU. A kernel chooses it when it is defined, so the variable is set
    # before accord is imported. It is unset afterwards, and processes that tests start are like a user's.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        import accord.kernels.adam
        import accord.kernels.conv3x3
        import accord.kernels.scores
        import accord.kernels.segment_sum
        import accord.kernels.spmm  # noqa: F401

from accord import Recommender
from accord.data.simulator import Simulation, SimulatorSettings, simulate


@pytest.fixture(scope="session")
def made() -> Simulation:
    return simulate(SimulatorSettings(users=300, items=250, interactions=5000, seed=3))


@pytest.fixture(scope="session")
def fitted(made: Simulation) -> Recommender:
    return Recommender(model="gmf", method="deca-p", epochs=4, batch_size=512, seed=1).fit(made.log())


@pytest.fixture(scope="session")
def movielens() -> Path:
    """The folder of MovieLens-100K files; tests that read it skip where it is not at hand."""
    folder = os.environ.get("ACCORD_DATA")
    if not folder or not (Path(folder) / "ml-100k").is_dir():
        pytest.skip("ACCORD_DATA names no folder with ml-100k")
    return Path(folder) / "ml-100k"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The docs as a site, built once; a warning of the builder is a failure."""
    pytest.importorskip("material", reason="the site needs accord-labels[docs]")
    root, folder = Path(__file__).parents[1], tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    paths = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    words = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=root, env=words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
