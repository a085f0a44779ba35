"""The command line: it does the talking, and nothing else. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from accord import __version__
from accord.cli.answers import App
from accord.cli.commands import data, decisions, runs, studies, training
from accord.cli.process import (
    as_a_command,
    came_of_stopping,
    is_out_of_memory,
    keep_standard_streams,
    leave_pandas_out,
)
from accord.cli.stopping_in_time import STOPPED, answered, end_at_once, ending_in_time
from accord.cli.words import as_options, refuse_broken
from accord.errors import (
    AccordError,
    DataWarning,
    InterruptedRunError,
    Stopped,
    first_line,
)
from accord.ranks.started import speaks, together

app = App(
    name="accord",
    help="Learn from labels you cannot trust, and find the ones that are wrong.",
    epilog="Start with: accord demo    or: accord fit clicks.csv --out run",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def _add(command: Callable[..., Any], *examples: str, to: App = app, name: str | None = None) -> None:
    """Add a command, with examples of how it is typed for the end of its help."""
    epilog = f"Example: {examples[0]}" if len(examples) == 1 else "\b\nExamples:\n  " + "\n  ".join(examples)
    to.command(name, epilog=epilog if examples else None)(command)


# In the order of the help.
_add(
    training.simulate,
    "accord simulate --users 2000 --items 1000 --interactions 100000 --noise 0.3 --seed 0 --out sim",
)
_add(
    training.split,
    "accord split clicks.csv --by leave-one-out --out parts",
    "accord split ratings.csv --clean 'rating>=4' --by global-time --out parts",
    "accord split clicks.csv --folds 5 --out folds",
)
_add(
    training.fit,
    "accord fit clicks.csv --out run --set c1=10",
    "accord fit digits --noise 0.4 --out run",
    "accord fit photos --labels labels.csv --out run",
    "accord fit table.parquet --label kind --out run",
    "accord fit --resume run",
)
_add(runs.recommend, "accord recommend run --user u1 --user u2 -k 10 --format csv")
_add(
    runs.predict,
    "accord predict run pairs.csv --out scores.csv",
    "accord predict table-run new.csv --probabilities --out labels.csv",
    "accord predict photos-run new-photos --out labels.csv",
)
_add(
    runs.audit,
    "accord audit run --top 20 --out issues.csv --write-clean clean.parquet",
    "accord audit --labels y.csv --pred-probs a.npy --pred-probs b.npy --write-issues y-judged.csv",
    "accord audit --clicks log.csv --scores als --scores ease --non-clicks others.csv",
    "accord audit --annotations labels.csv --write-consensus consensus.csv",
)
_add(runs.evaluate, "accord evaluate run --truth truth.parquet -k 5 -k 20")
_add(
    studies.compare,
    "accord compare sim/log.parquet --truth sim/truth.parquet --truth sim/clicks.parquet --out cmp",
    "accord compare digits --noise 0.4 --methods normal,deca-p --out cmp",
)
_add(
    studies.tune,
    "accord tune clicks.csv --method deca-p --trials 30 --out search",
    "accord tune digits --noise 0.4 --method deca-p --sampler grid --space c1=1,10 --space c2=1,10 --out search",
)
_add(
    studies.reproduce,
    "accord reproduce --list",
    "accord reproduce hyper --data data --out results/hyper --part movielens-100k",
    "accord reproduce --show --out results",
)
_add(
    decisions.review,
    "accord review run",
    "accord review photos-run --images photos --reviewer ana",
    "accord review clicks-run --items items.csv --port 8765",
)
_add(
    decisions.apply,
    "accord apply run --out cleaned.csv",
    "accord apply run --undecided drop --out cleaned.parquet",
)
decisions_app = App(help="People's decisions: show, export, merge.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(decisions_app, name="decisions")
_add(decisions.decisions_show, "accord decisions show run", to=decisions_app, name="show")
_add(decisions.decisions_export, "accord decisions export run --out mine.parquet", to=decisions_app, name="export")
_add(
    decisions.decisions_merge,
    "accord decisions merge mine.parquet yours.parquet --out all.parquet",
    to=decisions_app,
    name="merge",
)
data_app = App(help="Data sets by name: list, show, get.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
_add(data.data_list, to=data_app, name="list")
_add(data.data_show, "accord data show movielens-100k", to=data_app, name="show")
_add(data.data_get, "accord data get movielens-100k --to data", to=data_app, name="get")
_add(
    runs.export,
    "accord export run --to vectors",
    "accord export run --to vectors --index",
)
_add(runs.report, "accord report run", "accord report runs")
_add(training.demo, "accord demo --out demo")

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
    # What a run was fitted on is given anew with --data; --log is for new clicks.
    return {one.name: max(one.opts, key=len) for one in options} | {"log": "--data"}


def main() -> None:
    """Entry point of the `accord` command, a process of its own."""
    keep_standard_streams()
    if len(sys.argv) > 1 and not set(sys.argv) & {"-h", "--help", "--version"}:
        leave_pandas_out()
    try:
        with ending_in_time(_how_to_resume):
            run(last=True)
    except SystemExit as stop:
        if stop.code == STOPPED:
            end_at_once()
        raise


def run(*, last: bool = False) -> None:
    """The command in `sys.argv`: bad input is one sentence and exit code 2; SIGTERM acts as Ctrl-C."""
    together(False)
    try:
        with as_a_command(_stop, last=last):
            _run()
    except Stopped as stopped:  # before the command began, or when it had ended: then its own exit code counts
        ended = stopped.__context__
        raise (ended if isinstance(ended, SystemExit) else SystemExit(STOPPED)) from None


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    _tell(f"accord: {message}")


def _tell(words: str) -> None:
    """Of several ranks, one speaks; even where a progress bar was stopped so hard that it holds the stream."""
    if sys.stderr is None or not speaks():  # closed by whoever started the command
        return
    print(words, file=getattr(sys.stderr, "rich_proxied_file", sys.stderr), flush=True)


def _run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = _say_warning
        _run_command()


def _end_stopped() -> NoReturn:
    answered()
    _tell(f"accord: stopped{_how_to_resume()}.")
    sys.exit(STOPPED)


def _run_command() -> None:
    try:
        refuse_broken(sys.argv[1:])
        app()
    except InterruptedRunError as error:
        answered()
        _tell(f"accord: {error}")
        sys.exit(STOPPED)
    except AccordError as error:
        _tell(f"accord: {as_options(str(error), _flags())}")
        sys.exit(2)
    except (Stopped, KeyboardInterrupt):
        _end_stopped()
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        where = f"'{error.filename}': " if error.filename else ""
        _tell(f"accord: {where}{error.strerror or error}; nothing more was done.")
        sys.exit(2)
    except Exception as error:
        if came_of_stopping(error):
            _end_stopped()
        if not is_out_of_memory(error):
            raise
        what = ". ".join(first_line(error).split(". ")[:2])
        advice = "end other programs that hold memory, or choose a smaller batch_size"
        _tell(f"accord: {what}; {advice}{_how_to_resume()}.")
        sys.exit(2)
