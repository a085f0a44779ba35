"""`accord review`, `apply` and `decisions`: people look and decide; their decisions go into the user's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.commands.options import Answer, File, Run, Spreadsheet

Place = Annotated[Path, typer.Argument(metavar="PLACE", help="A run that was reviewed, or a file of decisions.")]


def review(
    run: Run,
    reviewer: Annotated[
        str | None, typer.Option(help="Your name in the decisions; several people take several.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Images: their folder, or a .npy of them all, if the run does not know it.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Tables: where the file lies now that was fitted on, if it was moved.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="Clicks: a table of items with id, title and picture (inside its folder).")
    ] = None,
    port: Annotated[int, typer.Option(help="The port of the page; by default any that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    listen: Annotated[
        str, typer.Option(help="The address to listen at; another than 127.0.0.1 needs --others-may-connect.")
    ] = "127.0.0.1",
    others_may_connect: Annotated[
        bool, typer.Option("--others-may-connect", help="Let other machines reach the page, unencrypted.")
    ] = False,
) -> Answer:
    """Look at the labels or clicks of a run on a local page, and decide: keep, fix, drop or unsure."""
    from accord.cli.reviewing import run_review

    given = {"images": images, "data": data, "items": items}
    return run_review(run, reviewer, port, not no_browser, given, listen, others_may_connect)


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
