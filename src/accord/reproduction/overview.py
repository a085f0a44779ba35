"""All studies of a folder on one page: what is done, and how every method compares with tuned normal training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.errors import DataError
from accord.files import write_whole
from accord.report.figures import draw_differences, figure
from accord.report.tables import SEEDS_MARK, SIGNIFICANT, as_markdown, is_over_seeds
from accord.reproduction.figures import method_colours
from accord.reproduction.page import cells_done, newer_row_rules, newer_rules, what_is_wrong
from accord.reproduction.running import OUTCOME, read_outcome
from accord.reproduction.studies import STUDIES
from accord.reproduction.tables import NOT_RUN, ROUNDING, named, paper_of, what_marks_mean

PAGE = "overview.md"
AHEAD, BEHIND = "▲", "▼"
TABLES = ("recommend-", "images-")
"""How the studies begin that compare all methods."""
OURS = ("deca", "deca-p")
WIDEST = 40.0
"""Per cent of normal at which a figure ends."""


@dataclass
class _Table:
    """Cells of several studies that belong together: {cell: {method: row}}."""

    title: str
    metric: str
    cells: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    paper: dict[tuple[str, str], float] = field(default_factory=dict)
    caveats: dict[str, str] = field(default_factory=dict)
    old_rows: dict[str, list[str]] = field(default_factory=dict)
    """By method, data on which its rows are to be run again."""
    again: list[str] = field(default_factory=list)
    """Data whose cells are to be run again."""

    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for rows in self.cells.values() for method in rows))

    def gain(self, cell: str, method: str) -> tuple[float, float | None] | None:
        """How far a row is ahead of normal, and p; nothing where one of them was not run."""
        rows = self.cells[cell]
        own, base = (rows.get(name, {}).get("metrics", {}).get(self.metric) for name in (method, "normal"))
        if own is None or base is None or method == "normal":
            return None
        return own["mean"] - base["mean"], rows[method].get("against_normal", {}).get("p_holm")


def write_overview(folder: Path) -> Path:
    """The page of all studies that are in a folder under their names, and its figures."""
    found = {name: read_outcome(folder / name / OUTCOME) for name in STUDIES if (folder / name / OUTCOME).is_file()}
    if not found:
        raise DataError(
            f"There is no study in '{folder}': reproduce one into '{folder / 'NAME'}' first, "
            "or name the folder that holds them."
        )
    lines = ["# All studies", "", f"`accord reproduce --show --out {folder.resolve().name}`", "", *_state(found)]
    for name, table in _tables(found).items():
        lines += ["", f"## {table.title}", "", *_shown(folder, name, table)]
    path = folder / PAGE
    write_whole(path, "\n".join(lines).rstrip() + "\n")
    return path


def _state(found: Mapping[str, dict[str, Any]]) -> list[str]:
    rows = [["study", "what", "cells", "wall minutes", "not complete"]]
    for name, declared in STUDIES.items():
        if name not in found:
            rows.append([name, declared.title, "", "", NOT_RUN])
            continue
        parts = found[name]["parts"]
        done = {part.name: cells_done(parts.get(part.name, {})) for part in declared.parts}
        whole = {part: parts[part]["seeds"] * len(parts[part]["rows"]) for part in done if done[part]}
        lacking = [
            f"{part}: {done[part]} of {whole[part]}" if done[part] else f"{part}: {_why(parts, part)}"
            for part in done
            if done[part] != whole.get(part)
        ]
        lacking += [
            f"{part.name}: to be run again"
            for part in declared.parts
            if newer_rules(part, parts.get(part.name, {}))
        ]
        old = {part.name: newer_row_rules(part, parts.get(part.name, {})) for part in declared.parts}
        lacking += [f"{part}: rows of {', '.join(rows)} to be run again" for part, rows in old.items() if rows]
        minutes = sum(one.get("wall_seconds", 0.0) for one in parts.values()) / 60
        link = f"[{name}]({name}/README.md)"
        rows.append([link, declared.title, str(sum(done.values())), f"{minutes:.0f}", "; ".join(lacking)])
    return [as_markdown(rows)]


def _why(parts: dict[str, Any], part: str) -> str:
    return parts.get(part, {}).get("missing", NOT_RUN)


def _tables(found: Mapping[str, dict[str, Any]]) -> dict[str, _Table]:
    """One for each protocol of clicks, and one for images."""
    tables: dict[str, _Table] = {}
    for name, outcome in found.items():
        if not name.startswith(TABLES):
            continue
        declared = STUDIES[name]
        titles = {part: view.title for view in declared.views for part in view.parts}
        for part in declared.parts:
            key, title, paper = f"clicks-{part.name}", f"Clicks. {titles.get(part.name, part.name)}", "recommend"
            if part.is_images:
                key, title, paper = "images", "Images, by the share of labels redrawn", "images"
            table = tables.setdefault(key, _Table(title, part.metric))
            own = outcome["parts"].get(part.name, {})
            if cells_done(own):
                table.caveats[part.data] = part.caveat
            if newer_rules(part, own):
                table.again.append(part.data)
            for method in newer_row_rules(part, own):
                table.old_rows.setdefault(method, []).append(
                    f"{part.data} {part.level:.0%}" if part.is_images else part.data
                )
            for row in own.get("rows", []):
                if row["model"]:  # of none: popularity
                    cell = f"{part.data} {f'{part.level:.0%}' if part.is_images else row['model']}"
                    table.cells.setdefault(cell, {})[row["method"]] = row
                    theirs = paper_of(paper, part, row, part.metric)
                    if theirs is not None:
                        table.paper[cell, row["method"]] = theirs
    return {key: table for key, table in tables.items() if table.cells}


def _shown(folder: Path, name: str, table: _Table) -> list[str]:
    methods = table.methods()
    each = {m: [rows[m] for rows in table.cells.values() if m in rows] for m in methods}
    name_of = {m: named(max(rows, key=lambda row: row.get("uses_knowledge", False))) for m, rows in each.items()}
    rows = [["", *name_of.values()]]
    points: dict[str, dict[str, tuple[float, bool]]] = {}
    for cell, own in table.cells.items():
        rows.append([cell, *(_cell(table, cell, method) for method in methods)])
        for method in methods:
            gain = table.gain(cell, method)
            base = own["normal"]["metrics"][table.metric]["mean"] if gain else 0.0
            if gain and base:
                share = 100 * gain[0] / base
                sure = gain[1] is not None and gain[1] < SIGNIFICANT
                points.setdefault(cell, {})[name_of[method]] = share, sure
    lines = [
        as_markdown(rows),
        "",
        _legend(table),
        *what_marks_mean(cell for row in rows for cell in row),
        "",
        _count(table),
        "",
        *what_is_wrong(table.caveats),
        *(
            [f"To be run again by newer rules, as their pages say: {', '.join(table.again)}.", ""]
            if table.again
            else []
        ),
        *(
            line
            for method, data in table.old_rows.items()
            for line in (
                f"Rows of {method} to be run again by a newer rule, as their pages say: {', '.join(data)}.",
                "",
            )
        ),
    ]
    if not points:
        return lines
    picture = f"overview-{name}"
    with figure(folder / picture, (7.2, 1.0 + 0.34 * len(points))) as (axes,):
        largest = max(abs(value) for one in points.values() for value, _ in one.values())
        widest = min(WIDEST, 1.05 * largest) or 1.0
        label = f"{table.metric}: difference from normal, per cent"
        colours = method_colours({name_of[m]: m for m in methods})
        draw_differences(axes, points, colours, (label, table.title), widest)
    words = (
        "Filled: beyond chance; hollow: within it, or not tested. An arrow: further away than the figure reaches."
    )
    return [*lines, f"![{table.title}]({picture}.svg)", "", words]


def _cell(table: _Table, cell: str, method: str) -> str:
    row = table.cells[cell].get(method)
    theirs = table.paper.get((cell, method))
    brackets = "" if theirs is None else f" ({theirs:.3f})"
    if row is None:
        return ""
    if not row["metrics"]:
        return NOT_RUN + brackets
    gain, p = table.gain(cell, method) or (0.0, None)
    sign = "" if p is None or p >= SIGNIFICANT else f" {AHEAD if gain > 0 else BEHIND}"
    sign += SEEDS_MARK if sign and is_over_seeds(row) else ""
    return f"{row['metrics'][table.metric]['mean']:.4f}{sign}{brackets}"


def _legend(table: _Table) -> str:
    return (
        f"{table.metric}, the mean of the seeds. {AHEAD} ahead of normal in the same line, {BEHIND} behind, beyond "
        "chance (p < 0.05, Holm-corrected over a study's table); no mark: within it, or not tested. In brackets "
        "the paper's."
    )


def _count(table: _Table) -> str:
    """In how many cells the better of DeCA and DeCA(p) is ahead of normal."""
    gains = [[g for g in (table.gain(cell, method) for method in OURS) if g is not None] for cell in table.cells]
    best = [max(one, key=lambda gain: gain[0]) for one in gains if one]
    ahead = [p for gain, p in best if gain >= ROUNDING]
    behind = [p for gain, p in best if gain <= -ROUNDING]
    sure = [sum(p is not None and p < SIGNIFICANT for p in side) for side in (ahead, behind)]
    names = " or ".join(method for method in OURS if method in table.methods())
    return (
        f"{names} ahead of normal in {len(ahead)} of {len(best)} cells, beyond chance in {sure[0]}; "
        f"behind in {len(behind)}, beyond chance in {sure[1]}."
    )
