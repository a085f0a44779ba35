"""Self-contained HTML pages: what was trained, how it went, and which clicks or labels are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from accord.estimators import Recommender
from accord.files import write_whole
from accord.report import plots
from accord.report.thumbnails import thumbnails
from accord.studies.tables import comparison_rows, detection_rows, labels, metric_names

if TYPE_CHECKING:
    from accord.estimators import Classifier

WORST, MOST = 25, 10
MOST_CLASSES = 40


def write_run_report(rec: Recommender, path: Path) -> None:
    """The page of one run."""
    issues = rec.find_label_issues()
    _write(
        path,
        "run.html",
        title="Recommender report",
        settings=rec.settings.model_dump(),
        notes=rec.notes_,
        metrics=rec.metrics_,
        curve=Markup(_learning_curve(rec.history_)),
        loss=Markup(_loss_curve(rec.history_)),
        quality=Markup(_quality_histogram(np.asarray(issues["label_quality"]), rec.threshold_)),
        worst=issues.slice(0, WORST).to_pylist(),
        users=_most_noise(issues, "user"),
        items=_most_noise(issues, "item"),
    )


def write_classifier_report(clf: Classifier, path: Path) -> None:
    """The page of a classifier's run."""
    issues = clf.find_label_issues()
    names = [str(name) for name in clf.classes_]
    learned = "noise" in clf.networks_
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
        matrix=Markup(_noise_map(clf.noise_matrix_, names)),
        matrix_words="P(given label | true class), "
        + ("as the noise model hφ learned it." if learned else "counted by confident learning.")
        + (f" The {MOST_CLASSES} classes with most noise." if len(names) > MOST_CLASSES else ""),
        quality=Markup(_quality_histogram(clf.label_quality_, None, "labels")),
        curve=Markup(_learning_curve(clf.history_, "accuracy", "accuracy")),
        loss=Markup(_loss_curve(clf.history_)),
        named=clf.names_ is not None,
        worst=issues.slice(0, WORST).to_pylist(),
        by_class=_by_class(clf, names),
    )


def _noise_map(matrix: np.ndarray, names: list[str]) -> str:
    shown = np.sort(np.argsort(np.diag(matrix), kind="stable")[:MOST_CLASSES])
    part = matrix[np.ix_(shown, shown)]
    return plots.heat_map(part.tolist(), [names[k] for k in shown], ("true class", "given label"), "Noise")


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
        curve=Markup(_best_so_far(found["rows"])),
        maps=[Markup(picture) for picture in _constant_maps(found)],
        rows=sorted(found["rows"], key=lambda row: -row["value"])[:WORST],
        names=list(found["space"]),
    )


def _best_so_far(rows: list[dict[str, Any]]) -> str:
    values = [row["value"] for row in rows]
    best = np.maximum.accumulate(values)
    series = {
        "best so far": [(k + 1, float(v)) for k, v in enumerate(best)],
        "trial": [(k + 1, v) for k, v in enumerate(values)],
    }
    return plots.lines(series, ("trial", "noisy validation"), "The search")


def _constant_maps(found: dict[str, Any]) -> list[str]:
    """Best value of each pair of constants, over all other settings, as a share of the way from worst to best."""
    maps = []
    for down, across in (("c0", "c1"), ("c1", "c2")):
        if not {down, across} <= set(found["space"]):
            continue
        rows, columns = (sorted(found["space"][name]) for name in (down, across))
        best = np.full((len(rows), len(columns)), np.nan)
        for row in found["rows"]:
            at = rows.index(row["settings"][down]), columns.index(row["settings"][across])
            best[at] = np.nanmax([best[at], row["value"]])
        maps.append(
            plots.value_map(
                best.tolist(), [f"{v:g}" for v in rows], [f"{v:g}" for v in columns], (down, across), "Constants"
            )
        )
    return maps


def write_comparison_report(summary: dict[str, Any], path: Path) -> None:
    """The page of a comparison."""
    _write(
        path,
        "compare.html",
        title="Comparison of methods",
        summary=summary,
        table=comparison_rows(summary),
        detection=detection_rows(summary),
        plots=[Markup(panel) for panel in _panels(summary)],
    )


def write_comparison_plot(summary: dict[str, Any], path: Path) -> None:
    """The bars of a comparison as a picture that carries its own colours."""
    picture = plots.beside(_panels(summary), rows=len(summary["rows"]))
    style = _environment().get_template("style.css").render()
    write_whole(path, picture.replace(">", f"><style>{style}</style>", 1))


def _panels(summary: dict[str, Any]) -> list[str]:
    named = list(zip(labels(summary), summary["rows"], strict=True))
    return [
        plots.bars(
            name,
            {
                label: (row["metrics"][name]["mean"], row["metrics"][name]["std"])
                for label, row in named
                if name in row["metrics"]
            },
        )
        for name in metric_names(summary)
    ]


def _environment() -> Environment:
    return Environment(loader=PackageLoader("accord.report"), autoescape=select_autoescape(), trim_blocks=True)


def _write(path: Path, template: str, **values: Any) -> None:
    write_whole(path, _environment().get_template(template).render(**values))


def _phases(history: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    phases: dict[str, list[dict[str, Any]]] = {}
    for record in history:
        phases.setdefault(record["phase"], []).append(record)
    return phases


def _learning_curve(history: list[dict[str, Any]], metric: str = "ndcg@20", words: str = "NDCG@20") -> str:
    """A validation metric by epoch; a ring marks the epoch that was kept."""
    phases = {n: [r for r in rs if "valid" in r] for n, rs in _phases(history).items()}
    series = {n: [(r["epoch"], r["valid"][metric]) for r in rs] for n, rs in phases.items() if rs}
    if not series:
        return ""
    marks = [max(points, key=lambda p: p[1]) for points in series.values()]
    return plots.lines(series, ("epoch", f"{words} on noisy validation"), "Learning curves", marks)


def _loss_curve(history: list[dict[str, Any]]) -> str:
    """Loss as a share of each phase's first, since phases have losses of different sizes."""
    series = {
        name: [(r["epoch"], r["loss"] / (abs(records[0]["loss"]) or 1)) for r in records]
        for name, records in _phases(history).items()
    }
    return plots.lines(series, ("epoch", "training loss, first epoch = 1"), "Training loss")


def _quality_histogram(quality: np.ndarray, threshold: float | None, what: str = "clicks") -> str:
    counts, edges = np.histogram(quality, bins=50, range=(0, 1))
    words = ("label quality (1 = clean)", what)
    return plots.histogram(counts.tolist(), edges.tolist(), words, "Label quality", threshold)


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
