"""What several classifiers, each asked about examples it has not seen, say of the labels that were given.

The predictions are an array (n, M, C): for n examples, the probabilities of C classes by M members. The members
were trained on the given labels, wrong ones among them. Nothing here ever sees a true label: every number is
fitted to the given labels that the members had not seen, and chosen by how well it predicts held-out ones.

The steps, each a function of its own:

1. `member_weights`: how much each member counts. The pool of the members, ∏ p_m^w_m, predicts the given label.
2. `fit_noise`: how labels go wrong. The true class y has probability π(y|x); it is written down as ỹ with
   probability T[y, ỹ]. The pool ρ(x) predicts ỹ, not y, so π is found from it in two ways at once:
   π(y|x) ∝ ρ_y(x)^a · exp(s · Σ_j ρ_j(x) log T[y, j]). The first factor sharpens the pool. The second asks which
   row of T the pool looks like: under pair noise the pool says 60 % cat and 40 % dog of every cat, and this is the
   row of the cats, not a doubt between two classes.
3. `soft_targets`: q(y) ∝ π(y|x) · T[y, ỹ]^trust. With a trust of 1 this is Bayes' rule, and right if labels go
   wrong by their class alone. But T is read where the members are sure, and people err where they are not: then T
   has hardly any noise, while members and labels differ often. `usual_trust` sees that by the share of these
   differences that T explains.

Members that have learned targets instead of labels predict the true class, and how sure they are says nothing of
how labels go wrong: a doubtful pool with faithful labels and a sure pool with faulty ones look alike. So the noise
matrix of the members who learned the labels is kept, and only the weights are found anew (`again`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

TINY = 1e-12
LEAST = 1e-4
"""Probabilities of members count as at least this: no member alone can rule a class out."""
SHRINKAGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
"""How strongly members' weights are drawn towards equal ones; which, is chosen by held-out likelihood."""
SHARPNESS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
NEARNESS = (0.5, 1.0, 2.0, 4.0)
IN_ADVANCE = (5.0, 50.0, 1e6)
"""Examples that each row of a noise matrix is given in advance, with uniform noise of the same rate in all rows: a
few, many, or so many that nothing else counts. Which, is chosen by held-out likelihood."""
ROUNDS = 24
"""Times that the true classes and the noise matrix are found from one another."""
WEIGHT_ROWS, SEARCH_ROWS, FIT_ROWS = 20_000, 10_000, 100_000
"""Examples drawn for the weights, for the search of a and s, and for the noise matrix; more add nothing."""
FEW_ROWS, MANY_PARTS = 5_000, 5
"""Of fewer examples a noise matrix is fitted to four fifths at a time, as one of half of them is too rough; of more
to each half."""
BLOCK = 1 << 16
"""Examples at a time."""
CAUTIOUS = 0.2
"""The trust in labels where the noise matrix does not explain why members and labels differ."""
EXPLAINED = (0.4, 0.6)
"""Shares explained: up to the first the trust is cautious, from the second on it is full."""
EVERY = slice(None)
"""All examples."""


@dataclass(frozen=True)
class NoiseFit:
    """How given labels come from true ones."""

    matrix: np.ndarray
    """T[y, j] = P(given j | true y)."""
    sharpness: float
    """a, the exponent of the pool."""
    nearness: float
    """s, what the likeness to the rows of T counts."""
    in_advance: float
    """How strongly T was drawn towards uniform noise."""
    held_out: float
    """Mean log likelihood of given labels that the fit had not seen."""


@dataclass(frozen=True)
class Consensus:
    """What the members say of n examples together."""

    weights: np.ndarray
    """(M,): how much each member counts; their sum is the inverse of a temperature."""
    noise: NoiseFit
    probabilities: np.ndarray
    """(n, C): π, the true class by the members alone, which have not seen the given label."""
    targets: np.ndarray
    """(n, C): the true class by the members and the given label."""
    trust: float
    """How far the targets follow Bayes' rule."""
    quality: np.ndarray
    """(n,): the probability that the given label is right."""
    believers: np.ndarray
    """(n,): members whose likeliest class is the given label."""
    agreement: np.ndarray
    """(n,): the share of pairs of members that have the same likeliest class; 1 where there is one member."""


