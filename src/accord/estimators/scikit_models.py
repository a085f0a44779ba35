"""scikit-learn's estimators and pipelines as models: fitted on the labels as they are, judged out of fold.

Such a model gets the rows as they were given: arrays, DataFrames, sparse matrices. It is no network, but it answers
as one: its logits are logarithms of its probabilities. Its labels are judged by copies that never saw them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter, validate_data
from torch import Tensor, nn

from accord.data.splits import stratified_folds
from accord.errors import AccordError, DataError, SettingError, first_line
from accord.estimators.examples import refused

FOLDS = 5
LEAST = 0.05
"""Classes of a soft target that count at least this are learnt."""
SCIKIT = "scikit-learn"
"""What settings and run folders call such a model."""


def refuse_other(model: Any) -> None:
    """Refuse an estimator that gives no probabilities."""
    if not hasattr(model, "fit") or isinstance(model, type):
        return
    if hasattr(model, "get_params") and not hasattr(model, "predict_proba"):
        name = type(model).__name__
        raise SettingError(
            f"{name} gives no probabilities, and accord needs predict_proba: wrap it, "
            f"CalibratedClassifierCV({name}(…)), or take another estimator."
        )


def taken(rows_of: Any, rows: np.ndarray) -> Any:
    """Some rows of an array, a DataFrame or a sparse matrix."""
    return rows_of[rows] if isinstance(rows_of, np.ndarray) else _safe_indexing(rows_of, rows)


def checked_rows(clf: Any, X: Any, *, reset: bool) -> Any:
    """Rows as they were given, of an array, a DataFrame, a sparse matrix, or texts; the estimator itself checks the
    columns of later ones."""
    rows: Any = (
        X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X) if isinstance(X, list | tuple) else X
    )
    if getattr(rows, "ndim", 2) == 1:
        if not reset and clf.shape_ != (1,):
            raise DataError("Reshape your data: one example is X.reshape(1, -1).")
        return np.asarray(rows, dtype=object) if not isinstance(rows, np.ndarray) else rows
    if not reset:
        return rows
    with refused("give a table (examples, columns) like that of the training"):
        return validate_data(clf, rows, skip_check_array=True, reset=reset)


def as_array(rows: Any) -> np.ndarray:
    """What tells rows from others: their numbers, or their words."""
    if hasattr(rows, "tocsr"):
        csr = rows.tocsr()
        return np.concatenate([csr.data, csr.indices, csr.indptr]).astype(str)
    try:
        return np.asarray(rows, dtype=np.float32)
    except (ValueError, TypeError):
        return np.asarray(rows).astype(str)


def is_numeric(array: np.ndarray) -> bool:
    """Whether rows are numbers, all of them finite."""
    return array.dtype.kind in "iuf" and (array.dtype.kind != "f" or bool(np.isfinite(array).all()))


class Pupil:
    """A copy of an estimator that learns from some rows."""

    def __init__(self, given: Any, seed: int, what: str, names: np.ndarray | None = None) -> None:
        self.model: Any = clone(given)
        self.what = what
        self.names = names
        """What the classes are called; by default their numbers."""
        settings = self.model.get_params()
        unset = [k for k, value in settings.items() if k.rpartition("__")[2] == "random_state" and value is None]
        if unset:
            self.model.set_params(**dict.fromkeys(unset, seed % (1 << 32)))

    def learn(self, inputs: Any, targets: np.ndarray, rows: np.ndarray) -> None:
        """From rows of the inputs and their targets (rows, classes), by weight where it takes weights."""
        try:
            sure = self.names is not None and bool((targets.max(1) == 1).all())
            if has_fit_parameter(self.model, "sample_weight") and not sure:
                at, labels = np.nonzero(targets >= LEAST)
                weights = targets[at, labels].astype(np.float64)
                self.model.fit(taken(inputs, rows[at]), self._called(labels), sample_weight=weights)
            else:
                self.model.fit(taken(inputs, rows), self._called(targets.argmax(1)))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise SettingError(f"{self.what} cannot learn these examples: {first_line(error)}") from error

    def _called(self, labels: np.ndarray) -> np.ndarray:
        return labels if self.names is None else self.names[labels]

    def say(self, inputs: Any, classes: int) -> np.ndarray:
        """Probabilities of all classes."""
        try:
            spoken = np.asarray(self.model.predict_proba(inputs), np.float64)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise DataError(f"{self.what} cannot answer for these examples: {first_line(error)}") from error
        known = self.model.classes_ if self.names is None else np.searchsorted(self.names, self.model.classes_)
        answer = np.zeros((len(spoken), classes))
        answer[:, known] = spoken
        if not np.isfinite(answer).all():
            raise SettingError(f"{self.what} gives probabilities that are not finite numbers.")
        return answer


@dataclass(eq=False)
class Lessons:
    """What an estimator learns from: the rows as they were given, and how it is to be judged."""

    rows_of: Any
    labels: np.ndarray
    """Class numbers."""
    classes: np.ndarray
    """Their names, sorted."""
    run: Any = None
    """The run whose data say which rows are learnt, and from which targets."""
    seed: int = 0
    crossed: bool = True
    """Whether copies judge the rows that they never saw."""

    @property
    def learnt(self) -> np.ndarray:
        return self.run.data.rows.cpu().numpy()

    @property
    def targets(self) -> np.ndarray:
        """Probabilities of the rows to learn, (rows, classes)."""
        given = self.run.data.targets
        if given is not None:
            return given[self.run.data.rows].cpu().numpy()
        return np.eye(len(self.classes), dtype=np.float32)[self.labels[self.learnt]]


class ScikitModel(nn.Module):
    """A scikit-learn classifier as the network of a run: it is solved, and has no weights of its own."""

    stays_in_memory = True
    """It cannot be kept as tensors, for a checkpoint."""

    def __init__(self, given: Any, lessons: Lessons) -> None:
        super().__init__()
        self.given, self.lessons = given, lessons
        self.fitted: Pupil | None = None
        self.said: np.ndarray | None = None
        """Of every learnt row, by a copy that never saw it: (N, classes)."""

    def solve(self, sweep: int) -> Iterator[float]:
        """Fit copies to all folds but one, and then the model to all rows."""
        lessons = self.lessons
        rows, targets, said = lessons.learnt, lessons.targets, None
        folds = _folds(lessons, rows) if lessons.crossed and lessons.run.data.targets is None else []
        for number, fold in enumerate(folds):
            said = np.zeros((len(lessons.labels), len(lessons.classes))) if said is None else said
            own = ~np.isin(rows, fold)
            said[fold] = self._taught(rows[own], targets[own], number + 1).say(
                taken(lessons.rows_of, fold), len(lessons.classes)
            )
            yield (number + 1) / (len(folds) + 1)
        self.fitted, self.said = self._taught(rows, targets, 0), said

    def _taught(self, rows: np.ndarray, targets: np.ndarray, number: int) -> Pupil:
        lessons = self.lessons
        pupil = Pupil(self.given, lessons.seed + number, f"Model '{type(self.given).__name__}'", lessons.classes)
        pupil.learn(lessons.rows_of, targets, rows)
        return pupil

    def told(self) -> np.ndarray:
        """What its copies said of every label."""
        if self.said is None:
            raise AccordError("No copy of this scikit-learn model has judged the labels.")
        return self.said

    def restore(self, fitted: Any) -> ScikitModel:
        """The model as it was saved."""
        self.fitted = Pupil(self.given, 0, f"Model '{type(self.given).__name__}'", self.lessons.classes)
        self.fitted.model = fitted
        return self

    def probabilities(self, rows: Any) -> np.ndarray:
        """Of rows of the kind it was fitted on."""
        if self.fitted is None:
            raise AccordError("This scikit-learn model is not fitted yet; call fit first.")
        return self.fitted.say(rows, len(self.lessons.classes))

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Its features are its logits."""
        flat = inputs.movedim(1, -1) if inputs.dim() == 4 else inputs
        said = self.probabilities(flat.float().cpu().numpy().reshape(len(inputs), -1))
        logits = logarithms(said).to(inputs.device)
        return logits, logits

    def __deepcopy__(self, memo: Any) -> ScikitModel:
        made = copy.copy(self)
        memo[id(self)] = made
        return made


