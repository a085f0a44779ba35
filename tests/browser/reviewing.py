"""Helpers of the tests of the review page."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from tests.review.serving import Client

from accord.review.pictures import ArrayPictures
from accord.review.shown import Shown

CLASSES = [str(k) for k in range(5)]


class Pixels(Shown):
    """A picture for each label."""

    grid = True

    def __init__(self, count: int) -> None:
        super().__init__()
        self.pictures = ArrayPictures(np.random.default_rng(0).integers(0, 255, (count, 8, 8, 1)))


def opened(context: Any, client: Client) -> Any:
    page = context.new_page()
    page.troubles = []
    page.on("console", lambda told: page.troubles.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("dialog", lambda dialog: page.troubles.append("a script of the data has run"))
    page.goto(f"http://127.0.0.1:{client.port}/?token={client.token}")
    page.wait_for_selector(".card.now")
    return page


def until(page: Any, expression: str) -> None:
    """Wait for something to be so; Playwright waits by code from a string, which the page forbids."""
    end = time.monotonic() + 15
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)


def saved(page: Any) -> None:
    until(page, "document.getElementById('saved').textContent === 'all saved'")


def now(page: Any) -> int:
    """The label that is shown."""
    return int(page.inner_text("#detail h2").removeprefix("row "))
