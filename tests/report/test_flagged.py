"""What a page holds of flagged labels: all of them up to a stated size, as data that nothing can break out of."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accord import AccordError, Classifier, Recommender, write_report
from accord.report import flagged as module
from accord.report.flagged import flagged_rows, with_rows
from accord.report.rendering import as_data

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "{{ 7 * 7 }} & \u2028 '\"", "=1+1"]


class Attributes(HTMLParser):
    """Collects the names of all attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {name for name, _ in attrs}


def issues_of(count: int, flagged: int, **more: object) -> pa.Table:
    quality = np.linspace(0, 1, count, dtype=np.float32)
    return pa.table(
        {
            "index": np.arange(count)[::-1],
            "given_label": [f"c{k % 3}" for k in range(count)],
            "predicted_label": [f"c{(k + 1) % 3}" for k in range(count)],
            "label_quality": quality,
            "is_label_issue": np.arange(count) < flagged,
            **more,
        }
    )


def data_of(page: str) -> dict[str, object]:
    (found,) = re.findall(r'<script type="application/json" id="flagged-rows">(.*?)</script>', page)
    return json.loads(found)


def test_all_that_are_flagged_are_there_worst_first_and_nothing_else() -> None:
    found = flagged_rows(issues_of(50, 30), "labels")
    assert found is not None
    data = json.loads(found["data"])
    assert (found["rows"], found["of"], len(data["rows"])) == (30, 30, 30)
    assert [row[0] for row in data["rows"]] == [str(49 - k) for k in range(30)]
    assert data["rows"][1] == ["48", "c1", "c2", float(str(np.float32(1 / 49)))]
    assert [one["name"] for one in data["columns"]["all"]] == [
        *("index", "given_label", "predicted_label", "label_quality"),
    ]
    assert data["columns"]["named"] == 3
    assert data["columns"]["all"][1]["choices"] == ["c0", "c1", "c2"]
    assert data["columns"]["all"][1]["counts"] == [10, 10, 10]
    assert flagged_rows(issues_of(50, 0), "labels") is None
    names = ["b", "10", "9", "a", "nan", "-1"]
    found = flagged_rows(issues_of(6, 6).set_column(1, "given_label", [names]), "labels")
    assert found is not None
    assert found["columns"][1]["choices"] == ["-1", "9", "10", "a", "b", "nan"]


def test_a_page_holds_a_stated_number_of_rows_and_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 7)
    found = flagged_rows(issues_of(50, 30), "labels")
    assert found is not None
    assert (found["rows"], found["of"]) == (7, 30)
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    found = flagged_rows(issues_of(50, 30), "labels")
    assert found is not None
    rows = json.loads(found["data"])["rows"]
    assert len(rows) == found["rows"] == 3
    assert sum(len(json.dumps(row)) for row in rows) <= 100 < sum(len(json.dumps(row)) for row in [*rows, rows[0]])


def test_ids_are_exact_and_long_text_is_cut() -> None:
    long = "x" * 2000
    table = pa.table(
        {
            "user": [2**62 + 1, -7],
            "item": [long, "é\U0001f600"],
            "label_quality": np.array([0.1, 0.2], np.float32),
            "is_label_issue": [True, True],
            "votes": pa.array([3, 0], pa.int16()),
        }
    )
    found = flagged_rows(table, "clicks")
    assert found is not None
    assert found["cut"]
    first, second = json.loads(found["data"])["rows"]
    assert first[0] == "4611686018427387905"
    assert first[1] == "x" * (module.LONGEST - 1) + "…"
    assert second == ["-7", "é\U0001f600", 0.2, 0]


def test_pictures_are_there_once_and_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [(49 - k, f"data:image/png;base64,{k:04d}") for k in range(10)]
    found = flagged_rows(issues_of(50, 8), "labels", pictures, shown=2)
    assert found is not None
    kept = json.loads(found["data"])["pictures"]
    assert kept == {str(k): f"data:image/png;base64,{k:04d}" for k in range(2, 8)}
    monkeypatch.setattr(module, "MOST_PICTURE_BYTES", 4 * len(pictures[0][1]))
    found = flagged_rows(issues_of(50, 8), "labels", pictures, shown=2)
    assert found is not None
    assert list(json.loads(found["data"])["pictures"]) == ["2", "3"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_the_block_that_holds_it(text: str) -> None:
    data = as_data({"a": [text]})
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data) == {"a": [text]}


def test_a_page_has_its_policy_and_hostile_names_are_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 4)).astype(np.float32)
    clf = Classifier(model="mlp", epochs=1).fit(inputs, np.array(HOSTILE)[np.arange(80) % 4])
    assert clf.report(tmp_path / "r.html") == tmp_path / "r.html"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for text in HOSTILE[:2]:
        assert text not in page
    assert "default-src 'none'" in page
    attributes = Attributes()
    attributes.feed(page)
    assert not [name for name in attributes.names if name.startswith("on") or name == "style"]
    rows = data_of(page)["rows"]
    assert isinstance(rows, list)
    assert len(rows) == int(clf.is_issue_.sum()) > 0
    assert {row[1] for row in rows} <= set(HOSTILE)


