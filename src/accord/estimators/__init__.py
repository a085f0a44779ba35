"""The objects users hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accord.estimators.recommender import Recommender
from accord.estimators.settings import RecommenderSettings, make_settings

if TYPE_CHECKING:
    from accord.estimators.classifier import Classifier
    from accord.estimators.fitting import fit_together

__all__ = ["Classifier", "Recommender", "RecommenderSettings", "fit_together", "make_settings"]


def __getattr__(name: str) -> object:
    # scikit-learn is imported only when a classifier is asked for.
    if name in ("Classifier", "fit_together"):
        from accord.estimators import fitting

        return getattr(fitting, name)
    raise AttributeError(f"module 'accord.estimators' has no attribute {name!r}")
