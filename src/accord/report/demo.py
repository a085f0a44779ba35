"""The first page of the demo: what was found, what it gained, and where the reports are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from accord.report.page import comparison_panels
from accord.report.rendering import write_page
from accord.report.thumbnails import thumbnails

if TYPE_CHECKING:
    from accord.estimators import Classifier, Recommender

CLICKS, PICTURES = 12, 24
"""Worst clicks and worst labels that are shown."""
KINDS = {
    "misclick": "slip",
    "conformity": "crowd",
    "promotion": "push",
    "": "true like",
}
"""What the simulator knows of a click, in words."""


def write_demo_page(
    path: Path,
    compared: dict[str, dict[str, Any]],
    rec: Recommender,
    clf: Classifier,
    marked: pa.Table,
    wrong: np.ndarray,
) -> None:
    """``compared`` are the summaries by task; ``marked`` and ``wrong`` are the truth of clicks and of labels."""
    panels = {"clicks": ("ndcg@20", "noise auc"), "labels": ("accuracy", "noise auc")}
    write_page(
        path,
        "demo.html",
        title="accord: what the demo found",
        clicks={"count": marked.num_rows, "noisy": float(np.mean(np.asarray(marked["is_noise"])))},
        labels={"count": len(wrong), "noisy": float(wrong.mean())},
        found={"clicks": rec.evaluate_issues(marked), "labels": clf.evaluate_issues(wrong)},
        flagged={one.kind: one.metrics_["label_issues"]["flagged"] for one in (rec, clf)},
        plots={task: comparison_panels(compared[task], names) for task, names in panels.items()},
        gained={task: gained(summary, panels[task][0]) for task, summary in compared.items()},
        worst=worst_clicks(rec, marked),
        thumbnails=thumbnails(clf)[:PICTURES],
        wrong=wrong,
    )


def gained(summary: dict[str, Any], metric: str) -> dict[str, Any]:
    """The metric of plain training and of the last method, and whether they differ beyond chance."""
    rows = {row["method"]: row for row in summary["rows"]}
    last = summary["rows"][-1]
    return {
        "method": last["method"],
        "normal": rows["normal"]["metrics"][metric]["mean"],
        "own": last["metrics"][metric]["mean"],
        "against": last.get("against_normal"),
    }


def worst_clicks(rec: Recommender, marked: pa.Table) -> list[dict[str, Any]]:
    """The clicks that look worst, each with what it is in truth."""
    known = zip(*(marked[name].to_pylist() for name in ("user", "item", "kind")), strict=True)
    kinds = {(user, item): kind for user, item, kind in known}
    rows = rec.issue_list().slice(0, CLICKS).to_pylist()
    return [row | {"truth": KINDS.get(kinds[row["user"], row["item"]], KINDS[""])} for row in rows]
