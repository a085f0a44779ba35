"""The review page on any screen: dark and light, wide and narrow, by keys alone, with the rules of axe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.browser.reviewing import opened, saved, until
from tests.review.serving import Client, served

from accord import Recommender
from accord.review.clicked import clicks_to_review
from accord.review.session import Session

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("width", "scheme", "acts"),
    [(1360, "light", ("", "/", "?", "a k")), (1360, "dark", ("",)), (800, "dark", ("/",)), (390, "light", ("",)),
     (390, "dark", ("", "/", "?", "a k"))],
)  # fmt: skip
def test_anybody_can_use_it_on_any_screen(
    browser: Any, at_work: tuple[Client, Session], tmp_path: Path, width: int, scheme: str, acts: tuple[str, ...],
    fitted: Recommender,
) -> None:  # fmt: skip
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not at hand").Axe()
    context = browser.new_context(
        viewport={"width": width, "height": 820}, color_scheme=scheme, has_touch=width < 500
    )
    page = opened(context, at_work[0])
    for key in ("k", "d", "f", "u"):
        page.keyboard.press(key)
    saved(page)
    until(page, "document.getElementById('decided')")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark[4:-1].split(", "))) < 200) == (scheme == "dark")
    pages = [page]
    items, shown = clicks_to_review(fitted)
    (tmp_path / "clicks").mkdir()
    with served(items, tmp_path / "clicks", shown=shown) as (client, _):
        pages.append(opened(context, client))
        pages[-1].wait_for_selector(".history tbody tr")
        for one in pages:
            assert one.evaluate("document.documentElement.scrollWidth") <= width
            for act in acts:
                if act == "?":
                    one.keyboard.press("Escape")
                for key in act.split():
                    one.keyboard.press("Escape")
                    one.keyboard.press(key)
                    one.wait_for_timeout(150)
                    if key == "/":
                        one.wait_for_selector("#filters:not([hidden])")
                found = axe.run(one)
                assert found.violations_count == 0, found.generate_report()
                if one.locator("dialog[open]").count():
                    one.keyboard.press("Escape")
        if width == 390:
            for _ in range(3):
                page.locator("#detail .keep").tap()
            saved(page)
            box = page.locator("#detail .keep").bounding_box()  # the next one is decided at the same place
            assert 0 <= box["y"] < 700
    assert not page.troubles
    context.close()


def test_it_is_used_by_keys_alone_with_a_focus_that_is_seen(page: Any) -> None:
    names = []
    for _ in range(14):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
            )
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px", names[-1]
    assert names[:5] == ["Suggested", "Worst first", "Random checks", "All", "Keys"]
    assert all(names)
    current = page.locator('[aria-current="true"]')
    assert current.count() == 1
    assert "given" in current.get_attribute("aria-label")
    page.keyboard.press("k")
    assert "predicted" in page.inner_text("#said") or "kept" in page.inner_text("#said")
