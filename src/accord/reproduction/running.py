"""Running a declared study: part by part, cell by cell; what is finished is not run again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accord import __version__
from accord.errors import DataError, MissingDataError, SettingError, nearest
from accord.estimators.run_folder import kind_of, read_json, write_json
from accord.experiments.budget import Budget
from accord.experiments.compare import Start, Wanted, every_row, full_summary, run_cells
from accord.experiments.stored import is_sound
from accord.experiments.study import CELLS, MOST, Cell, Study
from accord.experiments.tuning import SearchProgress, tuned_study
from accord.experiments.verdicts import add_served, add_verdicts
from accord.plain import refuse_links
from accord.reproduction.cells import TABLE, VALUES, StudyCells, parts_of
from accord.reproduction.measures import COLUMNS
from accord.reproduction.parts import Declared, Part, folder_name
from accord.training import Callback, resolve_device

OUTCOME = "study.json"
NOT_AT_HAND = "data not at hand"


@dataclass(frozen=True)
class Callbacks:
    """Called as a study is run; ``has_time`` says whether another training may begin."""

    part: Callable[[str, int, int], None] = lambda name, number, of: None
    cell: Start | None = None
    search: Callable[[str, SearchProgress], None] = lambda row, progress: None
    trial: Callable[[int, int], Callback | None] = lambda trial, seed: None
    has_time: Callable[[], bool] = lambda: True


MACHINES = ("machine", "machines")
"""Where a part says what it ran on; the first is the older form."""


def reproduce(
    declared: Declared,
    root: Path | None,
    out: Path,
    *,
    seeds: int = 3,
    device: str = "auto",
    only: tuple[str, ...] = (),
    wanted: Wanted = every_row,
    callbacks: Callbacks | None = None,
) -> dict[str, Any]:
    """Run what is wanted and not finished, and write the outcome of all that is finished.

    Data that are not at hand are named, not an error. Others may work on the same study in the same folder. Cells
    of a complete part are packed into the table of the study.
    """
    called = callbacks or Callbacks()
    if seeds < 1:
        raise SettingError(f"{seeds} seeds make no study; give seeds=1 or more.")
    if seeds > MOST:
        raise SettingError(f"{seeds} seeds are more than anybody can wait for; give at most {MOST}.")
    resolve_device(device)
    names = [part.name for part in declared.parts]
    for name in only:
        if name not in names:
            raise SettingError(f"Study '{declared.name}' has no part '{name}': {nearest(name, names)}")
    parts = [part for part in declared.parts if not only or part.name in only]
    refuse_other_study(declared, out)
    out.mkdir(parents=True, exist_ok=True)
    number, missing = 0, dict[str, dict[str, str]]()
    for joined in _joined(parts):
        started = time.perf_counter()
        studies: list[tuple[Part, Study]] = []
        for part in joined:
            number += 1
            called.part(part.name, number, len(parts))
            try:
                studies.append((part, part.study(root, seeds, device)))
            except MissingDataError as error:
                missing[part.name] = {"missing": NOT_AT_HAND, "why": str(error)}
        searched = _searched(declared, studies, out, called, wanted, lambda part: part.study(root, seeds, device))
        sources = [_source_of(part, out) for part, _ in studies]
        results = run_cells(searched, called.cell, called.has_time, wanted, sources, StudyCells)
        rows = zip(studies, searched, results, strict=True)
        summaries = [
            full_summary(study, StudyCells(folder), done, _earlier(declared, part, out))
            for (part, _), (study, folder), done in rows
        ]
        outcome = _earlier_outcome(declared, out)  # what others have written by now
        for name, words in missing.items():
            if "missing" in outcome["parts"].get(name, words):
                outcome["parts"][name] = words
        for (part, _), summary in zip(studies, summaries, strict=True):
            before = outcome["parts"].get(part.name, {})
            took = (time.perf_counter() - started) / len(studies)
            spent = before.get("wall_seconds", 0.0) if before.get("rules") == summary.get("rules") else 0.0
            summary["wall_seconds"] = spent + took  # not what cells of older rules took
            machines = {} if "machines" in summary else {k: before[k] for k in MACHINES if k in before}
            outcome["parts"][part.name] = summary | machines  # cells once did not say it
        write_json(out / OUTCOME, outcome)
        for (study, folder), summary in zip(searched, summaries, strict=True):
            if all(row["seeds"] == study.seeds for row in summary["rows"]):
                StudyCells(folder).pack({study.tested(), *COLUMNS})
    return read_outcome(out / OUTCOME)


def read_outcome(path: Path) -> dict[str, Any]:
    """What a study wrote of its parts."""
    outcome = read_json(path)
    if not is_sound(outcome, "outcome"):
        raise DataError(f"'{path}' is damaged; remove it, and the same command writes it again from the cells.")
    return outcome


def judged(declared: Declared, out: Path) -> dict[str, Any]:
    """The outcome with the verdicts as they are made now, of the cells that are there; nothing is trained."""
    before = read_outcome(out / OUTCOME)
    outcome = _earlier_outcome(declared, out) | {k: before[k] for k in ("accord",) if k in before}
    for part in declared.parts:
        summary = outcome["parts"].get(part.name, {})
        if "rows" in summary:
            add_served(summary, f"valid {part.task.metric}", part.metric)
            add_verdicts(summary, part.tested, StudyCells(out / part.folder), _earlier(declared, part, out))
    if outcome != before:
        write_json(out / OUTCOME, outcome)
    return outcome


def refuse_other_study(declared: Declared, out: Path) -> None:
    """A study is resumed in its own folder, or begins in an empty one."""
    if out.is_dir():
        refuse_links(out)
    found = kind_of(out)
    if (out / OUTCOME).is_file():
        name = read_outcome(out / OUTCOME).get("study")
        found = None if name == declared.name else f"study '{name}'"
    elif found is None and out.is_dir():
        own = {TABLE, VALUES, *(part.folder for part in declared.parts)}
        there = [path.name for path in out.iterdir() if not path.name.startswith(".") and path.name not in own]
        found = f"file or folder '{min(there)}'" if there else None
    if found is not None:
        raise DataError(
            f"'{out}' holds a {found}, so study '{declared.name}' is not put there; choose another path."
        )


def has_cells(declared: Declared, out: Path) -> bool:
    """Whether something of a study is done, though its outcome may not be written yet."""
    packed = parts_of(out)
    return any(part.folder in packed or any((out / part.folder / CELLS).glob("*.json")) for part in declared.parts)


def _joined(parts: list[Part]) -> list[list[Part]]:
    """Parts that are trained together."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.together or f"alone {part.name}", []).append(part)
    return list(groups.values())


