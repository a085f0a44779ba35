"""A study's outcome as a page of Markdown, tables as CSV, and figures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from accord.files import whole_file, write_whole
from accord.report.figures import draw_bars, draw_heat, draw_lines, figure
from accord.studies.declared import Declared, Part, View
from accord.studies.labels import CLEANLAB, FOUND
from accord.studies.measures import DECISIONS, curve, disagreement
from accord.studies.reproduction import cells_of, folder_of, paper_value
from accord.studies.study import CELLS, Cell
from accord.studies.tables import OVER_SEEDS, as_markdown, shown_p

NOT_RUN = "not run"
KNOWS = "†"
"""The mark of rows that use knowledge no method has."""


def write_results(declared: Declared, outcome: dict[str, Any], out: Path) -> Path:
    """Everything that can be shown of what was run; the page's path."""
    parts = {part.name: part for part in declared.parts}
    lines = [f"# {declared.title}", "", f"`accord reproduce {declared.name}`", ""]
    lines += _facts(declared, outcome)
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


def _facts(declared: Declared, outcome: dict[str, Any]) -> list[str]:
    rows = [["part", "data", "settings searched", "seeds", "cells", "wall minutes", "machine"]]
    for part in declared.parts:
        found = outcome["parts"].get(part.name, {})
        done = cells_done(found)
        data = part.data if part.same_as is None else f"{part.data}, as in {' '.join(part.same_as)}"
        if not done:
            rows.append([part.name, data, "", "", "", "", found.get("missing", NOT_RUN)])
            continue
        machines = found.get("machines") or [found[key] for key in ("machine",) if key in found]  # as once written
        where = "; ".join(f"{one['device']}, Python {one['python']}, torch {one['torch']}" for one in machines)
        minutes = f"{found['wall_seconds'] / 60:.1f}"
        cells = f"[{done} of {found['seeds'] * len(found['rows'])}]({folder_of(part)}/{CELLS})"
        rows.append([part.name, data, found["search_budget"], str(found["seeds"]), cells, minutes, where])
    return [as_markdown(rows)]


def _of_fewer_seeds(found: list[dict[str, Any]]) -> list[str]:
    """A sentence where a mean stands for fewer seeds than were asked for."""
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
    new = dict.fromkeys(rule for part in parts for rule in newer_rules(part, outcome["parts"][part.name]))
    return [f"To be run again; since then: {'; '.join(new)}.", ""] if new else []


def what_is_wrong(caveats: Mapping[str, str]) -> list[str]:
    """What is known to be wrong with the files of these data sets."""
    return [line for data, words in caveats.items() if words for line in (f"The files of {data}: {words}.", "")]


def cells_done(found: dict[str, Any]) -> int:
    """Cells of a part that are done."""
    return sum(row["seeds"] for row in found.get("rows", []))


def named(row: dict[str, Any]) -> str:
    return row["method"] + (f" {KNOWS}" if row.get("uses_knowledge") else "")


def what_marks_mean(labels: Iterable[str]) -> list[str]:
    """What the marks mean that stand somewhere."""
    shown, lines = "".join(labels), list[str]()
    if KNOWS in shown:
        lines += ["", f"{KNOWS} knows clean labels, or which clicks are clean, as no other row does."]
    if OVER_SEEDS in shown:
        words = "by Welch's t-test over the seeds: what one of the two said of each user or example is not at hand."
        lines += ["", f"{OVER_SEEDS} {words}"]
    return lines


