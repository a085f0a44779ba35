"""What can be asked of a saved run, of any task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from accord.estimators.handed import in_words
from accord.estimators.issue_list import IssueList
from accord.estimators.run_folder import kind_of
from accord.estimators.trust import better_member, voiced
from accord.files import standing

Rows = list[list[str]]
"""A table for people: the first row is the header."""
DETECTION = {
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "precision": "precision of the flag",
    "recall": "recall of the flag",
    "noise_share": "share of noise",
}


@dataclass(frozen=True)
class Audit:
    """The given labels of a run, judged."""

    issues: pa.Table | IssueList
    """Worst first."""
    flagged: int
    rule: str
    """By what they are flagged, in words."""
    cleaned: Any
    """Gives the table of what is not flagged."""
    measured: list[Rows] = field(default_factory=list)
    """How well known noise was found."""
    against_truth: dict[str, Any] | None = None
    """The same, as numbers by name."""
    original: Any = None
    """Of a click log: what it was, row by row (`accord.estimators.originals.JudgedLog`), once it is asked for."""
    marked: Any = None
    """Gives every row of what was fitted on with columns that say what was found; where that can be had."""
    relabelled: Any = None
    """Gives every row with the predicted label, 'beside' the given one or to 'replace' it; where it has labels."""


@dataclass(frozen=True)
class Evaluation:
    """A run, measured against the truth."""

    measured: dict[str, float]
    table: Rows
    title: str
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Predictions:
    """What a run says of new data."""

    table: pa.Table
    skipped: int = 0
    """Rows that were left out, as their ids are not known."""
    unknown: list[str] = field(default_factory=list)
    """These ids, each once."""


class SavedRun(ABC):
    """A run folder, read."""

    what: str
    """What is judged: clicks or labels."""

    def __init__(self, estimator: Any, path: Path | None = None) -> None:
        self.estimator, self.path = estimator, path

    @abstractmethod
    def description(self) -> list[str]:
        """What was trained and found, in sentences."""

    @abstractmethod
    def audit(self, share: float | None, truth: Path | None, data: Path | None = None) -> Audit:
        """``data`` is where the file lies by now that was fitted on."""

    @abstractmethod
    def evaluate(self, truth: Path | None, ks: Sequence[int], images: Path | None) -> Evaluation: ...

    @abstractmethod
    def predict(self, data: Path, probabilities: bool, skip_unknown: bool) -> Predictions:
        """Scores of pairs, or labels of examples."""

    @abstractmethod
    def decided(self, undecided: Any, data: Path | None = None) -> tuple[Any, Any]:
        """What was fitted on with people's decisions in it: what gives the table, and the log, row by row, where it
        is one."""

    @abstractmethod
    def write_report(self, path: Path) -> None: ...

    def kept_epochs(self, metric: str, words: str) -> list[str]:
        prior = self.estimator.notes_.get("prior")
        lines = [] if prior is None else [_of_prior(prior, metric, words)]
        for phase, kept in self.estimator.metrics_["validation"].items():
            value = f", {words} {kept[metric]:.4f} on noisy validation" if metric in kept else ""
            lines.append(f"{phase}: epoch {kept['epoch']} kept{value}")
        return lines

    def handed(self) -> list[str]:
        """What became of a model that was handed over, in words."""
        notes = self.estimator.notes_
        lines = [f"model: {in_words(notes['weights'])}"] if "weights" in notes else []
        folds = notes.get("judged_by_folds")
        return [*lines, f"labels judged by copies of the model in {folds} folds, unseen"] if folds else lines

    def heard(self) -> list[str]:
        """What a council's members reach, in words."""
        council = self.estimator.notes_.get("council")
        if not council:
            return []
        kinds: dict[str, list[float]] = {}
        for model, value in voiced(self.estimator.notes_, self.estimator.metric):
            kinds.setdefault(model, []).append(value)
        each = ", ".join(f"{kind} {sum(own) / len(own):.4f}" for kind, own in kinds.items())
        lost = f", {council['lost']} lost" if council["lost"] else ""
        said = [f"council: {len(council['members'])} members{lost}; {self.what} judged {council['judged']}"]
        alone = f"members alone: {each} {self.estimator.metric_words} on noisy validation"
        return [*said, alone] if kinds else said

    def learnt_decisions(self) -> list[str]:
        """What people had decided that was learnt from, in words."""
        told = self.estimator.notes_.get("decisions")
        if not told:
            return []
        counts = ", ".join(f"{told[action]} {action}" for action in ("keep", "fix", "drop") if told[action])
        words = f"learnt from decisions of {told['reviewers']} reviewer(s): {counts or 'nothing certain'}"
        flags = f"{told['flagged']} of the other {self.what} are flagged"
        if told["calibrated"]:
            flags += f", {told['flagged_by_the_usual_rule']} by the usual rule, which the decisions contradict"
        return [words, flags]

    def doubts(self) -> list[str]:
        """One sentence where the flags are not to be trusted, or a member is better by itself."""
        run = self.estimator
        value = list(run.validation_.values())[-1].get(run.metric)
        member = better_member(value, run.notes_, run.metric)
        said = [] if member is None else [f"{member}: with serve=council all members answer together"]
        return [*([run.doubt_] if run.doubt_ else []), *said]


def _of_prior(prior: dict[str, Any], metric: str, words: str) -> str:
    value = f", {words} {prior[metric]:.4f} on noisy validation" if metric in prior else ""
    return f"prior: {prior['model']}{', which came fitted' if prior.get('fitted') else ''}{value}"


def detection_rows(measured: dict[str, Any]) -> Rows:
    """How well known noise was found."""
    return [["against the truth", "value"], *([label, f"{measured[n]:.4f}"] for n, label in DETECTION.items())]


def run_of(estimator: Any, path: Path | None = None) -> SavedRun:
    """A trained estimator as a run."""
    if estimator.kind == "recommender":
        from accord.tasks.click_runs import ClickRun

        return ClickRun(estimator, path)
    from accord.tasks.label_runs import LabelRun

    return LabelRun(estimator, path)


def open_run(path: Path) -> SavedRun:
    """Read a run folder, of whatever kind it is; what is none is refused by its reader."""
    if kind_of(standing(path)) == "classifier":
        from accord.estimators.classifier import Classifier

        return run_of(Classifier.load(path), path)
    from accord.estimators.recommender import Recommender

    return run_of(Recommender.load(path), path)


__all__ = ["Audit", "Evaluation", "Rows", "SavedRun", "detection_rows", "open_run", "run_of"]
