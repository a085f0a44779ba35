"""A page at work on labels of hostile names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.review.serving import Client, made_items, served

from accord.review.session import Session


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[tuple[Client, Session]]:
    pytest.importorskip("starlette", reason="the review page needs accord-labels[review]")
    pytest.importorskip("uvicorn", reason="the review page needs accord-labels[review]")
    with served(made_items(), tmp_path) as both:
        yield both


@pytest.fixture
def client(at_work: tuple[Client, Session]) -> Client:
    return at_work[0]
