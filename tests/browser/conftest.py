"""Chromium, driven by Playwright: the one of the system, as Playwright's own download is not needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.reviewing import CLASSES, Pixels, opened
from tests.review.serving import Client, made_items, served

from accord.review.session import Session

NAMES = ("chromium", "google-chrome", "chromium-browser", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = os.environ.get("ACCORD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        leave = pytest.fail if os.environ.get("ACCORD_BROWSER") == "needed" else pytest.skip
        leave("there is no Chromium; install it, or name it with ACCORD_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="driving a browser needs accord-labels[browser]")
    pytest.importorskip("uvicorn", reason="the review page needs accord-labels[review]")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=FLAGS.split())
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """A person's browser: windows of one context share their cookies."""
    made = browser.new_context(viewport={"width": 1360, "height": 820})
    made.set_default_timeout(15_000)
    yield made
    made.close()


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[tuple[Client, Session]]:
    with served(made_items(150, classes=CLASSES), tmp_path, shown=Pixels(150)) as both:
        yield both


@pytest.fixture
def page(context: Any, at_work: tuple[Client, Session]) -> Iterator[Any]:
    made = opened(context, at_work[0])
    yield made
    assert not made.troubles
