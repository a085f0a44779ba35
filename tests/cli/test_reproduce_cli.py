"""Studies on the command line."""

from __future__ import annotations

import json
from pathlib import Path

ROWS = [f"{n % 9}\t{n % 7}\t{1 + n % 5}\n" for n in range(63)]


def made(place: Path) -> Path:
    """Files in the format of Electronics."""
    (place / "electronics").mkdir()
    for name, part in (("train.rating", ROWS[:45]), ("valid.rating", ROWS[45:54]), ("test.negative", ROWS[54:])):
        (place / "electronics" / f"electronics_5.{name}").write_text("".join(part))
    return place


def test_studies_are_listed_run_and_drawn_again(accord, tmp_path: Path) -> None:
    code, out, _ = accord("reproduce", "--list")
    assert code == 0
    assert "robustness" in out
    place, root = tmp_path / "out", made(tmp_path)
    code, out, err = accord("reproduce", "recommend-electronics", "--data", root, "--out", place, "--minutes", 0)
    assert code == 0, err
    assert "not run" in out
    assert json.loads((place / "study.json").read_text())["parts"]["fair"]["rows"][0]["seeds"] == 0
    (place / "README.md").unlink()
    assert accord("reproduce", "recommend-electronics", "--out", place, "--show")[0] == 0
    assert "not run" in (place / "README.md").read_text(encoding="utf-8")


def test_an_unknown_study_is_one_sentence(accord, tmp_path: Path) -> None:
    code, _, err = accord("reproduce", "robustnes", "--out", tmp_path / "out")
    assert code == 2
    assert "robustness" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    code, _, err = accord("reproduce")
    assert code == 2
    assert "--list" in err
