"""What each command does: a few calls of the library and words about the outcome."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from accord.cli import output, ui
from accord.cli.places import nothing_left, quoted, refuse_others
from accord.cli.searching import run_tuned
from accord.cli.unfinished import Keeping
from accord.cli.words import refuse_given
from accord.data.datasets.benchmarks import load_benchmark
from accord.data.datasets.catalogue import DATA_SETS, DataSet, find_data_set
from accord.data.datasets.entries import FOLDER_VARIABLE, data_root
from accord.data.datasets.fetching import fetch
from accord.data.datasets.image_sets import IMAGE_SETS, ImageSet
from accord.data.simulator import Simulation, SimulatorSettings, simulate
from accord.errors import DataError, SettingError
from accord.estimators import Recommender, make_settings
from accord.estimators.run_folder import CONFIG, REPORT, check_free, kind_of, new_folder, write_json
from accord.files import write_whole
from accord.report import write_comparison_plot, write_comparison_report, write_run_report
from accord.studies import Comparison, Study, compare
from accord.studies.budget import Budget
from accord.studies.compare import SUMMARY
from accord.studies.study import CELLS
from accord.studies.tables import as_csv, as_markdown, comparison_rows, detection_rows
from accord.studies.tuning import TUNE

DEMO_METHODS = ("normal", "deca", "deca-p")
SIMULATION = "simulation"
DIGITS_METHODS, DIGITS_NOISE = ("normal", "deca-p"), 0.4
DEMO_SETTINGS: dict[str, Any] = {}
"""The demo shows the defaults."""


def run_simulate(values: dict[str, Any], out: Path, overwrite: bool) -> None:
    try:
        settings = SimulatorSettings(**values)
    except ValueError as error:
        raise SettingError(f"The simulation cannot be made: {_first_reason(error)}.") from error
    check_free(out, SIMULATION, overwrite=overwrite)
    with ui.bar() as progress:
        task = progress.add_task("drawing clicks", total=1.0, note="")
        made = simulate(settings, lambda done: progress.update(task, completed=done))
    _write_simulation(made, out, overwrite)
    ui.say(
        f"{len(made.users)} clicks written to {out}: {made.noise_share:.1%} are noise "
        f"(log.parquet to train on, truth.parquet and clicks.parquet to judge by)"
    )


def _write_simulation(made: Simulation, out: Path, overwrite: bool) -> None:
    with new_folder(out, SIMULATION, overwrite=overwrite) as draft:
        for name, table in (("log", made.log()), ("truth", made.truth()), ("clicks", made.clicks())):
            parquet.write_table(table, draft / f"{name}.parquet")
        config = {"kind": SIMULATION, "noise_share": made.noise_share, "settings": made.settings.model_dump()}
        write_json(draft / CONFIG, config)


def run_fit(
    log: Path,
    out: Path,
    values: dict[str, Any],
    columns: dict[str, str | None],
    valid: Path | None,
    overwrite: bool,
    keeping: Keeping | None = None,
) -> None:
    settings = make_settings(values)  # before the place is checked or a row is read
    source, valid, known = _log_and_validation(log, valid, columns)
    pa.set_memory_pool(pa.system_memory_pool())  # gives back what reading took before training needs it
    check_free(out, "recommender", overwrite=overwrite)
    rec = Recommender(**settings.model_dump())
    with (keeping or Keeping()).on(out, overwrite) as checkpoint:
        with ui.bar() as progress:
            hook = ui.Trainings(progress).hook(first="reading the log")
            rec.fit(source, valid=valid, known=known, hook=hook, checkpoint=checkpoint, **columns)
        with ui.busy("writing the run and its report"):
            rec.save(out, overwrite=overwrite, also=lambda draft: write_run_report(rec, draft / REPORT))
    _describe_fit(rec, out)


def _log_and_validation(log: Path, valid: Path | None, columns: dict[str, str | None]) -> tuple[Any, Any, Any]:
    """A file as it is; a name of the catalogue as its fair training and validation clicks."""
    entry = _catalogued(log)
    if entry is None:
        return log, valid, None
    refuse_given(OWN_SPLIT, **columns)
    benchmark = load_benchmark(entry, "fair")
    return benchmark.train, valid or benchmark.valid, benchmark.known


OWN_SPLIT = "cannot be given with a data set of the catalogue, which has columns and parts of its own"


def _catalogued(log: Path) -> DataSet | None:
    """The data set of a name, unless a file is meant."""
    name = str(log)
    if log.exists() or log.suffix or os.sep in name:
        return None
    return find_data_set(name)


def _describe_fit(rec: Recommender, out: Path) -> None:
    notes, metrics = rec.notes_, rec.metrics_
    ui.say(f"Columns taken: {rec.columns_.note}")
    ui.say(
        f"{notes['clicks']} clicks of {notes['users']} users on {notes['items']} items "
        f"({notes['merged']} repeats merged); {notes['valid']} for validation: {notes['split']}"
    )
    for phase, kept in metrics["validation"].items():
        value = f", NDCG@20 {kept['ndcg@20']:.4f} on noisy validation" if "ndcg@20" in kept else ""
        ui.say(f"{phase}: epoch {kept['epoch']} kept{value}")
    issues = metrics["label_issues"]
    ui.say(f"{issues['flagged']} clicks ({issues['share']:.1%}) look like noise: accord audit {quoted(out)}")
    ui.say(f"Report: {out / REPORT}")


def run_recommend(
    run: Path,
    users: list[str],
    users_file: Path | None,
    k: int,
    include_seen: bool,
    format_: str | None,
    out: Path | None,
) -> None:
    if users_file is not None:
        try:
            lines = users_file.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise DataError(f"'{users_file}' cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise DataError(f"'{users_file}' is no UTF-8 text: {error.reason} at byte {error.start}.") from error
        users = users + [line.strip() for line in lines if line.strip()]
    if not users:
        raise SettingError("No user was asked for; give --user ID or --users-file FILE.")
    with ui.busy("ranking"):
        table = Recommender.load(run).recommend(users, k=k, exclude_seen=not include_seen)
    output.emit(table, format_, out, f"Top {k} for {len(users)} user{'s' if len(users) > 1 else ''}")


def run_audit(
    run: Path, top: int, share: float | None, out: Path | None, write_clean: Path | None, truth: Path | None
) -> None:
    output.check_audit(top, out, write_clean)
    with ui.busy("judging the clicks"):
        rec = Recommender.load(run)
        measured = None if truth is None else rec.evaluate_issues(truth, share)
        issues = rec.find_label_issues(share)
    flagged = int(issues["is_label_issue"].to_numpy().sum())
    if out is not None:
        output.emit(issues, None, out, "")
    else:
        output.emit(issues.slice(0, top), "table", None, f"The {min(top, issues.num_rows)} least believable clicks")
    rule = f"quality below {rec.threshold_:.4f}" if share is None else f"the worst {share:.1%}"
    ui.say(f"{flagged} of {issues.num_rows} clicks flagged ({rule})")
    if write_clean is not None:
        output.emit(rec.cleaned_log(share), None, write_clean, "")
    if measured is not None:
        _show_detection(measured)


def _show_detection(measured: dict[str, Any]) -> None:
    ui.table(output.detection_table(measured))
    kinds = measured["by_kind"]
    rows = [["ROC-AUC by kind of noise", *kinds]]
    rows.append(["label quality", *(f"{value:.3f}" for value in kinds.values())])
    rows.append(["item popularity", *(f"{value:.3f}" for value in measured["popularity_by_kind"].values())])
    ui.table(rows)


def run_evaluate(run: Path, truth: Path, ks: list[int], as_json: bool) -> None:
    if min(ks) < 1:
        raise SettingError(f"k is {min(ks)}; lists have at least one item.")
    with ui.busy("ranking"):
        measured = Recommender.load(run).evaluate(truth, k=ks)
    if as_json:
        print(json.dumps(measured))
        return
    metrics = list(dict.fromkeys(name.split("@")[0] for name in measured if "@" in name))
    rows = [["metric", *(f"@{k}" for k in ks)]]
    rows += [[metric, *(f"{measured[f'{metric}@{k}']:.4f}" for k in ks)] for metric in metrics]
    ui.table(rows, f"{measured['users']} users, {measured['pairs']} clean pairs, full ranking")
    if measured["warm_users"] < measured["users"]:
        cold = measured["users"] - measured["warm_users"]
        ui.say(f"{cold:.0f} users have no click in the log and were ranked for by popularity")
    if measured["seen_pairs"]:
        ui.say(
            f"{measured['seen_pairs']} of the pairs are clicks of the log: these are never recommended, so missed"
        )


def click_study(
    log: Path,
    truths: list[Path],
    valid: Path | None,
    ks: list[int],
    columns: dict[str, str | None],
    settings: dict[str, Any],
    protocol: str,
    choices: dict[str, Any],
) -> Comparison:
    """A comparison on a log, or on a data set of the catalogue under one of its protocols."""
    entry = _catalogued(log)
    if entry is None:
        return Comparison(
            log, truths=truths, columns=columns, valid=valid, ks=ks or [20], settings=settings, **choices
        )
    refuse_given(OWN_SPLIT, truth=truths, valid=valid, k=ks, **columns)
    benchmark = load_benchmark(entry, protocol)  # pyright: ignore[reportArgumentType]
    if protocol == "paper" and entry.caveat:
        ui.say(f"The files of {entry.title}: {entry.caveat}.")
    return Comparison.of_benchmark(benchmark, settings=settings, **choices)


def compare_and_show(study: Study, out: Path, budget: Budget | None = None) -> None:
    """Where there is a ``budget``, every row is tuned first."""
    study.check()
    refuse_others(out, "comparison", (CELLS, SUMMARY, TUNE))
    tried = [0]
    with nothing_left(out, lambda: any(out.glob("cells/*.json")) or max(tried) > 0):
        if budget is not None:
            study = run_tuned(study, budget, out, lambda now: tried.append(now.done))
        summary = _compared(study, out)
    _write_comparison(summary, out)
    ui.table(comparison_rows(summary), f"{', '.join(study.models)}, {study.seeds} seeds, mean ± std")
    if detection_rows(summary):
        ui.table(detection_rows(summary))
    for words in study.remarks(summary):
        ui.say(words)
    ui.say(f"Selection: {summary['selection']}")
    ui.say(f"Report: {out / REPORT}")


def _compared(study: Study, out: Path) -> dict[str, Any]:
    with ui.bar() as progress:
        whole = progress.add_task("comparison", total=study.seeds * len(study.rows()), note="")

        trainings = ui.Trainings(progress)

        def start(row: str, seed: int, number: int, of: int) -> Any:
            if not trainings.expects_more:
                progress.update(whole, completed=number - 1, note=f"run {number}/{of}")
            return trainings.hook(f"{row}, seed {seed}: ")

        return compare(study, out, start)


def _write_comparison(summary: dict[str, Any], out: Path) -> None:
    tables = [comparison_rows(summary, bold=("**", "**")), detection_rows(summary)]
    markdown = "\n".join(as_markdown(rows) for rows in tables if rows)
    write_whole(out / "compare.md", markdown)
    write_whole(out / "compare.csv", as_csv(summary))
    write_comparison_plot(summary, out / "compare.svg")
    write_comparison_report(summary, out / REPORT)


def run_data_list() -> None:
    root = data_root()
    images = [["labelled", "size", "train", "clean test", "classes", "at hand"]]
    for entry in IMAGE_SETS.values():
        numbers = [f"{entry.train:,}", f"{entry.test:,}", str(len(entry.classes))]
        images.append([entry.name, entry.size, *numbers, "yes" if entry.at_hand(root) else "no"])
    rows = [["clicks", "users", "items", "clicks", "clean test", "at hand"]]
    for entry in DATA_SETS.values():
        numbers = [f"{value:,}" for value in (entry.users, entry.items, entry.interactions)]
        rows.append([entry.name, *numbers, entry.clean, "yes" if entry.at_hand(root) else "no"])
    ui.table(rows)
    ui.table(images)
    ui.say(f"Folder: {root or f'none; set {FOLDER_VARIABLE}'}")


def _show_images(entry: ImageSet) -> None:
    ui.out.print(
        f"{entry.title}: {entry.train:,} images of {entry.size}, {len(entry.classes)} classes", markup=False
    )
    ui.out.print(f"clean test: {entry.test:,} images", markup=False)
    for label in ("terms", "citation"):
        ui.out.print(f"{label}: {getattr(entry, label)}", markup=False)
    ui.out.print(f"classes: {', '.join(entry.classes)}", markup=False)
    if entry.files:
        ui.out.print(f"origin: {entry.files[0].origin.rsplit('/', 1)[0]}", markup=False)
        if entry.package:
            ui.out.print(f"package: {entry.package.tool} {entry.package.name}", markup=False)
    ui.out.print(f"at hand: {'yes' if entry.at_hand(data_root()) else 'no'}", markup=False)


def run_data_show(name: str) -> None:
    if name in IMAGE_SETS:
        _show_images(IMAGE_SETS[name])
        return
    entry, root = find_data_set(name), data_root()
    ui.out.print(f"{entry.title}: {entry.users:,} users, {entry.items:,} items, {entry.interactions:,} clicks")
    for label in ("clean", "split", "terms", "citation"):
        ui.out.print(f"{label}: {getattr(entry, label)}", markup=False)
    ui.out.print(f"metrics at: {', '.join(str(k) for k in entry.ks)}")
    for file in entry.files:
        here = root is not None and entry.path(file.name, root).is_file()
        state = "at hand" if here else f"missing, from {file.origin}"
        ui.out.print(f"  {entry.folder}/{file.name}: {state}", markup=False)
    if entry.at_hand(root):
        for protocol in ("fair", "paper"):
            sizes = load_benchmark(entry, protocol).sizes
            ui.out.print(f"{protocol}: " + ", ".join(f"{part} {size:,}" for part, size in sizes.items()))
    if entry.caveat:
        ui.out.print(f"caveat of paper: {entry.caveat}", markup=False)


def run_data_get(name: str, root: Path, way: str) -> None:
    entry = IMAGE_SETS.get(name) or find_data_set(name)
    with ui.bar() as progress:
        task = progress.add_task(f"fetching {entry.title}", total=None, note="")

        def tick(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, note=f"{done / 1e6:.1f} MB")

        came = fetch(entry, root, way, tick)
    ui.say(f"{entry.title} came from {came}; set {FOLDER_VARIABLE}={root}")


def run_report(run: Path) -> None:
    with ui.busy("writing the report"):
        rec = Recommender.load(run)
        write_run_report(rec, run / REPORT)
    ui.say(f"Report: {run / REPORT}")


def run_demo(out: Path) -> None:
    settings, sim = SimulatorSettings(), out / "sim"
    others = out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir())
    if others and kind_of(sim) != SIMULATION:
        raise DataError(f"'{out}' holds other things than an earlier demo; choose another place with --out.")
    ui.say(
        f"Simulating {settings.interactions} clicks of {settings.users} users, {settings.noise:.0%} of them noise, "
        f"then training {', '.join(DEMO_METHODS)} over 3 seeds."
    )
    if not (sim / CONFIG).is_file():
        _write_simulation(simulate(settings), sim, overwrite=True)
    truths = [sim / "truth.parquet", sim / "clicks.parquet"]
    study = Comparison(sim / "log.parquet", DEMO_METHODS, settings=DEMO_SETTINGS, truths=truths)
    compare_and_show(study, out / "compare")
    run_fit(
        sim / "log.parquet",
        out / "run",
        {"model": "gmf", "method": "deca-p", **DEMO_SETTINGS},
        {},
        None,
        overwrite=True,
    )
    _demo_digits(out)


def _demo_digits(out: Path) -> None:
    """Digits with two fifths of their labels redrawn: accuracy against the clean test set, and the noise found."""
    from accord.cli import labelled

    words = labelled.Words(Path("digits"))
    ui.say(f"Digits, {DIGITS_NOISE:.0%} of the labels redrawn, {', '.join(DIGITS_METHODS)} over 3 seeds.")
    study = labelled.comparison(
        words, DIGITS_NOISE, "uniform", list(DIGITS_METHODS), ["auto"], 3, DEMO_SETTINGS, []
    )
    compare_and_show(study, out / "digits-compare")
    settings = {"method": "deca-p", **DEMO_SETTINGS}
    labelled.run_fit(words, out / "digits-run", settings, DIGITS_NOISE, "uniform", None, overwrite=True)


def _first_reason(error: ValueError) -> str:
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first: Any = details()[0]  # pyright: ignore[reportIndexIssue]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"]).removeprefix("Value error, ")
