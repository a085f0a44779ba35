"""Kernels run by Triton's interpreter where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from accord.kernels._triton import INTERPRETED


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    """Kernels are defined for it (see tests/conftest.py); a part of Triton asks again when a kernel runs."""
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            patch.setenv("TRITON_INTERPRET", "1")
        yield
