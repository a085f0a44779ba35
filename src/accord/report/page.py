"""Self-contained HTML pages: what was trained, how it went, and which clicks or labels are wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from accord.files import write_whole
from accord.report import plots
from accord.report.thumbnails import thumbnails

if TYPE_CHECKING:
    from accord.estimators import Classifier, Recommender

WORST, MOST = 25, 10
MOST_CLASSES, BINS = 40, 50
SMALL, WIDE = (440.0, 290.0), (900.0, 300.0)
"""Sizes of a plot that has one beside it, and of one that has none."""
LEARNED = "as the noise model hφ learned it, which DeCA trains together with the classifier."
FOUND = "as the council's members found it in labels that they never saw."


def write_run_report(rec: Recommender, path: Path) -> None:
    """The page of one run."""
    issues = rec.issues_table()
    _write(
        path,
        "run.html",
        title="Recommender report",
        settings=rec.settings.model_dump(),
        notes=rec.notes_,
        weights=_weights(rec.notes_),
        metrics=rec.metrics_,
        curve=_learning_curve(rec.history_, rec.metrics_["validation"], "ndcg@20", "NDCG@20"),
        loss=_loss_curve(rec.history_),
        quality=_quality_histogram(
            np.asarray(issues["label_quality"]), np.asarray(issues["is_label_issue"]), "clicks", rec.threshold_
        ),
        worst=issues.slice(0, WORST).to_pylist(),
        council=_council_rows(rec.notes_.get("council"), rec.metric),
        users=_most_noise(issues, "user"),
        items=_most_noise(issues, "item"),
    )


def _weights(notes: dict[str, Any]) -> str:
    """What became of the weights of a model that was handed over."""
    if "weights" not in notes:
        return ""
    from accord.estimators.handed import in_words

    return f"The model came with weights: {in_words(notes['weights'])}."


def _council_rows(council: dict[str, Any] | None, metric: str) -> list[dict[str, Any]]:
    """The members of a council by round and kind: how many, how good alone, what they count, and what they cost."""
    if council is None:
        return []
    rows = []
    for number, kind in dict.fromkeys((row.get("round", 0), row["model"]) for row in council["members"]):
        own = [row for row in council["members"] if (row.get("round", 0), row["model"]) == (number, kind)]
        alone = [row[metric] for row in own if metric in row and "fold" not in row]
        unseen = [row["out_of_fold"] for row in own if "out_of_fold" in row]
        rows.append(
            {
                "round": number,
                "model": kind,
                "members": len(own),
                "alone": sum(alone) / len(alone) if alone else None,
                "out_of_fold": sum(unseen) / len(unseen) if unseen else None,
                "weight": council["weights"].get(kind, 0.0),
                "quality": council["quality_weights"].get(kind),
                "seconds": sum(row["seconds"] for row in own),
            }
        )
    return rows


def write_classifier_report(clf: Classifier, path: Path) -> None:
    """The page of a classifier's run."""
    issues = clf.issues_table()
    names = [str(name) for name in clf.classes_]
    learned = "noise" in clf.networks_
    council = _council_rows(clf.notes_.get("council"), clf.metric)
    _write(
        path,
        "classifier.html",
        title="Classifier report",
        model=clf.model_,
        settings=clf.settings.model_dump(),
        examples=len(clf.labels_),
        classes=names,
        noise=clf.notes_.get("noise"),
        metrics=clf.metrics_,
        train=int((clf.part_ == 0).sum()),
        valid=int((clf.part_ == 1).sum()),
        thumbnails=thumbnails(clf),
        matrix=_noise_map(clf.noise_matrix_, names),
        matrix_words="P(given label | true class), "
        + (FOUND if council else LEARNED if learned else "counted by confident learning.")
        + (f" The {MOST_CLASSES} classes with most noise." if len(names) > MOST_CLASSES else ""),
        quality=_quality_histogram(clf.label_quality_, clf.is_issue_, "labels"),
        curve=_learning_curve(clf.history_, clf.metrics_["validation"], "accuracy", "accuracy"),
        loss=_loss_curve(clf.history_),
        named=clf.names_ is not None,
        worst=issues.slice(0, WORST).to_pylist(),
        notes=clf.notes_,
        weights=_weights(clf.notes_),
        council=council,
        by_class=_by_class(clf, names),
    )