def test_a_page_is_the_same_bytes_for_the_same_run(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    one, other = (
        fitted.report(tmp_path / "one.html"),
        Recommender.load(tmp_path / "run").report(tmp_path / "b.html"),
    )
    assert one.read_bytes() == other.read_bytes()


def test_settings_that_differ_come_first_and_all_have_a_meaning(fitted: Recommender, tmp_path: Path) -> None:
    page = fitted.report(tmp_path / "r.html").read_text(encoding="utf-8")
    changed, rest = page.split("<h2>Settings</h2>")[1].split("<details>")
    named = lambda text: re.findall(r"<td><code>(\w+)</code>", text)  # noqa: E731
    assert set(named(changed)) == set(fitted.changed_settings()) == {"epochs", "batch_size", "seed"}
    assert not set(named(changed)) & set(named(rest))
    assert {*named(changed), *named(rest)} == set(fitted.settings_to_save())
    assert "λ</b>: how strongly" in rest
    assert "κ" not in rest  # a setting of the council


def test_what_reviewers_decided_has_a_place(fitted: Recommender, tmp_path: Path) -> None:
    assert "What reviewers decided" not in fitted.report(tmp_path / "r.html").read_text(encoding="utf-8")
    page = write_report(fitted, tmp_path / "r.html", decisions="<i>60</i> of 80").read_text(encoding="utf-8")
    assert "What reviewers decided" in page
    assert "&lt;i&gt;60" in page


def test_a_report_that_cannot_be_written_is_one_sentence(fitted: Recommender, tmp_path: Path) -> None:
    with pytest.raises(AccordError, match="is a folder; name the file"):
        fitted.report(tmp_path)
    with pytest.raises(AccordError, match="cannot be written: .*; nothing was changed"):
        fitted.report(tmp_path / "none" / "r.html")
    with pytest.raises(AccordError, match="not trained yet"):
        Recommender().report(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_rows_of_the_data_are_shown_beside_their_labels(tmp_path: Path) -> None:
    words = [f"{HOSTILE[k % 4]} {'ash' if k % 2 else 'birch'} {k}" for k in range(80)]
    given = np.array(["ash", "birch"])[np.arange(80) // 3 % 2]
    frame = pa.table({"note": words, "given": given, "size": np.arange(80.0), **{f"c{k}": words for k in range(7)}})
    clf = Classifier(model="mlp", epochs=1).fit(frame, "given")
    for data in (frame, frame.drop_columns(["given"])):
        page = clf.report(tmp_path / "r.html", data=data).read_text(encoding="utf-8")
        found: Any = data_of(page)
        columns = [one["name"] for one in found["columns"]["all"]]
        assert columns[4:] == ["note", "size", "c0", "c1", "c2", "c3"]
        assert [row[4] for row in found["rows"]] == [words[int(row[0])] for row in found["rows"]]
        assert [row[5] for row in found["rows"]] == [f"{row[0]}.0" for row in found["rows"]]
        assert "</script><img" not in page
    assert found["columns"]["named"] == 3
    texts: Any = data_of(clf.report(tmp_path / "r.html", data=words).read_text(encoding="utf-8"))
    assert [row[4] for row in texts["rows"]] == [words[int(row[0])] for row in texts["rows"]]
    before = (tmp_path / "r.html").read_bytes()
    with pytest.raises(AccordError, match="fitted on 80; give that table"):
        clf.report(tmp_path / "r.html", data=frame.slice(1))
    with pytest.raises(AccordError, match="table with named columns, or texts"):
        clf.report(tmp_path / "r.html", data=np.zeros((80, 2)))
    assert (tmp_path / "r.html").read_bytes() == before


def test_rows_of_the_data_are_there_for_as_many_labels_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fitted:
        def rows_of_table(self, rows: np.ndarray, data: pa.Table) -> pa.Table:
            return data.take(pa.array(rows))

    monkeypatch.setattr(module, "MOST_ROWS", 4)
    clf: Any = Fitted()
    found = flagged_rows(with_rows(issues_of(20, 9), clf, pa.table({"user": [None, *range(1, 20)]})), "labels")
    assert found is not None
    assert (found["rows"], found["of"]) == (4, 9)
    assert [(row[0], row[4]) for row in json.loads(found["data"])["rows"]] == [
        (str(k), str(k)) for k in (19, 18, 17, 16)
    ]


def test_clicks_show_no_rows(fitted: Recommender, tmp_path: Path) -> None:
    with pytest.raises(AccordError, match="Only labels show the rows"):
        fitted.report(tmp_path / "r.html", data="log.csv")
