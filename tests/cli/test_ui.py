"""Bars of trainings: of one, and of many that go on at once and end one by one."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from accord.cli import ui
from accord.training.run import Progress


@pytest.fixture
def bars() -> ui.Bars:
    return ui.Bars(console=Console(quiet=True))


def report(epoch: int, best: float | None = 0.5, phase: str = "training", number: int = 1) -> Progress:
    return Progress(phase, number, 2 if phase != "training" else 1, epoch, 10, 1.0, "ndcg@20", best, best)


def shown(bars: ui.Bars) -> list[tuple[str, str, float]]:
    return [(t.description, t.fields["note"], t.completed) for t in bars.tasks if t.visible]


def test_one_run_has_a_bar_for_each_phase(bars: ui.Bars) -> None:
    callback = ui.Trainings(bars).callback("gmf deca-p: ")
    assert shown(bars) == [("gmf deca-p: starting", "", 0)]
    callback(report(3, 0.25, "prior"))
    assert shown(bars) == [("gmf deca-p: prior (1/2)", "epoch 3/10  ndcg@20 0.2500 best 0.2500", 3)]
    callback(report(1, None, "denoising", 2))
    assert shown(bars) == [("gmf deca-p: denoising (2/2)", "epoch 1/10", 1)]


def test_many_runs_go_on_when_some_have_ended(bars: ui.Bars) -> None:
    trainings = ui.Trainings(bars)
    first, second, third = (trainings.callback(f"seed {k}: ") for k in range(3))
    for epoch in (1, 2):
        for callback, best in ((first, 0.1), (second, 0.4), (third, 0.2)):
            callback(report(epoch, best))
    assert shown(bars) == [("seed 0: training", "epoch 2/10  3 of 3 runs at work  ndcg@20 best 0.4000", 2)]
    for epoch in (3, 4, 5):  # the first and the last have stopped
        second(report(epoch, 0.4))
    assert shown(bars) == [("seed 1: training", "epoch 5/10  1 of 3 runs at work  ndcg@20 best 0.4000", 5)]


def test_what_begins_after_a_report_is_another_group(bars: ui.Bars) -> None:
    trainings = ui.Trainings(bars)
    assert not trainings.expects_more
    old = trainings.callback("old: ")
    assert trainings.expects_more
    old(report(1))
    assert not trainings.expects_more
    new = trainings.callback("new: ")
    old(report(2))
    assert shown(bars) == [("new: starting", "", 0)]
    new(report(1, 0.3))
    assert shown(bars) == [("new: training", "epoch 1/10  ndcg@20 0.3000 best 0.3000", 1)]


def test_bars_that_were_taken_away_are_made_anew(bars: ui.Bars) -> None:
    trainings = ui.Trainings(bars)
    old = trainings.callback()
    for task in bars.task_ids:
        bars.remove_task(task)
    old(report(1))
    assert shown(bars) == []
    trainings.callback("new: ")
    assert shown(bars) == [("new: starting", "", 0)]


LONG = {"user": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "item": "b000000000000000000000000000000000001wide"}
REST = {"time": "2024-01-03 10:00:00", "label_quality": "0.0123", "is_label_issue": "True"}
MORE = {"row": "123456", "repeats": "12", "votes": "3", "voters": "4", "agreement": "0.5000"}


def printed(
    rows: list[dict[str, str]], ids: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    file = io.StringIO()
    monkeypatch.setattr(ui, "out", Console(file=file, width=width, color_system=None))
    ui.table([list(rows[0]), *(list(row.values()) for row in rows)], None, ids)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("row", [LONG | REST, LONG | MORE | {k: REST[k] for k in list(REST)[1:]}], ids=len)
@pytest.mark.parametrize("letter", ["x", "宽"])
def test_long_ids_are_shortened_and_the_flag_is_whole(
    row: dict[str, str], letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = row | {"item": f"b0{letter * 30}de"}
    lines = printed([row, row], ("user", "item"), 80, monkeypatch)
    assert all(cell_len(line) <= 80 for line in lines)
    shown = [line.split() for line in lines if "True" in line]
    assert len(shown) == 2  # one line for each row
    assert shown[0][-1] == "True"
    assert shown[0][-2] == "0.0123"
    assert shown[0][0].startswith("9f8")
    assert shown[0][0].endswith("1b")
    assert "…" in shown[0][0]
    assert shown[0][1].startswith("b0")
    assert shown[0][1].endswith("de")
    header = " ".join(lines[: next(k for k, line in enumerate(lines) if "─" in line)])
    assert all(word in header for name in row for word in name.split("_"))
    assert row.get("time", "") in " ".join(shown[0])  # nothing but ids is shortened


def test_ids_that_fit_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    row = LONG | REST
    assert LONG["user"] in "".join(printed([row], ("user", "item"), 160, monkeypatch))
    short = {"user": "u1", "item": "i1"} | REST
    assert "is_label_issue" in "".join(printed([short], ("user", "item"), 80, monkeypatch))
    assert "user" in "".join(printed([LONG | MORE | REST], ("user", "item"), 20, monkeypatch))  # no room for all


def test_a_table_without_rows_is_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(ui, "out", Console(file=file, width=30, color_system=None))
    ui.table([["user", "label_quality", "is_label_issue"]], "None", ("user",))
    assert "issue" in file.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_a_narrow_screen_shows_the_bar_and_the_time_left(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "err", Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None))
    note = "epoch 31/100  3 of 3 runs at work  ndcg@20 best 0.1444"
    with ui.bar() as bars:
        bars.add_task("gmf normal, seed 0: training", total=100, completed=31, note=note)
        screen = Console(file=io.StringIO(), width=width, color_system=None)
        screen.print(bars.get_renderable())
    (line,) = screen.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert "━" in line
    assert line.rstrip().endswith("left -:--:--")
    assert "gmf normal" in line
    assert "epoch 31/100" in line
