"""How well a quality score finds the labels that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accord.errors import DataError


def detection_metrics(quality: np.ndarray, is_noise: np.ndarray, what: str = "click") -> dict[str, float]:
    """ROC-AUC and average precision of low quality as a sign of noise."""
    from sklearn.metrics import average_precision_score, roc_auc_score  # 100 MB that training does not need

    is_noise = np.asarray(is_noise, bool)
    if is_noise.all() or not is_noise.any():
        only = "noise" if is_noise.all() else "clean"
        raise DataError(f"Every {what} of the truth is {only}; detection needs {what}s of both kinds.")
    return {
        "roc_auc": float(roc_auc_score(is_noise, -quality)),
        "average_precision": float(average_precision_score(is_noise, -quality)),
    }


def flag_metrics(flagged: np.ndarray, is_noise: np.ndarray) -> dict[str, float]:
    """Precision and recall of the flag, and the share of clicks that carry it."""
    flagged, is_noise = np.asarray(flagged, bool), np.asarray(is_noise, bool)
    hit = int((flagged & is_noise).sum())
    return {
        "precision": hit / max(1, int(flagged.sum())),
        "recall": hit / max(1, int(is_noise.sum())),
        "flagged": float(flagged.mean()),
    }


def detection_by_kind(quality: np.ndarray, kinds: np.ndarray, clean: str) -> Mapping[str, float]:
    """ROC-AUC of each kind of noise against the clean clicks, and of all noise together."""
    kinds = np.asarray(kinds)
    is_clean = kinds == clean
    result = {"all": detection_metrics(quality, ~is_clean)["roc_auc"]}
    for kind in sorted(set(kinds[~is_clean])):
        kept = is_clean | (kinds == kind)
        result[str(kind)] = detection_metrics(quality[kept], ~is_clean[kept])["roc_auc"]
    return result
