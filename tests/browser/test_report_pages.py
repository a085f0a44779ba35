"""Pages as a person meets them: in Chromium, by mouse and by keyboard, with and without script, wide and narrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser.reading import Page

from accord import Classifier, Recommender
from accord.report import report_runs

pytestmark = pytest.mark.browser
NAMES = ["=SUM(A1)", "</script><img src=x onerror=document.title='broken'>", "c  3", ""]
FIND = "document.querySelector('#flagged [data-is=\"{}\"]')"
CELLS = "[...document.querySelectorAll('#flagged tbody tr')].map((tr) => [...tr.cells].map((td) => td.textContent))"
CONTRAST = """(() => {
  const light = (c) => {
    const parts = c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
    const [r, g, b] = parts.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const clear = (c) => c === 'transparent' || /, 0\\)$/.test(c);
  const worst = [];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const one = node.parentElement;
    if (!node.data.trim() || one.closest('svg, script') || !one.checkVisibility() || one.disabled) continue;
    let ground = one;
    while (ground && clear(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const [a, b] = [getComputedStyle(one).color, getComputedStyle(ground).backgroundColor].map(light);
    worst.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.data.trim()]);
  }
  return worst.sort((x, y) => x[0] - y[0])[0];
})()"""


@pytest.fixture(scope="module")
def chromium(browser: Any) -> Iterator[Page]:
    page = Page(browser)
    yield page
    page.close()


@pytest.fixture(scope="module")
def clf() -> Classifier:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(240, 6, 6)).astype(np.float32)
    return Classifier(model="mlp", epochs=1).fit(images, np.array(NAMES)[rng.integers(0, 4, 240)])


@pytest.fixture(scope="module")
def report(clf: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clf.report(tmp_path_factory.mktemp("labels") / "report.html")


@pytest.fixture(scope="module")
def pages(report: Path, fitted: Recommender, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every kind of page."""
    folder = tmp_path_factory.mktemp("runs")
    fitted.save(folder / "one")
    fitted.report(folder / "one" / "report.html")
    return [report, folder / "one" / "report.html", report_runs(folder)]


def expected(clf: Classifier) -> list[dict[str, Any]]:
    return [row for row in clf.issues_table().to_pylist() if row["is_label_issue"]]


def saved(page: Page, button: str, folder: Path) -> list[list[str]]:
    """The file that a button makes."""
    with page.page.expect_download() as coming:
        page.ask(FIND.format(button) + ".click()")
    assert coming.value.suggested_filename == "flagged-labels.csv"
    file = folder / "saved.csv"
    coming.value.save_as(file)
    with file.open(encoding="utf-8-sig", newline="") as text:
        return list(csv.reader(text))


def test_without_script_it_shows_the_worst_and_no_empty_table(
    chromium: Page, report: Path, clf: Classifier
) -> None:
    chromium.open(report, script=False)
    assert chromium.page.locator('[data-is="without-script"] tbody tr').first.is_visible()
    assert chromium.page.locator("#flagged").count() == 1
    assert not chromium.page.locator("#flagged").is_visible()
    chromium.open(report)
    assert chromium.ask("document.querySelector('[data-is=\"without-script\"]').checkVisibility()") is False


def test_all_flagged_labels_can_be_paged_and_sorted_by_every_column(
    chromium: Page, report: Path, clf: Classifier
) -> None:
    chromium.open(report)
    wanted = [[str(r["index"]), r["given_label"], r["predicted_label"]] for r in expected(clf)]
    assert len(wanted) > 100
    shown: list[list[str]] = []
    while True:
        shown += chromium.ask(CELLS)
        if chromium.ask(FIND.format("next") + ".disabled"):
            break
        chromium.ask(FIND.format("next") + ".click()")
    assert [row[2:5] for row in shown] == wanted
    heads = "[...document.querySelectorAll('#flagged th[data-is=\"head\"]')]"
    chromium.ask("for (const size of document.querySelectorAll('[data-is=\"size\"]')) { size.value = '500';"
                 " size.dispatchEvent(new Event('input', { bubbles: true })); }")  # fmt: skip
    for column, value in enumerate([int, str, str, float]):
        for down, name in ((False, "ascending"), (True, "descending")):
            chromium.ask(f"{heads}[{column}].querySelector('button').click()")
            cells = [row[2 + column] for row in chromium.ask(CELLS)]
            order = [value(cell) for cell in cells if cell != ""]
            if value is not str:  # words are sorted as people do, which the script's own tests see to
                assert order == sorted(order, reverse=down)
            assert cells == [cell for cell in cells if cell] + [cell for cell in cells if not cell]
            assert len(cells) == len(wanted)
            sorts = chromium.ask(f"{heads}.map((head) => head.getAttribute('aria-sort'))")
            assert sorts == [name if k == column else None for k in range(4)]


