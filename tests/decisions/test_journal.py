"""A decision that was acknowledged is on the disk; what was cut off was never acknowledged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.decisions.journal import ACTIONS, Decision, Journal, journals, reviewers, write_journal
from accord.decisions.resolving import last_words
from accord.errors import DataError, SettingError

RUN = "run-1"


def file_of(run: Path, reviewer: str = "r1") -> Path:
    return run / "decisions" / f"{reviewer}.jsonl"


def test_what_was_decided_is_there_when_the_journal_is_opened_again(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "r1", RUN, 10) as journal:
        journal.decide([3], "keep")
        journal.decide([4, 5], "drop", why="bulk")
        journal.decide([6], "fix", label=2)
    with Journal.opened(tmp_path, "r1", RUN, 10) as journal:
        assert {item: (one.action, one.label) for item, one in journal.standing.items()} == {
            3: ("keep", None),
            4: ("drop", None),
            5: ("drop", None),
            6: ("fix", 2),
        }
        assert [one.number for one in journal.steps] == [0, 1, 1, 2]
    assert reviewers(tmp_path) == {"r1"}


def test_undo_takes_back_a_whole_step_and_shows_what_was_before(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([1], "keep")
        journal.decide([1, 2], "drop", why="bulk")
        assert journal.undo() == [1, 2]
        assert journal.standing[1].action == "keep"
        assert 2 not in journal.standing
        assert journal.undo() == [1]
        assert journal.undo() == []
        assert not journal.standing
    assert journals(tmp_path, RUN) == {"r1": []}


def test_a_line_that_was_cut_off_is_left_out_and_written_over(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([1], "keep")
        journal.decide([2], "keep")
    whole = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(whole[:-7])
    assert list(last_words(journals(tmp_path, RUN)["r1"])) == [1]
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([9], "drop")
    assert list(last_words(journals(tmp_path, RUN)["r1"])) == [1, 9]


def test_a_thousand_decisions_survive_a_kill(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from accord.decisions.journal import Journal
with Journal.opened(Path({str(tmp_path)!r}), "r1", {RUN!r}) as journal:
    for item in range(10**6):
        journal.decide([item], "keep")
        print(item, flush=True)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = -1
        while said < 300:
            said = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().splitlines()
    said = max([said, *(int(word) for word in rest[:-1])])
    kept = last_words(journals(tmp_path, RUN)["r1"])
    assert set(range(said + 1)) <= set(kept)


def test_a_reviewer_is_at_work_once(tmp_path: Path) -> None:
    with (
        Journal.opened(tmp_path, "r1", RUN),
        pytest.raises(DataError, match="at work"),
        Journal.opened(tmp_path, "r1", RUN),
    ):
        pass
    with Journal.opened(tmp_path, "r1", RUN), Journal.opened(tmp_path, "r2", RUN) as other:
        other.decide([0], "keep")


@pytest.mark.parametrize("name", ["", "../r1", "a/b", ".r1", "r 1", "x" * 65, "r1\n", "<b>"])
def test_a_name_that_could_be_another_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match="name has letters"), Journal.opened(tmp_path, name, RUN):
        pass
    assert not (tmp_path / "decisions").exists()


@pytest.mark.parametrize(
    ("items", "action", "label"),
    [
        ([], "keep", None),
        ([-1], "keep", None),
        ([10], "keep", None),
        ([1.5], "keep", None),
        ([True], "keep", None),
        ([1], "delete", None),
        ([1], "fix", None),
        ([1], "keep", 3),
        ([1], "fix", -3),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_and_not_written(
    tmp_path: Path, items: list[int], action: str, label: int | None
) -> None:
    with Journal.opened(tmp_path, "r1", RUN, 10) as journal:
        before = file_of(tmp_path).read_bytes()
        with pytest.raises(SettingError):
            journal.decide(items, action, label=label)
        assert file_of(tmp_path).read_bytes() == before
        assert not journal.standing


def test_decisions_on_another_run_are_refused(tmp_path: Path) -> None:
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([1], "keep")
    with pytest.raises(DataError, match="another run"), Journal.opened(tmp_path, "r1", "run-2"):
        pass
    with pytest.raises(DataError, match="another run"):
        journals(tmp_path, "run-2")


def test_a_link_in_the_place_of_a_journal_is_neither_read_nor_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    run = tmp_path / "run"
    (run / "decisions").mkdir(parents=True)
    file_of(run).symlink_to(secret)
    with pytest.raises(DataError), Journal.opened(run, "r1", RUN) as journal:
        journal.decide([1], "keep")
    assert secret.read_text() == "mine\n"
    away = tmp_path / "away"
    away.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "decisions").symlink_to(away)
    with pytest.raises(DataError, match="link"), Journal.opened(other, "r1", RUN):
        pass
    assert not list(away.iterdir())


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"items": [1]}', '{"items": [1], "action": "keep", "why": "luck", "at": ""}', "[" * 9999]
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([1], "keep")
    with file_of(tmp_path).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match="line 3"):
        journals(tmp_path, RUN)


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal.opened(tmp_path, "r1", RUN) as journal:
        journal.decide([1], "keep")
        before, real, left = file_of(tmp_path).read_bytes(), os.write, [10]

        def write(file: int, data: bytes) -> int:
            if not left[0]:
                raise OSError(28, "No space left on device")
            size, left[0] = left[0], 0
            return real(file, data[:size])

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(DataError, match="nothing was kept"):
            journal.decide([2], "keep")
        monkeypatch.undo()
        assert file_of(tmp_path).read_bytes() == before
        assert list(journal.standing) == [1]


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from(ACTIONS)),
        ),
        max_size=12,
    )
)
def test_a_journal_read_again_says_what_it_said(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:  # type: ignore[type-arg]
    run = tmp_path_factory.mktemp("run")
    plain: list[tuple[list[int], str]] = []
    with Journal.opened(run, "r1", RUN, 6) as journal:
        for step in steps:
            if step is None:
                journal.undo()
                plain = plain[:-1]
            else:
                items, action = step
                journal.decide(items, action, label=1 if action == "fix" else None)
                plain.append(step)
        said, lived = journal.steps, dict(journal.standing)
    expected = {item: action for items, action in plain for item in items}
    assert {item: one.action for item, one in lived.items()} == expected
    assert journals(run, RUN, 6)["r1"] == said


def test_a_journal_is_written_whole(tmp_path: Path) -> None:
    one = Decision(4, "fix", 2, "r1", "2026-01-01T00:00:00Z", "check", 0)
    write_journal(tmp_path, "r1", RUN, [one])
    assert journals(tmp_path, RUN) == {"r1": [one]}
    assert json.loads(file_of(tmp_path).read_text().splitlines()[0])["run"] == RUN