def consensus(
    predictions: np.ndarray,
    given: np.ndarray,
    *,
    trust: float | None = None,
    seed: int = 0,
    rows: np.ndarray | slice = EVERY,
) -> Consensus:
    """All steps at once, with the usual trust where none is given.

    Only ``rows`` are fitted to; of very many of them, some that the seed draws.
    """
    weights = member_weights(predictions[rows], given[rows], seed=seed)
    pool = pooled(predictions, weights)
    return _of_pool(predictions, given, weights, pool, fit_noise(pool[rows], given[rows], seed=seed), trust, rows)


def again(
    predictions: np.ndarray,
    given: np.ndarray,
    first: NoiseFit,
    *,
    trust: float | None = None,
    seed: int = 0,
    rows: np.ndarray | slice = EVERY,
) -> Consensus:
    """The same for members that have learned targets; how labels go wrong is known from those who learned these."""
    weights = member_weights(predictions[rows], given[rows], matrix=first.matrix, seed=seed)
    pool = pooled(predictions, weights)
    held_out = float(_likelihoods(pool[rows] @ first.matrix, given[rows]).mean()) if len(given) else -np.inf
    noise = replace(first, sharpness=1.0, nearness=0.0, held_out=held_out)
    return _of_pool(predictions, given, weights, pool, noise, trust, rows)


def _of_pool(
    predictions: np.ndarray,
    given: np.ndarray,
    weights: np.ndarray,
    pool: np.ndarray,
    noise: NoiseFit,
    trust: float | None,
    rows: np.ndarray | slice,
) -> Consensus:
    probabilities = clean_probabilities(pool, noise)
    trust = usual_trust(probabilities[rows], given[rows], noise.matrix) if trust is None else trust
    targets = soft_targets(probabilities, given, noise.matrix, trust)
    believers, agreement = votes(predictions, given)
    quality = targets[np.arange(len(given)), given]
    return Consensus(weights, noise, probabilities, targets, trust, quality, believers, agreement)


# -- the pool of the members -------------------------------------------------------------------------------


def member_weights(
    predictions: np.ndarray, given: np.ndarray, *, matrix: np.ndarray | None = None, seed: int = 0
) -> np.ndarray:
    """Weights of the members in the pool, not negative, by the likelihood of the given labels.

    Without a noise matrix the pool predicts the given label, with one the true class.

    They are drawn towards equal ones, as strongly as predicts held-out labels best, and more strongly where that
    costs less than a standard error. Their sum is left free.
    """
    rows = _drawn(len(given), WEIGHT_ROWS, seed)
    logs, labels = np.log(np.maximum(predictions[rows], LEAST)), given[rows]
    if logs.shape[1] > 1:
        fold = np.arange(len(rows)) % 5
        held_out = [_cross_validated(logs, labels, fold, shrinkage, matrix) for shrinkage in SHRINKAGES]
        best = max(held_out, key=lambda likelihoods: likelihoods.sum())
        good = [k for k, likelihoods in enumerate(held_out) if not _surpasses(best, likelihoods)]
        return _best_weights(logs, labels, SHRINKAGES[max(good)], matrix)
    return _best_weights(logs, labels, 0.0, matrix)


def _cross_validated(
    logs: np.ndarray, labels: np.ndarray, fold: np.ndarray, shrinkage: float, matrix: np.ndarray | None
) -> np.ndarray:
    """The log likelihood of every label by weights fitted to other examples."""
    held_out = np.zeros(len(labels))
    for k in np.unique(fold):
        held = fold == k
        weights = _best_weights(logs[~held], labels[~held], shrinkage, matrix)
        pool = softmax(np.einsum("nmc,m->nc", logs[held], weights))
        held_out[held] = _likelihoods(pool if matrix is None else pool @ matrix, labels[held])
    return held_out


def _best_weights(
    logs: np.ndarray, labels: np.ndarray, shrinkage: float, matrix: np.ndarray | None = None
) -> np.ndarray:
    from scipy.optimize import minimize

    count, members, classes = logs.shape
    if not count:
        return np.full(members, 1 / members)
    # P(given label | each class), which is 1 for the label itself where the pool predicts labels
    seen = (np.eye(classes) if matrix is None else matrix).T[labels]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        p = softmax(np.einsum("nmc,m->nc", logs, weights))
        joint = p * seen + TINY / classes
        total = joint.sum(1, keepdims=True)
        apart = weights - weights.mean()
        value = -np.log(total).mean() + shrinkage * (apart @ apart)
        return value, np.einsum("nc,nmc->m", p - joint / total, logs) / count + 2 * shrinkage * apart

    found = minimize(loss, np.full(members, 1 / members), jac=True, bounds=[(0, 20)] * members)
    return found.x if found.x.sum() > 1e-3 else np.full(members, 1 / members)