def _spread(values: list[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def _write_csv(path: Path, rows: list[list[str]]) -> None:
    with whole_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _read_csv(path: Path) -> list[list[str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _picture(name: str, words: str) -> list[str]:
    return [f"![{words}]({name}.svg)", ""]


# -- tables --------------------------------------------------------------------------------------------


def _table(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    lines, names = list[str](), list[str]()
    for part in parts:
        rows = _rows_of(view, part, outcome["parts"][part.name])
        _write_csv(out / f"{name}-{folder_of(part)}.csv", rows)
        lines += [f"### {part.name}", "", as_markdown(rows)] if len(parts) > 1 else [as_markdown(rows)]
        lines += _way_to_oracle(view, outcome["parts"][part.name])
        names += [row[k] for row in rows for k in (1, -2)]
    return [*lines, *what_marks_mean(names)]


def _rows_of(view: View, part: Part, summary: dict[str, Any]) -> list[list[str]]:
    """Ours, the paper's, better or worse than normal of the same model, and whether that is significant."""
    names = [n for n in dict.fromkeys(n for row in summary["rows"] for n in row["metrics"]) if "valid" not in n]
    any_row = {"model": summary["rows"][-1]["model"]}
    beside = [n for n in names if view.paper and paper_of(view.paper, part, any_row, n)]
    head = ["model", "method", *(n for m in names for n in ([m, f"paper {m}"] if m in beside else [m]))]
    rows = [[*head, f"{view.metric} against normal", "p (Holm)", "seeds"]]
    normal = {r["model"]: r["metrics"] for r in summary["rows"] if r["method"] == "normal"}
    for row in summary["rows"]:
        cells = [row["model"], named(row)]
        for metric in names:
            value = row["metrics"].get(metric)
            cells.append(NOT_RUN if value is None and not row["metrics"] else _mean(value))
            if metric in beside:
                theirs = paper_of(view.paper, part, row, metric)
                cells.append("" if theirs is None else f"{theirs:.3f}")
        base = normal.get(row["model"], {}).get(view.metric)
        own = row["metrics"].get(view.metric)
        gain = (
            "" if base is None or own is None or row["method"] == "normal" else f"{own['mean'] - base['mean']:+.4f}"
        )
        rows.append([*cells, gain, shown_p(row, " *"), str(row["seeds"]) if row["seeds"] else NOT_RUN])
    return rows


def _mean(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{value['mean']:.4f} ± {value['std']:.4f}"


def paper_of(paper: str, part: Part, row: Mapping[str, Any], metric: str) -> float | None:
    """The number of a row's model and method, or of any of the model where no method is given."""
    wanted = {key: row[key] for key in ("model", "method") if key in row}
    if paper == "images":
        return paper_value(paper, data=part.data, noise=f"{part.level:g}", **wanted)
    return paper_value(paper, data=part.data, metric=metric, **wanted)


def _way_to_oracle(view: View, summary: dict[str, Any]) -> list[str]:
    """The share of the way from normal to oracle that each method goes."""
    by = {(row["model"], row["method"]): row["metrics"].get(view.metric, {}).get("mean") for row in summary["rows"]}
    lines = []
    for model in summary["models"]:
        low, high = by.get((model, "normal")), by.get((model, "oracle"))
        if low is None or high is None:
            continue
        if high <= low:
            lines.append(
                f"- {model}: normal {low:.4f}, oracle {high:.4f}; there is no way: the oracle is not ahead."
            )
            continue
        way = {
            method: (value - low) / (high - low)
            for (m, method), value in by.items()
            if m == model and value is not None and method not in ("normal", "oracle")
        }
        words = ", ".join(f"{method} {share:+.0%}" for method, share in way.items())
        lines.append(f"- {model}: normal {low:.4f}, oracle {high:.4f}; of the way: {words}.")
    return ["", "Share of the way from normal to oracle:", "", *lines] if lines else []


# -- figures -------------------------------------------------------------------------------------------


def _heat(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part = parts[0]
    rows = [row for row in outcome["parts"][part.name]["rows"] if view.metric in row["metrics"]]
    if not rows:
        return [NOT_RUN]
    methods = list(dict.fromkeys(str(part.variants[row["method"]]["method"]) for row in rows))
    first, second = [k for k in part.variants[rows[0]["method"]] if k != "method"]
    values = {
        (own["method"], own[first], own[second]): row["metrics"][view.metric]["mean"]
        for row in rows
        for own in [part.variants[row["method"]]]
    }
    down, across = (sorted({own[k] for own in part.variants.values()}) for k in (first, second))
    with figure(out / name, (4.4, 3.6), len(methods)) as axes:
        for one, method in zip(axes, methods, strict=True):
            grid = np.array([[values.get((method, a, b), np.nan) for b in across] for a in down])
            words = (first.upper(), second.upper(), f"{method}, {part.data}, {view.metric}")
            draw_heat(one, grid, [f"{v:g}" for v in down], [f"{v:g}" for v in across], words)
    best = {m: max((v, k[1:]) for k, v in values.items() if k[0] == m) for m in methods}
    words = [f"{m}: best {v:.4f} at {first}={a:g}, {second}={b:g}" for m, (v, (a, b)) in best.items()]
    table = [[first, second, "method", view.metric]]
    table += [[f"{a:g}", f"{b:g}", m, f"{v:.6f}"] for (m, a, b), v in values.items()]
    _write_csv(out / f"{name}.csv", table)
    return [*_picture(name, view.title), "; ".join(words) + "."]


def _curves(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part, series, ends = (
        parts[0],
        {},
        [["method", "best epoch by validation", "its test", "best test", "last test"]],
    )
    for row in outcome["parts"][part.name]["rows"]:
        cells = cells_of(row, part, outcome, out)
        every = [cell["also"]["curve"] if "also" in cell else curve(cell["history"]) for cell in cells]
        lines = [_last_phase(points, view.metric) for points in every]
        if not lines or not lines[0]:
            continue
        # An ensemble's networks are trained one after the other, so that its last phase shows one of them.
        label = "ensemble's second" if row["method"] == "ensemble" else named(row)
        length = min(len(line) for line in lines)
        points = np.array([[p["watched"][view.metric] for p in line[:length]] for line in lines])
        spread = points.std(0, ddof=1) if len(points) > 1 else np.zeros(length)
        series[label] = [(k + 1, m, s) for k, (m, s) in enumerate(zip(points.mean(0), spread, strict=True))]
        chosen = [max(line[:length], key=lambda p: p["valid"].get(view.metric, 0.0)) for line in lines]
        at = fmean(p["watched"][view.metric] for p in chosen)
        epochs = "/".join(str(p["epoch"]) for p in chosen)
        ends.append([label, epochs, f"{at:.4f}", f"{points.max(1).mean():.4f}", f"{points[:, -1].mean():.4f}"])
    if not series:
        return [NOT_RUN]
    with figure(out / name) as axes:
        draw_lines(axes[0], series, ("epoch of the last phase", f"clean test {view.metric}"), part.data)
    _write_csv(out / f"{name}.csv", ends)
    return [*_picture(name, view.title), as_markdown(ends), *what_marks_mean(series)]


def _last_phase(points: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Epochs of the phase that ends the training, where they were watched."""
    return [p for p in points if p["phase"] == points[-1]["phase"] and metric in p.get("watched", {})]


def _levels(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    """A metric of each method over the noise of the parts."""
    series: dict[str, list[tuple[float, float, float]]] = {}
    methods, lacking = dict[str, str](), dict[str, None]()
    for part in parts:
        for row in outcome["parts"][part.name]["rows"]:
            value = row["metrics"].get(view.metric)
            if not row["seeds"] and (row["method"] != CLEANLAB or view.metric == FOUND):
                lacking[row["method"]] = None
            if value is not None:
                methods[named(row)] = row["method"]
                series.setdefault(named(row), []).append((part.level, value["mean"], value["std"]))
    if not series:
        return [NOT_RUN]
    if view.paper:
        for label, method in methods.items():
            rows = [{"model": p.models[0], "method": method} for p in parts]
            pairs = zip(parts, rows, strict=True)
            theirs = [(p.level, paper_of(view.paper, p, row, view.metric), 0.0) for p, row in pairs]
            known = [(level, value, zero) for level, value, zero in theirs if value is not None]
            if known:
                series[f"{label} (paper)"] = known
    levels = sorted({point[0] for points in series.values() for point in points})
    rows = [["method", *(f"{level:.0%}" for level in levels)]]
    for label, points in series.items():
        at = {level: f"{mean:.4f} ± {std:.4f}" if std else f"{mean:.4f}" for level, mean, std in points}
        rows.append([label, *(at.get(level, NOT_RUN) for level in levels)])
    rows += [[method, *(NOT_RUN for _ in levels)] for method in lacking if method not in methods.values()]
    _write_csv(out / f"{name}.csv", rows)
    with figure(out / name) as axes:
        draw_lines(axes[0], {label: series[label] for label in methods}, ("noise", view.metric), view.title)
        axes[0].set_xticks(levels, rows[0][1:])
    return [*_picture(name, view.title), as_markdown(rows), *what_marks_mean(series)]


def _ratings(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part, groups = parts[0], {}
    for row in outcome["parts"][part.name]["rows"]:
        cells = cells_of(row, part, outcome, out)
        if cells:
            of = cells[0]["also"]["by_rating"]
            groups[row["method"]] = {
                rating: _spread([cell["also"]["by_rating"][rating]["mean"] for cell in cells]) for rating in of
            }
    if not groups:
        return [NOT_RUN]
    ratings = list(next(iter(groups.values())))
    rows = [["method, h", *(f"rating {r}" for r in ratings), "rises"]]
    for method, values in groups.items():
        means = [values[r][0] for r in ratings]
        rises = sum(b > a for a, b in pairwise(means))
        cells = [f"{m:.4f} ± {s:.4f}" for m, s in values.values()]
        rows.append([method, *cells, f"{rises} of {len(ratings) - 1} steps"])
    _write_csv(out / f"{name}.csv", rows)
    with figure(out / name, (8.4, 4.0)) as axes:
        bars = {method: {f"rating {r}": v for r, v in values.items()} for method, values in groups.items()}
        draw_bars(axes[0], bars, ("method and noise model", "mean P(meant)"), view.title)
    return [*_picture(name, view.title), as_markdown(rows)]


def _agreement(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    lines: list[str] = []
    for part in parts:
        folder = out / folder_of(part) / CELLS
        kinds = ("train", "test") if part.is_images else ("",)
        for kind in kinds:
            title = f"{view.title}{f' ({kind})' if kind else ''}"
            place = f"{name}-{kind}" if kind else name
            pairs = _pairs_of_models(part, outcome["parts"][part.name]["seeds"], folder, kind)
            if not pairs:  # what each decided is no longer at hand: the table and the figure stay as they were
                rows = _read_csv(out / f"{place}.csv")
                lines += [*_picture(place, title), as_markdown(rows)] if rows else []
                continue
            groups = {
                pair: {k: _spread([one[k] for one in found]) for k in ("clean", "noisy")}
                for pair, found in pairs.items()
            }
            rows = [["models", "clean", "noisy", "noisy / clean"]]
            for pair, found in groups.items():
                (clean, _), (noisy, _) = found["clean"], found["noisy"]
                ratio = f"{noisy / clean:.2f}" if clean else ""
                rows.append([pair, *(f"{m:.4f} ± {s:.4f}" for m, s in found.values()), ratio])
            _write_csv(out / f"{place}.csv", rows)
            with figure(out / place, (9.0, 4.0)) as axes:
                draw_bars(axes[0], groups, ("pair of models", "share decided differently"), title)
                axes[0].tick_params(axis="x", labelrotation=20)
            lines += [*_picture(place, title), as_markdown(rows)]
    return lines or ["Nothing to compare: that takes two trainings, with what they decided beside their cells."]


def _pairs_of_models(part: Part, seeds: int, folder: Path, kind: str) -> dict[str, list[dict[str, float]]]:
    """Differences between models of one seed, and between seeds of one model."""

    def decided(model: str, seed: int) -> Path:
        stem = Cell(model, part.methods[0], seed).name
        return folder / ".".join(word for word in (stem, kind, DECISIONS) if word)

    pairs: dict[str, list[dict[str, float]]] = {}
    for one, other in combinations(part.models, 2):
        found = [(decided(one, s), decided(other, s)) for s in range(seeds)]
        pairs[f"{one}–{other}"] = [disagreement(a, b) for a, b in found if a.is_file() and b.is_file()]
    for model in part.models:
        found = [(decided(model, a), decided(model, b)) for a, b in combinations(range(seeds), 2)]
        pairs[f"{model}, seeds"] = [disagreement(a, b) for a, b in found if a.is_file() and b.is_file()]
    return {name: values for name, values in pairs.items() if values}


def _cost(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part = parts[0]
    rows = [["model", "method", "train s", "of normal", "inference ms", "of normal"]]
    bars: dict[str, dict[str, tuple[float, float]]] = {}
    normal: dict[str, tuple[float, float]] = {}
    for row in outcome["parts"][part.name]["rows"]:
        found = [cell["also"]["cost"] for cell in cells_of(row, part, outcome, out)]
        if not found:
            continue
        train, inference = (min(one[k] for one in found) for k in ("train_seconds", "inference_seconds"))
        if row["method"] == "normal":
            normal[row["model"]] = train, inference
        base = normal[row["model"]]
        ratio = train / base[0], inference / base[1]
        bars.setdefault(row["model"], {})[row["method"]] = (ratio[0], 0.0)
        numbers = [f"{train:.2f}", f"{ratio[0]:.2f}", f"{inference * 1e3:.1f}", f"{ratio[1]:.2f}"]
        rows.append([row["model"], row["method"], *numbers])
    if not bars:
        return [NOT_RUN]
    _write_csv(out / f"{name}.csv", rows)
    with figure(out / name, (8.0, 3.8)) as axes:
        draw_bars(axes[0], bars, ("model", "training time over normal"), view.title)
    return [*_picture(name, view.title), as_markdown(rows)]


VIEWS: dict[str, Callable[[View, list[Part], dict[str, Any], Path, str], list[str]]] = {
    "table": _table,
    "heat": _heat,
    "curves": _curves,
    "levels": _levels,
    "ratings": _ratings,
    "agreement": _agreement,
    "cost": _cost,
}
