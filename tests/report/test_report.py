"""Pages that stand alone, and plots that show what they are given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from accord import Classifier, Recommender
from accord.report import (
    curves,
    write_classifier_report,
    write_comparison_plot,
    write_comparison_report,
    write_run_report,
)
from accord.report.thumbnails import picture


class Strict(HTMLParser):
    """Collects addresses and checks that tags close."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def parsed(path: Path) -> Strict:
    page = Strict()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page


def test_run_report_stands_alone_and_tells_the_story(fitted: Recommender, tmp_path: Path) -> None:
    write_run_report(fitted, tmp_path / "report.html")
    page = parsed(tmp_path / "report.html")
    assert page.addresses == []
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|<script src|https?://(?!www.w3.org)", text)
    worst = fitted.find_label_issues().slice(0, 1).to_pylist()[0]
    assert worst["user"] in page.words
    assert f"{fitted.metrics_['label_issues']['flagged']:,}" in page.words
    for words in (
        "Learning curves",
        "Label quality",
        "The least believable clicks",
        "Users with most noise",
        "These differ from the default",
    ):
        assert words in page.words
    assert text.count("<svg") == 7  # two plots in two sizes, one in three
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_comparison_report(tmp_path: Path) -> None:
    row = {"metrics": {"ndcg@20": {"mean": 0.1, "std": 0.01}}, "seconds": 1.0, "auc_by_kind": {"all": 0.7}}
    summary = {
        "models": ["gmf"],
        "seeds": 2,
        "selection": "best epoch",
        "rows": [{"method": "normal", **row}, {"method": "deca-p", **row}],
        "popularity_auc_by_kind": {"all": 0.5},
    }
    write_comparison_report(summary, tmp_path / "report.html")
    write_comparison_plot(summary, tmp_path / "compare.svg")
    picture = ElementTree.fromstring((tmp_path / "compare.svg").read_text(encoding="utf-8"))
    assert "prefers-color-scheme" in (picture[0].text or "")
    words = parsed(tmp_path / "report.html").words
    assert "0.1000±0.0100" in words
    assert "item popularity" in words
    assert "Welch" not in "".join(words)
    assert "Which one to serve" not in words
    numbers = {"difference": 0.05, "low": 0.01, "high": 0.09, "p": 0.01, "p_holm": 0.02}
    summary["rows"][1]["against_normal"] = {"metric": "ndcg@20", "over": "seeds", **numbers}
    chosen = {"valid ndcg@20": {"mean": 0.25, "std": 0.0}, "ndcg@20": {"mean": 0.75, "std": 0.0}}
    summary["served"] = [{"of": "gmf", "model": "gmf", "method": "deca-p", "metrics": chosen}]
    write_comparison_report(summary, tmp_path / "report.html")
    words = parsed(tmp_path / "report.html").words
    assert "0.020 ahead ‡" in words
    assert "+0.0500 [+0.0100, +0.0900]" in words
    assert "p over seeds alone" in "".join(words)
    served = words.split("Which one to serve")[1]
    assert served.index("deca-p") < served.index("0.2500") < served.index("0.7500")


@pytest.mark.parametrize("images", [True, False])
def test_a_classifiers_page_stands_alone(images: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 6, 6) if images else (60, 4)).astype(np.float32)
    labels = np.array(["<b>ash</b>", "birch", "cedar & co"])[np.arange(60) % 3]
    clf = Classifier(model="mlp", epochs=2).fit(inputs, labels)
    write_classifier_report(clf, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    reader = Strict()
    reader.feed(page)
    assert reader.open == []
    assert all(address.startswith("data:image/png") for address in reader.addresses)
    assert bool(reader.addresses) == images
    assert "<b>ash</b>" not in page
    assert "<b>ash</b>" in reader.words
    assert "as the noise model hφ learned it" in reader.words


def test_pictures_of_any_range() -> None:
    assert picture(np.zeros((4, 4, 1))).startswith("data:image/png;base64,")
    assert len(picture(np.random.default_rng(0).normal(size=(400, 300, 3)))) > 1000


def test_the_ring_is_at_the_epoch_that_was_kept() -> None:
    history = [{"phase": "training", "epoch": e, "valid": {"auc": v}} for e, v in [(1, 0.5), (2, 0.9), (3, 0.7)]]

    def ring(kept: int) -> tuple[float, float]:
        one = {"training": {"epoch": kept, "auc": history[kept - 1]["valid"]["auc"]}}
        drawing = curves.learning_curve(history, one, "auc", "AUC")
        root = ElementTree.fromstring(f"<p>{drawing}</p>")
        circle, _ = [e for e in root.iter() if "ring" in e.get("class", "")]
        return float(circle.get("cx", "")), float(circle.get("cy", ""))

    (best_x, best_y), (last_x, last_y) = ring(2), ring(3)
    assert best_x < last_x
    assert best_y < last_y
    assert curves.learning_curve([{"phase": "training", "epoch": 1}], {}, "auc", "AUC") == ""


@pytest.mark.parametrize("values", [[0.5, 0.5], [0.0, 1.0], [0.35 - 1e-17, 0.15], [0.4386, 0.4501], []])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_histogram_leaves_no_quality_out(values: list[float], kind: type) -> None:
    quality = np.array(values, kind)
    for flagged in (np.zeros(len(values), bool), np.ones(len(values), bool)):
        svg = curves.quality_histogram(quality, flagged, "clicks", 0.44)
        assert f"flagged: {flagged.sum()} (" in svg
        assert f"not flagged: {(~flagged).sum()} (" in svg
