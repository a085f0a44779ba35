"""`accord simulate`, `accord fit` and `accord demo`: from data to a run."""

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
    OnMissing,
    Out,
    Query,
    Settings,
    Size,
    Time,
    Trusted,
    User,
    Weight,
)
from accord.cli.given import place
from accord.cli.words import refuse_given
from accord.errors import SettingError


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
    warm_start: Annotated[
        Path | None, typer.Option("--from", help="Go on from this run, with its settings; DATA holds all clicks.")
    ] = None,
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
    decisions: Annotated[
        Path | None,
        typer.Option(help="What people decided about these labels: a file of accord decisions, or a reviewed run."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="mf, gmf, neumf, cdae, lightgcn, ease, ials, rp3beta, itemknn; labelled data: mlp, convnet, "
            "resnet32, resnet9, inception."
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
        "decisions": decisions,
        "warm_start": warm_start,
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


def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("demo")) -> Answer:
    """Noisy clicks, then noisy digits: compare normal training with DeCA(p), and write reports."""
    from accord.cli.demo import run_demo

    return run_demo(out)