def _noise_map(matrix: np.ndarray, names: list[str]) -> plots.Drawing:
    at = np.sort(np.argsort(np.diag(matrix), kind="stable")[:MOST_CLASSES])
    shown = [names[k] for k in at]
    return plots.heat_map(
        matrix[np.ix_(at, at)].tolist(),
        shown,
        shown,
        ("true class", "given label"),
        "How labels go wrong",
        limits=(0.0, 1.0),
        words=_share,
        square=True,
        size=(440.0, 440.0),
    )


def _share(value: float) -> str:
    """Two places, and nothing for what does not show in them."""
    return "" if value < 0.005 else f"{value:.2f}".removeprefix("0")


def _by_class(clf: Classifier, names: list[str]) -> list[dict[str, Any]]:
    """Of each given label: examples, flagged ones and mean quality; most flagged first."""
    count = np.bincount(clf.labels_, minlength=len(names))
    flagged = np.bincount(clf.labels_, clf.is_issue_, minlength=len(names))
    quality = np.bincount(clf.labels_, clf.label_quality_, minlength=len(names)) / np.maximum(count, 1)
    order = np.argsort(-flagged, kind="stable")[:100]
    return [
        {"name": names[k], "examples": int(count[k]), "flagged": int(flagged[k]), "quality": float(quality[k])}
        for k in order
    ]


def write_search_report(found: dict[str, Any], path: Path) -> None:
    """The page of a search: the winner, best so far, and a heat map of the two constants if both were searched."""
    _write(
        path,
        "search.html",
        title="Search for settings",
        found=found,
        curve=_best_so_far(found["rows"]),
        maps=_constant_maps(found),
        rows=sorted(found["rows"], key=lambda row: -row["value"])[:WORST],
        names=list(found["space"]),
    )


def _best_so_far(rows: list[dict[str, Any]]) -> plots.Drawing:
    values = [row["value"] for row in rows]
    best = np.maximum.accumulate(values)
    series = {
        "best so far": [(k + 1, float(v)) for k, v in enumerate(best)],
        "trial": [(k + 1, v) for k, v in enumerate(values)],
    }
    return plots.lines(series, ("trial", "noisy validation"), "The search", size=WIDE)


def _constant_maps(found: dict[str, Any]) -> list[plots.Drawing]:
    """Best value of each pair of constants, over all other settings."""
    maps = []
    for down, across in (("c0", "c1"), ("c1", "c2")):
        if not {down, across} <= set(found["space"]):
            continue
        rows, columns = (sorted(found["space"][name]) for name in (down, across))
        best = np.full((len(rows), len(columns)), np.nan)
        for row in found["rows"]:
            if not {down, across} <= set(row["settings"]):
                continue  # the default ones
            at = rows.index(row["settings"][down]), columns.index(row["settings"][across])
            best[at] = np.fmax(best[at], row["value"])
        names = [f"{v:g}" for v in rows], [f"{v:g}" for v in columns]
        maps.append(plots.heat_map(best.tolist(), *names, (down, across), f"Best value by {down} and {across}"))
    return maps


def write_comparison_report(summary: dict[str, Any], path: Path) -> None:
    """The page of a comparison."""
    from accord.report.tables import (
        comparison_rows,
        detection_rows,
        served_rows,
        what_intervals_mean,
        what_served_means,
    )

    _write(
        path,
        "compare.html",
        title="Comparison of methods",
        summary=summary,
        table=comparison_rows(summary),
        intervals=what_intervals_mean(summary),
        served=served_rows(summary),
        served_words=what_served_means(summary),
        detection=detection_rows(summary),
        plots=_panels(summary),
    )


def write_comparison_plot(summary: dict[str, Any], path: Path) -> None:
    """The bars of a comparison as a picture that carries its own colours."""
    write_whole(path, plots.beside(_panels(summary)).alone())


