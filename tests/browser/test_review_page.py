"""The review page in a real browser: keys, mouse, selections, a dead server, two people, and screens."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser.reviewing import CLASSES, now, opened, saved, until
from tests.review.serving import Client, ended, made_items, served, started

from accord import Classifier, Recommender
from accord.decisions.journal import journals
from accord.review.clicked import clicks_to_review
from accord.review.session import Session

pytestmark = pytest.mark.browser


# -- deciding ----------------------------------------------------------------------------------------------


def test_it_opens_without_its_token_and_asks_nobody_else(context: Any, at_work: tuple[Client, Session]) -> None:
    client = at_work[0]
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = opened(context, client)
    assert page.url == f"http://127.0.0.1:{client.port}/"
    assert "150 labels" in page.inner_text("#what")
    assert page.locator(".grid img").count() == 24
    until(page, "[...document.images].every(one => one.complete && one.naturalWidth === 8)")
    assert all(url.startswith(f"http://127.0.0.1:{client.port}/") for url in asked)
    assert not page.troubles
    other = context.browser.new_context().new_page()
    other.goto(f"http://127.0.0.1:{client.port}/")
    assert "Open the address that accord review printed" in other.inner_text("body")


def test_one_key_decides_and_the_next_label_is_shown(page: Any, at_work: tuple[Client, Session]) -> None:
    session = at_work[1]
    said = []
    for key in ("k", "f", "d", "u", "3"):
        at = now(page)
        predicted = int(session.items.predicted[at])
        said.append(
            (at, {"k": "keep", "d": "drop", "u": "unsure"}.get(key, "fix"), {"f": predicted, "3": 3}.get(key))
        )
        page.keyboard.press(key)
        assert now(page) != at
    saved(page)
    assert [(one.item, one.action, one.label) for one in session.journal.steps] == said
    page.keyboard.press("z")
    until(page, f"document.querySelector('#detail h2').textContent === 'row {said[-1][0]}'")
    assert len(session.journal.done) == 4
    page.keyboard.press("j")
    page.keyboard.press("p")
    assert now(page) == said[-1][0]
    assert page.locator('[data-action="drop"] .mark').inner_text() == "dropped"
    until(page, "document.getElementById('decided').textContent.startsWith('4 of 150')")


def test_keys_as_fast_as_they_come_decide_each_label_once(page: Any, at_work: tuple[Client, Session]) -> None:
    session = at_work[1]
    while len(session.journal.standing) < 60:
        for _ in range(12):
            page.keyboard.press("k")  # for a label that is not there yet it does nothing
        saved(page)
    first = [one.item for one in session.journal.steps if one.why != "again"]
    assert len(first) == len(set(first))
    assert page.locator(".card").count() > 24  # more came before they were needed


def test_the_mouse_does_all_of_it(page: Any, at_work: tuple[Client, Session]) -> None:
    session = at_work[1]
    page.locator(".card .open").nth(3).click()
    at = now(page)
    page.get_by_role("button", name="4", exact=True).click()
    saved(page)
    assert session.journal.standing[at].label == 4
    page.get_by_role("button", name="Undo").click()
    until(page, "document.getElementById('said').textContent.startsWith('Taken back')")
    assert not session.journal.standing
    page.get_by_role("button", name="Keys").click()
    assert page.locator("#help").is_visible()
    page.get_by_role("button", name="Close").click()
    assert not page.locator("#help").is_visible()


def test_all_labels_are_filtered_sorted_and_searched(page: Any, at_work: tuple[Client, Session]) -> None:
    items = at_work[1].items
    page.keyboard.press("/")
    page.keyboard.type("file-14")  # at once
    until(page, "document.querySelectorAll('.card').length === 11")  # 14 and 140 to 149
    page.get_by_role("button", name="Clear").click()
    page.locator("[name=given]").select_option(label="2")
    page.locator("[name=flagged]").select_option(label="flagged")
    wanted = int(((items.given == 2) & items.flagged).sum())
    until(page, f"document.getElementById('pager').textContent.includes('of {wanted}')")
    page.locator("[name=sort]").select_option("quality")
    page.get_by_label("the other way round").check()
    best = int(np.where((items.given == 2) & items.flagged, items.quality, -1).argmax())
    until(page, f"document.querySelector('#detail h2').textContent === 'row {best}'")
    page.get_by_label("Quality from").fill("2")
    until(page, "document.getElementById('list').textContent.includes('Nothing is here')")
    assert page.locator("#detail .keep").is_disabled()


def test_pages_go_on_where_the_last_one_ended(page: Any) -> None:
    page.get_by_role("button", name="Worst first").click()
    until(page, "document.getElementById('pager').textContent.includes('1 to 48 of 150')")
    page.get_by_role("button", name="Further").click()
    until(page, "document.getElementById('pager').textContent.includes('49 to 96 of 150')")
    for _ in range(48):
        page.keyboard.press("k")
    until(page, "document.getElementById('pager').textContent.includes('97 to 144 of 150')")
    page.get_by_role("button", name="Back", exact=True).click()
    until(page, "document.querySelectorAll('[data-action=keep]').length === 48")


# -- whole selections ---------------------------------------------------------------------------------------


def test_a_selection_is_shown_first_and_then_decided_at_once(page: Any, at_work: tuple[Client, Session]) -> None:
    session = at_work[1]
    page.get_by_role("button", name="All", exact=True).click()
    page.wait_for_selector("#filters:not([hidden])")
    page.locator("[name=predicted]").select_option(label="1")
    many = int((session.items.predicted == 1).sum())
    page.get_by_role("button", name=f"Decide all {many} found").click()
    page.wait_for_selector("#bulk[open]")
    assert page.locator("#bulk .sample li").count() == 12
    page.get_by_label("Fix", exact=True).check()
    page.get_by_role("button", name=f"Fix {many} labels to 1").click()
    saved(page)
    step = session.journal.done[-1]
    assert (len(step.items), step.action, step.label, step.why) == (many, "fix", 1, "bulk")
    page.keyboard.press("z")
    until(page, "document.getElementById('said').textContent.startsWith('Taken back')")
    assert not session.journal.standing


def test_boxes_select_and_shift_selects_up_to_one(page: Any, at_work: tuple[Client, Session]) -> None:
    page.locator(".card input").nth(2).click()
    page.locator(".card input").nth(6).click(modifiers=["Shift"])
    assert "5 selected" in page.inner_text("#bar")
    page.keyboard.press("d")
    page.wait_for_selector("#bulk[open]")
    page.keyboard.press("Escape")
    assert not at_work[1].journal.done
    page.keyboard.press("Escape")
    assert "selected" not in page.inner_text("#bar")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    assert "3 selected" in page.inner_text("#bar")
    page.keyboard.press("a")
    page.keyboard.press("d")
    page.get_by_role("button", name="Drop 24 labels").click()
    saved(page)
    assert len(at_work[1].journal.standing) == 24


# -- what else can be shown ------------------------------------------------------------------------------


def test_names_of_data_are_text(context: Any, tmp_path: Path) -> None:
    with served(made_items(40), tmp_path) as (client, _):
        page = opened(context, client)
        assert page.locator("table.none, tbody tr").count() >= 24
        assert '<script>alert("1")</script>' in page.inner_text("#detail")
        page.keyboard.press("a")
        page.keyboard.press("k")
        page.wait_for_selector("#bulk[open]")
        assert page.locator("#list script, #bulk script, #detail script").count() == 0
        assert not page.troubles


def test_many_classes_are_typed(context: Any, tmp_path: Path) -> None:
    with served(made_items(60, classes=[f"class {k}" for k in range(40)]), tmp_path) as (client, session):
        page = opened(context, client)
        at = now(page)
        page.keyboard.press("c")
        page.keyboard.type("class 1")
        page.keyboard.press("Enter")  # there are ten more that begin so, but this is one
        saved(page)
        assert session.journal.standing[at].label == 1
        page.keyboard.press("c")
        page.keyboard.type("class 7x")
        page.keyboard.press("Enter")
        assert page.get_attribute("#detail input", "aria-invalid") == "true"
        assert len(session.journal.done) == 1


def test_a_click_has_its_users_history_and_is_not_fixed(context: Any, tmp_path: Path, fitted: Recommender) -> None:
    items, shown = clicks_to_review(fitted)
    with served(items, tmp_path, shown=shown) as (client, session):
        page = opened(context, client)
        page.wait_for_selector(".history tbody tr")
        assert "The user's" in page.inner_text("#detail")
        assert page.locator("#detail .fix").count() == 0
        page.keyboard.press("f")
        page.keyboard.press("3")
        page.keyboard.press("d")
        saved(page)
        assert [one.action for one in session.journal.steps] == ["drop"]
        assert not page.troubles


# -- a dead server, two people -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 4)) + 2 * np.eye(4)[y]
    given = np.where(rng.random(300) < 0.4, rng.integers(0, 3, 300), y)
    place = tmp_path_factory.mktemp("runs") / "run"
    Classifier(model="mlp", method="normal", epochs=3, seed=0).fit(X, given).save(place)
    return place


def test_a_killed_server_costs_no_decision(context: Any, run_folder: Path) -> None:
    process, client = started(run_folder)
    page = opened(context, client)
    for _ in range(5):
        page.keyboard.press("k")
    saved(page)
    ended(process, signal.SIGKILL)
    for _ in range(4):
        page.keyboard.press("d")
    until(page, "document.getElementById('banner').textContent.includes('does not answer')")
    assert f"--port {client.port}" in page.inner_text("#banner")
    assert "4 steps wait" in page.inner_text("#banner")
    process, again = started(run_folder, "--port", str(client.port))
    until(page, "document.getElementById('banner').textContent.includes('Open the address')")
    opened(context, again)  # what the command opens by itself
    saved(page)
    until(page, "document.getElementById('banner').hidden")
    page.keyboard.press("u")
    saved(page)
    code, said = ended(process, signal.SIGINT)
    assert code == 0
    assert "10 labels decided" in said
    (steps,) = journals(run_folder, identity_of(run_folder)).values()
    assert [one.action for one in steps] == ["keep"] * 5 + ["drop"] * 4 + ["unsure"]


def identity_of(run: Path) -> str:
    from accord.estimators.deciding import subject_of

    return subject_of(Classifier.load(run)).design.identity


def test_what_could_not_be_sent_is_sent_by_the_next_page(context: Any, at_work: tuple[Client, Session]) -> None:
    client, session = at_work
    page = opened(context, client)
    at = now(page)
    context.set_offline(True)
    page.keyboard.press("d")
    until(page, "document.getElementById('banner').textContent.includes('1 step waits')")
    page.close()
    context.set_offline(False)
    assert not session.journal.done
    saved(opened(context, client))
    assert [(one.item, one.action) for one in session.journal.steps] == [(at, "drop")]


def test_a_page_that_leads_here_opens_it(context: Any, at_work: tuple[Client, Session], tmp_path: Path) -> None:
    """From a link in another page the cookie is not sent along; one more click, or a reload, and it is."""
    client = at_work[0]
    (tmp_path / "link.html").write_text(f'<a href="http://127.0.0.1:{client.port}/?token={client.token}">open</a>')
    page = context.new_page()
    page.goto((tmp_path / "link.html").as_uri())
    page.click("a")
    page.wait_for_load_state()
    if not page.locator(".card.now").count():
        page.goto(f"http://127.0.0.1:{client.port}/")
    page.wait_for_selector(".card.now")


def test_two_people_at_once_are_told_where_they_differ(context: Any, tmp_path: Path) -> None:
    items = made_items(100, classes=CLASSES)
    with served(items, tmp_path, "r1") as (first, one), served(items, tmp_path, "r2") as (second, two):
        two._read_others = lambda: {"r1": one.journal.steps}
        one_page, other_page = (
            opened(context, first),
            opened(context, second),
        )  # in one browser: their cookies stay apart
        assert "r1" in one_page.inner_text("#what")
        for page, keys in ((one_page, "kkd"), (other_page, "ddd")):
            page.get_by_role("button", name="Worst first").click()
            until(page, "document.getElementById('pager').textContent.includes('of 100')")
            for key in keys:
                page.keyboard.press(key)
            saved(page)
        assert list(one.journal.standing) == list(two.journal.standing)
        two._read_at = -1000.0
        other_page.keyboard.press("u")
        until(other_page, "document.getElementById('panel').textContent.includes('r1 decided 3')")
        assert "3 of them as well as you; 2 differently" in other_page.inner_text("#panel")
