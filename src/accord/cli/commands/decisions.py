"""`accord apply` and `accord decisions`: what people decided, in the user's own file, exported and joined."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.commands.options import Answer, File, Run, Spreadsheet

Place = Annotated[Path, typer.Argument(metavar="PLACE", help="A run that was reviewed, or a file of decisions.")]


def apply(
    run: Run,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the log or the table.")],
    undecided: Annotated[
        str, typer.Option(help="Rows that are flagged and that nobody decided: keep or drop.")
    ] = "keep",
    data: Annotated[
        Path | None, typer.Option(help="Where the file lies now that was fitted on, if it was moved.")
    ] = None,
    spreadsheet: Spreadsheet = False,
) -> Answer:
    """Write the log or the table that was fitted on with people's decisions in it."""
    from accord.cli.deciding import run_apply

    return run_apply(run, out, undecided, data, spreadsheet)


def decisions_export(
    place: Place,
    out: File = None,
    format: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
) -> Answer:
    """Every decision of a run: on the screen, or as a file that can be sent and learnt from."""
    from accord.cli.deciding import run_export

    return run_export(place, out, format)


def decisions_merge(
    places: Annotated[list[Path], typer.Argument(metavar="PLACE...", help="Runs that were reviewed, or files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write all decisions.")],
    disagreements: Annotated[Path | None, typer.Option(help="Where to write those on which people differ.")] = None,
) -> Answer:
    """Join what several people decided, and list where they differ."""
    from accord.cli.deciding import run_merge

    return run_merge(places, out, disagreements)


def decisions_show(run: Run) -> Answer:
    """What the decisions so far say of all labels, with intervals."""
    from accord.cli.deciding import run_show

    return run_show(run)
