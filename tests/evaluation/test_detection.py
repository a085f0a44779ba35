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
