"""Noise that depends on the example: labels go wrong where a weak model is unsure, towards what it confuses."""

from __future__ import annotations

import warnings

import numpy as np

SIDE = 8
"""Images are averaged down to at most this many pixels a side: the weak model shall be weak, and quick."""
FOLDS = 3
WIDEST = 512
"""Columns that the weak model sees at most; of a wider table it sees random sums of columns."""
HALVINGS = 60


def by_weak_model(
    inputs: np.ndarray, labels: np.ndarray, classes: int, rate: float, rng: np.random.Generator
) -> np.ndarray:
    """New labels, of which exactly the wanted share is wrong.

    A logistic regression judges examples that it has not seen. Its predictions are flattened (or sharpened) until
    its doubt, one minus the largest probability, is the wanted share on average. Then each label goes wrong with
    the model's doubt at that example, to a class that the model takes for likely there.
    """
    wanted = round(rate * len(labels))
    if not wanted:
        return labels.copy()
    p = _doubting(weak_log_probabilities(inputs, labels, classes, rng), rate)
    chosen = _sample(_summing_to(1 - p.max(1), wanted), wanted, rng)
    others = p[chosen] + 1e-12
    others[np.arange(wanted), labels[chosen]] = 0
    edges = np.cumsum(others, 1)
    draws = rng.random(wanted) * edges[:, -1]
    noisy = labels.copy()
    noisy[chosen] = np.minimum((draws[:, None] >= edges).sum(1), _last_other(labels[chosen], classes))
    return noisy


def _last_other(labels: np.ndarray, classes: int) -> np.ndarray:
    """The last class that is not the label: a draw that rounding carries past the end belongs there."""
    return np.where(labels == classes - 1, classes - 2, classes - 1)


def weak_log_probabilities(
    inputs: np.ndarray, labels: np.ndarray, classes: int, rng: np.random.Generator
) -> np.ndarray:
    """log P(class) of each example by a logistic regression that was trained on other examples."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    x = _columns(inputs, rng)
    logp = np.full((len(labels), classes), np.log(1 / classes))
    fold = rng.permutation(len(labels)) % FOLDS
    for k in range(FOLDS):
        held, seen = fold == k, fold != k
        known = np.unique(labels[seen])
        if not held.any() or len(known) < 2:
            continue
        model = LogisticRegression(C=1.0, max_iter=50, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is to be weak
            model.fit(x[seen], labels[seen])
        part = np.full((int(held.sum()), classes), -30.0)
        part[:, known] = np.maximum(model.predict_log_proba(x[held]), -30)
        logp[held] = part
    return logp


def _columns(inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Inputs as standardised columns, few of them."""
    x = np.asarray(inputs, np.float32)
    if x.ndim == 4:  # images with channels last
        x = _smaller(_smaller(x, 1), 2)
    x = x.reshape(len(x), -1)
    spread = x.std(0)
    x = (x - x.mean(0))[:, spread > 0] / spread[spread > 0]
    if x.shape[1] > WIDEST:
        x = x @ rng.normal(size=(x.shape[1], WIDEST)).astype(np.float32) / np.sqrt(x.shape[1])
    return x if x.shape[1] else np.zeros((len(x), 1), np.float32)


def _smaller(images: np.ndarray, axis: int) -> np.ndarray:
    """Means of neighbouring pixels along one axis."""
    size = images.shape[axis]
    starts = np.unique(np.linspace(0, size, min(size, SIDE), endpoint=False).astype(int))
    widths = np.diff([*starts, size]).reshape([-1 if d == axis else 1 for d in range(images.ndim)])
    return np.add.reduceat(images, starts, axis) / widths.astype(np.float32)


def _doubting(logp: np.ndarray, doubt: float) -> np.ndarray:
    """Probabilities at the temperature at which one minus the largest is on average as wanted."""

    def tempered(log_temperature: float) -> np.ndarray:
        z = logp / np.exp(log_temperature)
        z = np.exp(z - z.max(1, keepdims=True))
        return z / z.sum(1, keepdims=True)

    low, high = -3.0, 6.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if 1 - tempered(middle).max(1).mean() < doubt:
            low = middle
        else:
            high = middle
    return tempered((low + high) / 2)


def _summing_to(chances: np.ndarray, wanted: int) -> np.ndarray:
    """Chances scaled down, or moved towards 1, until they sum to the number wanted."""
    total = chances.sum()
    if total >= wanted:
        return chances * (wanted / total)
    return 1 - (1 - chances) * ((len(chances) - wanted) / (len(chances) - total))


def _sample(chances: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """As many examples as wanted, each with its own chance: systematic sampling in a random order."""
    order = rng.permutation(len(chances))
    edges = np.cumsum(chances[order])
    edges *= wanted / edges[-1]  # rounding
    ticks = np.minimum(np.searchsorted(edges, np.arange(wanted) + rng.random(), side="right"), len(order) - 1)
    return order[np.unique(ticks)]
