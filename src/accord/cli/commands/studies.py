"""`accord compare`, `accord tune` and `accord reproduce`: many trainings, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.commands.options import (
    Answer,
    Ignore,
    Item,
    Label,
    Labels,
    Noise,
    NoiseKind,
    Out,
    Settings,
    Size,
    Time,
    Truths,
    User,
)
from accord.cli.given import given_data
from accord.cli.words import names_of, settings_of, space_of
from accord.errors import SettingError


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
    from accord.estimators.setting_rules import usual_method
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
