"""What members say of given labels: against the equations, and on made predictions whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from accord.objectives import consensus as fast
from accord.objectives import consensus_reference as slow

CLASSES = 5


def predictions(rng: np.random.Generator, n: int = 12, members: int = 3, classes: int = 4) -> np.ndarray:
    return rng.dirichlet(np.full(classes, 0.4), (n, members))


@drawn(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5), st.floats(0, 1.5), st.floats(0, 4))
def test_every_formula_is_the_reference(seed: int, members: int, classes: int, trust: float, s: float) -> None:
    rng = np.random.default_rng(seed)
    p, labels = predictions(rng, 6, members, classes), rng.integers(0, classes, 6)
    weights, matrix = rng.uniform(0, 2, members), rng.dirichlet(np.ones(classes), classes) + 1e-3
    pool = fast.pooled(p, weights)
    noise = fast.NoiseFit(matrix, 1.5, s, 5.0, 0.0)
    probabilities = fast.clean_probabilities(pool, noise)
    targets = fast.soft_targets(probabilities, labels, matrix, trust)
    believers, agreement = fast.votes(p, labels)
    for i in range(6):
        assert pool[i] == pytest.approx(slow.pooled(p[i], weights, fast.LEAST))
        assert probabilities[i] == pytest.approx(slow.true_classes(pool[i], matrix, 1.5, s, fast.LEAST))
        want = slow.target(probabilities[i], int(labels[i]), matrix, trust, fast.LEAST)
        assert targets[i] == pytest.approx(want, abs=1e-8)
        assert (believers[i], agreement[i]) == pytest.approx(slow.votes(p[i], int(labels[i])))


@drawn(st.integers(0, 10_000), st.integers(2, 6))
def test_an_em_step_makes_the_labels_no_less_likely(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    pi, labels = rng.dirichlet(np.ones(classes), 40), rng.integers(0, classes, 40)
    matrix = rng.dirichlet(np.ones(classes), classes)
    advance = rng.uniform(0.1, 3, (classes, classes))

    def likelihood(matrix: np.ndarray) -> float:
        return float(np.log((pi @ matrix)[np.arange(40), labels]).sum() + (advance * np.log(matrix)).sum())

    for _ in range(5):
        after = fast.em_step(pi, labels, matrix, advance)
        assert after.sum(1) == pytest.approx(1)
        assert likelihood(after) >= likelihood(matrix) - 1e-9
        matrix = after


def test_blocks_and_whole_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    p, labels = predictions(rng, 50), rng.integers(0, 4, 50)
    whole = fast.consensus(p, labels)
    monkeypatch.setattr(fast, "BLOCK", 7)
    parts = fast.consensus(p, labels)
    for name in ("weights", "probabilities", "targets", "quality", "believers", "agreement"):
        assert np.allclose(getattr(whole, name), getattr(parts, name)), name


# -- made members ------------------------------------------------------------------------------------------


def made(kind: str, rate: float, n: int = 3000, members: int = 3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Members that learned the label's distribution at each example, each with errors of its own; truth and labels.

    A third of the examples are hard; labels of the kind `hard` go wrong there alone.
    """
    rng = np.random.default_rng(seed)
    truth, hard = rng.integers(0, CLASSES, n), rng.random(n) < 1 / 3
    eye = np.eye(CLASSES)
    other = (truth + rng.integers(1, CLASSES, n)) % CLASSES
    if kind == "pair":
        label_of = (1 - rate) * eye[truth] + rate * eye[(truth + 1) % CLASSES]
    elif kind == "hard":
        at = np.where(hard, min(0.45, 3 * rate), 0.0)[:, None]
        label_of = (1 - at) * eye[truth] + at * eye[other]
    else:
        label_of = (1 - rate) * eye[truth] + rate * (1 - eye[truth]) / (CLASSES - 1)
    labels = (rng.random(n)[:, None] >= np.cumsum(label_of, 1)).sum(1).clip(max=CLASSES - 1)
    seen = []
    for _ in range(members):
        lost = rng.random(n) < np.where(hard, 0.25, 0.03)
        guess = np.where(lost, rng.integers(0, CLASSES, n), truth)
        p = label_of.copy()
        p[lost] = 0.6 * eye[guess[lost]] + 0.4 / CLASSES
        seen.append(np.exp(np.log(p + 0.02) + rng.normal(0, 0.25, p.shape)))
    stacked = np.stack(seen, 1)
    return stacked / stacked.sum(2, keepdims=True), labels, truth


def test_pair_noise_is_seen_through() -> None:
    """The pool alone doubts between two classes; the row of the noise matrix that it looks like does not."""
    p, labels, truth = made("pair", 0.45)
    found = fast.consensus(p, labels)
    assert np.diag(found.noise.matrix) == pytest.approx(0.55, abs=0.06)
    assert (found.targets.argmax(1) == truth).mean() > 0.95
    assert found.noise.nearness > 0


def test_pair_noise_is_seen_through_in_few_examples_too() -> None:
    """A noise matrix of half of them is too rough to be told from uniform noise."""
    rng = np.random.default_rng(1)
    truth, shift = np.arange(400) % 8, np.roll(np.eye(8), 1, axis=1)
    labels = np.where(rng.random(400) < 0.42, (truth + 1) % 8, truth)
    said = (0.58 * np.eye(8) + 0.42 * shift)[truth] * np.exp(rng.normal(0, 0.9, (400, 8)))
    said += 0.02 * rng.random((400, 8))
    pool = said / said.sum(1, keepdims=True)
    assert (pool.argmax(1) == truth).mean() < 0.7
    noise = fast.fit_noise(pool, labels)
    assert (fast.clean_probabilities(pool, noise).argmax(1) == truth).mean() > 0.85
    assert 0.5 < np.diag(noise.matrix).mean() < 0.7


