"""Bars of trainings: of one, and of many that go on at once and end one by one."""

from __future__ import annotations

import io

import pytest
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
