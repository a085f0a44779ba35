"""Result tables in the format a person asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli import ui
from accord.cli.paths import cannot_write
from accord.data.dialects import SEPARATORS, suffixes
from accord.errors import SettingError
from accord.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")


def check_format(format_: str | None, path: Path | None) -> str:
    """The format of a result, by its name or by that of the file; refused where there is none of it."""
    chosen = format_ or (_format_of(path) if path else "table")
    if chosen not in FORMATS:
        raise SettingError(f"Unknown format '{chosen}': choose from {', '.join(FORMATS)}.")
    if chosen == "parquet" and path is None:
        raise SettingError("Parquet is not for the screen; name a file with --out.")
    if format_ is not None and path is None and ui.is_muted():
        raise SettingError("--json prints one object, and --format another form; give one of them, or --out FILE.")
    return chosen


def emit(table: pa.Table, format_: str | None, path: Path | None, title: str) -> dict[str, Any]:
    """To a file, in the format of the flag or of the file's name, or to the screen.

    Gives what a program is told: the rows, or where they were written.
    """
    chosen = check_format(None if ui.is_muted() and path is None else format_, path)
    if ui.is_muted() and path is None:
        return {"rows": table.to_pylist()}
    if chosen == "table" and path is None:
        rows = [[_cell(value) for value in row.values()] for row in table.to_pylist()]
        ui.table([table.column_names, *rows], title)
    elif path is None:
        if sys.stdout is None:  # closed by whoever started the command
            raise SettingError("There is no standard output to write to; name a file with --out.")
        sys.stdout.write(as_text(table, chosen))
    else:
        write(table, chosen, path)
        ui.say(f"{table.num_rows} rows written to {path}")
    return {"written": path, "count": table.num_rows}


def check_audit(top: int, *paths: Path | None) -> None:
    """Refuse what cannot be shown or written before anything is."""
    if top < 1:
        raise SettingError(f"--top {top} shows nothing; give a number of at least 1.")
    for path in paths:
        if path is not None and _format_of(path) not in FORMATS:
            raise SettingError(
                f"'{path}' has a name of no known format: end it with .csv, .tsv, .json or .parquet."
            )


def refuse_own(*paths: Path | None) -> None:
    """What is written must not take the place of the log, nor of another file that is written."""
    places = [os.path.realpath(path) for path in paths if path is not None]
    twice = [path for path in places if places.count(path) > 1]
    if twice:
        raise SettingError(f"'{twice[0]}' is the log, or named twice; write to another file.")


def write_log(path: Path, rewrite: Callable[[Path], bool], table: Callable[[], pa.Table]) -> None:
    """In the log's own form where the name asks for it, byte by byte; otherwise as a table."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, follow=True) as draft:
            if not rewrite(draft):
                write_table(table(), _format_of(path), draft, path)
    except OSError as error:
        raise cannot_write(path, error) from error


def write(table: pa.Table, format_: str, path: Path) -> None:
    """Atomically: the file is whole, or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(table, format_, path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _write(table: pa.Table, format_: str, path: Path) -> None:
    with whole_file(path, follow=True) as draft:
        write_table(table, format_, draft, path)


def write_table(table: pa.Table, format_: str, draft: Path, path: Path) -> None:
    """A table in a format; text as the suffix of its name says."""
    no_header = table.column_names == [str(k + 1) for k in range(table.num_columns)]  # as the log it came from
    if format_ == "parquet":
        import pyarrow.parquet as parquet

        parquet.write_table(table, draft)
    elif format_ == "csv":
        import pyarrow as pa
        import pyarrow.csv as csv

        suffix, compression = suffixes(path)
        options = csv.WriteOptions(
            include_header=not no_header, quoting_style="needed", delimiter="\t" if suffix == ".tsv" else ","
        )
        with pa.output_stream(draft, compression=compression) as out:
            csv.write_csv(table, out, options)
    else:
        draft.write_text(as_text(table, format_), encoding="utf-8")


def as_text(table: pa.Table, format_: str) -> str:
    import io

    if format_ == "json":
        import json

        return json.dumps(table.to_pylist(), ensure_ascii=False, default=str) + "\n"
    if format_ == "csv":
        import pyarrow.csv as csv

        buffer = io.BytesIO()
        csv.write_csv(table, buffer, csv.WriteOptions(quoting_style="needed"))
        return buffer.getvalue().decode()
    rows = [table.column_names, *([_cell(v) for v in row.values()] for row in table.to_pylist())]
    return "".join("\t".join(row) + "\n" for row in rows)


def _format_of(path: Path) -> str:
    known = dict.fromkeys(SEPARATORS, "csv") | {".json": "json", ".parquet": "parquet", ".txt": "table"}
    suffix, compression = suffixes(path)
    if compression is not None and known.get(suffix) != "csv":
        return path.suffix.lower()
    return known.get(suffix, suffix.lstrip(".") or "table")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
