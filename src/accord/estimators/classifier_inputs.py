"""Examples in: what a classifier is fitted on, and further examples brought to the same form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data

from accord.data.column_values import label_word
from accord.data.columns import listed
from accord.data.frames import table_of_array
from accord.data.merged_numbers import warn_of_merged
from accord.data.table_columns import TableColumns
from accord.data.tables_out import kind_of_table
from accord.errors import DataError
from accord.estimators.base import Cache
from accord.estimators.classifier_networks import networks_of, usual_model
from accord.estimators.examples import (
    as_classes,
    as_images,
    as_whole,
    count,
    is_table,
    is_whole,
    lowest_and_highest,
    refused,
)
from accord.estimators.inputs import Examples, Known, examples_of
from accord.estimators.naming import is_estimator
from accord.estimators.scikit_models import as_array, checked_rows

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier

TABLE_ADVICE = "give a table (examples, columns) of finite numbers, with a label for each example"


def take_examples(clf: Classifier, source: Mapping[str, Any], cache: Cache) -> None:
    """Check the examples; learns the shape, the classes and the model's name."""
    X, names = source["X"], source.get("names")
    given = given_examples(clf, source, cache)
    y = given.labels
    clf._came_as = kind_of_table(X, source.get("y"))
    if y is None:
        raise DataError("A classifier requires y to be passed, but the target y is None.")
    clf.names_ = given.names if names is None else np.asarray(names)
    clf.index_, clf.columns_ = given.index, None
    clf.notes_ |= given.notes
    if clf.names_ is not None and clf.names_.shape != (count(y),):
        raise DataError(f"There are {clf.names_.size} names for {count(y)} labels; give one for each.")
    clf._rows = None
    rows = given.inputs if given.frame is None else given.frame
    if is_table(rows) and is_estimator(clf.model):
        clf._rows = checked_rows(clf, rows, reset=True)
        inputs = as_array(clf._rows)
        if len(inputs) != count(y) and not hasattr(X, "tocsr"):
            raise DataError(f"There are {len(inputs)} examples and {count(y)} labels; give one for each.")
    elif given.is_table and not (_may_take_integers(clf) and given.is_whole):
        inputs = _take_columns(clf, given, X, cache)
    elif is_table(rows):
        whole = _may_take_integers(clf) and (given.is_whole if given.is_table else is_whole(rows))
        with refused(TABLE_ADVICE):
            checked: Any = validate_data(clf, rows, y, dtype=np.int64 if whole else np.float32)
        inputs, y = checked
    else:
        inputs = cache.get(("images",), [X], lambda: as_images(given.inputs))
        clf.n_features_in_ = int(np.prod(inputs.shape[1:]))
        if len(inputs) != count(y):
            raise DataError(f"There are {len(inputs)} images and {count(y)} labels; give one for each.")
        if is_estimator(clf.model):
            clf._rows = inputs.reshape(len(inputs), -1)
    clf.classes_, labels = as_classes(y)
    if len(clf.classes_) < 2:
        found = "one class" if len(labels) else "no class"
        raise DataError(f"The labels hold {found}; a classifier needs at least two.")
    clf.labels_ = labels.astype(np.int64)
    table = clf._rows is not None and is_table(X)
    clf.shape_ = (getattr(clf, "n_features_in_", 1),) if table else tuple(inputs.shape[1:])
    clf.integers_ = False
    if inputs.dtype == np.int64:
        clf.integers_ = networks_of(clf).takes_integers(lowest_and_highest(inputs))
    if clf._rows is None and not clf.integers_ and is_table(rows) and (given.is_table or is_whole(rows)):
        warn_of_merged(given.inputs if given.is_table else np.asarray(rows), clf.columns_)
    clf._inputs = inputs.astype(np.float32) if inputs.dtype == np.int64 and not clf.integers_ else inputs
    name = clf.settings.model
    clf.model_ = usual_model(clf) if name == "auto" else name


def given_examples(clf: Classifier, source: Mapping[str, Any], cache: Cache) -> Examples:
    """What was given to be fitted on, read once."""
    X, y = source["X"], source.get("y")
    if is_estimator(clf.model) and y is not None and not isinstance(y, str):
        return Examples(X, y)  # its rows are taken as they are given
    return cache.get(("examples",), [X, y], lambda: examples_of(X, y))