def _panels(summary: dict[str, Any]) -> list[plots.Drawing]:
    """Bars of each metric; a method has one colour, whatever its model."""
    from accord.report.tables import labels, metric_names

    named = list(zip(labels(summary), summary["rows"], strict=True))
    methods = plots.assigned(row["method"] for _, row in named)
    colours = {label: methods[row["method"]] for label, row in named}
    return [
        plots.bar_panel(
            name,
            {
                label: (row["metrics"][name]["mean"], row["metrics"][name]["std"])
                for label, row in named
                if name in row["metrics"]
            },
            colours=colours,
        )
        for name in metric_names(summary)
    ]


def _environment() -> Environment:
    return Environment(loader=PackageLoader("accord.report"), autoescape=select_autoescape(), trim_blocks=True)


def _write(path: Path, template: str, **values: Any) -> None:
    style = Markup(plots.variables() + plots.style())
    write_whole(path, _environment().get_template(template).render(style=style, **values))


def _phases(history: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    phases: dict[str, list[dict[str, Any]]] = {}
    for record in history:
        phases.setdefault(record["phase"], []).append(record)
    return phases


def _learning_curve(
    history: list[dict[str, Any]], kept: dict[str, dict[str, Any]], metric: str, words: str
) -> plots.Drawing | str:
    """A validation metric by epoch; a ring marks the epoch that was kept."""
    phases = {n: [r for r in rs if "valid" in r] for n, rs in _phases(history).items()}
    series = {n: [(r["epoch"], r["valid"][metric]) for r in rs] for n, rs in phases.items() if rs}
    if not series:
        return ""
    rings = [(one["epoch"], one[metric]) for name, one in kept.items() if name in series and metric in one]
    labels = "epoch", f"{words} on noisy validation"
    return plots.lines(series, labels, "Learning curves", rings=rings, dots=False)


def _loss_curve(history: list[dict[str, Any]]) -> plots.Drawing:
    """Loss as a share of each phase's first, since phases have losses of different sizes."""
    series = {
        name: [(r["epoch"], r["loss"] / (abs(records[0]["loss"]) or 1)) for r in records]
        for name, records in _phases(history).items()
    }
    return plots.lines(series, ("epoch", "training loss, first epoch = 1"), "Training loss", dots=False)


def _quality_histogram(
    quality: np.ndarray, flagged: np.ndarray, what: str, threshold: float | None = None
) -> plots.Drawing:
    shown = quality if threshold is None else np.append(quality, threshold)
    counts, edges = np.histogram(quality, BINS, _twentieths(shown))
    return plots.histogram(
        counts.tolist(),
        edges.tolist(),
        ("label quality (1 = clean)", what),
        "Label quality",
        flagged=np.histogram(quality[flagged.astype(bool)], edges)[0].tolist(),
        cut=threshold,
        size=SMALL if threshold is None else WIDE,
    )


def _twentieths(values: np.ndarray) -> tuple[float, float]:
    """The range of the values, in steps of 0.05: where all are alike, bars from 0 to 1 would be one bar."""
    low, high = math.floor(20 * values.min(initial=1.0)), math.ceil(20 * values.max(initial=0))
    return min(low / 20, values.min(initial=1.0)), max(high / 20, (low + 1) / 20, values.max(initial=0.0))


def _most_noise(issues: pa.Table, column: str) -> list[dict[str, Any]]:
    """Users or items with the most flagged clicks."""
    grouped = issues.group_by(column).aggregate(
        [("is_label_issue", "sum"), ("is_label_issue", "count"), ("label_quality", "mean")]
    )
    names = ["is_label_issue_sum", "is_label_issue_count", "label_quality_mean"]
    flagged, clicks, quality = (np.asarray(grouped[name]) for name in names)
    order = np.lexsort((quality, -flagged.astype(np.int64)))[:MOST]
    ids = grouped[column].take(pa.array(order)).to_pylist()
    return [
        {"id": i, "flagged": int(flagged[k]), "clicks": int(clicks[k]), "quality": float(quality[k])}
        for i, k in zip(ids, order, strict=True)
    ]
