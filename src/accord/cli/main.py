"""The command line: it does the talking, and nothing else. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from accord import __version__
from accord.errors import AccordError, SettingError

app = typer.Typer(
    name="accord",
    help="Learn from labels you cannot trust, and find the ones that are wrong.",
    epilog="Start with: accord demo    or: accord fit clicks.csv --out run",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write.")]
User = Annotated[
    str | None, typer.Option("--user", help="Column of user ids; found by itself if it has a usual name.")
]
Item = Annotated[str | None, typer.Option("--item", help="Column of item ids.")]
Time = Annotated[str | None, typer.Option("--time", help="Column of times; with it, validation is by time.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any setting of Recommender, e.g. --set c0=10 --set alpha=0.5."
    ),
]
Truths = Annotated[
    list[Path] | None,
    typer.Option("--truth", help="Clean test pairs, or clicks with is_noise; may be given for each."),
]
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
) -> None:
    """Make a click log whose every click has a known truth: log, truth and clicks as Parquet."""
    from accord.cli.commands import run_simulate

    values = {"users": users, "items": items, "interactions": interactions, "noise": noise, "seed": seed}
    run_simulate(values | {"misclick": misclick, "conformity": conformity, "promotion": promotion}, out, overwrite)


@app.command(epilog="Example: accord fit clicks.csv --out run --method deca-p --set c1=10")
def fit(
    log: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or RecBole .inter file of clicks.")],
    out: Out,
    user: User = None,
    item: Item = None,
    time: Time = None,
    valid: Annotated[
        Path | None, typer.Option(help="Validation clicks; without it a tenth of the log is held out.")
    ] = None,
    model: Annotated[str, typer.Option(help="mf, gmf, neumf, cdae or lightgcn.")] = "gmf",
    method: Annotated[str, typer.Option(help="normal, wbpr, t-ce, r-ce, ensemble, deca or deca-p.")] = "deca-p",
    epochs: Annotated[int | None, typer.Option(help="Most epochs of a phase.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
) -> None:
    """Train a recommender on a click log and write a run folder with a report."""
    from accord.cli.commands import run_fit

    values = _settings(settings) | {"model": model, "method": method, "seed": seed, "device": device}
    if epochs is not None:
        values["epochs"] = epochs
    run_fit(log, out, values, {"user": user, "item": item, "time": time}, valid, overwrite)


@app.command(epilog="Example: accord recommend run --user u1 --user u2 -k 10 --format csv")
def recommend(
    run: Run,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be given many times.")] = None,
    users_file: Annotated[Path | None, typer.Option(help="A file with one user id a line.")] = None,
    k: Annotated[int, typer.Option("-k", help="Items for each user.")] = 10,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items the user has clicked.")] = False,
    format: Annotated[str | None, typer.Option("--format", help="table, csv, json or parquet.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file instead of the screen.")] = None,
) -> None:
    """Top-k lists for users of the log."""
    from accord.cli.commands import run_recommend

    run_recommend(run, user or [], users_file, k, include_seen, format, out)


@app.command(epilog="Example: accord audit run --top 20 --out issues.csv --write-clean clean.parquet")
def audit(
    run: Run,
    top: Annotated[int, typer.Option(help="How many of the worst clicks to show.")] = 20,
    share: Annotated[
        float | None, typer.Option(help="Flag this share of the clicks instead of the rule's.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write every click with its quality here.")
    ] = None,
    write_clean: Annotated[Path | None, typer.Option(help="Write the log without flagged clicks here.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Clicks with is_noise, to measure the audit.")] = None,
) -> None:
    """List the clicks that are probably noise, worst first."""
    from accord.cli.commands import run_audit

    run_audit(run, top, share, out, write_clean, truth)


@app.command(epilog="Example: accord evaluate run --truth truth.parquet -k 5 -k 20")
def evaluate(
    run: Run,
    truth: Annotated[Path, typer.Option(help="Clean test pairs.")],
    k: Annotated[list[int] | None, typer.Option("-k", help="Length of the list; may be given many times.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ranking metrics against clean test pairs."""
    from accord.cli.commands import run_evaluate

    run_evaluate(run, truth, k or [5, 20], json)


@app.command(
    epilog="Example: accord compare sim/log.parquet --truth sim/truth.parquet --truth sim/clicks.parquet --out cmp"
)
def compare(
    log: Annotated[Path, typer.Argument(help="A click log, or a name of the catalogue.")],
    out: Out,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "normal,deca,deca-p",
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "gmf",
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
    settings: Settings = None,
) -> None:
    """Train several methods over several seeds and compare them; goes on where it was interrupted.

    LOG is a file or a name of the catalogue (accord data list). Methods also take popularity, and oracle: normal
    training on the clean rows alone. With --set deca.alpha=1 a setting holds for one method alone.
    """
    from accord.cli.commands import run_compare

    run_compare(
        log=log,
        out=out,
        methods=[name.strip() for name in methods.split(",") if name.strip()],
        models=[name.strip() for name in models.split(",") if name.strip()],
        truths=truth or [],
        valid=valid,
        seeds=seeds,
        ks=k or [],
        columns={"user": user, "item": item, "time": time},
        settings=_settings(settings) | {"device": device},
        protocol=protocol,
        inject=inject,
    )


data = typer.Typer(help="Data sets by name: list, show, get.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data, name="data")


@data.command("list")
def data_list() -> None:
    """Data sets of the catalogue, and whether they are at hand."""
    from accord.cli.commands import run_data_list

    run_data_list()


@data.command("show", epilog="Example: accord data show movielens-100k")
def data_show(name: Annotated[str, typer.Argument(help="A name of the catalogue.")]) -> None:
    """Origin, terms, statistics and split sizes of a data set."""
    from accord.cli.commands import run_data_show

    run_data_show(name)


@data.command("get", epilog="Example: accord data get movielens-100k --to data")
def data_get(
    name: Annotated[str, typer.Argument(help="A name of the catalogue.")],
    to: Annotated[Path, typer.Option("--to", help="The folder of data sets.")],
) -> None:
    """Fetch a data set from its origin; goes on where it broke off, and verifies what came."""
    from accord.cli.commands import run_data_get

    run_data_get(name, to)


@app.command(epilog="Example: accord report run")
def report(run: Run) -> None:
    """Write the report of a run again, and say where it is."""
    from accord.cli.commands import run_report

    run_report(run)


@app.command(epilog="Example: accord demo --out demo")
def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("demo")) -> None:
    """Simulate a noisy click log, compare normal training, DeCA and DeCA(p), and write a report."""
    from accord.cli.commands import run_demo

    run_demo(out)


def _settings(words: list[str] | None) -> dict[str, object]:
    """NAME=VALUE words as settings."""
    values: dict[str, object] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"'--set {word}' is not NAME=VALUE; write for example --set alpha=0.5.")
        values[name.strip()] = value.strip()
    return values


def run() -> None:
    """Entry point: bad input is one sentence and exit code 2."""
    try:
        app()
    except AccordError as error:
        print(f"accord: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("accord: stopped; nothing was written.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
