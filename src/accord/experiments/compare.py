"""Models and methods compared: every finished cell is kept, so that an interrupted comparison is resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from accord.estimators.run_folder import write_json
from accord.experiments.cells import CellFiles, CellStore
from accord.experiments.stored import is_sound, read_stored
from accord.experiments.study import CHECKPOINTS, NO_SEARCH, Cell, Job, Study
from accord.experiments.verdicts import Tested, add_served, add_verdicts
from accord.plain import refuse_links
from accord.training import Callback, Checkpoints, clear_checkpoints

SUMMARY = "compare.json"
"""Where a comparison's means and intervals are saved."""
Start = Callable[[str, int, int, int], Callback | None]
"""Called with (row, seed, number, of) when a cell begins; gives the callback of its training."""


Wanted = Callable[[str, str], bool]
"""Whether a row, by its model and method, is asked for."""


def every_row(model: str, method: str) -> bool:
    return True


def compare(study: Study, out: Path, start: Start | None = None) -> dict[str, Any]:
    """Run every cell that is not done yet and summarise."""
    (results,) = run_cells([(study, out)], start)
    return write_summary(study, out, results)


def write_summary(
    study: Study, out: Path, results: list[dict[str, Any]], reuse: Path | None = None
) -> dict[str, Any]:
    """Summarise the cells that are done, with intervals, and save the summary."""
    paths = [folder / SUMMARY for folder in (out, reuse) if folder is not None]
    found = [read_stored(path, "summary") for path in paths] if study.tested() else []
    before = [one for one in found if one is not None]
    summary = full_summary(study, CellFiles(out), results, before) | {"identity": study.identity_of_all()}
    write_json(out / SUMMARY, summary)
    return summary


def is_of(study: Study, summary: dict[str, Any], store: CellStore) -> bool:
    """Whether a summary is of this study: of the same data and settings, whatever its methods, models and seeds."""
    if "identity" in summary:
        return summary["identity"] == study.identity_of_all()
    cells = [Cell(model, method, seed) for model, method in study.rows() for seed in range(study.seeds)]
    there = [cell for cell in cells if store.read(cell) is not None]  # of an earlier version
    return not there or any(_done(study, cell, store) for cell in there)


