"""Labels made wrong on purpose: rates, kinds and matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.noise import KINDS, add_noise, add_noise_by_matrix, read_noise_matrix
from accord.data.weak_noise import _sample, _summing_to
from accord.errors import AccordError, DataError, SettingError

LABELS = np.arange(20_000) % 10


@pytest.mark.parametrize(("kind", "wrong"), [("uniform", 0.36), ("others", 0.4), ("pair", 0.4)])
def test_realised_rates(kind: str, wrong: float) -> None:
    noisy = add_noise(LABELS, 10, 0.4, kind=kind)
    assert noisy.realised == pytest.approx(wrong, abs=0.01)
    assert noisy.realised == (noisy.labels != LABELS).mean()
    assert noisy.notes() == {"kind": kind, "rate": 0.4, "realised": noisy.realised}


def test_where_labels_go() -> None:
    flipped = add_noise(LABELS, 10, 0.4, kind="pair")
    assert ((flipped.labels - LABELS)[flipped.is_noise] % 10 == 1).all()
    drawn = add_noise(LABELS, 10, 1.0, kind="others")
    assert drawn.is_noise.all()
    counts = np.bincount(drawn.labels[LABELS == 3], minlength=10)
    assert counts[3] == 0
    assert counts[[0, 1, 9]] == pytest.approx(2000 / 9, rel=0.25)


@given(st.floats(0, 1), st.integers(2, 7), st.sampled_from(sorted(KINDS)), st.integers(0, 5))
def test_noise_never_leaves_the_classes_and_keeps_the_truth(
    rate: float, classes: int, kind: str, seed: int
) -> None:
    truth = np.arange(60) % classes
    noisy = add_noise(truth, classes, rate, kind=kind, seed=seed)
    assert noisy.labels.min() >= 0
    assert noisy.labels.max() < classes
    assert (noisy.truth == truth).all()
    assert noisy.is_noise.sum() <= round(rate * 60)
    assert (add_noise(truth, classes, rate, kind=kind, seed=seed).labels == noisy.labels).all()


def test_a_matrix_is_followed() -> None:
    matrix = [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]
    truth = np.repeat([0, 1, 2], 20_000)
    noisy = add_noise_by_matrix(truth, matrix, seed=1)
    found = [[(noisy.labels[truth == c] == j).mean() for j in range(3)] for c in range(3)]
    assert np.allclose(found, matrix, atol=0.02)
    assert noisy.rate == pytest.approx((0.3 + 0.5) / 3)


@pytest.mark.parametrize("matrix", [[[0.5, 0.4], [0, 1]], [[1.0]], [[1.5, -0.5], [0, 1]], [[1, 0, 0], [0, 1, 0]]])
def test_bad_matrices_are_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(SettingError, match="matrix"):
        add_noise_by_matrix(np.array([0, 1]), matrix)


def test_bad_rates_and_kinds_are_refused() -> None:
    with pytest.raises(SettingError, match="makes no sense"):
        add_noise(LABELS, 10, 1.5)
    with pytest.raises(SettingError, match="did you mean 'uniform'"):
        add_noise(LABELS, 10, 0.1, kind="unifrom")


MATRIX = [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]


@pytest.mark.parametrize("form", ["csv", "txt", "npy"])
def test_a_matrix_in_a_file_says_how_labels_go_wrong(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"matrix.{form}"
    if form == "npy":
        np.save(path, np.array(MATRIX))
    else:
        sign = "," if form == "csv" else " "
        path.write_text("\n".join(sign.join(map(str, row)) for row in MATRIX) + "\n\n")
    truth = np.repeat([0, 1, 2], 20_000)
    noisy = add_noise(truth, 3, 1.0, kind="matrix", seed=1, matrix=read_noise_matrix(path))
    found = [[(noisy.labels[truth == c] == j).mean() for j in range(3)] for c in range(3)]
    assert np.allclose(found, MATRIX, atol=0.02)
    half = add_noise(truth, 3, 0.5, kind="matrix", seed=1, matrix=MATRIX)
    assert half.realised == pytest.approx(0.4 / 3, abs=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.5,0.4\n0,1", "sums to 1"),
        ("1,0\n0", "is square"),
        ("a,b\n1,0\n0,1", "line 1, holds something other than numbers"),
        ("1,0\n0,x", "line 2, holds"),
        ("nan,1\n0,1", "sums to 1"),
        ("", "is square"),
        ("-0.5,1.5\n0,1", "no negative numbers"),
    ],
)
def test_a_file_of_no_noise_matrix_says_why(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(AccordError, match=words) as error:
        read_noise_matrix(tmp_path / "m.csv")
    assert "m.csv" in str(error.value)


def test_a_matrix_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    """With a mark of its encoding at the beginning."""
    (tmp_path / "m.csv").write_text("0.9;0.1\n0.1;0.9\n", encoding="utf-8-sig")
    assert read_noise_matrix(tmp_path / "m.csv").tolist() == [[0.9, 0.1], [0.1, 0.9]]


def test_bytes_that_are_no_matrix_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"\xff\xfe1,0\n0,1\n")
    with pytest.raises(DataError, match=r"'.*m\.csv' is no text"):
        read_noise_matrix(tmp_path / "m.csv")


def test_a_matrix_that_would_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of two bytes becomes an object of many."""
    (tmp_path / "m.csv").write_text("0," * 50_000)
    monkeypatch.setattr("accord.memory.machine_memory", lambda: 3_000_000)
    with pytest.raises(DataError, match="give a smaller file"):
        read_noise_matrix(tmp_path / "m.csv")


