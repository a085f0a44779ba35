"""Result tables in the format a person asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli import ui
from accord.cli.paths import cannot_write
from accord.data.dialects import SEPARATORS, suffixes
from accord.errors import SettingError, harmless
from accord.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

    from accord.estimators.issue_list import IssueList

FORMATS = ("table", "csv", "json", "parquet", "arrow")
FORMULA, NUMBER = r"^[\s'\"]*[=+\-@\t\r\n＝＋－＠]", r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"
"""What spreadsheet programs take for a formula, and what is a number all the same."""


def check_format(format_: str | None, path: Path | None) -> str:
    """The format of a result, by its name or by that of the file; refused where there is none of it."""
    chosen = format_ or (_format_of(path) if path else "table")
    if chosen not in FORMATS:
        raise SettingError(f"Unknown format '{chosen}': choose from {', '.join(FORMATS)}.")
    if chosen in ("parquet", "arrow") and path is None:
        raise SettingError(f"{chosen.title()} is not for the screen; name a file with --out.")
    if format_ is not None and path is None and ui.is_muted():
        raise SettingError("--json prints one object, and --format another form; give one of them, or --out FILE.")
    return chosen


def emit(
    table: pa.Table | IssueList, format_: str | None, path: Path | None, title: str, spreadsheet: bool = False
) -> dict[str, Any]:
    """To a file, in the format of the flag or of the file's name, or to the screen.

    Gives what a program is told: the rows, or where they were written.
    """
    import pyarrow as pa

    chosen = check_format(None if ui.is_muted() and path is None else format_, path)
    if path is not None:
        write(table, chosen, path, spreadsheet)
        ui.say(f"{table.num_rows} rows written to {path}")
        return {"written": path, "count": table.num_rows}
    whole: Any = table if isinstance(table, pa.Table) else pa.concat_tables(table.parts())
    if ui.is_muted():
        return {"rows": whole.to_pylist()}
    if chosen == "table":
        rows = [[_cell(value) for value in row.values()] for row in whole.to_pylist()]
        ui.table([whole.column_names, *rows], title, _ids_of(whole))
    else:
        if sys.stdout is None:  # closed by whoever started the command
            raise SettingError("There is no standard output to write to; name a file with --out.")
        text = as_text(whole, chosen, spreadsheet)
        sys.stdout.write(harmless(text, lines=True) if sys.stdout.isatty() else text)
    return {"written": path, "count": table.num_rows}


def _ids_of(table: pa.Table) -> list[str]:
    """The columns of words and whole numbers, which may be long; not those of times and of truth values."""
    from accord.data.column_values import is_text

    return [
        field.name for field in table.schema if is_text(field.type) or str(field.type).startswith(("int", "uint"))
    ]


def check_audit(top: int, *paths: Path | None) -> None:
    """Refuse what cannot be shown or written before anything is."""
    if top < 1:
        raise SettingError(f"--top {top} shows nothing; give a number of at least 1.")
    refuse_own(*paths)
    for path in paths:
        if path is not None and _format_of(path) not in FORMATS:
            raise SettingError(
                f"'{path}' has a name of no known format: end it with .csv, .tsv, .csv.gz, .json, .parquet or "
                ".arrow."
            )


def refuse_own(*paths: Path | None, sources: Sequence[str | Path | None] = (), run: Path | None = None) -> None:
    """What is written must not take the place of what was read, of the run, or of another that is written."""
    places = [os.path.realpath(path) for path in paths if path is not None]
    own = {os.path.realpath(path) for path in sources if path is not None}
    twice = [path for path in places if path in own or places.count(path) > 1]
    if twice:
        raise SettingError(f"'{twice[0]}' is the log, or cannot hold both tables; write to another file.")
    inside = [path for path in places if run is not None and Path(path).is_relative_to(os.path.realpath(run))]
    if inside:
        raise SettingError(
            f"'{inside[0]}' lies in the folder of the run, which it would damage; write to another place."
        )


def write_log(
    path: Path, rewrite: Callable[[Path], bool], table: Callable[[], pa.Table], spreadsheet: bool = False
) -> None:
    """In the log's own form where the name asks for it, byte by byte; else, and for spreadsheets, as a table."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, follow=True) as draft:
            format_ = _format_of(path)
            if (spreadsheet and format_ == "csv") or not rewrite(draft):
                write_table(table(), format_, draft, path, spreadsheet)
    except OSError as error:
        raise cannot_write(path, error) from error


