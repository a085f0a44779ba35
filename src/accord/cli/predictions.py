"""`accord audit` without a run: labels, clicks or annotations, and what models say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from accord.cli import output, ui
from accord.cli.words import names_of, refuse_given
from accord.errors import SettingError

Answer = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    top: int
    share: float | None
    out: Path | None
    write_clean: Path | None
    write_issues: Path | None
    labels: Path | None
    pred_probs: Sequence[Path]
    classes: str | None
    label: str | None
    clicks: Path | None
    scores: Sequence[str]
    non_clicks: Path | None
    user: str | None
    item: str | None
    annotations: Path | None
    example: str
    annotator: str
    write_consensus: Path | None
    spreadsheet: bool = False

    def check(self) -> None:
        """Refuse what goes with something else, or cannot be written, before anything is read."""
        kinds = {"labels": self.labels, "clicks": self.clicks, "annotations": self.annotations}
        given = [name for name, value in kinds.items() if value is not None]
        if len(given) != 1:
            raise SettingError(
                "Say what to audit: a run folder, --labels FILE with --pred-probs FILE, --clicks FILE with scores, "
                "or --annotations FILE; one of them."
            )
        if self.labels is not None and not self.pred_probs:
            raise SettingError("Labels are judged by predictions: give --pred-probs FILE, once for each model.")
        if self.labels is None:
            why = "goes with labels, given with --labels FILE"
            refuse_given(why, pred_probs=None if self.annotations else self.pred_probs)
        if self.clicks is None:
            refuse_given(
                "goes with clicks, given with --clicks FILE", scores=self.scores, non_clicks=self.non_clicks
            )
        else:
            refuse_given("goes with labels", classes=self.classes, label=self.label)
        if self.annotations is None:
            refuse_given("goes with --annotations FILE", write_consensus=self.write_consensus)
        else:
            refuse_given("does not go with annotations, which have a rule of their own", share=self.share)
        output.check_audit(self.top, self.out, self.write_clean, self.write_issues, self.write_consensus)
        written = (self.write_clean, self.write_issues, self.write_consensus)
        output.check_spreadsheet(self.spreadsheet, self.out, None, *written)


def run_audit_predictions(asked: Asked) -> Answer:
    asked.check()
    if asked.labels is not None:
        return _audit_labels(asked, asked.labels)
    if asked.clicks is not None:
        return _audit_clicks(asked, asked.clicks)
    return _audit_annotations(asked, asked.annotations or Path())


def _audit_labels(asked: Asked, path: Path) -> Answer:
    from accord.predictions.files import read_labels
    from accord.predictions.labels import find_label_issues, notes_of

    with ui.busy("judging"):
        members = _members(asked.pred_probs)
        source, labels = read_labels(path, asked.label, len(next(iter(members.values()))))
        issues = find_label_issues(labels, members, classes=_classes(asked.classes), share=asked.share)
    rule = "taken for another class" if asked.share is None else f"the worst {asked.share:.1%}"
    return _show(asked, issues, source, "labels", rule, notes_of(issues)["weights"])


def _audit_clicks(asked: Asked, path: Path) -> Answer:
    from accord.data.reading import read_table
    from accord.predictions.clicks import find_click_issues
    from accord.predictions.labels import notes_of

    with ui.busy("judging"):
        source, _ = read_table(path)
        issues = find_click_issues(
            source,
            list(asked.scores) or None,
            non_clicks=asked.non_clicks,
            user=asked.user,
            item=asked.item,
            share=asked.share,
        )
    notes = notes_of(issues)
    rule = "no more meant than a non-click" if asked.share is None else f"the worst {asked.share:.1%}"
    if asked.share is None and not notes["rule"]:
        rule = "there is no rule without non-clicks: give --non-clicks FILE, or --share"
    return _show(asked, issues, source, "clicks", rule, notes["weights"])


def _audit_annotations(asked: Asked, path: Path) -> Answer:
    from accord.data.reading import read_table
    from accord.predictions.annotators import find_annotator_issues
    from accord.predictions.files import recognised

    label = asked.label or "label"
    with ui.busy("judging"):
        source, _ = read_table(path)
        table = source
        if label in source.column_names:
            at = source.column_names.index(label)
            table = source.set_column(at, label, recognised(source[label]))
        found = find_annotator_issues(
            table,
            _members(asked.pred_probs) if asked.pred_probs else None,
            example=asked.example,
            annotator=asked.annotator,
            label=label,
            classes=_classes(asked.classes),
        )
    shown = min(asked.top, found.annotators.num_rows)
    words = f"The {shown} least reliable annotators"
    answer: Answer = {"annotators": output.emit(found.annotators.slice(0, asked.top), "table", None, words)}
    answer |= _show(asked, found.issues, source, "labels", "not the consensus", {})
    if asked.write_consensus is not None:
        answer["consensus"] = output.emit(found.consensus, None, asked.write_consensus, "", asked.spreadsheet)
    return answer


def _show(
    asked: Asked, issues: pa.Table, source: pa.Table, what: str, rule: str, weights: dict[str, float]
) -> Answer:
    """Print or write as the audit of a run does."""
    from accord.predictions.files import with_verdicts, without_issues

    if asked.out is not None:
        answer = output.emit(issues, None, asked.out, "", asked.spreadsheet)
    else:
        shown = min(asked.top, issues.num_rows)
        words = f"The {shown} least believable {what}"
        answer = output.emit(issues.slice(0, asked.top), "table", None, words)
    flagged = int(issues["is_label_issue"].to_numpy().sum())
    answer |= {"judged": issues.num_rows, "flagged": flagged, "rule": rule, "weights": weights}
    ui.say(f"{flagged} of {issues.num_rows} {what} flagged ({rule})")
    if len(weights) > 1:
        ui.say("weights: " + ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items()))
    if asked.write_clean is not None:
        answer["clean"] = output.emit(
            without_issues(source, issues), None, asked.write_clean, "", asked.spreadsheet
        )
    if asked.write_issues is not None:
        answer["issues"] = output.emit(
            with_verdicts(source, issues), None, asked.write_issues, "", asked.spreadsheet
        )
    return answer


def _members(paths: Sequence[Path]) -> dict[str, Any]:
    """Each file by its name; by its whole path where names repeat."""
    from accord.predictions.files import read_probabilities

    names = [path.stem for path in paths]
    keys = names if len(set(names)) == len(names) else [str(path) for path in paths]
    if len(set(keys)) < len(keys):
        raise SettingError("--pred-probs names a file twice; name each once.")
    return {key: read_probabilities(path) for key, path in zip(keys, paths, strict=True)}


def _classes(words: str | None) -> pa.Array | None:
    from accord.predictions.files import recognised

    return None if words is None else recognised(pa.chunked_array([pa.array(names_of(words), pa.string())]))
