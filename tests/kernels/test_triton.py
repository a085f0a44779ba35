"""Where the kernels serve, and where Triton is not even imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from accord.kernels import kernels_work
from accord.kernels._triton import INTERPRETED


@pytest.mark.skipif(not INTERPRETED, reason="the kernels are compiled here")
def test_the_interpreter_serves_tests_alone() -> None:
    assert not kernels_work(torch.device("cpu"))
    assert not kernels_work(torch.device("cuda"))


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="torch is built with CUDA")
def test_where_no_kernel_can_run_triton_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    program = "import sys, accord.kernels.conv3x3; print('triton' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
