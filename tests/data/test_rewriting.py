"""A text file again without some rows, or with more columns: compared cell by cell with Python's own reader."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.rewriting import same_form, text_file, write_rows
from accord.errors import DataError

CELLS = st.text(st.sampled_from('ab,";\t \r\né'), max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12)
FORMS = st.tuples(
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
).filter(lambda form: form[0] == "\r\n" or form[2] == csv.QUOTE_ALL)
"""Python quotes a carriage return where rows end in one."""


def written(rows: list[tuple[str, ...]], form: tuple[str, str, int]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator=form[0], delimiter=form[1], quoting=form[2]).writerows(rows)  # pyright: ignore
    return buffer.getvalue()


def cells(path: Path, sign: str) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=sign))


@settings(deadline=None, max_examples=150)
@given(ROWS, FORMS, st.data())
def test_kept_rows_are_as_they_were(
    rows: list[tuple[str, str, str]], form: tuple[str, str, int], data: st.DataObject
) -> None:
    named = [(f"u{k}", f"i{k}", *row) for k, row in enumerate(rows)]
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "log.csv"), Path(folder, "out.csv")
        source.write_text(written([("user", "item", "a", "b", "c"), *named], form), encoding="utf-8", newline="")
        file = text_file(source)
        assert file.separator == form[1]
        assert file.read(["user"]).num_rows == len(rows)  # as Arrow tells rows apart
        write_rows(file, target, target, kept, {})
        assert cells(target, form[1])[1:] == [list(row) for row, own in zip(named, kept, strict=True) if own]
        write_rows(file, target, target, np.ones(len(rows), bool), {"n": [str(k) for k in range(len(rows))]})
        more = [[*row, str(k)] for k, row in enumerate(named)]
        assert cells(target, form[1]) == [["user", "item", "a", "b", "c", "n"], *more]


def test_every_byte_of_a_kept_row_stays(tmp_path: Path) -> None:
    """Quotes that were not needed, other encodings, empty lines, zeros and a missing last line end."""
    rows = [b'"u1";007;"x ""y"" \n z"\n', b"\n", "u2;08;ä\n".encode("latin-1"), b'u3;9;5" screen\r\n', b"u4;1.50;"]
    source, target = tmp_path / "log.csv", tmp_path / "out.csv"
    source.write_bytes(b"\xef\xbb\xbfuser;item;note\n" + b"".join(rows))
    write_rows(text_file(source), target, target, np.array([True, False, True, True]), {})
    assert target.read_bytes() == b"\xef\xbb\xbfuser;item;note\n" + rows[0] + rows[1] + rows[3] + rows[4]


def test_a_log_without_a_header_gets_none(tmp_path: Path) -> None:
    source = tmp_path / "log.rating"
    source.write_text("1\t10\n2\t11\n3\t10\n")
    write_rows(
        text_file(source),
        tmp_path / "out.tsv",
        tmp_path / "out.tsv",
        np.array([True, False, True]),
        {"q": ["a"] * 3},
    )
    assert (tmp_path / "out.tsv").read_text() == "1\t10\ta\n3\t10\ta\n"


def test_other_rows_than_were_read_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "log.csv"
    source.write_text("user,item\na,x\nb,y\n")
    with pytest.raises(DataError, match="cannot be told apart"):
        write_rows(text_file(source), tmp_path / "out.csv", tmp_path / "out.csv", np.ones(3, bool), {})


def test_which_names_ask_for_the_same_form() -> None:
    assert same_form(Path("a.csv"), Path("b.csv.gz"))
    assert same_form(Path("a.tsv"), Path("b.inter"))
    assert not same_form(Path("a.csv"), Path("b.tsv"))
    assert not same_form(Path("a.parquet"), Path("b.parquet"))
