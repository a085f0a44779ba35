"""The built site: every link leads somewhere, nothing comes from elsewhere, and answers are near the front page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
QUESTIONS = {
    "Can I use my own model?": ("how-to/your-model.html", "pretrained"),
    "I only have predicted probabilities": ("how-to/predictions.html", "pred_probs"),
    "It is slow": ("start/questions.html#it-is-slow", "OMP_NUM_THREADS"),
    "Which labels should I fix first?": ("concepts/label-quality.html#which-labels-to-fix-first", "Stop when"),
    "Is it better than what I have?": ("start/questions.html#is-it-better-than-what-i-have", "accord compare"),
}
"""What a newcomer asks, in the words of the front page; the page that answers it, and words of the answer."""

SEARCHED = {
    "pretrained": "how-to/your-model.html",
    "DataLoader": "how-to/your-data.html",
    "cold start": "start/questions.html",
    "pred_probs": "how-to/predictions.html",
}
"""Words that people type, and a page that answers."""


class Read(HTMLParser):
    """A page: its links, its anchors, what it loads, and the links of its own text with their words."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.named: dict[str, str] = {}
        self.words = ""
        self._inside, self._link, self._said = False, "", ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self._inside |= tag == "article"
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            self._link, self._said = values["href"], ""
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(values.get("href", ""))
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])

    def handle_data(self, data: str) -> None:
        self._said += data
        self.words += data if self._inside else ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._inside = False
        if tag == "a" and self._inside:
            self.named.setdefault(self._said.strip(), self._link)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Read]:
    return {path: Read(path) for path in site.rglob("*.html")}


def of_the_site(page: Path, links: list[str]) -> Iterator[tuple[str, Path, str]]:
    for link in links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc and not link.startswith("/"):
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            yield link, target, unquote(parts.fragment)


def test_no_link_is_broken(site: Path, pages: dict[Path, Read]) -> None:
    broken = []
    for page, read in pages.items():
        for link, target, fragment in of_the_site(page, [*read.links, *read.loads]):
            if page.name == "404.html":
                continue
            whole = not fragment or target.suffix != ".html" or fragment in pages[target].anchors
            if not target.is_file() or not whole:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Read]) -> None:
    loaded = {one for read in pages.values() for one in read.loads}
    assert not {one for one in loaded if urlsplit(one).netloc}
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert not {one for text in styles for one in re.findall(r"url\(([^)]+)\)", text) if "//" in one.split(",")[0]}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_newcomers_question_is_answered_within_two_clicks(
    site: Path, pages: dict[Path, Read], question: str
) -> None:
    """Clicks on links in the text of the pages, counted from the front page; menus and search do not count."""
    answer, words = QUESTIONS[question]
    front = pages[site / "index.html"]
    assert question in front.named, "the front page asks it in these words"
    assert front.named[question] == answer  # one click
    path, _, fragment = answer.partition("#")
    page = pages[site / path]
    assert words in page.words
    assert not fragment or fragment in page.anchors
    assert len(page.words.split()) > 300, "it is an answer, not a list of links"


@pytest.mark.parametrize(("words", "page"), SEARCHED.items())
def test_the_index_of_the_search_has_the_words_that_people_type(site: Path, words: str, page: str) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    holding = [one for one in found if words.lower() in (one["title"] + one["text"]).lower()]
    places = {one["location"].partition("#")[0] for one in holding}
    assert page in places


def test_every_command_and_option_has_its_place(pages: dict[Path, Read], site: Path) -> None:
    import typer

    from accord.cli.main import app

    for name, command in typer.main.get_command(app).commands.items():  # pyright: ignore[reportAttributeAccessIssue]
        for below, one in getattr(command, "commands", {"": command}).items():
            words = pages[site / "command-line" / f"{name}{'-' if below else ''}{below}.html"].words
            missing = {option for param in one.params for option in param.opts if option.startswith("-")}
            assert not {option for option in missing if option not in words}