def logarithms(said: np.ndarray) -> Tensor:
    """Probabilities as logits."""
    return torch.from_numpy(said).clamp_min(torch.finfo(torch.float32).tiny).log().float()


def _folds(lessons: Lessons, rows: np.ndarray) -> list[np.ndarray]:
    if len(rows) < 2 or len(np.unique(lessons.labels[rows])) < 2:
        raise DataError("Judging labels out of fold needs at least two examples of different classes; give more.")
    return stratified_folds(lessons.labels, rows, folds_of(len(rows)), seed=lessons.seed)


def folds_of(examples: int) -> int:
    """Into how many folds so many examples are cut."""
    return min(FOLDS, max(2, examples // 2))


class Judges:
    """Measures a scikit-learn model: by its copies that never saw a row, or on further examples."""

    def __init__(self, labels: np.ndarray, rows_of: Any = None) -> None:
        self.labels, self.rows_of = labels, rows_of

    def measure(self, target: Any, which: Sequence[int], sets: Sequence[Any]) -> dict[str, Tensor]:
        """The share of given labels that are predicted."""
        (network,) = target.networks
        said = network.said if self.rows_of is None else network.probabilities(self.rows_of)
        return {"accuracy": torch.tensor([float((said.argmax(1) == self.labels).mean())])}

    def same_as(self, other: Any) -> bool:
        return self is other


@dataclass
class Said:
    """What was said of every label, as a batch that methods judge by."""

    probabilities: np.ndarray
    given: np.ndarray

    def logits(self, network: nn.Module) -> Tensor:
        return logarithms(self.probabilities)[None]

    @property
    def labels(self) -> Tensor:
        return torch.from_numpy(self.given)[None]
