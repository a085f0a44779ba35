"""A study's outcome as a page of Markdown, with its tables as CSV and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accord.experiments.study import CELLS
from accord.files import write_whole
from accord.report.tables import as_markdown
from accord.reproduction.cells import TABLE
from accord.reproduction.figures import (
    draw_agreement,
    draw_cost,
    draw_curves,
    draw_heat_maps,
    draw_levels,
    draw_ratings,
)
from accord.reproduction.parts import Declared, Part, View
from accord.reproduction.tables import NOT_RUN, draw_table

VIEWS: dict[str, Callable[[View, list[Part], dict[str, Any], Path, str], list[str]]] = {
    "table": draw_table,
    "heat": draw_heat_maps,
    "curves": draw_curves,
    "levels": draw_levels,
    "ratings": draw_ratings,
    "agreement": draw_agreement,
    "cost": draw_cost,
}


def write_results(declared: Declared, outcome: dict[str, Any], out: Path) -> Path:
    """Everything that can be shown of what was run; the page's path."""
    parts = {part.name: part for part in declared.parts}
    lines = [f"# {declared.title}", "", f"`accord reproduce {declared.name}`", ""]
    lines += _about(declared, outcome, out)
    for number, view in enumerate(declared.views, 1):
        chosen = [parts[name] for name in view.parts or parts]
        view = replace(view, metric=view.metric or chosen[0].metric)
        there = [p for p in chosen if cells_done(outcome["parts"].get(p.name, {}))]
        lines += [f"## {view.title}", ""]
        missing = [p.name for p in chosen if p not in there]
        if missing:
            state = {outcome["parts"].get(name, {}).get("missing", NOT_RUN) for name in missing}
            lines += [f"{', '.join(missing)}: {', '.join(sorted(state))}.", ""]
        if there:
            name = (
                f"{number}-{view.kind}-{view.parts[0].replace(' ', '-')}" if view.parts else f"{number}-{view.kind}"
            )
            lines += [*VIEWS[view.kind](view, there, outcome, out, name), ""]
            lines += _of_fewer_seeds([outcome["parts"][part.name] for part in there])
            lines += what_is_wrong({part.data: part.caveat for part in there})
            lines += _to_be_run_again(there, outcome)
    path = out / "README.md"
    write_whole(path, "\n".join(lines).rstrip() + "\n")
    return path


def _about(declared: Declared, outcome: dict[str, Any], out: Path) -> list[str]:
    rows = [["part", "data", "settings searched", "seeds", "cells", "wall minutes", "machine"]]
    for part in declared.parts:
        found = outcome["parts"].get(part.name, {})
        done = cells_done(found)
        data = part.data if part.same_as is None else f"{part.data}, as in {' '.join(part.same_as)}"
        if not done:
            rows.append([part.name, data, "", "", "", "", found.get("missing", NOT_RUN)])
            continue
        machines = found.get("machines") or [found[key] for key in ("machine",) if key in found]  # the older form
        where = "; ".join(f"{one['device']}, Python {one['python']}, torch {one['torch']}" for one in machines)
        minutes = f"{found['wall_seconds'] / 60:.1f}"
        file = f"{part.folder}/{CELLS}" if any((out / part.folder / CELLS).glob("*.json")) else TABLE
        cells = f"[{done} of {found['seeds'] * len(found['rows'])}]({file})"
        rows.append([part.name, data, found["search_budget"], str(found["seeds"]), cells, minutes, where])
    return [as_markdown(rows)]


def _of_fewer_seeds(found: list[dict[str, Any]]) -> list[str]:
    """A sentence where a mean is of fewer seeds than were asked for."""
    short = {
        (row["seeds"], part["seeds"])
        for part in found
        for row in part["rows"]
        if row["seeds"] in range(1, part["seeds"])
    }
    words = " or ".join(f"{done} of {planned}" for done, planned in sorted(short))
    return [f"Not complete: some rows have {words} seeds.", ""] if short else []


def newer_rules(part: Part, found: dict[str, Any]) -> list[str]:
    """Rules that have changed since the cells of a part were made."""
    return [rule for rule in part.rules if cells_done(found) and rule not in found.get("rules", [])]


def _to_be_run_again(parts: list[Part], outcome: dict[str, Any]) -> list[str]:
    each = [(part, outcome["parts"][part.name]) for part in parts]
    new = dict.fromkeys(rule for part, found in each for rule in newer_rules(part, found))
    lines = [f"To be run again; since then: {'; '.join(new)}.", ""] if new else []
    rows: dict[str, list[str]] = {}
    for part, found in each:
        for method, rules in newer_row_rules(part, found).items():
            for rule in rules:
                rows.setdefault(rule, []).append(f"{method} of {part.name}")
    for rule, whose in rows.items():
        lines += [f"Rows to be run again: {', '.join(whose)}; since then {rule}.", ""]
    return lines


def newer_row_rules(part: Part, found: dict[str, Any]) -> dict[str, list[str]]:
    """By method, rules of its rows that have changed since these were made."""
    done = {row["method"] for row in found.get("rows", []) if row["seeds"]}
    before = found.get("row_rules", {})
    new = {m: [rule for rule in rules if rule not in before.get(m, [])] for m, rules in part.row_rules.items()}
    return {method: rules for method, rules in new.items() if rules and method in done}


def what_is_wrong(caveats: Mapping[str, str]) -> list[str]:
    """What is known to be wrong with the files of these data sets."""
    return [line for data, words in caveats.items() if words for line in (f"The files of {data}: {words}.", "")]


def cells_done(found: dict[str, Any]) -> int:
    """Cells of a part that are done."""
    return sum(row["seeds"] for row in found.get("rows", []))
