"""`accord report` of a run, and of a folder of runs."""

from __future__ import annotations

import json
from pathlib import Path

from accord import Recommender


def test_a_run_has_a_report_and_a_folder_of_runs_a_page(accord, fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "runs" / "one")
    code, out, err = accord("report", tmp_path / "runs" / "one")
    assert (code, (tmp_path / "runs" / "one" / "report.html").is_file()) == (0, True)
    assert "report.html" in out + err
    code, out, _ = accord("report", tmp_path / "runs", "--json")
    page = tmp_path / "runs" / "runs.html"
    assert (code, json.loads(out)["report"]) == (0, str(page))
    assert 'href="./one/report.html"' in page.read_text(encoding="utf-8")


def test_a_folder_without_runs_is_refused(accord, tmp_path: Path) -> None:
    code, _, err = accord("report", tmp_path)
    assert code == 2
    assert "there is none below it" in err
    assert accord("report", tmp_path / "none")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_the_rows_of_labels_are_shown_with_their_file(accord, tmp_path: Path) -> None:
    lines = [f"{k % 7},note {k},{'ab'[k // 5 % 2]}" for k in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["size,words,label", *lines]))
    run = tmp_path / "runs" / "r"
    assert accord("fit", tmp_path / "t.csv", "--label", "label", "--epochs", 1, "--out", run)[0] == 0
    report = tmp_path / "runs" / "r" / "report.html"
    assert '"name":"words"' not in report.read_text(encoding="utf-8")
    assert accord("report", run, "--data", tmp_path / "t.csv")[0] == 0
    assert '"name":"words"' in report.read_text(encoding="utf-8")
    code, _, err = accord("report", tmp_path / "runs", "--data", tmp_path / "t.csv")
    assert code == 2
    assert "name one run" in err
