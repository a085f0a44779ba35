"""Running a command as a person would."""

from __future__ import annotations

import sys

import pytest

from accord.cli import main


@pytest.fixture
def accord(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Runs a command in this process; gives exit code, standard output and standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["accord", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main.run()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run
