"""What can be asked of a recommender's run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from accord.data.clicks import match_pairs
from accord.errors import SettingError
from accord.estimators.recommender import Recommender
from accord.evaluation.ranking import in_words
from accord.tasks.runs import Audit, Evaluation, Predictions, Rows, SavedRun, detection_rows

USUAL_KS = (5, 20)


class ClickRun(SavedRun):
    what = "clicks"
    estimator: Recommender

    def description(self) -> list[str]:
        notes, issues = self.estimator.notes_, self.estimator.metrics_["label_issues"]
        return [
            f"Columns taken: {self.estimator.columns_.note}",
            f"{notes['clicks']} clicks of {notes['users']} users on {notes['items']} items "
            f"({notes['merged']} repeats merged); {notes['valid']} for validation: {notes['split']}",
            *self.handed(),
            *self.gone_on(),
            *self.heard(),
            *self.learnt_decisions(),
            *self.kept_epochs(*self._metric()),
            *self.doubts(),
            f"{issues['flagged']} clicks ({issues['share']:.1%}) look like noise",
        ]

    def _metric(self) -> tuple[str, str]:
        """The metric that chose the epoch, and how it is written."""
        metric = self.estimator.settings.metric
        return metric, in_words(metric)

    def gone_on(self) -> list[str]:
        """What was taken over from an earlier run, in words."""
        taken = self.estimator.notes_.get("warm_start")
        if not taken:
            return []
        words = [f"{taken[name]:,} {name} known and {taken[f'new_{name}']:,} new" for name in ("users", "items")]
        return [f"gone on from an earlier run: {', '.join(words)}"]

    def audit(self, share: float | None, truth: Path | None, data: Path | None = None) -> Audit:
        rec = self.estimator
        measured = None if truth is None else rec.evaluate_issues(truth, share)
        issues = rec.issue_list(share)
        rule = f"quality below {rec.threshold_:.4f}" if share is None else f"the worst {share:.1%}"
        tables: list[Rows] = []
        if measured is not None:
            kinds, popularity = measured["by_kind"], measured["popularity_by_kind"]
            by_kind = [["ROC-AUC by kind of noise", *kinds]]
            by_kind.append(["label quality", *(f"{value:.3f}" for value in kinds.values())])
            by_kind.append(["item popularity", *(f"{value:.3f}" for value in popularity.values())])
            tables = [detection_rows(measured), by_kind]
        judged = cache(lambda: rec.with_original(data))
        return Audit(issues, issues.count, rule, lambda: judged().cleaned(share), tables, measured, original=judged)

    def decided(self, undecided: Any, data: Path | None = None) -> tuple[Any, Any]:
        judged = self.estimator.with_decisions(undecided, log=data)
        return judged.cleaned, judged

    def predict(self, data: Path, probabilities: bool, skip_unknown: bool) -> Predictions:
        if probabilities:
            raise SettingError("Pairs have scores and no classes; leave probabilities=True out.")
        rec = self.estimator
        pairs = match_pairs(data, rec.user_ids_, rec.item_ids_, rec.columns_)
        raw = {"user": pairs.table[pairs.columns.user], "item": pairs.table[pairs.columns.item]}
        known, unknown = pairs.known, []
        if not known.all():
            if not skip_unknown:
                rec.user_ids_.require(raw["user"])
                rec.item_ids_.require(raw["item"])
            of_both = [*rec.user_ids_.unknown(raw["user"]), *rec.item_ids_.unknown(raw["item"])]
            unknown = list(dict.fromkeys(of_both))
        kept = {name: column.filter(pa.array(known)) for name, column in raw.items()}
        scores = rec.predict(kept["user"], kept["item"])
        return Predictions(pa.table({**kept, "score": scores}), int((~known).sum()), unknown)

    def evaluate(self, truth: Path | None, ks: Sequence[int], images: Path | None) -> Evaluation:
        against: Any = truth
        if truth is None:
            benchmark = self._benchmark()
            against, ks = benchmark.test, ks or benchmark.ks
        ks = ks or USUAL_KS
        if min(ks) < 1:
            raise SettingError(f"k is {min(ks)}; lists have at least one item.")
        measured = self.estimator.evaluate(against, k=ks)
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

    def _benchmark(self) -> Any:
        """The data set of the catalogue that it was trained on, which has a clean test of its own."""
        from accord.data.datasets.benchmarks import load_benchmark
        from accord.data.datasets.catalogue import DATA_SETS

        name = self.estimator.notes_.get("catalogue")
        if name not in DATA_SETS:
            raise SettingError("Say which clean pairs to rank against: truth=FILE.")
        return load_benchmark(DATA_SETS[name], "fair")

    def write_report(self, path: Path) -> None:
        from accord.report import write_run_report

        write_run_report(self.estimator, path)