def test_a_matrix_is_of_as_many_classes() -> None:
    with pytest.raises(SettingError, match="3 rows for 4 classes"):
        add_noise(np.array([0, 1, 2, 3]), 4, 1.0, kind="matrix", matrix=MATRIX)
    with pytest.raises(SettingError, match="give it with matrix="):
        add_noise(np.array([0, 1]), 2, 1.0, kind="matrix")


def test_a_pickled_matrix_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        read_noise_matrix(tmp_path / "m.npy")


# -- noise that depends on the example ---------------------------------------------------------------------


def blobs(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in a row: 0 and 1 overlap, 2 is far. Inputs, truth, and whether an example is of 0 or 1."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    centre = np.array([0.0, 1.5, 12.0])[truth]
    return np.stack([centre + rng.normal(size=n), rng.normal(size=n)], 1), truth, truth < 2


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1), st.integers(2, 5), st.integers(1, 40), st.integers(0, 5))
def test_the_wanted_share_is_wrong_exactly_whatever_the_inputs(
    rate: float, classes: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs, truth = rng.normal(size=(n, 3)) * [1, 0, 5], rng.integers(0, classes, n)
    noisy = add_noise(truth, classes, rate, kind="instance", seed=seed, inputs=inputs)
    assert noisy.is_noise.sum() == round(rate * n)
    assert 0 <= noisy.labels.min() <= noisy.labels.max() < classes
    again = add_noise(truth, classes, rate, kind="instance", seed=seed, inputs=inputs)
    assert again.labels.tobytes() == noisy.labels.tobytes()


def test_errors_lie_where_a_weak_model_doubts_and_go_to_what_it_confuses() -> None:
    inputs, truth, near = blobs()
    noisy = add_noise(truth, 3, 0.2, kind="instance", seed=3, inputs=inputs)
    wrong = noisy.is_noise
    assert wrong[near].mean() > 20 * wrong[~near].mean()
    assert (noisy.labels[wrong & near] < 2).mean() > 0.95
    between = np.abs(inputs[:, 0] - 0.75) < 0.5
    assert wrong[near & between].mean() > 1.5 * wrong[near & ~between].mean()
    assert (add_noise(truth, 3, 0.2, kind="instance", seed=4, inputs=inputs).labels != noisy.labels).any()


def test_images_are_seen_small_and_as_they_are() -> None:
    """An image is averaged down; the same picture at twice the size gets the same labels."""
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 4
    small = np.zeros((400, 8, 8, 1))
    small[np.arange(400), truth * 2] = 40
    small += rng.normal(0, 20, small.shape)
    large = small.repeat(2, 1).repeat(2, 2)
    found = [add_noise(truth, 4, 0.3, kind="instance", inputs=x).labels for x in (small, large)]
    assert (found[0] == found[1]).mean() > 0.99
    assert add_noise(truth, 4, 0.3, kind="instance", inputs=np.zeros((400, 40, 40, 3), np.uint8)).realised == 0.3


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=30), st.floats(0, 1), st.integers(0, 9))
def test_each_example_is_drawn_with_its_own_chance(chances: list[float], share: float, seed: int) -> None:
    wanted = round(share * len(chances))
    if not wanted:
        return
    moved = _summing_to(np.array(chances), wanted)
    assert moved.sum() == pytest.approx(wanted)
    assert moved.min() >= 0
    assert moved.max() <= 1 + 1e-9
    assert len(set(_sample(moved, wanted, np.random.default_rng(seed)))) == wanted


def test_chances_are_kept() -> None:
    chances = np.array([0.9, 0.1, 0.5, 0.5])
    drawn = [_sample(chances, 2, np.random.default_rng(seed)) for seed in range(3000)]
    assert np.bincount(np.concatenate(drawn)) / 3000 == pytest.approx(chances, abs=0.03)


def test_noise_by_inputs_needs_them() -> None:
    with pytest.raises(SettingError, match="inputs="):
        add_noise(LABELS, 10, 0.1, kind="instance")
    with pytest.raises(DataError, match="3 inputs for 20000 labels"):
        add_noise(LABELS, 10, 0.1, kind="instance", inputs=np.zeros((3, 2)))
