"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write.")]
User = Annotated[
    str | None, typer.Option("--user", help="Column of user ids; found by itself if it has a usual name.")
]
Item = Annotated[str | None, typer.Option("--item", help="Column of item ids.")]
Time = Annotated[
    str | None, typer.Option("--time", help="Column of times, '' for none; with it, validation is by time.")
]
Query = Annotated[str | None, typer.Option(help="A database: the query whose rows are the log.")]
Weight = Annotated[str | None, typer.Option(help="Clicks: a column of numbers by which their losses count.")]
Trusted = Annotated[
    str | None,
    typer.Option(help="Clicks: a column that says which are right or wrong for sure, or a file of such pairs."),
]
OnMissing = Annotated[str, typer.Option(help="Rows without a user or an item: drop (and count), or refuse.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the model, e.g. --set c1=10 --set alpha=0.5."),
]
Truths = Annotated[
    list[Path] | None,
    typer.Option("--truth", help="Clean test pairs, or clicks with is_noise; may be given for each."),
]
Label = Annotated[str | None, typer.Option("--label", help="Labelled data: the column of labels.")]
Labels = Annotated[Path | None, typer.Option("--labels", help="A folder of images: the file with file and label.")]
Size = Annotated[int | None, typer.Option(help="A folder of images: resize them to this many pixels a side.")]
Ignore = Annotated[list[str] | None, typer.Option(help="A table: a column to leave out; may be given many times.")]
Noise = Annotated[float, typer.Option(help="Labelled data: redraw this share of the labels, for studies.")]
NoiseKind = Annotated[
    str,
    typer.Option(
        help="uniform (over all classes), others, pair, instance (where a weak model is unsure), or a file of a "
        "matrix (.csv or .npy: how labels of each class are drawn, all of them unless --noise says how many)."
    ),
]
File = Annotated[Path | None, typer.Option("--out", "-o", help="A file instead of the screen.")]
OnUnknown = Annotated[
    str, typer.Option(help="Users and items that are not in the log: refuse names them, skip leaves them out.")
]
Spreadsheet = Annotated[
    bool,
    typer.Option("--spreadsheet", help="CSV for spreadsheet programs: ' before text that they take for a formula."),
]
Answer = dict[str, Any]
"""What a command says with --json."""
Run = Annotated[Path, typer.Argument(help="A run folder made by accord fit.")]