def test_filters_and_search_and_the_file_that_they_give(
    chromium: Page, report: Path, clf: Classifier, tmp_path: Path
) -> None:
    chromium.open(report)
    rows = expected(clf)
    for name in NAMES:
        chromium.ask(
            "(() => { const one = document.querySelector('#flagged select[data-column=\"1\"]');"
            f"one.selectedIndex = [...one.options].findIndex((o) => o.textContent.startsWith({(name + ' (')!r}));"
            "one.dispatchEvent(new Event('input', { bubbles: true })); })()"
        )
        count = sum(row["given_label"] == name for row in rows)
        assert chromium.ask(FIND.format("count") + ".textContent").startswith(f"{count} of {len(rows)} shown")
    chromium.ask(FIND.format("reset") + ".click()")
    middle = float(np.median([row["label_quality"] for row in rows]))
    chromium.ask("document.querySelector('#flagged [data-is=\"range\"] input').focus()")
    chromium.page.keyboard.insert_text(f"{middle:.3f}")
    chromium.ask(FIND.format("words") + ".focus()")
    chromium.page.keyboard.insert_text("sum(")
    left = [
        r
        for r in rows
        if r["label_quality"] >= round(middle, 3) and "=SUM(A1)" in (r["given_label"], r["predicted_label"])
    ]
    assert 0 < len(left) < len(rows) / 2
    found = saved(chromium, "save-shown", tmp_path)
    safe = {"=SUM(A1)": "'=SUM(A1)"}
    assert found[0] == ["index", "given_label", "predicted_label", "label_quality"]
    assert [row[:3] for row in found[1:]] == [
        [str(r["index"]), *(safe.get(r[n], r[n]) for n in ("given_label", "predicted_label"))] for r in left
    ]
    assert [np.float32(row[3]) for row in found[1:]] == [np.float32(r["label_quality"]) for r in left]


def test_a_selection_outlives_pages_and_filters_and_is_saved(
    chromium: Page, report: Path, clf: Classifier, tmp_path: Path
) -> None:
    chromium.open(report)
    rows = expected(clf)
    assert chromium.ask(FIND.format("save-chosen") + ".disabled")
    box = "document.querySelectorAll('#flagged tbody input')[{}].click()"
    chromium.ask(box.format(3))
    chromium.ask(FIND.format("next") + ".click()")
    chromium.ask(box.format(0))
    chromium.ask(FIND.format("words") + ".focus()")
    chromium.page.keyboard.insert_text("no such words")
    assert "0 of" in chromium.ask(FIND.format("count") + ".textContent")
    assert "2 selected" in chromium.ask(FIND.format("count") + ".textContent")
    found = saved(chromium, "save-chosen", tmp_path)
    assert [row[0] for row in found[1:]] == [str(rows[3]["index"]), str(rows[25]["index"])]
    chromium.ask(FIND.format("reset") + ".click()")
    assert chromium.ask(FIND.format("all") + ".indeterminate")
    chromium.ask(FIND.format("all") + ".click()")
    assert f"{len(rows)} selected" in chromium.ask(FIND.format("count") + ".textContent")
    chromium.ask(FIND.format("clear") + ".click()")
    assert "0 selected" in chromium.ask(FIND.format("count") + ".textContent")


def test_it_is_used_by_keyboard(chromium: Page, report: Path) -> None:
    chromium.open(report)
    chromium.ask("document.querySelector('#flagged th[data-is=\"head\"] button').focus()")
    chromium.page.keyboard.press("Enter")
    assert chromium.ask("document.querySelector('#flagged th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    for _ in range(4):  # the other columns, then the first row
        chromium.page.keyboard.press("Tab")
    chromium.page.keyboard.press(" ")
    assert "1 selected" in chromium.ask(FIND.format("count") + ".textContent")


def test_nothing_is_asked_for_and_nothing_hostile_runs(chromium: Page, pages: list[Path]) -> None:
    for path in pages:
        chromium.open(path)
        title = chromium.ask("document.title")
        assert "broken" not in title
        assert chromium.requests() == [path.resolve().as_uri()]
        assert chromium.complaints() == []
    chromium.open(pages[0])
    chromium.ask(
        "(() => { const s = document.createElement('script'); s.textContent = 'document.title = \"broken\"';"
        "document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x';"
        "document.body.append(i); })()"
    )
    assert chromium.ask("document.title") != "broken"
    assert any("Content Security Policy" in words for words in chromium.complaints())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 800, 390])
def test_it_fits_and_can_be_read(chromium: Page, pages: list[Path], width: int, dark: bool) -> None:
    for path in pages:
        chromium.open(path, width=width, dark=dark)
        assert chromium.ask("document.documentElement.scrollWidth") <= width
        drawn = chromium.ask(
            "[...document.querySelectorAll('svg')].filter((svg) => svg.checkVisibility())"
            ".map((svg) => svg.getBoundingClientRect().width / svg.getAttribute('width'))"
        )
        assert all(scale > 0.97 for scale in drawn)  # text is as large in all of them
        contrast, words = chromium.ask(CONTRAST)
        assert contrast > 4.5, words


def test_everything_that_can_be_used_has_a_name(chromium: Page, pages: list[Path]) -> None:
    used = {"button", "checkbox", "combobox", "link", "searchbox", "spinbutton", "textbox", "region", "image"}
    for path in pages:
        chromium.open(path)
        nodes = chromium("Accessibility.getFullAXTree")["nodes"]
        kinds = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
        assert {"table", "columnheader"} <= {kind for kind, _ in kinds}
        assert [kind for kind, name in kinds if kind in used and not name.strip()] == []


def test_other_tables_are_sorted_by_their_heads(chromium: Page, pages: list[Path]) -> None:
    chromium.open(pages[1])
    table = "[...document.querySelectorAll('table.sortable')].find((t) => t.textContent.includes('of clicks'))"
    chromium.ask(f"{table}.querySelectorAll('th button')[3].click()")
    shares = chromium.ask(f"[...{table}.tBodies[0].rows].map((tr) => parseFloat(tr.cells[3].textContent))")
    assert shares == sorted(shares, reverse=True)
    assert chromium.ask(f"{table}.querySelectorAll('th')[3].getAttribute('aria-sort')") == "descending"