def _source_of(part: Part, out: Path) -> Path | None:
    """The folder of the part that has the same cells, where its study is in the same folder as this one."""
    if part.same_as is None:
        return None
    study, other = part.same_as
    return out.resolve().parent / study / folder_name(other)


def _earlier(declared: Declared, part: Part, out: Path) -> list[dict[str, Any]]:
    """Earlier summaries whose intervals may stay: of this part, and of the one that has the same cells."""
    found = [_earlier_outcome(declared, out)["parts"].get(part.name, {})]
    if part.same_as is not None:
        study, other = part.same_as
        path = out.resolve().parent / study / OUTCOME
        found += [read_outcome(path)["parts"].get(other, {})] if path.is_file() else []
    return [one for one in found if "rows" in one]


def _searched(
    declared: Declared,
    studies: list[tuple[Part, Study]],
    out: Path,
    called: Callbacks,
    wanted: Wanted,
    study_of: Callable[[Part], Study],
) -> list[tuple[Study, Path]]:
    """The studies of parts that are trained together, with the settings found in the part where these are searched.

    The cells of a row follow its search.
    """
    with_folders = [(study, out / part.folder) for part, study in studies]
    sources = [_source_of(part, out) for part, _ in studies]
    if not studies or not studies[0][0].trials:
        return with_folders
    first = studies[0][0]
    where = next(part for part in declared.parts if part.name == (first.searched_in or first.name))
    leader = next((study for part, study in studies if part is where), None) or study_of(where)

    budget, own = Budget(first.trials, sampler=first.sampler), dict[str, Study]()

    def with_settings(lead: Any) -> list[tuple[Study, Path]]:
        common = replace(lead.budget, where=where.name) if first.searched_in else lead.budget
        made = []
        for (part, study), (_, folder) in zip(studies, with_folders, strict=True):
            here = part.searched_here if part is not where else ()
            tuned = {row: one for row, one in lead.tuned.items() if row.rpartition(" ")[2] not in here}
            if part.name in own:
                tuned |= own[part.name].tuned
            found = {"tuned": tuned, "budget": common, "budgets": dict.fromkeys(here, budget), "only_tuned": True}
            made.append((replace(study, **found), folder))  # pyright: ignore[reportArgumentType]
        return made

    lead = tuned_study(
        leader,
        out / where.folder,
        budget,
        called.search,
        called.trial,
        called.has_time,
        lambda lead: run_cells(with_settings(lead), called.cell, called.has_time, wanted, sources, StudyCells),
        wanted,
        _source_of(where, out),
        StudyCells,
    )
    for part, study in studies:
        if part is where or not part.searched_here:
            continue
        alone = replace(study, methods=part.searched_here)
        places = out / part.folder, budget, called.search, called.trial, called.has_time
        source = _source_of(part, out)
        own[part.name] = tuned_study(alone, *places, wanted=wanted, reuse=source, stores=StudyCells)
    return with_settings(lead)


def _earlier_outcome(declared: Declared, out: Path) -> dict[str, Any]:
    """The outcome of an earlier run, whose parts, those without data too, stay until they are run again."""
    path = out / OUTCOME
    parts = read_outcome(path)["parts"] if path.is_file() else {}
    known = {part.name for part in declared.parts}
    kept = {name: one for name, one in parts.items() if name in known}
    return {"study": declared.name, "title": declared.title, "accord": __version__, "parts": kept}


def cells_of(row: dict[str, Any], part: Part, outcome: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """The finished cells of a row of an outcome, by seed."""
    store, seeds = StudyCells(out / part.folder), outcome["parts"][part.name]["seeds"]
    found = [store.read(Cell(row["model"], row["method"], seed)) for seed in range(seeds)]
    return [cell for cell in found if cell is not None]
