"""Metrics: full ranking in blocks, noise detection, and differences with their intervals."""

from accord.evaluation.detection import detection_by_kind, detection_metrics, flag_metrics
from accord.evaluation.ranking import (
    METRICS,
    RankingTask,
    mean_metrics,
    ranking_metrics,
    stacked_means,
)
from accord.evaluation.significance import Difference, difference

__all__ = [
    "METRICS",
    "Difference",
    "RankingTask",
    "detection_by_kind",
    "detection_metrics",
    "difference",
    "flag_metrics",
    "mean_metrics",
    "ranking_metrics",
    "stacked_means",
]
