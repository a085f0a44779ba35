"""What the library says in words of Python is said at a shell in options."""

from __future__ import annotations

import pytest

from accord.cli.main import _flags
from accord.cli.words import as_options


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("choose another path or pass overwrite=True.", "choose another path or pass --overwrite."),
        ("leave the column out: time=''.", "leave the column out: --time ''."),
        ("name it with label=COLUMN.", "name it with --label COLUMN."),
        ("leave it out with ignore=['kind'].", "leave it out with --ignore kind."),
        ("for example space={'c1': (1, 10)}.", "for example --space c1=1,10."),
        ("methods=['normal', 'deca-p'].", "--methods normal,deca-p."),
        ("use device=cpu or device=auto.", "use --device cpu or --device auto."),
        ("clean= is for mw-net", "--clean is for mw-net"),
        ("with noise_kind=pair", "with --noise-kind pair"),
        ("give fit(..., clean=(inputs, labels))", "give fit(..., clean=(inputs, labels))"),
        ("serve=council, c1=10", "serve=council, c1=10"),  # settings are no options
        ("Setting 'c1=x' is 'time=3'", "Setting 'c1=x' is 'time=3'"),  # what a person typed is left alone
    ],
)
def test_keywords_become_options(said: str, shown: str) -> None:
    assert as_options(said, _flags()) == shown


def test_a_command_names_its_options(accord, tmp_path) -> None:
    (tmp_path / "log.csv").write_text("who,what\na,x\nb,y\n")
    code, _, err = accord("fit", tmp_path / "log.csv", "--out", tmp_path / "run")
    assert code == 2
    assert "name it with --user COLUMN" in err