def pooled(predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """∏ p_m^w_m, scaled to sum to 1: (n, C)."""
    pool = np.empty((predictions.shape[0], predictions.shape[2]))
    for rows in _blocks(len(pool)):
        logs = np.log(np.maximum(predictions[rows], LEAST))
        pool[rows] = softmax(np.einsum("nmc,m->nc", logs, weights))
    return pool


def votes(predictions: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many members believe each given label, and the share of pairs of members that agree on a class."""
    return votes_of(predictions.argmax(2), given)


def votes_of(choices: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, of the class that each member takes for the likeliest: (n, M)."""
    believers = (choices == given[:, None]).sum(1)
    members = choices.shape[1]
    if members < 2:
        return believers, np.ones(len(given))
    same = sum((choices[:, one, None] == choices[:, one + 1 :]).sum(1) for one in range(members - 1))
    return believers, np.asarray(same) / (members * (members - 1) / 2)


# -- how labels go wrong -----------------------------------------------------------------------------------


def fit_noise(pool: np.ndarray, given: np.ndarray, *, seed: int = 0, search_rows: int = SEARCH_ROWS) -> NoiseFit:
    """The noise matrix, and how true classes are read off the pool, by the likelihood of held-out labels.

    Whatever is found, each class is written as itself more often than as any other one. Where no other fit keeps
    to that, the pool is taken as it is.
    """
    rows = _drawn(len(given), search_rows, seed)
    near, labels = pool[rows], given[rows]
    best, chosen = np.full(len(rows), -np.inf), (1.0, 0.0, IN_ADVANCE[-1])
    part = np.arange(len(rows)) % (MANY_PARTS if len(rows) < FEW_ROWS else 2)
    for a, s, strength in _settings():
        held_out = np.zeros(len(rows))
        for k in np.unique(part):
            held = part == k
            matrix = _noise_matrix(near[~held], labels[~held], a, s, strength)
            held_out[held] = (
                -np.inf
                if matrix is None
                else _likelihoods(true_classes(near[held], matrix, a, s) @ matrix, labels[held])
            )
        if len(rows) and _better(held_out, best, doubtful=strength < chosen[2] == IN_ADVANCE[-1]):
            best, chosen = held_out, (a, s, strength)
    rows = _drawn(len(given), FIT_ROWS, seed)
    matrix = _noise_matrix(pool[rows], given[rows], *chosen)
    if matrix is None:  # which no draw but one of very few examples brings about
        chosen = (1.0, 0.0, IN_ADVANCE[-1])
        matrix = uniform_noise(pool.shape[1], 1 - 1 / (2 * pool.shape[1]))
    return NoiseFit(matrix, *chosen, float(best.mean()) if len(best) else -np.inf)


def _better(one: np.ndarray, other: np.ndarray, doubtful: bool) -> bool:
    """Whether labels are likelier; where uniform noise would be given up, by more than a standard error."""
    if not np.isfinite(one).all() or not np.isfinite(other).all():
        return bool(np.isfinite(one).all())
    return _surpasses(one, other, 1.0 if doubtful else 0.0)


def _settings() -> Iterator[tuple[float, float, float]]:
    """What is tried: sharper pools, and likeness to rows of T where these may differ; uniform noise comes first."""
    for strength in reversed(IN_ADVANCE):
        for a in SHARPNESS:
            yield a, 0.0, strength
    for strength in IN_ADVANCE[:-1]:
        for s in NEARNESS:
            for a in (0.5, 1.0, 2.0):
                yield a, s, strength


def clean_probabilities(pool: np.ndarray, noise: NoiseFit) -> np.ndarray:
    """π: the probability of each true class, from the pool alone."""
    result = np.empty_like(pool)
    for rows in _blocks(len(pool)):
        result[rows] = true_classes(pool[rows], noise.matrix, noise.sharpness, noise.nearness)
    return result


def em_step(
    probabilities: np.ndarray, given: np.ndarray, matrix: np.ndarray, in_advance: np.ndarray | float = 0.0
) -> np.ndarray:
    """A noise matrix under which the given labels, and the counts given in advance, are no less likely."""
    joint = _joint(probabilities, given, matrix) + in_advance
    return joint / joint.sum(1, keepdims=True)


def _joint(probabilities: np.ndarray, given: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """How often each true class was written as each label, as far as the matrix says."""
    order = np.argsort(given, kind="stable")
    return _joint_sorted(probabilities[order], *_runs(given[order]), matrix)


def _runs(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur in sorted ones, and where each begins and the last one ends."""
    found, first = np.unique(labels, return_index=True)
    return found, np.append(first, len(labels))


def _joint_sorted(
    probabilities: np.ndarray, labels: np.ndarray, first: np.ndarray, matrix: np.ndarray
) -> np.ndarray:
    """The same of examples that are sorted by their label: two products for each label."""
    joint = np.zeros_like(matrix)
    seen = np.maximum(matrix, LEAST)
    for label, start, stop in zip(labels, first[:-1], first[1:], strict=True):
        own = probabilities[start:stop]
        joint[:, label] = seen[:, label] * ((1 / (own @ seen[:, label] + TINY)) @ own)
    return joint


def uniform_noise(classes: int, right: float) -> np.ndarray:
    return right * np.eye(classes) + (1 - right) / (classes - 1) * (1 - np.eye(classes))


def _noise_matrix(pool: np.ndarray, given: np.ndarray, a: float, s: float, strength: float) -> np.ndarray | None:
    """The matrix that goes with a and s; none where a class would be written as another one most often."""
    classes = pool.shape[1]
    sums = np.eye(classes) + 1e-3
    np.add.at(sums, pool.argmax(1), pool)  # what the pool says of the examples that it takes for each class
    matrix = sums / sums.sum(1, keepdims=True)
    order = np.argsort(given, kind="stable")
    pool, runs = pool[order], _runs(given[order])
    logs = np.log(pool + 1e-6)
    probabilities = true_classes(pool, matrix, a, s, logs)
    for step in range(ROUNDS):
        if s and step and step % 2 == 0:
            probabilities = true_classes(pool, matrix, a, s, logs)
        joint = _joint_sorted(probabilities, *runs, matrix)
        right = (np.trace(joint) + 1) / (joint.sum() + 1 + 1 / classes)
        joint += strength * uniform_noise(classes, right)
        matrix = joint / joint.sum(1, keepdims=True)
    return matrix if (matrix.argmax(1) == np.arange(len(matrix))).all() else None


def true_classes(
    pool: np.ndarray, matrix: np.ndarray, a: float, s: float, logs: np.ndarray | None = None
) -> np.ndarray:
    scores = a * (np.log(pool + 1e-6) if logs is None else logs)
    return softmax(scores + s * (pool @ np.log(matrix + LEAST).T) if s else scores)


# -- targets -----------------------------------------------------------------------------------------------


def soft_targets(
    probabilities: np.ndarray, given: np.ndarray, matrix: np.ndarray, trust: float = 1.0
) -> np.ndarray:
    """q(y) ∝ π(y|x) · T[y, ỹ]^trust: (n, C)."""
    seen = (np.maximum(matrix, LEAST) ** trust).T[given]
    joint = probabilities * seen + TINY
    return joint / joint.sum(1, keepdims=True)


def usual_trust(probabilities: np.ndarray, given: np.ndarray, matrix: np.ndarray) -> float:
    """Full where the noise matrix explains most differences between members and labels, cautious where few."""
    chosen = probabilities.argmax(1)
    differ = int((chosen != given).sum())
    share = (1 - np.diag(matrix)[chosen]).sum() / max(1, differ)
    low, high = EXPLAINED
    return CAUTIOUS + (1 - CAUTIOUS) * float(np.clip((share - low) / (high - low), 0, 1))


# -- small tools -------------------------------------------------------------------------------------------


def softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row."""
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p


def _likelihoods(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.log(probabilities[np.arange(len(labels)), labels] + TINY)


def _surpasses(one: np.ndarray, other: np.ndarray, errors: float = 1.0) -> bool:
    """Whether one is larger on average, by more than so many standard errors of the difference."""
    gain = one - other
    return bool(len(gain) and gain.mean() > errors * gain.std() / len(gain) ** 0.5)


def _drawn(count: int, most: int, seed: int) -> np.ndarray:
    """Examples in a random order, as many as are wanted."""
    return np.random.default_rng([seed, 0xC0]).permutation(count)[:most]


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]
