"""Self-contained HTML pages: what was trained, how it went, and which clicks or labels are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from accord.errors import DataError, SettingError
from accord.files import write_whole
from accord.report import plots
from accord.report.curves import (
    MOST_CLASSES,
    best_so_far,
    constant_maps,
    learning_curve,
    loss_curve,
    noise_map,
    quality_histogram,
)
from accord.report.decided import decided
from accord.report.flagged import MOST_ROWS, flagged_rows, with_rows
from accord.report.rendering import write_page
from accord.report.settings_table import meanings, settings_table, symbols_in
from accord.report.thumbnails import thumbnails

if TYPE_CHECKING:
    from accord.estimators import Classifier, Recommender
    from accord.estimators.base import Estimator
    from accord.estimators.issue_list import IssueList

WORST, MOST, PICTURED = 25, 10, 48
"""The worst labels that show without script, users and items with most noise, and pictures that show at once."""
SCRIPTS = "rows", "sortable", "flagged"
LEARNED = "as the noise model hφ learned it, which DeCA trains together with the classifier."
FOUND = "as the council's members found it in labels that they never saw."


def write_report(estimator: Estimator, path: str | Path, *, data: Any = None) -> Path:
    """The page of a trained estimator as one HTML file, and where it is.

    ``data`` is the table, its file, or the texts that a classifier was fitted on: flagged labels show their rows.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"'{path}' is a folder; name the file that the report is to be, such as report.html in it.")
    if estimator.kind == "recommender" and data is not None:
        raise SettingError("Only labels show the rows of their data; leave data= out for clicks.")
    one: Any = estimator
    try:
        if estimator.kind == "recommender":
            write_run_report(one, path)
        else:
            write_classifier_report(one, path, data)
    except OSError as error:
        raise DataError(f"'{path}' cannot be written: {error.strerror or error}; nothing was changed.") from error
    return path


def write_run_report(rec: Recommender, path: Path) -> None:
    """The page of one run."""
    from accord.evaluation.ranking import in_words

    issues, metric = rec.issue_list(), rec.settings.metric
    write_page(
        path,
        "run.html",
        SCRIPTS,
        title="Recommender report",
        decided=decided(rec),
        settings=rec.settings.model_dump(),
        own_settings=settings_table(rec.settings_to_save(), "clicks"),
        notes=rec.notes_,
        weights=_weights(rec.notes_),
        metrics=rec.metrics_,
        threshold=rec.threshold_,
        curve=learning_curve(rec.history_, rec.metrics_["validation"], metric, in_words(metric)),
        loss=loss_curve(rec.history_),
        quality=quality_histogram(issues.quality, issues.flagged, "clicks", rec.threshold_),
        worst=issues.slice(0, WORST).to_pylist(),
        flagged=flagged_rows(issues.first_flagged(MOST_ROWS), "clicks", of=issues.count),
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


def write_classifier_report(clf: Classifier, path: Path, data: Any = None) -> None:
    """The page of a classifier's run."""
    issues = clf.issues_table()
    names = [str(name) for name in clf.classes_]
    council = _council_rows(clf.notes_.get("council"), clf.metric)
    pictures = thumbnails(clf)
    flagged = flagged_rows(
        issues if data is None else with_rows(issues, clf, data),
        "labels",
        [(int(one["index"]), one["picture"]) for one in pictures],
        PICTURED,
    )
    for one in pictures:
        one["row"] = None if flagged is None else flagged["at"].get(int(one["index"]))
    write_page(
        path,
        "classifier.html",
        SCRIPTS,
        title="Classifier report",
        decided=decided(clf),
        model=clf.model_,
        settings=clf.settings.model_dump(),
        own_settings=settings_table(clf.settings_to_save(), "labels"),
        examples=len(clf.labels_),
        classes=names,
        noise=clf.notes_.get("noise"),
        metrics=clf.metrics_,
        train=int((clf.part_ == 0).sum()),
        valid=int((clf.part_ == 1).sum()),
        thumbnails=pictures[:PICTURED],
        matrix=noise_map(clf.noise_matrix_, names),
        matrix_words=_of_the_matrix("noise" in clf.networks_, bool(council), len(names)),
        quality=quality_histogram(clf.label_quality_, clf.is_issue_, "labels"),
        curve=learning_curve(clf.history_, clf.metrics_["validation"], "accuracy", "accuracy"),
        loss=loss_curve(clf.history_),
        named=clf.names_ is not None,
        worst=issues.slice(0, WORST).to_pylist(),
        flagged=flagged,
        notes=clf.notes_,
        weights=_weights(clf.notes_),
        council=council,
        by_class=_by_class(clf, names),
    )


def _of_the_matrix(learned: bool, council: bool, classes: int) -> str:
    """How the noise matrix came about, in words."""
    how = FOUND if council else LEARNED if learned else "counted by confident learning."
    most = f" The {MOST_CLASSES} classes with most noise." if classes > MOST_CLASSES else ""
    return f"P(given label | true class): the share of each true class that is given each label, {how}{most}"


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
    words = meanings(found["space"], "clicks" if "@" in found["metric"] else "labels")
    write_page(
        path,
        "search.html",
        SCRIPTS[:2],
        title="Search for settings",
        found=found,
        curve=best_so_far(found["rows"]),
        maps=constant_maps(found),
        meanings=words,
        symbols=symbols_in(words.values()),
        rows=sorted(found["rows"], key=lambda row: -row["value"])[:WORST],
        names=list(found["space"]),
    )


def write_comparison_report(summary: dict[str, Any], path: Path) -> None:
    """The page of a comparison."""
    from accord.report.tables import (
        comparison_rows,
        detection_rows,
        served_rows,
        what_intervals_mean,
        what_served_means,
    )

    write_page(
        path,
        "compare.html",
        title="Comparison of methods",
        summary=summary,
        table=comparison_rows(summary),
        intervals=what_intervals_mean(summary),
        served=served_rows(summary),
        served_words=what_served_means(summary),
        detection=detection_rows(summary),
        plots=comparison_panels(summary),
    )


def write_comparison_plot(summary: dict[str, Any], path: Path) -> None:
    """The bars of a comparison as a picture that carries its own colours."""
    write_whole(path, plots.beside(comparison_panels(summary)).alone())


def comparison_panels(summary: dict[str, Any], names: Sequence[str] | None = None) -> list[plots.Drawing]:
    """Bars of each metric, or of those that are named; a method has one colour, whatever its model."""
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
        for name in names or metric_names(summary)
    ]


def _most_noise(issues: IssueList, column: str) -> list[dict[str, Any]]:
    """Users or items with the most flagged clicks."""
    names, flagged, clicks, quality = issues.most_flagged(column)
    order = np.lexsort((quality, -flagged.astype(np.int64)))[:MOST]
    ids = names.take(pa.array(order)).to_pylist()
    return [
        {"id": i, "flagged": int(flagged[k]), "clicks": int(clicks[k]), "quality": float(quality[k])}
        for i, k in zip(ids, order, strict=True)
    ]