def _take_columns(clf: Classifier, given: Examples, X: Any, cache: Cache) -> np.ndarray:
    """Learn what the columns of a table hold, and bring them to numbers."""
    rows = given.inputs.num_rows
    if rows != count(given.labels) or not rows:
        raise DataError(f"There are {rows} rows and {count(given.labels)} labels; give one for each.")
    with refused(TABLE_ADVICE):
        validate_data(clf, given.frame, skip_check_array=True)

    def make() -> tuple[TableColumns, np.ndarray]:
        columns = TableColumns.learn(given.inputs)
        return columns, columns.encode(given.inputs)

    columns, inputs = cache.get(("columns",), [given], make)
    clf.columns_ = columns
    clf.notes_["remarks"] = [*clf.notes_.get("remarks", []), *columns.remarks()]
    return inputs


def _may_take_integers(clf: Classifier) -> bool:
    """Whether a table of whole numbers may be left as it is, for a model that has an embedding."""
    return not isinstance(clf.model, str) and clf.settings.standardise is not True


def known_of(clf: Classifier) -> Known:
    """What is known of the examples that it was fitted on."""
    return Known(clf.shape_, clf.notes_.get("label"), clf.notes_.get("depth"))


def asked(clf: Classifier, X: Any, y: Any = None) -> tuple[np.ndarray, Any]:
    """Further examples as those trained on, and their labels, which may be among them."""
    given = examples_of(X, y, known_of(clf))
    return as_fitted(clf, X, given), given.labels


def as_fitted(clf: Classifier, X: Any, given: Examples | None = None) -> np.ndarray:
    """Inputs of the shape that was trained on."""
    if is_estimator(clf.model) and len(clf.shape_) == 1:
        return checked_rows(clf, _rows_of(clf, X, given), reset=False)
    given = given or examples_of(X, None, known_of(clf))
    if len(clf.shape_) == 1:
        values = X if given.is_table and clf.columns_ is None else given.inputs
        if getattr(values, "ndim", 2) == 1:
            raise DataError("Reshape your data: one example is X.reshape(1, -1), one column X.reshape(-1, 1).")
        if clf.columns_ is not None:
            return _encoded(clf, clf.columns_, given)
        with refused("give a table (examples, columns) of finite numbers, like that of the training"):
            kind = np.float32 if not clf.integers_ else None
            checked: Any = validate_data(clf, values, dtype=kind, reset=False)
        return as_whole(checked) if clf.integers_ else checked
    images = as_images(given.inputs)
    if images.shape[1:] != clf.shape_:
        raise DataError(f"Images of shape {images.shape[1:]} are not those of the training, {clf.shape_}.")
    return images.reshape(len(images), -1) if is_estimator(clf.model) else images


def _rows_of(clf: Classifier, X: Any, given: Examples | None) -> Any:
    """Rows as an estimator of scikit-learn gets them: as they are given, less a column of labels."""
    if known_of(clf).label is None:
        return X
    given = given or examples_of(X, None, known_of(clf))
    return given.inputs if given.frame is None else given.frame


def _encoded(clf: Classifier, columns: TableColumns, given: Examples) -> np.ndarray:
    """A table brought to numbers as that of the training was; an array has the same columns, without names."""
    with refused(f"give the columns of the training in their order: {listed(columns.names)}"):
        values: Any = given.frame if given.is_table else np.asarray(given.inputs)
        validate_data(clf, values, skip_check_array=True, reset=False)
        return columns.encode(given.inputs if given.is_table else table_of_array(values, columns.names))


def class_numbers(clf: Classifier, labels: Any, *, unknown: bool = False) -> np.ndarray:
    """The class number of each label, whether it came as text or as a number.

    A label that was not trained on is an error, or with ``unknown`` −1.
    """
    known = {label_word(value): k for k, value in enumerate(clf.classes_.tolist())}
    with refused("give each example one label of the classes trained on"):
        distinct, which = np.unique(column_or_1d(labels), return_inverse=True)
    numbers = np.array([known.get(label_word(value), -1) for value in distinct.tolist()], np.int64)
    if not unknown and (numbers < 0).any():
        label = distinct[numbers < 0][0]
        raise DataError(f"Label '{label}' is none of the {len(clf.classes_)} classes trained on.")
    return numbers[which]
