"""All studies on one page: what is done, and who is ahead of normal, beyond chance or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.cli import main
from accord.methods.deca import DeCA
from accord.reproduction.overview import write_overview
from accord.tasks.clicks import ClickTask


def row(
    model: str, method: str, value: float | None, p: float | None = None, how: Any = None, **more: Any
) -> dict[str, Any]:
    metrics = (
        {} if value is None else {"ndcg@20": {"mean": value, "std": 0.001}, "accuracy": {"mean": value, "std": 0}}
    )
    tested = {} if p is None else {"against_normal": {"metric": "ndcg@20", "p": p / 2, "p_holm": p, **(how or {})}}
    return {"model": model, "method": method, "metrics": metrics, "seeds": 3 if metrics else 0, **tested, **more}


def put(folder: Path, study: str, parts: dict[str, list[dict[str, Any]]]) -> None:
    (folder / study).mkdir(parents=True)
    more = {"seeds": 3, "wall_seconds": 90.0, "rules": list(ClickTask.rules)}
    outcome = {name: {"rows": rows, **more} for name, rows in parts.items()}
    (folder / study / "study.json").write_text(json.dumps({"study": study, "parts": outcome}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fair = [
        row("", "popularity", 0.5),
        *(row("gmf", m, v, p) for m, v, p in [("normal", 0.1, None), ("deca", 0.09, 0.01), ("deca-p", 0.12, 0.03)]),
        *(
            row("cdae", m, v, p)
            for m, v, p in [("normal", 0.1, None), ("deca", 0.08, 0.01), ("deca-p", 0.09, 0.04)]
        ),
        *(
            row("neumf", m, v, p)
            for m, v, p in [("normal", 0.1, None), ("deca", 0.101, 0.5), ("deca-p", None, None)]
        ),
        row("lightgcn", "normal", 0.1),
        row("lightgcn", "deca", 0.10001, 0.001),
        row("lightgcn", "oracle", 0.3, 0.001, uses_knowledge=True),
    ]
    put(tmp_path, "recommend-adressa", {"fair": fair})
    put(
        tmp_path,
        "images-cifar10",
        {
            "noise-40": [row("resnet32", "normal", 0.8), row("resnet32", "deca-p", 0.9, 0.2)],
            "noise-50": [row("resnet32", "normal", 0.8), row("resnet32", "deca-p", 0.7, 0.01, {"over": "seeds"})],
        },
    )
    put(tmp_path, "hyper", {"modcloth": [row("gmf", "deca", 0.1)]})
    return tmp_path


def lines(page: Path) -> dict[str, list[str]]:
    """The cells of each line of the tables, by its first."""
    split = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text().splitlines()
        if "|" in line
    ]
    return {cells[0]: cells[1:] for cells in split}


def test_marks_and_counts(folder: Path) -> None:
    page = write_overview(folder)
    table = lines(page)
    assert table[""] == ["normal", "deca-p"]  # the last table: images
    assert table["adressa gmf"] == ["0.1000 (0.112)", "0.0900 ▼ (0.126)", "0.1200 ▲ (0.127)", ""]
    assert table["adressa neumf"] == ["0.1000 (0.180)", "0.1010 (0.181)", "not run (0.181)", ""]
    assert table["adressa lightgcn"][3] == "0.3000 ▲"
    assert table["cifar10 40%"] == ["0.8000 (0.842)", "0.9000 (0.866)"]
    assert table["cifar10 50%"] == ["0.8000 (0.818)", "0.7000 ▼‡ (0.843)"]
    text = page.read_text()
    # Ahead: GMF beyond chance, NeuMF within; behind: CDAE. What does not show in four digits is neither.
    assert (
        "deca or deca-p ahead of normal in 2 of 4 cells, beyond chance in 1; behind in 1, beyond chance in 1."
        in text
    )
    assert "deca-p ahead of normal in 1 of 2 cells, beyond chance in 0; behind in 1, beyond chance in 1." in text
    assert "oracle † |" in text
    assert text.count("‡ over seeds alone, by Welch's t-test") == 1
    assert "popularity" not in text
    assert table["[recommend-adressa](recommend-adressa/README.md)"][1:] == [
        "36",
        "2",
        "fair: 36 of 39; paper: not run",
    ]
    assert table["agreement-images"][-1] == "not run"
    for name in ("clicks-fair", "images"):
        assert (folder / f"overview-{name}.svg").stat().st_size > 1000
    assert not list(folder.glob("*hyper*.svg"))


def test_the_page_is_the_same_bytes_twice(folder: Path) -> None:
    write_overview(folder)
    first = {path.name: path.read_bytes() for path in folder.glob("overview*")}
    write_overview(folder)
    assert first == {path.name: path.read_bytes() for path in folder.glob("overview*")}


def test_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["accord", "reproduce", *words])
        try:
            main.run()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    assert ran("--show", "--out", str(folder)) == 0
    assert (folder / "overview.md").is_file()
    empty = folder / "hyper" / "nothing"
    empty.mkdir()
    assert ran("--show", "--out", str(empty)) == 2
    assert "no study in" in capsys.readouterr().err
    assert not list(empty.iterdir())


def test_what_is_wrong_with_the_files_is_said_below_the_table(folder: Path) -> None:
    page = write_overview(folder).read_text()
    assert "The files of" not in page
    put(folder, "recommend-movielens", {"paper": [row("gmf", "normal", 0.1), row("gmf", "deca", 0.1, 0.5)]})
    page = write_overview(folder).read_text()
    assert page.count("The files of movielens-100k: the validation rows are all of rating 5") == 1
    assert page.index("The files of") > page.index("## Clicks. The authors' split files")


def test_cells_made_by_older_rules_are_to_be_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "run again" not in write_overview(folder).read_text()
    monkeypatch.setattr(ClickTask, "rules", (*ClickTask.rules, "another rule"))
    page = write_overview(folder)
    assert lines(page)["[recommend-adressa](recommend-adressa/README.md)"][-1].endswith("fair: to be run again")
    assert "To be run again by newer rules, as their pages say: adressa." in page.read_text()


def test_rows_of_a_method_that_changed_are_to_be_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "rows of deca " not in write_overview(folder).read_text()
    monkeypatch.setattr(DeCA, "rules", ("deca is another one",))
    page = write_overview(folder)
    state = lines(page)["[recommend-adressa](recommend-adressa/README.md)"][-1]
    assert state.endswith("fair: rows of deca to be run again")
    assert "Rows of deca to be run again by a newer rule, as their pages say: adressa." in page.read_text()
    assert "To be run again by newer rules" not in page.read_text()  # the other rows stand
