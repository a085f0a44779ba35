"""`accord fit`: from what was typed to a training, begun or resumed."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, FiniteFloat
from typing_extensions import TypedDict

from accord.cli import ui
from accord.cli.checkpoint_folder import CheckpointFolder, arguments_of
from accord.cli.checkpointing import Checkpointing
from accord.cli.given import Given, given_data
from accord.cli.paths import quoted
from accord.cli.process import system_memory
from accord.cli.words import settings_of
from accord.data.databases import is_address
from accord.errors import DataError
from accord.ranks.joining import joined
from accord.ranks.started import is_restarted, speaks, together

PATHS = ("data", "out", "valid", "labels", "clean", "warm_start")
"""Arguments that name a file or a folder."""
DATA = ("data", "user", "item", "time", "valid", "label", "labels", "size", "noise", "noise_kind")
MORE = {"query": None, "weight": None, "trusted": None, "on_missing": "drop"}
"""Options of click logs, and what they are where nothing is typed."""


def _without_nul(word: str) -> str:
    if "\0" in word:
        raise ValueError("a NUL in it")
    return word


Text = Annotated[str, AfterValidator(_without_nul)]


class Typed(TypedDict):
    """What `accord fit` is asked for, as it is kept with a checkpoint."""

    data: Text
    out: Text
    user: Text | None
    item: Text | None
    time: Text | None
    valid: Text | None
    label: Text | None
    labels: Text | None
    size: int | None
    ignore: list[Text] | None
    noise: FiniteFloat
    noise_kind: Text
    clean: Text | None
    model: Text | None
    method: Text | None
    epochs: int | None
    seed: int
    device: Text
    settings: list[Text] | None
    overwrite: bool
    query: NotRequired[Text | None]
    weight: NotRequired[Text | None]
    trusted: NotRequired[Text | None]
    on_missing: NotRequired[Text]
    decisions: NotRequired[Text | None]
    warm_start: NotRequired[Text | None]


def begin(typed: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A new training. What was typed is kept with its checkpoint, with whole paths, until it is done."""
    together()
    words = {name: str(value) if isinstance(value, Path) else value for name, value in typed.items()}
    for name in PATHS:
        if words.get(name) is not None and (name != "data" or os.path.exists(words[name])):
            words[name] = os.path.abspath(words[name])
    if is_address(words["data"]):
        words["data"] = "address"  # a password is not kept
    for name in ("trusted", "decisions", "noise_kind"):
        named = words[name] is not None and (name != "noise_kind" or Path(words[name]).suffix)
        if named and os.path.exists(words[name]):
            words[name] = os.path.abspath(words[name])
    with joined() as ranks:
        if (is_restarted() or ranks.restarted) and _was_begun(typed["out"], words):
            return _fit({**typed, "overwrite": True}, Checkpointing(words, resume=True, seconds=seconds))
        return _fit(typed, Checkpointing(words, seconds=seconds))


def _was_begun(out: Path, words: dict[str, Any]) -> bool:
    """Whether torchrun, which has started this command again, had begun the same training here."""
    return speaks() and CheckpointFolder(out).begun and arguments_of(out) == words


def resume(out: Path, seconds: float) -> dict[str, Any]:
    """The training that was interrupted before it was saved at ``out``."""
    together()
    words = _checked(arguments_of(out), out)
    if words["data"] in ("-", "address"):
        what = "a pipe" if words["data"] == "-" else "an address"
        raise DataError(f"The training of '{out}' took its log from {what}, which is not kept; fit it again.")
    typed = {**words, **{name: None if words.get(name) is None else Path(words[name]) for name in PATHS}}
    # What stands at its path, if anything does, was saved by this run, just before it was killed.
    typed |= {"out": out, "overwrite": True}
    return _fit(typed, Checkpointing(words, resume=True, seconds=seconds))


