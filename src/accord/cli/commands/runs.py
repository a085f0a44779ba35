"""What is asked of a run: recommend, predict, audit, evaluate, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.commands.options import Answer, File, Item, Label, OnUnknown, Run, Spreadsheet, User
from accord.cli.words import refuse_given


def recommend(
    run: Run,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be given many times.")] = None,
    users_file: Annotated[
        Path | None,
        typer.Option("--users", "--users-file", help="A file with one user id a line; - for standard input."),
    ] = None,
    everyone: Annotated[
        bool,
        typer.Option("--all", help="Every user, into --out FILE.parquet; resumed if it was killed."),
    ] = False,
    history: Annotated[
        Path | None, typer.Option(help="A table of users and items: lists for people who are new to the run.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Items for each user.")] = 10,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items the user has clicked.")] = False,
    format: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
    out: File = None,
    on_unknown: OnUnknown = "refuse",
    spreadsheet: Spreadsheet = False,
) -> Answer:
    """Top-k lists for users of the log, or for all of them."""
    if everyone:
        from accord.cli.serving import run_recommend_all

        usual: Answer = {"history": history, "format": format, "spreadsheet": spreadsheet}
        refuse_given("cannot be given with --all", user=user, users=users_file, **usual)
        return run_recommend_all(run, k, include_seen, out)
    from accord.cli.runs import Asked, run_recommend

    asked = Asked(run, user or [], users_file, history, k, include_seen, format, out, on_unknown, spreadsheet)
    return run_recommend(asked)


def predict(
    run: Run,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="Pairs of users and items to score; or a table, a folder of images or an array (.npy) to label.",
        ),
    ],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Labelled data: also the probability of every class.")
    ] = False,
    format: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
    out: File = None,
    on_unknown: OnUnknown = "refuse",
    spreadsheet: Spreadsheet = False,
) -> Answer:
    """Scores of pairs, or labels of examples, by a run."""
    from accord.cli.runs import run_predict

    return run_predict(run, data, probabilities, format, out, on_unknown, spreadsheet)


def audit(
    run: Annotated[Path | None, typer.Argument(help="A run folder made by accord fit; or none, and files:")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels to judge by predictions: CSV, Parquet, .npy.")] = None,
    pred_probs: Annotated[
        list[Path] | None,
        typer.Option(help="Out-of-sample probabilities, a column for each class; may be given for each model."),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The class of each column, separated by commas.")] = None,
    label: Label = None,
    clicks: Annotated[Path | None, typer.Option(help="Clicks to judge, with scores of recommenders.")] = None,
    scores: Annotated[
        list[str] | None, typer.Option(help="A column of scores; by default all columns of numbers.")
    ] = None,
    non_clicks: Annotated[
        Path | None, typer.Option(help="Pairs that are no clicks, with columns of scores alike.")
    ] = None,
    user: User = None,
    item: Item = None,
    annotations: Annotated[
        Path | None, typer.Option(help="Labels by several annotators: a row for each label.")
    ] = None,
    example: Annotated[str, typer.Option(help="Annotations: the column of examples.")] = "example",
    annotator: Annotated[str, typer.Option(help="Annotations: the column of annotators.")] = "annotator",
    top: Annotated[int, typer.Option(help="How many of the worst to show.")] = 20,
    share: Annotated[float | None, typer.Option(help="Flag this share instead of the rule's.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write every click or label with its quality here.")
    ] = None,
    write_clean: Annotated[
        Path | None, typer.Option(help="Write the log or the table here, without the rows that are flagged.")
    ] = None,
    write_issues: Annotated[
        Path | None,
        typer.Option(
            help="Write the log, the table or the judged file here, every row with what was found in columns."
        ),
    ] = None,
    relabel: Annotated[
        str | None,
        typer.Option(help="--write-clean keeps every row, with the predicted label: beside or replace."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the file lies now that was fitted on, if it was moved.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="New clicks, judged by the run in place of its own; users may be new to it."),
    ] = None,
    on_unknown: OnUnknown = "refuse",
    write_consensus: Annotated[
        Path | None, typer.Option(help="Annotations: write the consensus of each example here.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="is_noise of each click, or is_noise or true_label of each example.")
    ] = None,
    spreadsheet: Spreadsheet = False,
) -> Answer:
    """List the clicks or labels that are probably wrong: those of a run, or of files with predictions."""
    files: Answer = {"labels": labels, "pred_probs": pred_probs, "classes": classes, "label": label}
    files |= {"clicks": clicks, "scores": scores, "non_clicks": non_clicks, "user": user, "item": item}
    files |= {"annotations": annotations, "write_consensus": write_consensus}
    if run is not None:
        from accord.cli.runs import run_audit

        refuse_given("goes with files that are judged without a run", **files)
        if log is not None:
            from accord.cli.serving import run_judge

            own: Answer = {"truth": truth, "relabel": relabel, "data": data, "write_clean": write_clean}
            refuse_given("cannot be given with --log", **own, write_issues=write_issues)
            return run_judge(run, log, top, share, out, on_unknown, spreadsheet)
        return run_audit(run, top, share, out, write_clean, truth, write_issues, relabel, data, spreadsheet)
    from accord.cli.predictions import Asked, run_audit_predictions

    refuse_given("goes with a run", truth=truth, relabel=relabel, data=data, log=log)
    files |= {"pred_probs": pred_probs or [], "scores": scores or [], "top": top, "share": share, "out": out}
    files |= {"write_clean": write_clean, "write_issues": write_issues, "spreadsheet": spreadsheet}
    return run_audit_predictions(Asked(**files, example=example, annotator=annotator))


def evaluate(
    run: Run,
    truth: Annotated[
        Path | None,
        typer.Option(help="Clean test pairs, or clean examples; digits and the like have their own."),
    ] = None,
    k: Annotated[list[int] | None, typer.Option("-k", help="Length of the list; may be given many times.")] = None,
    images: Annotated[Path | None, typer.Option(help="The folder of the images that --truth labels.")] = None,
) -> Answer:
    """Ranking metrics against clean test pairs, or accuracy on clean examples."""
    from accord.cli.runs import run_evaluate

    return run_evaluate(run, truth, k, images)


def report(
    run: Annotated[Path, typer.Argument(help="A run folder made by accord fit, or a folder with runs below it.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Labels: the file that was fitted on, to show its rows.")
    ] = None,
) -> Answer:
    """Write the report of a run again, or a page that compares the runs in a folder, and say where it is."""
    from accord.cli.runs import run_report

    return run_report(run, data)


def export(
    run: Run,
    to: Annotated[Path, typer.Option("--to", help="The folder to write.")],
    index: Annotated[
        bool, typer.Option("--index", help="Also an index of nearest neighbours, by usearch.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
) -> Answer:
    """Vectors, ids and the model for other programs, which need no accord."""
    from accord.cli.serving import run_export

    return run_export(run, to, index, overwrite)