@pytest.mark.parametrize(("kind", "rate"), [("uniform", 0.2), ("uniform", 0.5), ("pair", 0.3)])
def test_targets_are_better_than_the_labels_and_quality_finds_the_wrong_ones(kind: str, rate: float) -> None:
    p, labels, truth = made(kind, rate)
    found = fast.consensus(p, labels)
    wrong = labels != truth
    assert (found.targets.argmax(1) == truth).mean() > max(0.93, 1 - wrong.mean())
    assert found.trust == 1
    order = np.argsort(found.quality)
    assert wrong[order[: wrong.sum()]].mean() > 0.85
    assert wrong[found.believers == 3].mean() < 0.05
    assert wrong[found.believers == 0].mean() > 0.6


def test_labels_that_go_wrong_where_examples_are_hard_are_trusted_little() -> None:
    """The noise matrix is read where nothing goes wrong, and shows hardly any noise."""
    p, labels, truth = made("hard", 0.15)
    found = fast.consensus(p, labels)
    wrong = labels != truth
    assert 1 - np.diag(found.noise.matrix).mean() < wrong.mean() / 2
    assert found.trust == fast.CAUTIOUS
    assert (fast.consensus(p, labels, trust=0.0).targets.argmax(1) == truth).mean() > 1 - 0.7 * wrong.mean()
    assert wrong[np.argsort(found.quality)[: wrong.sum() // 2]].mean() > 0.6


def test_clean_labels_stay() -> None:
    p, labels, truth = made("uniform", 0.0)
    found = fast.consensus(p, labels, trust=1.0)
    assert (labels == truth).all()
    assert (found.targets.argmax(1) == labels).mean() > 0.99
    assert np.diag(found.noise.matrix).min() > 0.97


def test_classes_have_no_order() -> None:
    p, labels, _ = made("pair", 0.4, n=600)
    new = np.array([3, 0, 4, 1, 2])
    found, again = fast.consensus(p, labels), fast.consensus(p[:, :, np.argsort(new)], new[labels])
    assert np.allclose(again.targets[:, new], found.targets, atol=1e-6)
    assert np.allclose(again.noise.matrix[np.ix_(new, new)], found.noise.matrix, atol=1e-6)


def test_a_useless_member_is_voted_down_and_equals_stay_equal() -> None:
    p, labels, _ = made("uniform", 0.3, members=3)
    rng = np.random.default_rng(5)
    p[:, 1] = rng.dirichlet(np.ones(CLASSES), len(p))
    weights = fast.member_weights(p, labels)
    assert weights[1] < 0.05 * weights[0]
    twins = np.repeat(p[:, :1], 3, axis=1)
    assert np.ptp(fast.member_weights(twins, labels)) < 1e-6
    few = fast.member_weights(p[:12, [0, 2]], labels[:12])
    assert few.min() > 0  # a dozen examples do not vote anybody out


def test_usual_trust_is_what_the_matrix_explains() -> None:
    labels, pi = np.array([0, 0, 1, 1, 1, 0, 1, 0]), np.eye(2)[[0, 0, 1, 1, 0, 1, 1, 0]] * 0.9 + 0.05
    for off, want in ((0.0, fast.CAUTIOUS), (0.1, fast.CAUTIOUS), (0.125, 0.6), (0.2, 1.0)):
        matrix = np.array([[1 - off, off], [off, 1 - off]])  # 2 of 8 differ; 8 times off are explained
        assert fast.usual_trust(pi, labels, matrix) == pytest.approx(want), off


@settings(deadline=None)  # the first call imports scipy
@drawn(st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 4))
def test_members_who_learned_targets_are_read_through_the_first_matrix(
    seed: int, members: int, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    p, labels = predictions(rng, 40, members, classes), rng.integers(0, classes, 40)
    first = fast.NoiseFit(rng.dirichlet(np.ones(classes), classes), 3.0, 2.0, 5.0, 0.0)
    found = fast.again(p, labels, first)
    pool = [slow.pooled(one, found.weights, fast.LEAST) for one in p]
    assert np.allclose(found.probabilities, pool, atol=1e-5)  # as they are: neither sharpened nor compared to rows
    said = [
        sum(row[y] * first.matrix[y][label] for y in range(classes))
        for row, label in zip(pool, labels, strict=True)
    ]
    assert found.noise.held_out == pytest.approx(np.mean(np.log(said)), abs=1e-6)
    assert found.noise.matrix is first.matrix


def test_odd_inputs() -> None:
    """One member, one example, a class that nobody gave, and probabilities of zero and one."""
    one = fast.consensus(np.eye(3)[[0, 1, 2, 0]][:, None], np.array([0, 1, 1, 0]))
    assert (one.agreement == 1).all()
    assert np.isfinite(one.targets).all()
    assert one.believers.tolist() == [1, 1, 0, 1]
    single = fast.consensus(np.full((1, 2, 3), 1 / 3), np.array([2]))
    assert single.targets.sum() == pytest.approx(1)
