"""Labels made wrong on purpose, so that the truth is known: for tests, studies and the demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accord.data.weak_noise import by_weak_model
from accord.errors import DataError, SettingError, nearest

__all__ = ["KINDS", "NoisyLabels", "add_noise", "add_noise_by_matrix", "check_kind", "read_noise_matrix"]

NoiseKind = Literal["uniform", "others", "pair", "instance", "matrix"]
MATRIX = "matrix"


@dataclass(frozen=True)
class NoisyLabels:
    """Labels as class numbers, some of them changed."""

    labels: np.ndarray
    truth: np.ndarray
    kind: str
    rate: float
    """As asked for."""

    @property
    def is_noise(self) -> np.ndarray:
        """True for each label that is wrong."""
        return self.labels != self.truth

    @property
    def realised(self) -> float:
        """The share of labels that are wrong."""
        return float(self.is_noise.mean()) if len(self.labels) else 0.0

    def notes(self) -> dict[str, Any]:
        """The kind of noise, its rate, and the share of labels that are wrong."""
        return {"kind": self.kind, "rate": self.rate, "realised": self.realised}


def _uniform(labels: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, classes, len(labels))


def _others(labels: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
    return (labels + rng.integers(1, classes, len(labels))) % classes


def _pair(labels: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
    return (labels + 1) % classes


KINDS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "uniform": _uniform,
    "others": _others,
    "pair": _pair,
}
"""New labels: drawn from all classes (so that 40 % makes 36 % wrong with ten), from the other ones, or the next."""
KINDS_BY_INPUTS: dict[str, Callable[[np.ndarray, np.ndarray, int, float, np.random.Generator], np.ndarray]] = {
    "instance": by_weak_model,
}
"""Kinds that look at the inputs, and choose the examples too: from inputs, labels, classes and the share wanted."""


def _class_numbers(labels: Any, classes: int, of_whom: str = "there are") -> np.ndarray:
    """Labels as class numbers, or an error."""
    given = np.asarray(labels)
    if given.ndim != 1 or (len(given) and given.dtype.kind not in "iub"):
        raise DataError("Noise is added to class numbers; give one whole number for each example.")
    numbers = given.astype(np.int64)
    wrong = numbers[(numbers < 0) | (numbers >= classes)]
    if len(wrong):
        raise SettingError(f"There is a label {wrong[0]}, but {of_whom} {classes} classes, numbered from 0.")
    return numbers


def _inputs_of(labels: np.ndarray, inputs: Any, kind: str) -> np.ndarray:
    if inputs is None:
        raise SettingError(f"Noise of the kind '{kind}' depends on the examples; give them with inputs=.")
    array = np.asarray(inputs)
    if len(array) != len(labels):
        raise DataError(f"There are {len(array)} inputs for {len(labels)} labels; give one for each.")
    return array


def check_kind(kind: str) -> None:
    """Refuse a kind of noise that is not known, with the nearest that is."""
    if kind not in KINDS and kind not in KINDS_BY_INPUTS and kind != MATRIX:
        words = nearest(kind, [*KINDS, *KINDS_BY_INPUTS, "the file of a noise matrix"])
        raise SettingError(f"Unknown kind of noise '{kind}': {words}")


def read_noise_matrix(path: Path) -> np.ndarray:
    """A square matrix whose row c says how labels of class c go wrong: .npy, or text with a row on each line."""
    from accord.data.labelled_files import read_array
    from accord.plain import read_plain

    if path.suffix.lower() == ".npy":
        return _checked_matrix(read_array(path), f"'{path}'")
    try:
        lines = [line for line in read_plain(path, kind="lines").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' is no text; save the noise matrix as .csv in UTF-8, or as .npy.") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append([float(word) for word in line.replace(",", " ").replace(";", " ").split()])
        except ValueError:
            raise DataError(
                f"'{path}', line {number}, holds something other than numbers; a noise matrix is a row of numbers "
                "on each line, without names."
            ) from None
    return _checked_matrix(rows, f"'{path}'")


def _checked_matrix(matrix: Any, where: str = "") -> np.ndarray:
    """A row of probabilities for each class, or an error."""
    try:
        rows = np.atleast_1d(np.asarray(matrix, float))
    except (ValueError, TypeError):  # rows of different lengths, or words
        rows = np.empty(0)
    size = len(rows)
    bad = not size or rows.shape != (size, size) or not np.isfinite(rows).all() or (rows < 0).any()
    if bad or not np.allclose(rows.sum(1), 1, atol=1e-6):
        what = f"{where} is none: " if where else ""
        raise SettingError(
            f"{what}A noise matrix is square, has no negative numbers, and each of its rows sums to 1."
        )
    return rows


def _by_matrix(labels: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    edges = np.cumsum(rows, 1)
    edges[:, -1] = 1.0
    return (rng.random(len(labels))[:, None] >= edges[labels]).sum(1)


def add_noise(
    labels: np.ndarray,
    classes: int,
    rate: float,
    *,
    kind: str = "uniform",
    seed: int = 0,
    inputs: Any = None,
    matrix: Any = None,
) -> NoisyLabels:
    """Redraw the labels of a share of the examples, chosen at random; the kind `instance` needs their inputs, and
    `matrix` a row of probabilities for each class, from which new labels are drawn.

    >>> add_noise(np.zeros(10, int), classes=2, rate=0.5, kind="others").realised
    0.5
    """
    if not 0 <= rate <= 1:
        raise SettingError(f"A noise rate of {rate:g} makes no sense: give a number from 0 to 1.")
    check_kind(kind)
    if classes < 1 or (classes < 2 and kind != "uniform"):
        raise SettingError("Noise needs at least two classes.")
    labels = _class_numbers(labels, classes)
    rng = np.random.default_rng([seed, 0x4015E])
    if kind in KINDS_BY_INPUTS:
        noisy = KINDS_BY_INPUTS[kind](_inputs_of(labels, inputs, kind), labels, classes, rate, rng)
        return NoisyLabels(noisy, labels, kind, rate)
    chosen = rng.permutation(len(labels))[: round(rate * len(labels))]
    noisy = labels.copy()
    if kind == MATRIX:
        noisy[chosen] = _by_matrix(labels[chosen], _of_classes(matrix, classes), rng)
    else:
        noisy[chosen] = KINDS[kind](labels[chosen], classes, rng)
    return NoisyLabels(noisy, labels, kind, rate)


def _of_classes(matrix: Any, classes: int) -> np.ndarray:
    if matrix is None:
        raise SettingError("Noise of the kind 'matrix' is drawn from a matrix; give it with matrix=.")
    rows = _checked_matrix(matrix)
    if len(rows) != classes:
        raise SettingError(f"The noise matrix has {len(rows)} rows for {classes} classes; give one for each.")
    return rows


def add_noise_by_matrix(labels: np.ndarray, matrix: Any, *, seed: int = 0) -> NoisyLabels:
    """Redraw every label from the row of its class: ``matrix[c][j]`` is P(ỹ = j | y = c)."""
    rows = _checked_matrix(matrix)
    labels = _class_numbers(labels, len(rows), "the noise matrix has")
    noisy = _by_matrix(labels, rows, np.random.default_rng([seed, 0x4015E]))
    return NoisyLabels(noisy, labels, "matrix", float(1 - np.diag(rows)[labels].mean()) if len(labels) else 0.0)
