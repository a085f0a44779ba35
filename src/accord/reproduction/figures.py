"""The figures of a study's page, each with a table of its numbers."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from accord.experiments.study import Cell
from accord.plain import read_plain
from accord.report.figures import draw_bars, draw_heat, draw_lines, figure
from accord.report.plots import assigned
from accord.report.tables import as_markdown
from accord.reproduction.cells import StudyCells
from accord.reproduction.measures import BY_RATING, COLUMNS, COST, CURVE, DECISIONS, Decided, curve, disagreement
from accord.reproduction.parts import Part, View
from accord.reproduction.running import cells_of
from accord.reproduction.tables import NOT_RUN, named, paper_of, what_marks_mean, write_csv
from accord.tasks.labels import CLEANLAB, FOUND

BY_COLOUR = ("normal", "deca", "deca-p", "ensemble", "t-ce", "wbpr", "oracle", "itlm", "mw-net", "popularity")
"""Methods by the colour they have in every figure of every study."""
SAME_COLOUR = {CLEANLAB: "popularity"}
"""Rows with the colour of another that is of the other task, as there are no more colours."""


def method_colours(methods: Mapping[str, str]) -> dict[str, int]:
    """The colour of each label, by its method."""
    owners = {label: SAME_COLOUR.get(method, method) for label, method in methods.items()}
    colours = assigned(owners.values(), BY_COLOUR)
    return {label: colours[owner] for label, owner in owners.items()}


def draw_heat_maps(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
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
    write_csv(out / f"{name}.csv", table)
    return [*_picture(name, view.title), "; ".join(words) + "."]


def draw_curves(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part, series, methods = parts[0], {}, dict[str, str]()
    ends = [["method", "best epoch by validation", "its test", "best test", "last test"]]
    for row in outcome["parts"][part.name]["rows"]:
        cells = cells_of(row, part, outcome, out)
        every = [cell["also"][CURVE] if "also" in cell else curve(cell["history"]) for cell in cells]
        lines = [_last_phase(points, view.metric) for points in every]
        if not lines or not lines[0]:
            continue
        # An ensemble's networks are trained one after the other, so that its last phase shows one of them.
        label = "ensemble's second" if row["method"] == "ensemble" else named(row)
        methods[label] = row["method"]
        length = min(len(line) for line in lines)
        points = np.array([[p["eval_set"][view.metric] for p in line[:length]] for line in lines])
        std = points.std(0, ddof=1) if len(points) > 1 else np.zeros(length)
        series[label] = [(k + 1, m, s) for k, (m, s) in enumerate(zip(points.mean(0), std, strict=True))]
        chosen = [max(line[:length], key=lambda p: p["valid"].get(view.metric, 0.0)) for line in lines]
        at = fmean(p["eval_set"][view.metric] for p in chosen)
        epochs = "/".join(str(p["epoch"]) for p in chosen)
        ends.append([label, epochs, f"{at:.4f}", f"{points.max(1).mean():.4f}", f"{points[:, -1].mean():.4f}"])
    if not series:
        return [NOT_RUN]
    with figure(out / name) as axes:
        labels = "epoch of the last phase", f"clean test {view.metric}"
        draw_lines(axes[0], series, labels, part.data, colours=method_colours(methods))
    write_csv(out / f"{name}.csv", ends)
    return [*_picture(name, view.title), as_markdown(ends), *what_marks_mean(series)]


def _last_phase(points: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Epochs of the phase that ends the training, where the clean test was measured."""
    return [p for p in points if p["phase"] == points[-1]["phase"] and metric in p.get("eval_set", {})]


