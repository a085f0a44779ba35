"""Metrics: full ranking in blocks, and noise detection."""

from accord.evaluation.detection import detection_by_kind, detection_metrics, flag_metrics
from accord.evaluation.ranking import METRICS, RankingTask, mean_metrics, ranking_metrics, stacked_means

__all__ = [
    "METRICS",
    "RankingTask",
    "detection_by_kind",
    "detection_metrics",
    "flag_metrics",
    "mean_metrics",
    "ranking_metrics",
    "stacked_means",
]
