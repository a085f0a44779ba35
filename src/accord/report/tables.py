"""A comparison as rows of text: for the terminal, Markdown and CSV alike."""

from __future__ import annotations

import csv
import io
from typing import Any

from accord.evaluation.significance import OVER_SEEDS

SIGNIFICANT = 0.05
SMALLEST = 0.001
"""Smaller p-values are said to be smaller, and not how small."""
SEEDS_MARK = "‡"
"""Marks a p-value and an interval that users or examples are not counted in."""


def metric_names(summary: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for row in summary["rows"] for name in row["metrics"]))


def labels(summary: dict[str, Any]) -> list[str]:
    """Names of the rows: the method alone where there is one model; † marks knowledge no method has."""
    one = len(summary.get("models", ["one"])) == 1
    names = [row["method"] if one else f"{row['model']} {row['method']}".strip() for row in summary["rows"]]
    return [n + (" †" if row.get("uses_knowledge") else "") for n, row in zip(names, summary["rows"], strict=True)]


def best_rows(summary: dict[str, Any]) -> set[tuple[int, str]]:
    """(row, metric) with the highest mean of its model; rows that use knowledge no method has do not compete."""
    best = set()
    models = {row.get("model", "") for row in summary["rows"]}
    for model in models - {""} or models:  # a row without a model, popularity, competes with each
        for name in metric_names(summary):
            rows = [
                (row["metrics"][name]["mean"], k)
                for k, row in enumerate(summary["rows"])
                if row.get("model", "") in (model, "") and name in row["metrics"] and not row.get("uses_knowledge")
            ]
            if rows:
                best.add((max(rows)[1], name))
    return best


def comparison_rows(summary: dict[str, Any], bold: tuple[str, str] = ("", "")) -> list[list[str]]:
    """Header and one row per method: mean ± std of each metric, what it is ahead of normal, seconds of training."""
    best, names = best_rows(summary), metric_names(summary)
    metric = next((row["against_normal"]["metric"] for row in summary["rows"] if "against_normal" in row), "")
    rows = [["method", *names, *([f"{metric} against normal", "p"] if metric else []), "train s"]]
    for k, (row, label) in enumerate(zip(summary["rows"], labels(summary), strict=True)):
        cells = []
        for name in names:
            value = row["metrics"].get(name)
            spread = row.get("seeds", summary.get("seeds", 2)) > 1
            text = "" if value is None else f"{value['mean']:.4f}" + (f"±{value['std']:.4f}" if spread else "")
            cells.append(f"{bold[0]}{text}{bold[1]}" if (k, name) in best else text)
        if metric:
            cells += [shown_gain(row), shown_p(row, directed=True)]
        rows.append([label, *cells, f"{row['seconds']:.1f}" if row.get("seeds", 1) else "not run"])
    return rows


def is_over_seeds(row: dict[str, Any]) -> bool:
    return row.get("against_normal", {}).get("over") == OVER_SEEDS


def shown_gain(row: dict[str, Any]) -> str:
    """How far a row is ahead of normal, and the 95 % interval."""
    found = row.get("against_normal", {})
    if "low" not in found:  # as older tables are
        return ""
    return f"{found['difference']:+.4f} [{found['low']:+.4f}, {found['high']:+.4f}]"


def shown_p(row: dict[str, Any], star: str = "", directed: bool = False) -> str:
    """A row's p-value against normal; ``star`` marks those beyond chance.

    With ``directed`` it says whether the row is ahead of normal or behind it.
    """
    found = row.get("against_normal", {})
    p = found.get("p_holm")
    if p is None:
        return ""
    words = "<0.001" if p < SMALLEST else f"{p:.3f}"
    if directed and found.get("difference"):
        words += " ahead" if found["difference"] > 0 else " behind"
    return f"{words}{star if p < SIGNIFICANT else ''}{f' {SEEDS_MARK}' if is_over_seeds(row) else ''}"


