"""Text from data cannot steer a terminal, or be a formula of a spreadsheet program where that is asked for."""

from __future__ import annotations

import csv
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import Recommender
from accord.cli import ui
from accord.cli.main import app
from accord.cli.output import for_spreadsheets
from accord.errors import AccordError, DataError, SettingError, harmless

EVIL = "\x1b]0;PWNED\x07\x1b[2J\x1b[31mred\x9b5m\u202egnp\r\n[bold]x"
OWN = re.compile(r"\x1b\[[0-9;?]*[mKhlA-G]")
"""What rich writes for colours and bars."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terminal") / "run"
    log = {"user": [f"u{k % 7}{EVIL}" for k in range(30)], "item": [f"=i{k % 5}{EVIL}" for k in range(30)]}
    Recommender(method="normal", dims=4, epochs=1, batch_size=16, seed=0).fit(log).save(path)
    return path


def on_terminal(*words: object) -> str:
    """What a command writes to a terminal, on both of its ways."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from accord.cli.main import run; run()", *map(str, words)]
    env = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = bytearray()
        while True:
            try:
                block = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            said += block
        process.wait()
    os.close(ours)
    return said.decode(errors="replace")


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "RUN", "--top", "3"],
        ["recommend", "RUN", "--user", f"u1{EVIL}", "--include-seen", "--format", "csv"],
        ["recommend", "RUN", "--user", f"u1{EVIL}", "--include-seen", "--format", "json"],
        ["recommend", "RUN", "--user", f"nobody{EVIL}"],
        ["audit", f"nowhere{EVIL}"],
    ],
)
def test_commands_write_no_letter_that_a_terminal_obeys(words: list[str], run: Path) -> None:
    said = on_terminal(*(str(run) if word == "RUN" else word for word in words))
    assert "PWNED" in said
    assert "\x1b]" not in said
    assert "\x1b[2J" not in said
    assert "\x1b[31m" not in said
    assert not re.search("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", OWN.sub("", said))


def test_files_hold_the_text_as_it_is(run: Path, tmp_path: Path) -> None:
    app(["audit", str(run), "--out", str(tmp_path / "x.csv")], standalone_mode=False)
    with (tmp_path / "x.csv").open(newline="") as file:
        assert {row["user"] for row in csv.DictReader(file)} == {f"u{k}{EVIL}" for k in range(7)}


@given(st.text())
def test_harmless_text_has_no_control_characters_and_stays_harmless(text: str) -> None:
    shown = harmless(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]", shown)
    assert harmless(shown) == shown
    assert harmless(text, lines=True).count("\n") == text.count("\n")
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize("kind", [AccordError, DataError, SettingError])
def test_errors_are_harmless_in_python_too(kind: type[AccordError]) -> None:
    assert str(kind(f"Unknown user: {EVIL}")).isprintable()


def test_messages_tables_and_bars_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    ui.say(EVIL)
    ui.table([["a", EVIL], [EVIL, "1"]], EVIL)
    with ui.bar() as progress:
        task = progress.add_task(EVIL, total=1, note=EVIL)
        progress.update(task, description=EVIL, note=EVIL)
        assert progress.line().isprintable()
    said = "".join(capsys.readouterr())
    assert "PWNED" in said
    assert "[bold]x" in said  # nor is it read as markup
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", OWN.sub("", said))


# -- formulas ----------------------------------------------------------------------------------------------


def test_text_that_would_be_a_formula_is_marked_and_numbers_are_not() -> None:
    words = [
        "=cmd|'/c calc'!A0",
        "+1+1",
        "-2-3",
        "@sum",
        "\t=x",
        " =x",
        "＝x",
        "'=x",
        "a=b",
        "-5",
        "+1.5e3",
        "u1",
        None,
    ]
    table = pa.table({"=user": words, "n": list(range(len(words)))})
    safe = for_spreadsheets(table)
    assert safe.column_names == ["'=user", "n"]
    marked = [word for word, shown in zip(words, safe["'=user"].to_pylist(), strict=True) if shown != word]
    assert marked == words[:8]
    assert all(shown == f"'{word}" for word, shown in zip(words[:8], safe["'=user"].to_pylist(), strict=False))
    assert safe["n"].equals(table["n"])


def test_spreadsheet_is_an_option_of_csv(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    app(["audit", str(run), "--out", str(out), "--spreadsheet"], standalone_mode=False)
    with out.open(newline="") as file:
        assert all(row["item"].startswith("'=i") for row in csv.DictReader(file))
    with pytest.raises(SettingError, match="--spreadsheet is for CSV"):
        app(["audit", str(run), "--out", str(tmp_path / "x.json"), "--spreadsheet"], standalone_mode=False)
    with pytest.raises(SettingError, match="--spreadsheet is for CSV"):
        app(["recommend", str(run), "--user", "x", "--spreadsheet"], standalone_mode=False)


def test_two_tables_do_not_go_into_one_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("x.csv")
    for other in ("x.csv", "link.csv", "../" + tmp_path.name + "/x.csv"):
        words = ["audit", run, "--out", tmp_path / "x.csv", "--write-clean", tmp_path / other]
        with pytest.raises(SettingError, match="cannot hold both tables"):
            app([str(word) for word in words], standalone_mode=False)
    assert [path.name for path in tmp_path.iterdir()] == ["link.csv"]
