"""The built site in a real browser: axe's rules, Lighthouse's score, no other host, no overflow, the search."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
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
    "tutorials/clicks.html",
    "how-to/review.html",
)
WEIGHTS = {"critical": 10, "serious": 7, "moderate": 3, "minor": 1}
"""How much a rule of axe counts, by its impact. Lighthouse weighs its audits of accessibility in this way."""
WANTED = 95
IMAGES_AND_LINKS = """() => {
  const article = document.querySelector("article");
  const words = (one) => (one.getAttribute("aria-label") || one.textContent).trim();
  const said = [...article.querySelectorAll("a[href]:not(.headerlink)")];
  return {
    levels: [...article.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => Number(one.tagName[1])),
    images: [...document.images].map((one) => [one.src.split("/").pop(), one.alt]),
    links: said.filter((one) => !one.querySelector("img, svg")).map(words),
  };
}"""
EMPTY_WORDS = {"", "here", "click here", "this", "link", "more", "read more", "this page"}


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


def score(found: dict[str, Any], impacts: list[list[str]]) -> float:
    """The accessibility score of a page, from 0 to 100, as Lighthouse computes it.

    Every rule of axe that applies to the page is passed or failed as a whole, however many elements break it. The
    score is the share of what is passed, each rule weighed by its impact. Rules that do not apply, and those that
    only a person can decide, do not count. Lighthouse leaves some rules out; here all that axe runs by default
    count.
    """
    weight = {rule: WEIGHTS[impact] for rule, impact in impacts}
    passed, failed = (sum(weight[one["id"]] for one in found[kind]) for kind in ("passes", "violations"))
    return 100 * passed / (passed + failed)


def test_a_failed_rule_costs_its_weight() -> None:
    found = {"passes": [{"id": "alt"}, {"id": "order"}], "violations": [{"id": "contrast"}], "incomplete": []}
    impacts = [["alt", "critical"], ["order", "moderate"], ["contrast", "serious"], ["unused", "minor"]]
    assert score(found, impacts) == pytest.approx(100 * 13 / 20)


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
        page.wait_for_function("!document.querySelector('.md-code__nav:not([role])')")
        found = axe.run(page, options={}).response  # all rules that are on by default, best practices among them
        broken = [(one["id"], [node["html"][:200] for node in one["nodes"][:5]]) for one in found["violations"]]
        assert score(found, page.evaluate("axe._audit.rules.map((rule) => [rule.id, rule.impact])")) >= WANTED, (
            name,
            broken,
        )
        assert not broken, (name, broken)
        shown = page.evaluate(IMAGES_AND_LINKS)
        assert shown["levels"][0] == 1
        assert shown["levels"].count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(shown["levels"])), (name, shown["levels"])
        assert all(alt.strip() and alt.strip() != file for file, alt in shown["images"]), (name, shown["images"])
        assert not [one for one in shown["links"] if one.lower() in EMPTY_WORDS], (name, shown["links"])
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


def test_a_table_that_is_longer_than_a_sheet_begins_where_it_stands(browser: Any, address: str) -> None:
    """On paper: rows stay whole, tables do not jump to the next sheet, and buttons are gone."""
    context = browser.new_context(viewport={"width": 794, "height": 1123})
    page = context.new_page()
    page.goto(address + "reference/settings.html")
    page.emulate_media(media="print")
    style = "(name) => getComputedStyle(document.querySelector(name)).%s"
    assert page.evaluate(style % "breakInside", "article table") == "auto"
    assert page.evaluate(style % "breakInside", "article tr") == "avoid"
    assert page.evaluate(style % "display", ".md-header") == "none"
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    context.close()