def words_of_seeds(summary: dict[str, Any]) -> str:
    """Over how many seeds a table is, and what its cells hold."""
    return "1 seed" if summary["seeds"] == 1 else f"{summary['seeds']} seeds, mean ± std"


def what_intervals_mean(summary: dict[str, Any]) -> str:
    """A sentence on what the intervals and p-values of a table are over; nothing where there are none."""
    rows = [row for row in summary["rows"] if "low" in row.get("against_normal", {})]
    if not rows:
        return ""
    kinds = list(dict.fromkeys(row["against_normal"]["over"] for row in rows if not is_over_seeds(row)))
    kinds = [f"over {over}{'' if ' and ' in over else ' alone, as there is one seed'}" for over in kinds]
    if any(map(is_over_seeds, rows)):
        mark = f", marked {SEEDS_MARK}," if kinds else ""
        kinds.append(f"{mark} over seeds alone, as values of each user or example are not at hand".strip(", "))
    apart = ", for each of these apart" if len(kinds) > 1 else ""
    of = summary.get("models", [""])[0]
    alone = any(row.get("model") == "" for row in rows) and len(summary.get("models", [])) > 1
    other = f" A row of no model is compared with normal of {of}." if alone else ""
    what = f"Against normal: the difference, its 95 % interval and p {' or, '.join(kinds)}"
    return f"{what}; p Holm-corrected{apart}.{other}"


def served_rows(summary: dict[str, Any]) -> list[list[str]]:
    """The row that noisy validation chooses of each model and of all, and what the clean test says of it."""
    found = summary.get("served", [])
    if not found:
        return []
    names = list(dict.fromkeys(name for one in found for name in one["metrics"]))
    rows = [["best served, by validation", "row", *names]]
    for one in found:
        means = (f"{one['metrics'][name]['mean']:.4f}" if name in one["metrics"] else "" for name in names)
        rows.append([one["of"], one["method"] if one["model"] == one["of"] else row_of(one), *means])
    return rows


def row_of(one: dict[str, Any]) -> str:
    return f"{one['model']} {one['method']}".strip()


def what_served_means(summary: dict[str, Any]) -> str:
    """A sentence on rows that validation cannot judge as they are served; nothing where there are none."""
    names = list(dict.fromkeys(row["method"] for row in summary["rows"] if row.get("validates_part")))
    if not names or not summary.get("served"):
        return ""
    which = " and ".join(names)
    return f"Validation judges single networks of {which}, not their mean: it chooses such a row too seldom."


def detection_rows(summary: dict[str, Any]) -> list[list[str]]:
    """ROC-AUC of each kind of noise for each method, and for item popularity alone."""
    popularity = summary.get("popularity_auc_by_kind")
    if popularity is None:
        return []
    rows = [["noise found by (ROC-AUC)", *popularity]]
    for row, label in zip(summary["rows"], labels(summary), strict=True):
        if "auc_by_kind" in row:
            rows.append([label, *(f"{row['auc_by_kind'][k]:.3f}" for k in popularity)])
    return [*rows, ["item popularity", *(f"{v:.3f}" for v in popularity.values())]]


def as_markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def as_csv(summary: dict[str, Any]) -> str:
    names = metric_names(summary)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    parts = [f"{name} {part}" for name in names for part in ("mean", "std")]
    tests = ("difference", "low", "high", "over", "p", "p_holm")
    writer.writerow(["model", "method", *parts, *tests, "train_seconds"])
    for row in summary["rows"]:
        values = [
            f"{row['metrics'][name][part]:.6f}" if name in row["metrics"] else ""
            for name in names
            for part in ("mean", "std")
        ]
        found = row.get("against_normal", {})
        said = [found.get(name, "") for name in tests]
        seconds = f"{row['seconds']:.3f}" if row["metrics"] else ""
        writer.writerow([row.get("model", ""), row["method"], *values, *said, seconds])
    return out.getvalue()
