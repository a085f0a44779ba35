"""What can be asked of a recommender's run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accord.errors import SettingError
from accord.estimators.recommender import Recommender
from accord.tasks.runs import Audit, Evaluation, Rows, SavedRun, detection_rows


class ClickRun(SavedRun):
    what = "clicks"
    estimator: Recommender

    def description(self) -> list[str]:
        notes, issues = self.estimator.notes_, self.estimator.metrics_["label_issues"]
        return [
            f"Columns taken: {self.estimator.columns_.note}",
            f"{notes['clicks']} clicks of {notes['users']} users on {notes['items']} items "
            f"({notes['merged']} repeats merged); {notes['valid']} for validation: {notes['split']}",
            *self.heard(),
            *self.kept_epochs("ndcg@20", "NDCG@20"),
            *self.doubts(),
            f"{issues['flagged']} clicks ({issues['share']:.1%}) look like noise",
        ]

    def audit(self, share: float | None, truth: Path | None, data: Path | None = None) -> Audit:
        rec = self.estimator
        measured = None if truth is None else rec.evaluate_issues(truth, share)
        issues = rec.find_label_issues(share)
        rule = f"quality below {rec.threshold_:.4f}" if share is None else f"the worst {share:.1%}"
        tables: list[Rows] = []
        if measured is not None:
            kinds, popularity = measured["by_kind"], measured["popularity_by_kind"]
            by_kind = [["ROC-AUC by kind of noise", *kinds]]
            by_kind.append(["label quality", *(f"{value:.3f}" for value in kinds.values())])
            by_kind.append(["item popularity", *(f"{value:.3f}" for value in popularity.values())])
            tables = [detection_rows(measured), by_kind]
        flagged = int(issues["is_label_issue"].to_numpy().sum())
        return Audit(issues, flagged, rule, lambda: rec.cleaned_log(share), tables)

    def evaluate(self, truth: Path | None, ks: Sequence[int], images: Path | None) -> Evaluation:
        if truth is None:
            raise SettingError("Say which clean pairs to rank against: --truth FILE.")
        if min(ks) < 1:
            raise SettingError(f"k is {min(ks)}; lists have at least one item.")
        measured = self.estimator.evaluate(truth, k=ks)
        metrics = list(dict.fromkeys(name.split("@")[0] for name in measured if "@" in name))
        rows = [["metric", *(f"@{k}" for k in ks)]]
        rows += [[metric, *(f"{measured[f'{metric}@{k}']:.4f}" for k in ks)] for metric in metrics]
        remarks = []
        if measured["warm_users"] < measured["users"]:
            cold = measured["users"] - measured["warm_users"]
            remarks.append(f"{cold:.0f} users have no click in the log and were ranked for by popularity")
        if measured["seen_pairs"]:
            words = "of the pairs are clicks of the log: these are never recommended, so missed"
            remarks.append(f"{measured['seen_pairs']} {words}")
        title = f"{measured['users']} users, {measured['pairs']} clean pairs, full ranking"
        return Evaluation(measured, rows, title, remarks)

    def write_report(self, path: Path) -> None:
        from accord.report import write_run_report

        write_run_report(self.estimator, path)
