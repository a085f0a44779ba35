"""What can be asked of a classifier's run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.column_values import numbers, plain
from accord.data.columns import begun
from accord.data.frames import table_of_array
from accord.data.reading import read_table
from accord.errors import DataError, SettingError
from accord.estimators.measuring import as_bool
from accord.tasks.label_sources import in_the_order_of, new_examples
from accord.tasks.runs import Audit, Evaluation, Predictions, SavedRun, detection_rows

LABEL = "label"
"""The column of labels, in a table of them that had none."""


class LabelRun(SavedRun):
    what = "labels"
    estimator: Any

    def description(self) -> list[str]:
        clf = self.estimator
        noise, issues = clf.notes_.get("noise"), clf.metrics_["label_issues"]
        shape = "×".join(str(n) for n in clf.shape_)
        lines = [f"{len(clf.labels_)} examples of {shape} in {len(clf.classes_)} classes; model {clf.model_}"]
        if noise:
            lines.append(
                f"Noise added: {noise['rate']:.0%} of labels redrawn ({noise['kind']}), "
                f"{noise['realised']:.1%} are wrong"
            )
        lines += [
            *self.handed(),
            *self.heard(),
            *self.learnt_decisions(),
            *self.kept_epochs("accuracy", "accuracy"),
            *self.doubts(),
        ]
        lines += notes_of(clf)
        return [*lines, f"{issues['flagged']} labels ({issues['share']:.1%}) look wrong"]

    def audit(self, share: float | None, truth: Path | None, data: Path | None = None) -> Audit:
        clf = self.estimator
        issues = clf.issues_table(share)
        measured = None if truth is None else clf.evaluate_issues(self._known_noise(truth), share)
        flagged = np.asarray(issues["is_label_issue"])
        rule = "the model sees another class" if share is None else f"the worst {share:.1%}"

        def cleaned() -> pa.Table:
            if data is not None or clf.source_file_ is not None:
                return clf.cleaned_table(data, share)
            kept = issues.filter(pa.array(~flagged)).sort_by("index")
            names = [name for name in ("index", "file") if name in kept.column_names]
            return kept.select([*names, "given_label"]).rename_columns([*names, "label"])

        tables = [] if measured is None else [detection_rows(measured)]

        def marked() -> pa.Table:
            return clf.marked_table(data, share)

        def relabelled(how: Any) -> pa.Table:
            return clf.relabelled_table(data, how, share)

        return Audit(
            issues, int(flagged.sum()), rule, cleaned, tables, measured, marked=marked, relabelled=relabelled
        )

    def decided(self, undecided: Any, data: Path | None = None) -> tuple[Any, Any]:
        clf = self.estimator
        if data is not None or clf.source_file_ is not None:
            return lambda: clf.decided_table(data, undecided), None
        # Images of a folder of classes, or an array: the labels as they are now, by the number or name of each.
        names = {"index": np.arange(len(clf.labels_))} | ({} if clf.names_ is None else {"file": clf.names_})
        own = pa.table({**names, LABEL: clf.classes_[clf.labels_]})
        return lambda: clf.decided_table(own, undecided, LABEL), None

    def predict(self, data: Path, probabilities: bool, skip_unknown: bool) -> Predictions:
        clf = self.estimator
        examples, names = new_examples(data, clf.notes_, clf.shape_)
        if isinstance(examples, pa.Table) and clf.columns_ is None:
            examples = _numbers_of(examples)
        if isinstance(examples, np.ndarray) and clf.columns_ is not None:  # an array has no names of columns
            examples = table_of_array(examples, clf.columns_.names)
        each = clf.predict_proba(examples)
        at = each.argmax(1)
        by_class = dict(zip((f"p_{label}" for label in clf.classes_), each.T, strict=True)) if probabilities else {}
        named = {"index": np.arange(len(at))} if names is None else {"file": names}
        table = {**named, "predicted_label": clf.classes_[at], "probability": each[np.arange(len(at)), at]}
        return Predictions(pa.table(table | by_class))

    def _known_noise(self, truth: Path) -> np.ndarray:
        """True for each example whose label a file of the truth says is wrong: by is_noise, or by true_label."""
        clf, (table, where) = self.estimator, read_table(truth)
        rows = self._rows_of(table, where)
        if "is_noise" in table.column_names:
            wrong = as_bool(table["is_noise"])
        elif "true_label" in table.column_names:
            wrong = clf.labels_[rows] != clf.class_numbers(table["true_label"].to_pylist(), unknown=True)
        else:
            raise DataError(
                f"No column is_noise or true_label in {where} (it has {', '.join(table.column_names)})."
            )
        marks = np.zeros(len(clf.labels_), bool)
        marks[rows] = wrong
        return marks

    def _rows_of(self, table: pa.Table, where: str) -> np.ndarray:
        """Which example each row of the truth speaks of: by index, by file, or in order; every example once."""
        clf, count = self.estimator, len(self.estimator.labels_)
        if "index" in table.column_names:
            try:
                rows = np.asarray(table["index"].cast(pa.int64()))
            except pa.ArrowException as error:
                raise DataError(f"Column 'index' of {where} does not hold the numbers of examples.") from error
        elif "file" in table.column_names and clf.names_ is not None:
            at = {str(name): k for k, name in enumerate(clf.names_)}
            rows = np.array([at.get(str(name), -1) for name in table["file"].to_pylist()])
        else:
            rows = np.arange(table.num_rows)
        if len(rows) != count or not np.array_equal(np.sort(rows), np.arange(count)):
            raise DataError(f"{begun(where)} must speak of each of the {count} examples once, and no other.")
        return rows

    def evaluate(self, truth: Path | None, ks: Sequence[int], images: Path | None) -> Evaluation:
        inputs, labels = self._test_examples(truth, images)
        measured = self.estimator.evaluate(inputs, labels)
        rows = [["metric", "value"], ["accuracy", f"{measured['accuracy']:.4f}"]]
        rows.append(["cross-entropy", f"{measured['cross_entropy']:.4f}"])
        return Evaluation(measured, rows, f"{measured['examples']} clean examples")

    def _test_examples(self, truth: Path | None, images: Path | None) -> tuple[Any, np.ndarray]:
        from accord.data.datasets.image_sets import IMAGE_SETS
        from accord.data.labelled_files import read_image_folder, read_labelled_table

        notes = self.estimator.notes_
        if truth is None and images is None:
            if notes.get("source") != "catalogue":
                raise SettingError("Say which clean examples to test by: truth=FILE (and images=DIR for images).")
            if notes.get("data") not in IMAGE_SETS:
                raise DataError(f"The run names a data set '{notes.get('data')}' that is not in the catalogue.")
            data = IMAGE_SETS[notes["data"]].load()
            return data.test_inputs, data.test_labels
        label = notes.get("label")
        if images is not None:
            like = {"like": self.estimator.shape_, "depth": notes.get("depth")}
            examples = read_image_folder(images, truth, label=label, **like)
        elif notes.get("source") in ("folder", "catalogue"):
            raise SettingError(
                "The run was trained on images: say with images=DIR where those that truth= labels are."
            )
        else:
            assert truth is not None
            examples = read_labelled_table(truth, label, tuple(notes.get("ignored", ())))
            table = in_the_order_of(examples, notes.get("columns", []), truth)
            # A run of version 0.1 or of arrays knows numbers alone.
            return (table if self.estimator.columns_ is not None else _numbers_of(table)), examples.labels
        return examples.inputs, examples.labels

    def write_report(self, path: Path) -> None:
        from accord.report import write_classifier_report

        write_classifier_report(self.estimator, path)


def notes_of(clf: Any) -> list[str]:
    """What a person should know of the data, in sentences."""
    return list(clf.notes_.get("remarks", []))


def _numbers_of(table: pa.Table) -> np.ndarray:
    return np.column_stack([numbers(plain(table[name]), name) for name in table.column_names])
