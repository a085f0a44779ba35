"""The true class of examples that several annotators labelled, and how each of them errs (Dawid & Skene, 1979).

Annotator a writes class y down as j with probability T_a[y, j], whatever the others write. The chance of class y of
an example is then q(y) ∝ π(y) · ∏ T_a[y, j] over its labels; π is how frequent the class is, or what models say of
the example. EM finds T and q from one another. Any annotator may have labelled few examples or one class alone, so
matrices are drawn towards noise of one rate, and rates towards those of all; how strongly matrices are drawn is
chosen by labels that are held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accord.objectives.consensus import softmax

STRENGTHS = (1e6, 30.0, 5.0)
"""Labels of each class that noise of one rate is worth, in every annotator's matrix."""
RATE_LABELS = 4.0
"""Labels that the rate of all annotators together is worth, in the rate of each."""
ROUNDS = 60
SETTLED = 1e-5
HELD_OUT = 5
"""Every so-many-th label is held out to choose a strength."""
MOST_CELLS = 20_000_000
"""With larger matrices than this in all, annotators have a rate each and no matrix of their own."""
LEAST = 1e-6


@dataclass(frozen=True)
class Annotations:
    """Labels by number: of which example, by whom, and which class."""

    examples: np.ndarray
    annotators: np.ndarray
    labels: np.ndarray
    counts: tuple[int, int, int]
    """Examples, annotators and classes."""

    def some(self, rows: np.ndarray) -> Annotations:
        return Annotations(self.examples[rows], self.annotators[rows], self.labels[rows], self.counts)


@dataclass(frozen=True)
class Annotators:
    """What EM found."""

    posterior: np.ndarray
    """q: (examples, classes)."""
    rates: np.ndarray
    """(annotators,): how often each is right."""
    matrices: np.ndarray | None
    """T: (annotators, classes, classes); none where each has a rate alone."""
    strength: float

    def quality(self) -> np.ndarray:
        """How often each annotator is right, over examples as they are."""
        if self.matrices is None:
            return self.rates
        return np.einsum("ayy,y->a", self.matrices, self.posterior.mean(0))


def frequent(fit: Annotators) -> np.ndarray:
    """How frequent each class is."""
    examples, classes = fit.posterior.shape
    return (fit.posterior.sum(0) + 1) / (examples + classes)


def fit_annotators(given: Annotations, prior: np.ndarray | None = None, *, seed: int = 0) -> Annotators:
    """EM with the strength that foretells held-out labels best; ``prior`` is π of every example, by models."""
    _, annotators, classes = given.counts
    strengths = STRENGTHS if annotators * classes**2 <= MOST_CELLS else STRENGTHS[:1]
    if len(strengths) == 1 or len(given.labels) < 10 * classes:
        return expectation_maximisation(given, strengths[0], prior)
    order = np.random.default_rng([seed, 0xD5]).permutation(len(given.labels))
    held, kept = given.some(order[::HELD_OUT]), given.some(np.sort(np.delete(order, np.s_[::HELD_OUT])))
    found = []
    for strength in strengths:
        fit = expectation_maximisation(kept, strength, prior)
        chances = (fit.posterior[held.examples] * _chances(fit, held)).sum(1)
        found.append(np.log(chances + LEAST).mean())
    return expectation_maximisation(given, strengths[int(np.argmax(found))], prior)


def expectation_maximisation(given: Annotations, strength: float, prior: np.ndarray | None = None) -> Annotators:
    """From the labels' shares in every example to rates, matrices and posteriors, until these stay."""
    classes = given.counts[2]
    posterior = _shares(given) if prior is None else _normalised(_shares(given) * classes + prior)
    fit = _errors(given, posterior, strength)
    for _ in range(ROUNDS):
        after = posterior_of(given, fit, prior)
        moved = float(np.abs(after - posterior).max(initial=0))
        posterior = after
        fit = _errors(given, posterior, strength)
        if moved < SETTLED:
            break
    return fit


def posterior_of(given: Annotations, fit: Annotators, prior: np.ndarray | None = None) -> np.ndarray:
    """q(y) ∝ π(y) · ∏ T_a[y, j] over the labels of each example."""
    start = np.tile(frequent(fit), (given.counts[0], 1)) if prior is None else prior
    scores = np.log(start + LEAST)
    logs = np.log(_chances(fit, given) + LEAST)
    for y in range(given.counts[2]):
        scores[:, y] += np.bincount(given.examples, logs[:, y], given.counts[0])
    return softmax(scores)


def _errors(given: Annotations, posterior: np.ndarray, strength: float) -> Annotators:
    """Rates and matrices of all annotators, from the posteriors of what they labelled."""
    _, annotators, classes = given.counts
    right = np.bincount(given.annotators, posterior[given.examples, given.labels], annotators)
    made = np.bincount(given.annotators, minlength=annotators)
    common = (right.sum() + 1) / (made.sum() + 1 + 1 / classes)
    rates = (right + RATE_LABELS * common) / (made + RATE_LABELS)
    if strength == STRENGTHS[0]:
        return Annotators(posterior, rates, None, strength)
    counts = np.empty((annotators, classes, classes))
    at = given.annotators.astype(np.int64) * classes + given.labels
    for y in range(classes):
        sums = np.bincount(at, posterior[given.examples, y], annotators * classes)
        counts[:, y] = sums.reshape(annotators, classes)
    counts += strength * _of_one_rate(rates, classes)
    return Annotators(posterior, rates, counts / counts.sum(2, keepdims=True), strength)


def _of_one_rate(rates: np.ndarray, classes: int) -> np.ndarray:
    eye = np.eye(classes)
    return rates[:, None, None] * eye + ((1 - rates) / (classes - 1))[:, None, None] * (1 - eye)


def _chances(fit: Annotators, given: Annotations) -> np.ndarray:
    """T_a[y, j] of every label j, for each class y: (labels, classes)."""
    if fit.matrices is not None:
        return fit.matrices[given.annotators, :, given.labels]
    classes = given.counts[2]
    right = fit.rates[given.annotators]
    chances = np.repeat(((1 - right) / (classes - 1))[:, None], classes, 1)
    chances[np.arange(len(right)), given.labels] = right
    return chances


def _shares(given: Annotations) -> np.ndarray:
    """How large a share of its labels each class has, of each example; equal where an example has none."""
    examples, _, classes = given.counts
    at = given.examples.astype(np.int64) * classes + given.labels
    return _normalised(np.bincount(at, minlength=examples * classes).reshape(examples, classes) + 1e-3)


def _normalised(values: np.ndarray) -> np.ndarray:
    return values / values.sum(1, keepdims=True)
