"""`accord split`: a log as files to train on, to choose by, and to test by."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli import ui
from accord.cli.paths import quoted
from accord.errors import SettingError

if TYPE_CHECKING:
    from accord.data.log_parts import LogParts

SPLIT = "split"
USUAL_TEST = 0.1


def run_split(
    data: Any,
    out: Path,
    by: str,
    shares: tuple[float, float],
    folds: int | None,
    chosen: dict[str, Any],
    query: str | None,
    overwrite: bool,
) -> dict[str, Any]:
    from accord.data.conditions import read_condition
    from accord.data.log_parts import fold_log, split_log
    from accord.estimators.run_folder import check_free

    if folds is not None and (by != "auto" or shares[1] != USUAL_TEST):
        raise SettingError("Folds are drawn at random, and each is a test; leave --by and --test out with --folds.")
    if chosen["clean"] is not None:
        read_condition(chosen["clean"])  # before the log is read
    check_free(out, SPLIT, overwrite=overwrite)
    with ui.busy("dividing the log"):
        log = _source(data, query)
        if folds is None:
            parts = [split_log(log, by=by, valid=shares[0], test=shares[1], **chosen)]
        else:
            parts = fold_log(log, folds, valid=shares[0], **chosen)
        files = _save(parts, out, overwrite)
    for one in parts:
        notes = one.notes
        left = f", {notes['not_clean_in_test']} that are not clean left out" if "clean" in notes else ""
        counts = f"{notes['train']} clicks to train on, {notes['valid']} to choose by, {notes['test']} to test by"
        ui.say(f"{notes['how']}: {counts}{left}")
    first = files[0]
    valid = f" --valid {quoted(first['valid'])}" if "valid" in first else ""
    ui.say(f"Next: accord compare {quoted(first['train'])}{valid} --truth {quoted(first['test'])} --out comparison")
    told = [{"files": names, **one.notes} for names, one in zip(files, parts, strict=True)]
    return {"out": out, **(told[0] if folds is None else {"folds": told})}


def _source(data: Any, query: str | None) -> Any:
    from accord.data.log_rows import with_query
    from accord.data.reading import read_standard_input
    from accord.plain import read_stream

    if str(data) == "-":
        data = read_standard_input(read_stream(sys.stdin.buffer, "The standard input"))
    return with_query(data, query)


def _save(parts: list[LogParts], out: Path, overwrite: bool) -> list[dict[str, Path]]:
    """The files of each part, by name; parts without a row have none."""
    import pyarrow.parquet as parquet

    from accord.estimators.run_folder import CONFIG, new_folder, write_json

    files: list[dict[str, Path]] = []
    with new_folder(out, SPLIT, overwrite=overwrite) as draft:
        for number, one in enumerate(parts, 1):
            files.append({})
            for name in ("train", "valid", "test", "clicks"):
                table = getattr(one, name)
                if table is None or not table.num_rows:
                    continue
                file = f"{name}.parquet" if len(parts) == 1 else f"{name}-{number}.parquet"
                parquet.write_table(table.replace_schema_metadata(None), draft / file)
                files[-1][name] = out / file
        write_json(draft / CONFIG, {"kind": SPLIT, "parts": [one.notes for one in parts]})
    return files
