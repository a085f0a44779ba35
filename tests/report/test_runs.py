"""The page that compares the runs below a folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

import accord
from accord import AccordError, Recommender
from accord.report import runs as module
from accord.report.runs import find_runs, listed, report_runs

CLICKS: dict[str, Any] = {
    "format": 2,
    "kind": "recommender",
    "settings": {"model": "gmf", "method": "deca-p", "seed": 3, "epochs": 100},
    "log": {"clicks": 1234, "users": 56},
    "source": {"path": "/made/up/log.csv", "fingerprint": "f1"},
}
LABELS: dict[str, Any] = {
    "format": 2,
    "kind": "classifier",
    "settings": {"model": "auto", "method": "normal", "seed": 0},
    "model": "mlp",
    "classes": {"values": ["a", "b"]},
    "shape": [4],
    "data": {"data": "trees.csv", "noise": {"kind": "uniform", "rate": 0.4}},
}


def metrics(
    value: float | None = 0.5, flagged: int = 20, share: float = 0.25, name: str = "ndcg@20"
) -> dict[str, Any]:
    kept = {"epoch": 1} if value is None else {"epoch": 1, name: value}
    issues = {"flagged": flagged, "share": share}
    return {"validation": {"prior": {name: 0.1}, "denoising": kept}, "label_issues": issues, "train_seconds": 1.5}


def put(folder: Path, config: Any = CLICKS, measured: Any = None, report: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.json").write_text(json.dumps(metrics() if measured is None else measured))
    if report:
        (folder / "report.html").write_text("x")
    return folder


def test_a_run_is_told_in_one_line(tmp_path: Path) -> None:
    os.utime(put(tmp_path / "a" / "b") / "config.json", (0, 86_400))
    run = listed(tmp_path / "a" / "b", tmp_path)
    assert (run.name, run.report, run.task) == ("a/b", "./a/b/report.html", "clicks")
    assert (run.data, run.model, run.method) == ("log.csv: 1,234 clicks of 56 users", "gmf", "deca-p")
    assert (run.settings, run.metric, run.value) == ("seed=3", "NDCG@20", 0.5)
    assert (run.flagged, run.share, run.seconds, run.written) == (20, 0.25, 1.5, "1970-01-02 00:00")
    put(tmp_path / "c", LABELS, metrics(0.75, name="accuracy"), report=False)
    run = listed(tmp_path / "c", tmp_path)
    assert (run.task, run.report, run.value, run.model) == ("labels", "", 0.75, "mlp")
    assert run.data == "trees.csv: 80 examples, 2 classes, 40% redrawn"
    put(tmp_path / "d", LABELS, metrics(None))
    assert listed(tmp_path / "d", tmp_path).value is None


def test_real_runs_are_listed_as_they_say_of_themselves(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "runs" / "one")
    assert accord.report_runs(tmp_path / "runs") == tmp_path / "runs" / "runs.html"
    run = listed(tmp_path / "runs" / "one", tmp_path)
    assert run.value == list(fitted.validation_.values())[-1]["ndcg@20"]
    assert run.flagged == fitted.metrics_["label_issues"]["flagged"]
    assert set(re.findall(r"(\w+)=", run.settings)) == set(fitted.changed_settings())


def test_the_best_is_marked_among_runs_on_the_same_data_alone(tmp_path: Path) -> None:
    other = CLICKS | {"source": {"path": "/made/up/log.csv", "fingerprint": "f2"}}
    put(tmp_path / "a", CLICKS, metrics(0.2))
    put(tmp_path / "b", CLICKS, metrics(0.3))
    put(tmp_path / "c", other, metrics(0.9))
    put(tmp_path / "d", CLICKS, metrics(None))
    put(tmp_path / "e", LABELS, metrics(0.1, name="accuracy"))
    put(tmp_path / "f", LABELS | {"classes": {"values": ["x", "y"]}}, metrics(0.9, name="accuracy"))
    page = report_runs(tmp_path).read_text(encoding="utf-8")
    assert re.findall(r"<b>([\d.]+)</b>", page) == ["0.3000"]


def test_hostile_names_are_text_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside" / "run")
    folder = tmp_path / "runs"
    names = ["<script>alert(1)<", "{{ 7 * 7 }}", 'javascript:"x" onclick=1', "é \U0001f600 %41?#"]
    for name in names:
        put(folder / name)
    put(Path(os.fsdecode(os.fsencode(folder) + b"/\xff")))
    put(folder / "x" / "y", CLICKS | {"settings": CLICKS["settings"] | {"method": "</td><img src=x>"}})
    (folder / "link").symlink_to(outside.parent)
    (folder / "x" / "y" / "report.html").unlink()
    (folder / "x" / "y" / "report.html").symlink_to(outside / "report.html")
    linked = folder / "linked"
    linked.mkdir()
    (linked / "config.json").symlink_to(outside / "config.json")
    page = report_runs(folder).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "49" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.DOTALL)
    addresses = re.findall(r'href="([^"]*)"', page)
    names.append(os.fsdecode(b"\xff"))
    assert {os.fsdecode(unquote_to_bytes(one)) for one in addresses} == {f"./{name}/report.html" for name in names}
    assert all(re.fullmatch(r"[\w./%~-]+", one) for one in addresses)
    assert "2 links were not followed" in page
    assert "outside" not in page
    assert not (outside.parent / "runs.html").exists()


@pytest.mark.parametrize(
    "config",
    ["{", "[]", '{"kind": "recommender"}', "[" * 100_000, "\udcff", json.dumps(CLICKS | {"settings": None})],
)
def test_a_run_that_cannot_be_read_is_listed_as_such(config: str, tmp_path: Path) -> None:
    put(tmp_path / "good")
    put(tmp_path / "z" / "bad")
    (tmp_path / "z" / "bad" / "config.json").write_text(config, errors="surrogateescape")
    page = report_runs(tmp_path).read_text(encoding="utf-8")
    assert ("Its files cannot be read" in page) == (config != "[]")  # a list of something else is no run


@pytest.mark.parametrize(
    "measured",
    [
        {},
        metrics() | {"validation": [1]},
        metrics() | {"label_issues": {"flagged": "<b>", "share": None}},
        metrics(flagged=-1, share=1e308),
        metrics() | {"train_seconds": True},
    ],
)
def test_numbers_that_are_none_do_no_harm(measured: dict[str, Any], tmp_path: Path) -> None:
    put(tmp_path / "a", LABELS, measured)
    assert "<b>&lt;" not in report_runs(tmp_path).read_text(encoding="utf-8")


def test_at_most_a_stated_number_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "edcba":
        put(tmp_path / name)
    put(tmp_path / ".hidden")
    (tmp_path / "a" / "inside").mkdir()
    put(tmp_path / "a" / "inside" / "run")
    found = find_runs(tmp_path)
    assert [one.name for one in found.folders] == ["a", "b", "c", "d", "e"]
    assert not found.left_out
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    found = find_runs(tmp_path)
    assert ([one.name for one in found.folders], found.left_out) == (["a", "b", "c"], True)
    page = report_runs(tmp_path).read_text(encoding="utf-8")
    assert "at most 3 runs are" in page
    monkeypatch.setattr(module, "MOST_FOLDERS", 2)
    assert [one.name for one in find_runs(tmp_path).folders] == ["a"]
    put(tmp_path / "f" / "g" / "h")
    monkeypatch.undo()
    monkeypatch.setattr(module, "DEEPEST", 2)
    found = find_runs(tmp_path)
    assert ("h" not in [one.name for one in found.folders], found.left_out) == (True, True)


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a")
    monkeypatch.setattr(module, "LARGEST", 100)
    assert "cannot be read" in listed(tmp_path / "a", tmp_path).problem


def test_a_folder_without_runs_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(AccordError, match="is no run folder, and there is none below it"):
        report_runs(empty)
    with pytest.raises(AccordError, match="is no folder; name one"):
        report_runs(tmp_path / "none")
    assert list(empty.iterdir()) == []