def check_spreadsheet(asked: bool, out: Path | None, format_: str | None, *more: Path | None) -> None:
    """Formulas are of CSV files alone."""
    formats = [format_ or (_format_of(out) if out else "")] + [_format_of(path) for path in more if path]
    if asked and "csv" not in formats:
        raise SettingError("--spreadsheet is for CSV: give --format csv, or a file that ends with .csv or .tsv.")


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """A table whose text no spreadsheet program takes for a formula: a ' comes before it. Numbers stay."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute

    def plain(column: Any) -> Any:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        marked = pc.and_(
            pc.match_substring_regex(column, FORMULA), pc.invert(pc.match_substring_regex(column, NUMBER))
        )
        return pc.if_else(marked, pc.binary_join_element_wise("'", column, ""), column)

    names = plain(pa.chunked_array([table.column_names])).to_pylist()
    return pa.table([plain(column) for column in table.columns], names)


def write(table: pa.Table | IssueList, format_: str, path: Path, spreadsheet: bool = False) -> None:
    """Atomically: the file is whole, or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(table, format_, path, spreadsheet)
    except OSError as error:
        raise cannot_write(path, error) from error


def _write(table: pa.Table | IssueList, format_: str, path: Path, spreadsheet: bool) -> None:
    import pyarrow as pa

    with whole_file(path, follow=True) as draft:
        if not isinstance(table, pa.Table):
            if format_ == "parquet":
                _write_parts(table.parts(), draft)
                return
            table = pa.concat_tables(table.parts())
        write_table(table, format_, draft, path, spreadsheet)


def _write_parts(parts: Iterator[pa.Table], draft: Path) -> None:
    """Parquet, part after part."""
    import pyarrow.parquet as parquet

    first = next(parts)
    with parquet.ParquetWriter(draft, first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


def write_table(table: pa.Table, format_: str, draft: Path, path: Path, spreadsheet: bool = False) -> None:
    """A table in a format; text as the suffix of its name says."""
    import pyarrow as pa

    no_header = table.column_names == [str(k + 1) for k in range(table.num_columns)]  # as the log it came from
    if format_ == "parquet":
        import pyarrow.parquet as parquet

        parquet.write_table(table, draft)
    elif format_ == "arrow":
        import pyarrow.feather as feather

        feather.write_feather(table, draft)
    elif format_ == "csv":
        import pyarrow.csv as csv

        for k, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(k, field.name, table[k].cast(field.type.value_type))
        suffix, compression = suffixes(path)
        options = csv.WriteOptions(
            include_header=not no_header,
            quoting_style="all_valid" if spreadsheet else "needed",
            delimiter="\t" if suffix == ".tsv" else ",",
        )
        table = for_spreadsheets(table) if spreadsheet else table
        with pa.output_stream(draft, compression=compression) as out:
            csv.write_csv(table, out, options)
    else:
        draft.write_text(as_text(table, format_), encoding="utf-8")


def as_text(table: pa.Table, format_: str, spreadsheet: bool = False) -> str:
    import io

    if format_ == "json":
        import json

        return json.dumps(table.to_pylist(), ensure_ascii=False, default=str) + "\n"
    if format_ == "csv":
        import pyarrow.csv as csv

        buffer = io.BytesIO()
        table = for_spreadsheets(table) if spreadsheet else table
        quoting = "all_valid" if spreadsheet else "needed"  # some programs take ; for the end of a cell
        csv.write_csv(table, buffer, csv.WriteOptions(quoting_style=quoting))
        return buffer.getvalue().decode()
    rows = [table.column_names, *([_cell(v) for v in row.values()] for row in table.to_pylist())]
    return "".join("\t".join(row) + "\n" for row in rows)


def _format_of(path: Path) -> str:
    known = dict.fromkeys(SEPARATORS, "csv") | {".json": "json", ".parquet": "parquet", ".txt": "table"}
    known |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
    suffix, compression = suffixes(path)
    if compression is not None and known.get(suffix) != "csv":
        return path.suffix.lower()
    return known.get(suffix, suffix.lstrip(".") or "table")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
