"""Noise detection against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from accord.errors import DataError
from accord.evaluation import detection_by_kind, detection_metrics, flag_metrics


def test_auc_is_the_share_of_rightly_ordered_pairs() -> None:
    rng = np.random.default_rng(0)
    quality, noise = rng.integers(0, 6, 60) / 6, rng.random(60) < 0.3
    wins = [(q < p) + 0.5 * (q == p) for q in quality[noise] for p in quality[~noise]]
    assert detection_metrics(quality, noise)["roc_auc"] == pytest.approx(np.mean(wins))


def test_perfect_and_useless_scores() -> None:
    noise = np.array([True, True, False, False])
    assert detection_metrics(np.array([0.1, 0.2, 0.8, 0.9]), noise) == {"roc_auc": 1.0, "average_precision": 1.0}
    assert detection_metrics(np.full(4, 0.5), noise)["roc_auc"] == 0.5


def test_flag_counts() -> None:
    measured = flag_metrics(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool))
    assert measured == {"precision": 0.5, "recall": 0.5, "flagged": 0.5}


def test_kinds_are_judged_against_the_clean_alone() -> None:
    quality = np.array([0.9, 0.8, 0.1, 0.85])
    kinds = np.array(["clean", "clean", "slip", "crowd"])
    assert detection_by_kind(quality, kinds, "clean") == {"all": 0.75, "crowd": 0.5, "slip": 1.0}


def test_one_sided_truth_is_refused() -> None:
    with pytest.raises(DataError, match="Every click of the truth is clean"):
        detection_metrics(np.array([0.1, 0.2]), np.array([False, False]))


def test_one_sided_truth_is_called_by_its_side() -> None:
    with pytest.raises(DataError, match="Every label of the truth is noise; detection needs labels of both kinds"):
        detection_metrics(np.array([0.1, 0.2]), np.array([True, True]), "label")


def test_average_precision_by_hand() -> None:
    """Wrong ones at ranks 1 and 3 of four, the lowest quality first: (1/1 + 2/3) / 2; the AUC is 3 pairs of 4."""
    found = detection_metrics(np.array([0.1, 0.2, 0.3, 0.9]), np.array([1, 0, 1, 0]))
    assert found == {"roc_auc": 0.75, "average_precision": pytest.approx(5 / 6)}


@pytest.mark.parametrize(
    ("flagged", "noise", "expected"),
    [
        ([1, 0, 0, 0], [1, 0, 0, 0], (1.0, 1.0, 0.25)),
        ([0, 0, 0, 0], [1, 0, 0, 0], (0.0, 0.0, 0.0)),
        ([1, 1, 1, 0], [0, 0, 0, 0], (0.0, 0.0, 0.75)),
        ([1, 1, 1, 1], [1, 1, 1, 0], (0.75, 1.0, 1.0)),
        ([0, 1, 0, 0], [1, 1, 1, 0], (1.0, 1 / 3, 0.25)),
        ([2, 0, 0, 0], [1, 0, 0, 0], (1.0, 1.0, 0.25)),
    ],
)
def test_flags_by_hand(flagged: list[int], noise: list[int], expected: tuple[float, ...]) -> None:
    """Of what is flagged, of what is wrong, and of all; whatever is counted with."""
    assert flag_metrics(flagged, noise) == dict(  # pyright: ignore[reportArgumentType]
        zip(("precision", "recall", "flagged"), expected, strict=True)
    )


def test_of_one_kind_alone_the_others_do_not_count() -> None:
    """By kind against the clean: what other noise looks like changes nothing; names stand in order."""
    kinds = np.array(["clean", "b", "clean", "a", "b"])
    for quality_of_a in (0.0, 1.0):
        found = detection_by_kind(np.array([0.5, 0.4, 0.7, quality_of_a, 0.6]), kinds, "clean")
        assert list(found) == ["all", "a", "b"]
        assert found["b"] == 0.75
        assert found["a"] == (1.0 if quality_of_a == 0 else 0.0)
        assert found["all"] == pytest.approx((2 * 0.75 + found["a"]) / 3)