def full_summary(
    study: Study, store: CellStore, results: list[dict[str, Any]], before: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The summary of the cells that are done, with intervals; of summaries made ``before`` some may stay."""
    summary = summarise(results, study)
    summary |= {"rules": list(study.rules)} if study.rules else {}
    changed = {method: list(study.rules_of(method)) for method in study.methods if study.rules_of(method)}
    summary |= {"row_rules": changed} if changed else {}
    add_served(summary, f"valid {study.validation_metric}", study.tested_mean())
    if study.tested():
        add_verdicts(summary, Tested(study.tested(), study.tested_mean(), study.task.units), store, before)
    return summary


def run_cells(
    studies: Sequence[tuple[Study, Path]],
    start: Start | None = None,
    has_time: Callable[[], bool] = lambda: True,
    wanted: Wanted = every_row,
    reuse: Sequence[Path | None] = (),
    stores: Callable[[Path], CellStore] = CellFiles,
) -> list[list[dict[str, Any]]]:
    """Run every cell that is wanted and not done yet; the results of all of each study's that are done by now.

    No further cell is begun once ``has_time`` says no. Finished cells of the folders ``reuse`` are copied.
    ``stores`` makes the store of a folder.
    """
    results: list[dict[Cell, dict[str, Any] | None]] = []
    todo: list[Job] = []
    kept: dict[int, CellStore] = {}
    for (study, out), other in zip(studies, reuse or [None] * len(studies), strict=True):
        study.check()
        for folder in (out, other):
            if folder is not None and folder.is_dir():
                refuse_links(folder)
        store, source = stores(out), None if other is None else stores(other)
        store.folder.mkdir(parents=True, exist_ok=True)
        kept[id(study)] = store
        cells = [Cell(model, method, seed) for model, method in study.rows() for seed in range(study.seeds)]
        results.append(
            {cell: _finished(study, cell, store) or _copied(study, cell, store, source) for cell in cells}
        )
        left = [cell for cell, done in results[-1].items() if done is None and wanted(cell.model, cell.method)]
        todo += [Job(study, cell, store.folder) for cell in left if study.ready(cell)]
    own_results = {id(study): own for (study, _), own in zip(studies, results, strict=True)}

    def keep(job: Job, result: dict[str, Any]) -> None:
        own_results[id(job.study)][job.cell] = _keep(job.study, job.cell, result, kept[id(job.study)])

    def callback(job: Job) -> Callback | None:
        cells = list(own_results[id(job.study)])
        return start(job.cell.row, job.cell.seed, cells.index(job.cell) + 1, len(cells)) if start else None

    for group in todo[0].study.groups(todo) if todo else []:
        if not has_time():
            break
        checkpoints = Checkpoints(studies[0][1] / CHECKPOINTS)
        group[0].study.run(group, [callback(job) for job in group], keep, checkpoints)
        checkpoints.forget()
    if studies and all(result is not None for own in results for result in own.values()):
        clear_checkpoints(studies[0][1] / CHECKPOINTS)  # what others left there
    return [[result for result in own.values() if result is not None] for own in results]


def _done(study: Study, cell: Cell, store: CellStore) -> dict[str, Any] | None:
    result = store.read(cell)
    if not is_sound(result, "cell") or result is None:
        return None
    return result if result["identity"] == study.identity(cell) else None


def _finished(study: Study, cell: Cell, store: CellStore) -> dict[str, Any] | None:
    """A finished cell; its words about the search are renewed where another search found the same settings."""
    result = _done(study, cell, store)
    if result is None or study.same_search(cell.method, str(result.get("search_budget", "")), cell.model):
        return result
    return _keep(study, cell, result, store)


def _copied(study: Study, cell: Cell, store: CellStore, other: CellStore | None) -> dict[str, Any] | None:
    """The same cell of another study."""
    result = None if other is None else _done(study, cell, other)
    if result is not None:
        store.copy_from(other, cell)
    return result


def _keep(study: Study, cell: Cell, result: dict[str, Any], store: CellStore) -> dict[str, Any]:
    result |= {"model": cell.model, "method": cell.method, "seed": cell.seed, "identity": study.identity(cell)}
    result["search_budget"] = study.search_words(cell.method, cell.model)
    store.write(cell, result)
    return result


def summarise(results: list[dict[str, Any]], study: Study) -> dict[str, Any]:
    """Mean and standard deviation over the seeds for each row and metric."""
    rows = []
    for model, method in study.rows():
        own = [r for r in results if (r["model"], r["method"]) == (model, method)]
        row: dict[str, Any] = {"model": model, "method": method, "metrics": {}, "seeds": len(own)}
        rows.append(row)
        if not own:
            continue
        row |= {"seconds": fmean(r["seconds"] for r in own), "uses_knowledge": own[0]["uses_knowledge"]}
        for name in own[0]["metrics"]:
            values = [r["metrics"][name] for r in own]
            row["metrics"][name] = {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}
        if "by_kind" in own[0].get("detection", {}):
            kinds = own[0]["detection"]["by_kind"]
            row["auc_by_kind"] = {k: fmean(r["detection"]["by_kind"][k] for r in own) for k in kinds}
    summary: dict[str, Any] = {
        "models": list(study.models),
        "seeds": study.seeds,
        "selection": results[0]["selection"] if results else "",
        "search_budget": _searched(study),
        **study.protocol,
        "rows": rows,
    }
    machines = [r["machine"] for r in results if "machine" in r]
    if machines:
        summary["machines"] = [one for k, one in enumerate(machines) if one not in machines[:k]]
    detected = [r for r in results if "popularity_by_kind" in r.get("detection", {})]
    if detected:
        summary["popularity_auc_by_kind"] = detected[0]["detection"]["popularity_by_kind"]
    return summary


def _searched(study: Study) -> str:
    """How the settings of a table were found."""
    if study.budget is None:
        return NO_SEARCH
    words = study.budget.words()
    alike = all(study.search_words(method, model) == words for model, method in study.rows())
    return words if alike else f"{words}; rows of few settings with more seeds"
