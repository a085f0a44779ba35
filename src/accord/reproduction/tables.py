"""The tables of a study's page: ours, the paper's with them, and how both compare with normal training."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from accord.files import whole_file
from accord.report.tables import (
    SEEDS_MARK,
    as_markdown,
    served_rows,
    shown_gain,
    shown_p,
    what_intervals_mean,
    what_served_means,
)
from accord.reproduction.paper_numbers import paper_value
from accord.reproduction.parts import Part, View

NOT_RUN = "not run"
KNOWS = "†"
"""The mark of rows that use knowledge no method has."""
ROUNDING = 5e-5
"""Differences that do not show in four digits are none."""


def draw_table(view: View, parts: list[Part], outcome: dict[str, Any], out: Path, name: str) -> list[str]:
    lines, names, said = list[str](), list[str](), dict[str, None]()
    for part in parts:
        summary = outcome["parts"][part.name]
        rows = _rows_of(view, part, summary)
        write_csv(out / f"{name}-{part.folder}.csv", rows)
        lines += [f"### {part.name}", "", as_markdown(rows)] if len(parts) > 1 else [as_markdown(rows)]
        lines += _served(summary)
        lines += _way_to_oracle(view, summary)
        names += [row[1] for row in rows]
        said |= dict.fromkeys([what_intervals_mean(summary), what_served_means(summary)])
    return [*lines, *(line for words in said if words for line in (words, "")), *what_marks_mean(names)]


def _served(summary: dict[str, Any]) -> list[str]:
    """Which row validation chooses, in a sentence for each model and for all."""
    if not served_rows(summary):
        return []
    (head, *rows), lines = served_rows(summary), list[str]()
    for of, row, *values in rows:
        means = ", ".join(f"{name} {value}" for name, value in zip(head[2:], values, strict=True) if value)
        lines.append(f"- {of}: **{row}** ({means})")
    return ["Best served row, chosen by validation alone:", "", *lines, ""]


def _rows_of(view: View, part: Part, summary: dict[str, Any]) -> list[list[str]]:
    """Ours, the paper's, better or worse than normal of the same model, and whether that is beyond chance."""
    names = [n for n in dict.fromkeys(n for row in summary["rows"] for n in row["metrics"]) if "valid" not in n]
    any_row = {"model": summary["rows"][-1]["model"]}
    with_paper = [n for n in names if view.paper and paper_of(view.paper, part, any_row, n)]
    head = ["model", "method", *(n for m in names for n in ([m, f"paper {m}"] if m in with_paper else [m]))]
    rows = [[*head, f"{view.metric} against normal", "p (Holm)", "seeds"]]
    normal = {r["model"]: r["metrics"] for r in summary["rows"] if r["method"] == "normal"}
    for row in summary["rows"]:
        cells = [row["model"], named(row)]
        for metric in names:
            value = row["metrics"].get(metric)
            cells.append(NOT_RUN if value is None and not row["metrics"] else _mean(value))
            if metric in with_paper:
                theirs = paper_of(view.paper, part, row, metric)
                cells.append("" if theirs is None else f"{theirs:.3f}")
        seeds = str(row["seeds"]) if row["seeds"] else NOT_RUN
        rows.append([*cells, _gain(row, normal.get(row["model"], {}), view.metric), shown_p(row, " *"), seeds])
    return rows


def _gain(row: dict[str, Any], normal: dict[str, Any], metric: str) -> str:
    """With an interval, or without one where a row was not compared."""
    interval = shown_gain(row) if row.get("against_normal", {}).get("metric") == metric else ""
    if interval or row["method"] == "normal" or not {metric} <= row["metrics"].keys() & normal.keys():
        return interval
    return f"{row['metrics'][metric]['mean'] - normal[metric]['mean']:+.4f}"


def _mean(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{value['mean']:.4f} ± {value['std']:.4f}"


def paper_of(paper: str, part: Part, row: Mapping[str, Any], metric: str) -> float | None:
    """The number of a row's model and method, or of any of the model where no method is given."""
    wanted = {key: row[key] for key in ("model", "method") if key in row}
    if paper == "images":
        return paper_value(paper, data=part.data, noise=f"{part.level:g}", **wanted)
    return paper_value(paper, data=part.data, metric=metric, **wanted)


def _way_to_oracle(view: View, summary: dict[str, Any]) -> list[str]:
    """The share of the way from normal to oracle that each method goes, where there is such a way.

    An oracle whose interval reaches down to normal may be ahead by luck: a share of that says nothing.
    """
    by = {(row["model"], row["method"]): row["metrics"].get(view.metric, {}).get("mean") for row in summary["rows"]}
    certain = {
        row["model"]: row.get("against_normal", {}).get("low", 1.0) > 0
        for row in summary["rows"]
        if row["method"] == "oracle"
    }
    lines = list[str]()
    for model in summary["models"]:
        low, high = by.get((model, "normal")), by.get((model, "oracle"))
        if low is None or high is None or high - low < ROUNDING or not certain[model]:  # nowhere to go
            continue
        way = {
            method: (value - low) / (high - low)
            for (m, method), value in by.items()
            if m == model and value is not None and method not in ("normal", "oracle")
        }
        words = ", ".join(f"{method} {share:+.0%}" for method, share in way.items())
        lines.append(f"- {model}: normal {low:.4f}, oracle {high:.4f}; of the way: {words}.")
    words = "Share of the way from normal to oracle, where the oracle is ahead beyond chance (not corrected):"
    return [words, "", *lines, ""] if lines else []


def named(row: dict[str, Any]) -> str:
    return row["method"] + (f" {KNOWS}" if row.get("uses_knowledge") else "")


def what_marks_mean(labels: Iterable[str]) -> list[str]:
    """What the marks mean that are shown."""
    shown, lines = "".join(labels), list[str]()
    if KNOWS in shown:
        lines += ["", f"{KNOWS} knows clean labels, or which clicks are clean, as no other row does."]
    if SEEDS_MARK in shown:
        words = "over seeds alone, by Welch's t-test: values of each user or example are not at hand."
        lines += ["", f"{SEEDS_MARK} {words}"]
    return lines


def write_csv(path: Path, rows: list[list[str]]) -> None:
    with whole_file(path) as draft, draft.open("x", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
