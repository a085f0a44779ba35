"""The built site in a real browser: axe's rules, no other host, no overflow, and a search that finds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_site import SEARCHED

pytestmark = pytest.mark.browser
PAGES = (
    "index.html",
    "tutorials/index.html",
    "results/index.html",
    "start/questions.html",
    "concepts/noise.html",
    "reference/recommender.html",
    "command-line/fit.html",
)
SERIOUS = {"serious", "critical"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test is no log."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (1360, "dark"), (390, "light"), (390, "dark")])
def test_anybody_can_read_it_and_it_asks_no_other_host(browser: Any, address: str, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not at hand").Axe()
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(20_000)
    asked: list[str] = []
    troubles: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    for name in PAGES:
        page.goto(address + name)
        page.wait_for_load_state("networkidle")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(", "))) < 300) == (scheme == "dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = axe.run(page)
        serious = [one for one in found.response["violations"] if one["impact"] in SERIOUS]
        assert not serious, (
            name,
            [(one["id"], [node["html"][:200] for node in one["nodes"][:5]]) for one in serious],
        )
    assert {url for url in asked if not url.startswith((address, "data:", "blob:" + address))} == set()
    assert not troubles
    context.close()


@pytest.mark.parametrize(("words", "page"), SEARCHED.items())
@pytest.mark.parametrize("opened", ["served", "from a folder"])
def test_the_search_finds_what_people_type(
    context: Any, address: str, site: Path, opened: str, words: str, page: str
) -> None:
    start = address if opened == "served" else f"file://{site}/"
    window = context.new_page()
    window.goto(start + "index.html")
    window.locator(".md-search__input").first.click()
    window.keyboard.type(words, delay=20)
    results = window.locator(".md-search-result__item > a.md-search-result__link")
    results.first.wait_for()
    places = [results.nth(k).get_attribute("href") or "" for k in range(min(results.count(), 8))]
    assert any(page in place for place in places), places