def _checked(words: dict[str, Any], out: Path) -> dict[str, Any]:
    """What a file says was asked for, each of its own type."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return dict(TypeAdapter(Typed).validate_python(words, strict=True))
    except ValidationError as error:
        name = str((*error.errors()[0]["loc"], "something")[0])
        shown = name if name.isidentifier() and len(name) < 40 else "something"
        raise DataError(
            f"The checkpoint of the run at '{out}' does not say what was asked for: {shown} is no value that can "
            "be typed; begin the run anew with --overwrite."
        ) from error


def _fit(typed: dict[str, Any], checkpointing: Checkpointing) -> dict[str, Any]:
    values = {name: typed[name] for name in ("method", "seed", "device", "model", "epochs")}
    values = {name: value for name, value in values.items() if value is not None} | settings_of(typed["settings"])
    more = {name: typed.get(name) or usual for name, usual in MORE.items()}
    earlier = None
    if typed.get("warm_start") is not None:
        earlier = _earlier(typed["warm_start"])
        values = earlier.settings_to_save() | values
    given = given_data(**{name: typed[name] for name in DATA}, ignore=typed["ignore"] or [], more=more)
    given.refuse_other_task(clean=typed["clean"], **{"from": typed.get("warm_start")})
    given = given if earlier is None else _with_columns(given, earlier)
    values = {"model": given.usual_model} | values
    told = typed.get("decisions")
    decisions = None if told is None else Path(told)
    more_of = {"decisions": decisions, "earlier": earlier}
    return run_fit(given, typed["out"], values, typed["clean"], typed["overwrite"], checkpointing, **more_of)


def _earlier(path: Path) -> Any:
    """The run that is gone on from."""
    from accord.estimators.recommender import Recommender

    with ui.busy("reading the earlier run"):
        return Recommender.load(path)


def _with_columns(given: Given, earlier: Any) -> Given:
    """The columns of the earlier run, where none were named and a file or a folder is read."""
    if not given.data.exists() or given.user is not None or given.item is not None:
        return given
    return replace(given, user=earlier.columns_.user, item=earlier.columns_.item)


def run_fit(
    given: Given,
    out: Path,
    values: dict[str, Any],
    clean: Path | None = None,
    overwrite: bool = False,
    checkpointing: Checkpointing | None = None,
    decisions: Path | None = None,
    earlier: Any = None,
) -> dict[str, Any]:
    from accord.estimators.run_folder import REPORT, check_free
    from accord.tasks.deciding import decisions_at
    from accord.tasks.runs import run_of

    checkpointing = checkpointing or Checkpointing()
    with joined() as ranks, ui.silent(not ranks.leads), system_memory(), ExitStack() as stack:

        def prepared() -> tuple[Any, Any]:
            """A training that can begin, and its checkpoint; before a row is read, the path is looked at."""
            estimator = given.check(values)
            if ranks.many:
                given.refuse_ranks(ranks.size)
            if ranks.leads:
                check_free(out, estimator.kind, overwrite=overwrite)
                checkpointing.refuse_taken(out, overwrite)
            told = None if decisions is None else decisions_at(decisions)
            job = given.fit_job(values, clean)
            more = {"decisions": told, "warm_start": earlier}
            job.source = {**job.source, **{name: one for name, one in more.items() if one is not None}}
            for line in job.beforehand:
                ui.say(line)
            return job, stack.enter_context(checkpointing.on(out, overwrite))

        job, checkpoint = ranks.agreed(prepared)

        def also(draft: Path) -> None:
            run_of(job.estimator).write_report(draft / REPORT)
            job.also(draft)

        def saved() -> None:
            if ranks.leads:
                with ui.busy("saving the run and its report"):
                    job.estimator.save(out, overwrite=overwrite, also=also)

        with ui.bar() as progress:
            job.fit(ui.Trainings(progress).callback(first=job.first), checkpoint)
        ranks.agreed(saved)
        if not ranks.leads:
            return {}
    *lines, issues = run_of(job.estimator).description()
    for line in (*lines, f"{issues}: accord audit {quoted(out)}", f"Report: {out / REPORT}", *job.remarks):
        ui.say(line)
    fitted = job.estimator
    metrics, settings = fitted.metrics_, fitted.settings_to_save()
    return {
        "run": out,
        "report": out / REPORT,
        "kind": fitted.kind,
        "settings": settings,
        "metrics": metrics,
        "remarks": [*lines, *job.remarks],
    }
