"""A comparison as rows of text: for the terminal, Markdown and CSV alike."""

from __future__ import annotations

import csv
import io
from typing import Any


def metric_names(summary: dict[str, Any]) -> list[str]:
    return list(summary["rows"][0]["metrics"])


def best_methods(summary: dict[str, Any]) -> dict[str, str]:
    """For each metric the method with the highest mean."""
    return {
        name: max(summary["rows"], key=lambda row: row["metrics"][name]["mean"])["method"]
        for name in metric_names(summary)
    }


def comparison_rows(summary: dict[str, Any], bold: tuple[str, str] = ("", "")) -> list[list[str]]:
    """Header and one row per method: mean ± std of each metric, and seconds of training."""
    best = best_methods(summary)
    rows = [["method", *metric_names(summary), "train s"]]
    for row in summary["rows"]:
        cells = []
        for name, value in row["metrics"].items():
            text = f"{value['mean']:.4f}±{value['std']:.4f}"
            cells.append(f"{bold[0]}{text}{bold[1]}" if best[name] == row["method"] else text)
        rows.append([row["method"], *cells, f"{row['seconds']:.1f}"])
    return rows


def detection_rows(summary: dict[str, Any]) -> list[list[str]]:
    """ROC-AUC of each kind of noise for each method, and for item popularity alone."""
    popularity = summary.get("popularity_auc_by_kind")
    if popularity is None:
        return []
    rows = [["noise found by (ROC-AUC)", *popularity]]
    rows += [[r["method"], *(f"{r['auc_by_kind'][k]:.3f}" for k in popularity)] for r in summary["rows"]]
    return [*rows, ["item popularity", *(f"{v:.3f}" for v in popularity.values())]]


def as_markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def as_csv(summary: dict[str, Any]) -> str:
    names = metric_names(summary)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", *(f"{n} {part}" for n in names for part in ("mean", "std")), "train_seconds"])
    for row in summary["rows"]:
        values = [f"{row['metrics'][n][part]:.6f}" for n in names for part in ("mean", "std")]
        writer.writerow([row["method"], *values, f"{row['seconds']:.3f}"])
    return out.getvalue()