def draw_levels(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
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
    write_csv(out / f"{name}.csv", rows)
    with figure(out / name) as axes:
        shown = {label: series[label] for label in methods}
        ticks = dict(zip(levels, rows[0][1:], strict=True))
        colours = method_colours(methods)
        draw_lines(axes[0], shown, ("noise", view.metric), view.title, ticks=ticks, colours=colours)
    return [*_picture(name, view.title), as_markdown(rows), *what_marks_mean(series)]


def draw_ratings(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part, groups = parts[0], {}
    for row in outcome["parts"][part.name]["rows"]:
        cells = cells_of(row, part, outcome, out)
        if cells:
            of = cells[0]["also"][BY_RATING]
            groups[row["method"]] = {
                rating: _mean_and_std([cell["also"][BY_RATING][rating]["mean"] for cell in cells]) for rating in of
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
    write_csv(out / f"{name}.csv", rows)
    with figure(out / name, (8.4, 4.0)) as axes:
        bars = {method: {f"rating {r}": v for r, v in values.items()} for method, values in groups.items()}
        draw_bars(axes[0], bars, ("method and noise model", "mean P(meant)"), view.title)
    return [*_picture(name, view.title), as_markdown(rows)]


def draw_agreement(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    lines: list[str] = []
    for part in parts:
        store = StudyCells(out / part.folder)
        kinds = ("train", "test") if part.is_images else ("",)
        for kind in kinds:
            title = f"{view.title}{f' ({kind})' if kind else ''}"
            file = f"{name}-{kind}" if kind else name
            pairs = _pairs_of_models(part, outcome["parts"][part.name]["seeds"], store, kind)
            if not pairs:  # what each decided is no longer at hand: the table and the figure stay as they were
                rows = _read_csv(out / f"{file}.csv")
                lines += [*_picture(file, title), as_markdown(rows)] if rows else []
                continue
            groups = {
                pair: {k: _mean_and_std([one[k] for one in found]) for k in ("clean", "noisy")}
                for pair, found in pairs.items()
            }
            rows = [["models", "clean", "noisy", "noisy / clean"]]
            for pair, found in groups.items():
                (clean, _), (noisy, _) = found["clean"], found["noisy"]
                ratio = f"{noisy / clean:.2f}" if clean else ""
                rows.append([pair, *(f"{m:.4f} ± {s:.4f}" for m, s in found.values()), ratio])
            write_csv(out / f"{file}.csv", rows)
            with figure(out / file, (9.0, 4.0)) as axes:
                draw_bars(axes[0], groups, ("pair of models", "share decided differently"), title)
            lines += [*_picture(file, title), as_markdown(rows)]
    return lines or ["Nothing to compare: that takes two trainings, with what they decided next to their cells."]


def _pairs_of_models(part: Part, seeds: int, store: StudyCells, kind: str) -> dict[str, list[dict[str, float]]]:
    """Differences between models of one seed, and between seeds of one model."""
    file = ".".join(word for word in (kind, DECISIONS) if word)
    cells = {(model, seed): Cell(model, part.methods[0], seed) for model in part.models for seed in range(seeds)}
    found = {key: [store.values(cell, column, file) for column in COLUMNS] for key, cell in cells.items()}
    decided: dict[tuple[str, int], Decided] = {
        key: (own[0], own[1]) for key, own in found.items() if own[0] is not None and own[1] is not None
    }
    wanted = {
        f"{one}–{other}": [((one, seed), (other, seed)) for seed in range(seeds)]
        for one, other in combinations(part.models, 2)
    }
    wanted |= {
        f"{model}, seeds": [((model, a), (model, b)) for a, b in combinations(range(seeds), 2)]
        for model in part.models
    }
    pairs = {
        name: [disagreement(decided[a], decided[b]) for a, b in own if a in decided and b in decided]
        for name, own in wanted.items()
    }
    return {name: values for name, values in pairs.items() if values}


def draw_cost(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    part = parts[0]
    rows = [["model", "method", "train s", "of normal", "inference ms", "of normal"]]
    bars: dict[str, dict[str, tuple[float, float]]] = {}
    normal: dict[str, tuple[float, float]] = {}
    for row in outcome["parts"][part.name]["rows"]:
        found = [cell["also"][COST] for cell in cells_of(row, part, outcome, out)]
        if not found:
            continue
        train, inference = (min(one[k] for one in found) for k in ("train_seconds", "inference_seconds"))
        if row["method"] == "normal":
            normal[row["model"]] = train, inference
        base = normal.get(row["model"])
        ratios = ["", ""] if base is None else [f"{train / base[0]:.2f}", f"{inference / base[1]:.2f}"]
        if base is not None:
            bars.setdefault(row["model"], {})[row["method"]] = (train / base[0], 0.0)
        rows.append([row["model"], row["method"], f"{train:.2f}", ratios[0], f"{inference * 1e3:.1f}", ratios[1]])
    if len(rows) == 1:
        return [NOT_RUN]
    write_csv(out / f"{name}.csv", rows)
    if not bars:
        return [as_markdown(rows)]
    with figure(out / name, (8.0, 3.8)) as axes:
        colours = method_colours({method: method for own in bars.values() for method in own})
        draw_bars(axes[0], bars, ("model", "training time over normal"), view.title, colours=colours)
    return [*_picture(name, view.title), as_markdown(rows)]


def _mean_and_std(values: list[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def _read_csv(path: Path) -> list[list[str]]:
    if not path.is_file():
        return []
    return list(csv.reader(read_plain(path, kind="lines", inside=True).splitlines(keepends=True)))


def _picture(name: str, words: str) -> list[str]:
    return [f"![{words}]({name}.svg)", ""]
