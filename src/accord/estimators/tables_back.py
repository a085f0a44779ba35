"""The table that a classifier was fitted on, given back: without the wrong labels, with marks, or with others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from accord.data.frames import as_table, column_of, is_frame, take_rows, with_columns
from accord.decisions.journal import Decision
from accord.decisions.resolving import verdicts
from accord.errors import DataError, SettingError, nearest
from accord.estimators.deciding import Undecided, check_undecided, gone

How = Literal["beside", "replace"]
PREDICTED = "predicted_label"


class TablesBack:
    """What a fitted classifier does with the rows that it was fitted on."""

    labels_: np.ndarray
    predicted_: np.ndarray
    classes_: np.ndarray
    notes_: dict[str, Any]
    decisions_: Sequence[Decision]

    def cleaned_table(self, table: Any = None, share: float | None = None) -> Any:
        """The rows that are not flagged, in order, as they were: all columns, all repeats, and the types they had.

        ``table`` is what the classifier was fitted on, with or without the labels: a table of pandas, polars or
        Arrow, an array, a list or the path of a file. If it was fitted on a file, that is read again by default.
        """
        source = self._source(table)
        return take_rows(source, np.flatnonzero(~self._flagged(share)))

    def marked_table(self, table: Any = None, share: float | None = None) -> Any:
        """Every row as it was, and in further columns predicted_label, label_quality and is_label_issue."""
        return with_columns(self._source(table), self._marks(share))

    def source_table(self, table: Any = None) -> Any:
        """The rows that it was fitted on, as they were; ``table`` as for `cleaned_table`."""
        return self._source(table)

    def relabelled_table(self, table: Any = None, how: How = "beside", share: float | None = None) -> Any:
        """Every row, with the predicted label ``beside`` the given one; ``replace`` puts it in the place of labels
        that are flagged."""
        if how not in get_args(How):
            raise SettingError(f"Unknown way '{how}' to relabel: {nearest(str(how), get_args(How))}")
        source = self._source(table)
        if how == "beside":
            return with_columns(source, {PREDICTED: self.classes_[self.predicted_]})
        flagged = np.flatnonzero(self._flagged(share))
        return self._with_labels(source, flagged, self.predicted_[flagged])

    def decided_table(self, table: Any = None, undecided: Undecided = "keep", label: str | None = None) -> Any:
        """The table with people's decisions in it: labels that they fixed are changed, rows that they dropped are
        gone, all others are as they were. With ``undecided="drop"`` rows that are flagged and that nobody decided
        are gone too. ``label`` names the column of labels, by default that of the training."""
        check_undecided(undecided)
        source, held = self._source(table), verdicts(self.decisions_)
        fixed = np.array([item for item, one in held.items() if one.action == "fix"], np.int64)
        if len(fixed):
            classes = np.array([held[item].label for item in fixed.tolist()])
            source = self._with_labels(source, fixed, classes, label)
        return take_rows(source, np.flatnonzero(~gone(self.decisions_, self._flagged(None), undecided)))

    def _with_labels(self, source: Any, rows: np.ndarray, classes: np.ndarray, label: str | None = None) -> Any:
        """A table with other labels in some rows, written as they are written elsewhere in it."""
        name = self._label_column(source, label)
        if not np.array_equal(self.class_numbers(column_of(source, name).to_pylist(), unknown=True), self.labels_):
            raise DataError(
                f"The labels in column '{name}' are not those of the training; relabel with how='beside'."
            )
        first = np.zeros(len(self.classes_), np.int64)
        first[self.labels_[::-1]] = np.arange(len(self.labels_))[::-1]  # the first row of each class
        taken = np.arange(len(self.labels_))
        taken[rows] = first[classes]
        return with_columns(source, {name: taken}, replace=True)

    def rows_of_table(self, rows: np.ndarray, table: Any = None) -> pa.Table:
        """Some of the rows that it was fitted on, by number, without the labels: columns of a table, or texts."""
        found = take_rows(self._source(table), rows)
        if is_frame(found):
            whole = as_table(found)
            return whole.drop_columns([name for name in whole.column_names if name == self.notes_.get("label")])
        values = found.tolist() if isinstance(found, np.ndarray) else list(found)
        if not all(isinstance(one, str) for one in values):
            raise DataError("Only rows of a table with named columns, or texts, can be shown; give them as such.")
        return pa.table({"text": pa.array(values, pa.string())})

    def _flagged(self, share: float | None) -> np.ndarray:
        raise NotImplementedError

    def _require_fit(self) -> None:
        raise NotImplementedError

    def class_numbers(self, labels: Any, *, unknown: bool = False) -> np.ndarray:
        raise NotImplementedError

    def _marks(self, share: float | None) -> dict[str, np.ndarray]:
        return {
            PREDICTED: self.classes_[self.predicted_],
            "label_quality": getattr(self, "label_quality_"),  # noqa: B009
            "is_label_issue": self._flagged(share),
            **(getattr(self, "votes_", None) or {}),
        }

    def _source(self, table: Any) -> Any:
        """What was fitted on; refused where it has other rows, or other labels."""
        self._require_fit()
        given = table if table is not None else self.source_file_
        if given is None:
            raise DataError("The classifier was fitted on no file; give the table that it was fitted on.")
        source = original_table(given) if isinstance(given, str | os.PathLike) else given
        rows, known = len(source), len(self.labels_)
        if rows != known:
            raise DataError(
                f"The table has {rows} rows, and the classifier was fitted on {known}; give that table."
            )
        label = self.notes_.get("label")
        named = label in getattr(source, "column_names", getattr(source, "columns", ()))
        if label is not None and named and not self.notes_.get("noise"):
            other = self.class_numbers(column_of(source, label).to_pylist(), unknown=True) != self.labels_
            if other.any():
                raise DataError(
                    f"The table is not the one that was fitted on: its label in data row {int(other.argmax()) + 1} "
                    "is another; give that table."
                )
        return source

    @property
    def source_file_(self) -> str | None:
        """The file of the table or of the labels that it was fitted on."""
        file = self.notes_.get("file") or self.notes_.get("labels")
        return file if isinstance(file, str) and file != "folders" else None

    def _label_column(self, source: Any, label: str | None = None) -> str:
        label = self.notes_.get("label") if label is None else label
        if label is None or label not in getattr(source, "column_names", getattr(source, "columns", ())):
            raise DataError("The table has no column of labels by a name that is known; relabel with how='beside'.")
        return label


def original_table(path: str | os.PathLike[str]) -> pa.Table:
    """All columns of a file as they were written: text as text, and what a Parquet file says besides."""
    from accord.data.arrow_files import ARROW_SUFFIXES
    from accord.data.labelled_files import table_of_file

    table, _ = table_of_file(path)
    if Path(path).suffix.lower() == ".parquet":
        return table.replace_schema_metadata(pyarrow.parquet.read_schema(path).metadata)
    return table if Path(path).suffix.lower() in ARROW_SUFFIXES else table.replace_schema_metadata(None)
